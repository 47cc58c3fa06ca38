"""`medgrpo plan`: memory, traffic and time of a run before a cluster is booked."""

import argparse
import difflib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from medgrpo.cli.verbs import Parser, add_verb
from medgrpo.errors import MedgrpoError

if TYPE_CHECKING:
    from medgrpo.distributed.plan.batch import Batch
    from medgrpo.distributed.plan.hardware import Hardware


def plan(args: argparse.Namespace) -> int:
    """Print the plan; 1 where it doesn't fit."""
    from transformers.utils import logging

    from medgrpo.distributed.plan.advice import cheapest_change
    from medgrpo.distributed.plan.cluster import divide
    from medgrpo.distributed.plan.estimate import make_plan
    from medgrpo.distributed.plan.model_shape import read_shape
    from medgrpo.distributed.plan.present import as_json, describe_plan
    from medgrpo.mapping_file import read_yaml

    logging.set_verbosity_error()  # which kernels this machine lacks is no news about the cluster
    settings = read_yaml(args.config, "--config") if args.config else {}
    _refuse_misspelt(args.config, settings)
    shape = read_shape(str(args.model or settings.get("model_name_or_path") or _missing_model()))
    if args.rollout_nodes is None:
        if settings.get("use_vllm") and settings.get("vllm_mode") == "server":
            raise MedgrpoError(f"{args.config} takes rollouts from a server: say --rollout-nodes (of the --nodes)")
        args.rollout_nodes = 0
    placement = args.placement or ("zero3_ep" if args.ep else "zero3" if args.nodes * args.gpus_per_node > 1 else "ddp")
    ep = args.ep or (args.gpus_per_node if placement == "zero3_ep" else 1)
    cluster = divide(shape, args.nodes, args.gpus_per_node, placement, ep, args.rollout_nodes)
    batch = _batch(args, settings, cluster.train_gpus)
    tp = args.tp or (settings.get("vllm_tensor_parallel_size") if cluster.rollout_nodes else None)
    made = make_plan(shape, cluster, batch, _hardware(args), args.offload_optimizer, tp)
    advice = None if made.fits else cheapest_change(made)
    print(json.dumps(as_json(made, advice), indent=1) if args.json else describe_plan(made, advice))
    return 0 if made.fits else 1


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo plan`."""
    verb = add_verb(
        verbs,
        plan,
        "plan",
        "plan a run: bytes a GPU, traffic, FLOPs and time a step, and the cheapest change that makes it fit",
        "medgrpo plan --model qwen3_next_80b --nodes 8 --gpus-per-node 8 --rollout-nodes 4 --placement zero3_ep "
        "--batch 512",
    )
    verb.add_argument("--model", help="qwen3_next_80b (built in), tiny, a folder with config.json; default: --config's")
    verb.add_argument("--config", metavar="FILE.yaml", help="an experiment's settings (recipes/configs)")
    verb.add_argument("--nodes", type=int, default=1, help="all nodes (1)")
    verb.add_argument("--gpus-per-node", type=int, default=8, help="GPUs of a node (8)")
    verb.add_argument("--rollout-nodes", type=int, help="nodes, of all, that only generate (0)")
    verb.add_argument("--placement", help="ddp, zero3 or zero3_ep (zero3; zero3_ep with --ep)")
    verb.add_argument("--ep", type=int, help="GPUs over which a layer's experts are spread (GPUs of a node)")
    verb.add_argument("--tp", type=int, help="GPUs of one vLLM engine (GPUs of a node)")
    verb.add_argument("--batch", type=int, help="completions of an optimizer step, all GPUs together")
    verb.add_argument("--micro-batch", type=int, help="completions of a micro-batch on a GPU (1)")
    verb.add_argument("--steps-per-generation", type=int, help="optimizer steps that a generation serves (1)")
    verb.add_argument("--num-generations", type=int, help="completions of a prompt (16)")
    verb.add_argument("--prompt-length", type=int, help="tokens of the longest prompt (1024)")
    verb.add_argument("--completion-length", type=int, help="tokens of the longest completion (3072)")
    for name, said in (
        ("reference", "a reference model is held and run (beta above 0)"),
        ("checkpointing", "gradient checkpointing"),
        ("shared-prefix", "a prompt is run once for its completions in a micro-batch"),
    ):
        verb.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=said)
    verb.add_argument("--offload-optimizer", action="store_true", help="ZeRO-3: optimizer states in the node's memory")
    verb.add_argument("--gpu", choices=("a100", "h100"), default="h100", help="whose assumed speeds to take (h100)")
    verb.add_argument("--gpu-memory", type=float, metavar="GB", help="memory of a GPU, decimal (80)")
    verb.add_argument("--mfu", type=float, help="share of the data sheet's FLOP/s that training reaches (0.3)")
    verb.add_argument("--network", type=float, metavar="GB/S", help="into a node for each GPU (a100 25, h100 50)")
    verb.add_argument("--json", action="store_true", help="numbers in bytes, FLOPs and seconds")


def _refuse_misspelt(path: str, settings: dict) -> None:
    """Raise for a field that no recipe has and that looks like one that is read here: its default would be planned."""
    from medgrpo.distributed.plan.batch import batch_of

    read = _FieldsRead({"use_vllm": True, "chord_sft_dataset": "any"})  # with these it asks for all that it knows
    batch_of(read)
    names = sorted(read.names | {"model_name_or_path", "vllm_mode", "vllm_tensor_parallel_size"})
    near = {key: difflib.get_close_matches(str(key), names, n=1, cutoff=0.7) for key in settings if key not in names}
    if not any(near.values()):
        return
    from medgrpo.experiment.arguments import recipe_fields  # imports TRL: seconds, so only where there is a doubt

    for key in near.keys() - recipe_fields(["gspo", "chord", "mo_grpo"]):
        if near[key]:
            raise MedgrpoError(f"{path}: unknown field {key!r}: did you mean {near[key][0]!r}?")


class _FieldsRead(dict):
    """Settings that note which of them are asked for."""

    def __init__(self, settings: dict) -> None:
        super().__init__(settings)
        self.names: set[str] = set()

    def get(self, name: str, default: object = None) -> object:
        self.names.add(name)
        return super().get(name, default)


def _missing_model() -> str:
    raise MedgrpoError("--model is missing: qwen3_next_80b, tiny, or a folder with config.json")


def _hardware(args: argparse.Namespace) -> "Hardware":
    from medgrpo.distributed.plan.hardware import HARDWARE

    given = {"memory": (args.gpu_memory, 1e9), "mfu": (args.mfu, 1), "network": (args.network, 1e9)}
    for name, (value, _) in given.items():
        if value is not None and not 0 < value < float("inf"):
            raise MedgrpoError(f"--{name.replace('memory', 'gpu-memory')} has to be above 0, got {value}")
    return replace(HARDWARE[args.gpu], **{name: v * unit for name, (v, unit) in given.items() if v is not None})


def _batch(args: argparse.Namespace, settings: dict, processes: int) -> "Batch":
    """The file's batch, changed by what the command line says."""
    from medgrpo.distributed.plan.batch import Batch, batch_of, split_batch

    batch = batch_of(settings) if settings else Batch()
    simple = {
        "num_generations": args.num_generations,
        "prompt": args.prompt_length,
        "completion": args.completion_length,
        "reference": args.reference,
        "checkpointing": args.checkpointing,
        "shared_prefix": args.shared_prefix,
    }
    batch = replace(batch, **{name: value for name, value in simple.items() if value is not None})
    steps = args.steps_per_generation
    if steps is not None and steps < 1:
        raise MedgrpoError(f"--steps-per-generation has to be at least 1, got {steps}")
    if args.batch is None and args.micro_batch is None and steps is None:
        if settings:
            return batch
        args.batch = batch.num_generations * processes
    micro = args.micro_batch or 1 if not settings else args.micro_batch or batch.per_device
    if micro < 1:
        raise MedgrpoError(f"--micro-batch has to be at least 1, got {micro}")
    whole = args.batch if args.batch is not None else batch.global_batch(processes)
    accumulation = split_batch(whole, micro, processes)
    served = steps or max(batch.steps_per_generation // batch.accumulation, 1)
    return replace(batch, per_device=micro, accumulation=accumulation, steps_per_generation=served * accumulation)
