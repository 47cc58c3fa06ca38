"""Make SFT data for CHORD from exam questions, with a model behind any OpenAI-compatible endpoint.

python recipes/sft_data.py --train_file train.jsonl --eval_file eval.jsonl \
    --base_url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-32B --out sft_igakuqa.jsonl

Each question becomes a question that a patient or clinician would ask, and that becomes a medical text in five
parts. Killed and started again, the same command goes on where it was.
"""

from dataclasses import dataclass, field

from medgrpo.errors import MedgrpoError
from medgrpo.experiment.arguments import ExamArguments, parse_dataclasses, run
from medgrpo.experiment.exam import load_exam
from medgrpo.sft_data.prompt_files import read_prompts


@dataclass
class SFTDataArguments:
    """Which questions to make data from, by which model, and where it goes."""

    train_file: str = field(metadata={"help": "questions.jsonl to make data from, or `mini_exam`."})
    base_url: str = field(metadata={"help": "The endpoint, e.g. http://127.0.0.1:8000/v1."})
    model: str = field(metadata={"help": "The model's name at the endpoint."})
    out: str = field(metadata={"help": "The JSONL file of samples to write."})
    train_years: str | None = field(default=None, metadata={"help": "Only these years, e.g. 2018-2021."})
    eval_file: str | None = field(default=None, metadata={"help": "questions.jsonl that is held out."})
    eval_years: str | None = field(default=None, metadata={"help": "Years held out; default file: train_file."})
    api_key_env: str | None = field(
        default=None, metadata={"help": "Environment variable of the API key; none is sent by default."}
    )
    prompts: str | None = field(default=None, metadata={"help": "Folder of your own system, question and text.txt."})
    limit: int | None = field(default=None, metadata={"help": "Only the first so many questions."})
    concurrency: int = field(default=16, metadata={"help": "Requests at a time."})
    max_tokens: int = field(default=2048, metadata={"help": "Longest reply."})
    temperature: float = field(default=0.7, metadata={"help": "Temperature of the replies."})
    seed: int = field(default=0, metadata={"help": "Seed sent with each request."})
    timeout: float = field(default=120.0, metadata={"help": "Seconds after which a request is tried again."})


def main() -> None:
    """Arguments, questions, prompts, endpoint, data, account."""
    (arguments,) = parse_dataclasses((SFTDataArguments,))
    if arguments.eval_file is None and arguments.eval_years is None:
        raise MedgrpoError("eval_file or eval_years is missing: name the questions that a model will be scored on")
    if arguments.limit is not None and arguments.limit < 1:
        raise MedgrpoError(f"limit {arguments.limit}: has to be at least 1")
    try:
        from medgrpo.sft_data.build import build_sft_data
        from medgrpo.sft_data.endpoint import Endpoint
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        raise MedgrpoError("SFT data needs the package openai: pip install 'medgrpo[openai]'") from error
    exam = load_exam(
        ExamArguments(
            train_file=arguments.train_file,
            train_years=arguments.train_years,
            eval_file=arguments.eval_file,
            eval_years=arguments.eval_years,
        )
    )
    endpoint = Endpoint(
        arguments.base_url,
        arguments.model,
        api_key_env=arguments.api_key_env,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        seed=arguments.seed,
        timeout_s=arguments.timeout,
    )
    account = build_sft_data(
        exam.train[: arguments.limit],
        exam.held_out,
        read_prompts(arguments.prompts),
        endpoint,
        arguments.out,
        concurrency=arguments.concurrency,
    )
    print(account.describe())
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    run(main)
