"""What machines read of a card: the YAML at its head, and the results that the Hub can show."""

import re
from typing import Any

from huggingface_hub import EvalResult, EvalResultEntry, ModelCardData, eval_result_entries_to_yaml

from medgrpo.comparison.result import SliceScore
from medgrpo.errors import MedgrpoError
from medgrpo.hub.finished_run import FinishedRun
from medgrpo.hub.papers import Paper
from medgrpo.hub.private import strip_paths

# https://huggingface.co/docs/hub/eval-results: results of benchmarks that are data sets on the Hub.
RESULTS_FOLDER = ".eval_results"
_BENCHMARK = re.compile(r"([\w.-]+/[\w.-]+):([\w.-]+)")


def build_metadata(run: FinishedRun, title: str, papers: list[Paper]) -> ModelCardData:
    """The card's YAML: what it is, from which base, and its results as `model-index`.

    The held-out exam is a file that the Hub does not have, so it is named and no data set of the Hub is claimed.
    """
    adapter = bool(list(run.folder.glob("adapter_model*.safetensors")))
    return ModelCardData(
        model_name=title,
        language=["ja"],
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        base_model=run.record.base if run.record.base_revision else None,
        base_model_relation=("adapter" if adapter else "finetune") if run.record.base_revision else None,
        tags=["medgrpo", "trl", "medical", *(paper.name.lower() for paper in papers if paper.name != "TRL")]
        + [f"arxiv:{paper.arxiv}" for paper in papers if paper.arxiv],
        eval_results=_results(run),
    )


def benchmark_results(run: FinishedRun, benchmark: str) -> list[dict[str, Any]]:
    """The content of `.eval_results/*.yaml` for `OWNER/DATASET:TASK`; raises `MedgrpoError` for another form.

    For whoever has registered the exam on the Hub as a benchmark: the user says so, it is not found out here.
    """
    found = _BENCHMARK.fullmatch(benchmark)
    if found is None:
        raise MedgrpoError(f"--benchmark {benchmark}: has to be OWNER/DATASET:TASK, a data set on the Hub and its task")
    score = run.comparison.score(run.name)
    low, high = score.ci
    notes = f"n = {score.n}, 95 % Wilson interval {low:.4f} to {high:.4f}, medgrpo"
    entry = EvalResultEntry(dataset_id=found[1], task_id=found[2], value=score.accuracy, notes=notes)
    return eval_result_entries_to_yaml([entry])


def exam_name(run: FinishedRun) -> str:
    """The exams that were held out, by the name that their questions give."""
    names = dict.fromkeys(sample.exam for sample in run.after.samples if sample.exam)
    return strip_paths(" + ".join(" ".join(name.split()) for name in names)) or "medical exam"


def _results(run: FinishedRun) -> list[EvalResult]:
    comparison, name = run.comparison, run.name
    results = []
    for kind, part in comparison.slices:
        if kind == "department":
            continue
        score = comparison.score(name, kind, part)
        results.append(_result(run, score, "accuracy", "Accuracy", score.accuracy, score.ci))
        if kind == "all":
            results.append(_result(run, score, "format_compliance", "Format compliance", score.format_compliance, None))
    return results


def _result(
    run: FinishedRun, score: SliceScore, metric: str, title: str, value: float, ci: tuple[float, float] | None
) -> EvalResult:
    facts: dict[str, Any] = {"n": score.n}
    if ci is not None:
        facts["wilson_interval"] = list(ci)
        cell = run.comparison.cell(run.name, score.slice_kind, score.slice)
        facts |= {
            "base_accuracy": cell.base_accuracy,
            "difference": cell.delta,
            "difference_interval": list(cell.delta_ci),
            "b": cell.b,
            "c": cell.c,
            f"mcnemar_{cell.method}_p": cell.p,
            "p_holm": cell.p_holm,
        }
    exam = exam_name(run)
    return EvalResult(
        task_type="text-generation",
        task_name="Medical exam questions",
        dataset_type=re.sub(r"[^a-z0-9]+", "-", exam.lower()).strip("-") or "medical-exam",
        dataset_name=exam,
        dataset_config=score.slice,
        dataset_split="held_out",
        metric_type=metric,
        metric_name=title,
        metric_value=value,
        metric_args=facts,
    )
