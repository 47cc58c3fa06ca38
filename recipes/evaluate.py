"""Let a model answer exam questions, and score its answers: `medgrpo evaluate` in recipe form.

python recipes/evaluate.py                                               # embedded tiny model, mini exam
python recipes/evaluate.py --config my_evaluation.yaml --backend vllm    # a YAML file with the same options
python recipes/evaluate.py --model runs/gspo_tiny --questions mini_exam --years 2023-2026 --out runs/after

Killed and started again, the same command goes on where it was.
"""

import sys

from medgrpo.evaluation.choose_backend import open_backend
from medgrpo.evaluation.describe import describe_run
from medgrpo.evaluation.evaluate import evaluate
from medgrpo.evaluation.request import EvaluationRequest
from medgrpo.experiment.arguments import parse_dataclasses, run

DEMO = ["--model", "tiny", "--questions", "mini_exam", "--years", "2023-2026", "--max_new_tokens", "24",
        "--batch_size", "64", "--out", "runs/evaluate_tiny"]  # fmt: skip


def main() -> None:
    """Arguments, questions, model, answers, score."""
    (request,) = parse_dataclasses((EvaluationRequest,), sys.argv[1:] or DEMO)
    questions = request.load_questions()
    backend, model = open_backend(request, questions)
    scored = evaluate(backend, questions, request.out, model=model, policy=request.policy, overwrite=request.overwrite)
    print(describe_run(scored))
    print(f"samples    {request.out}")


if __name__ == "__main__":
    run(main)
