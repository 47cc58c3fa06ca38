"""A scored run in words: what was counted, how, and whether it would pass."""

from medgrpo.evaluation.pass_line import describe_pass
from medgrpo.evaluation.samples import Run
from medgrpo.evaluation.score import summarise

_POLICIES = {
    "board": "policy board: excluded questions leave the denominator, credited ones are right for all",
    "key": "policy key: every question counts, by its key",
}


def describe_run(run: Run) -> str:
    """Decoding, policy, accuracies with their denominators, and the pass lines where the exam has them.

    Under the policy `key` no pass line is told: it is the board's own rule, withdrawn questions left out.
    """
    policy = run.run_info["policy"]
    lines = [_describe_decoding(run), _POLICIES[policy], summarise(run.samples).describe()]
    lines.append(describe_pass(run.samples) if policy == "board" else "")
    return "\n".join(line for line in lines if line)


def _describe_decoding(run: Run) -> str:
    sampling = run.run_info["sampling"]
    if sampling is None:
        return ""
    temperature = sampling["temperature"]
    return "greedy decoding" if temperature == 0 else f"sampled at temperature {temperature:g}"
