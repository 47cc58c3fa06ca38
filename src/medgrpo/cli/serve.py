"""`medgrpo serve`: start the vLLM server that a training run takes its rollouts from."""

import argparse
import json
from typing import Any

from medgrpo.cli.verbs import Parser, add_verb
from medgrpo.errors import MedgrpoError


def serve(args: argparse.Namespace) -> int:
    """Become vLLM's server, with what training needs; does not return."""
    from medgrpo.distributed.vllm_server import ServerRequest, build_command, start

    request = ServerRequest(
        args.model, args.host, args.port, args.sync, args.python, args.api_key_file, _read_json(args.engine_args)
    )
    command, environment = build_command(request, gpu=not args.cpu)
    start(command, environment)
    return 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo serve`."""
    verb = add_verb(
        verbs,
        serve,
        "serve",
        "start the vLLM server that a training run takes its rollouts from",
        "medgrpo serve --model tiny --cpu --engine-args '{\"max_model_len\": 1024}'",
    )
    verb.add_argument("--model", metavar="M", required=True, help="the trained model: a folder, a Hub name, or `tiny`")
    verb.add_argument("--host", default="127.0.0.1", help="address (default: loopback; any other needs a key)")
    verb.add_argument("--port", type=int, default=8000, help="port (default: 8000)")
    verb.add_argument(
        "--sync", choices=("nccl", "filesystem"), help="how weights come (default: nccl; with --cpu filesystem)"
    )
    verb.add_argument("--cpu", action="store_true", help="without a GPU; in float32 unless engine_args say otherwise")
    verb.add_argument(
        "--python", metavar="PATH", help="the Python that has vLLM (default: MEDGRPO_VLLM_PYTHON, or this one)"
    )
    verb.add_argument(
        "--api-key-file", metavar="FILE", help="holds the server's key (default: MEDGRPO_VLLM_API_KEY, where it is set)"
    )
    verb.add_argument(
        "--engine-args", metavar="JSON", help="further options of vLLM's server: '{\"tensor_parallel_size\": 8}'"
    )


def _read_json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MedgrpoError(f"--engine-args: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise MedgrpoError('--engine-args: has to be an object, such as {"tensor_parallel_size": 8}')
    return value
