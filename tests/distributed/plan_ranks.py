"""One rank of two: trains tiny models for one step under each placement, and writes the bytes of their states.

python -m torch.distributed.run --nproc_per_node=2 plan_ranks.py OUT.json PLACEMENT:KIND:DTYPE ...
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).parent))
from plan_models import CONFIGS

from medgrpo.distributed.expert_parallel import Wishes, configure_experts

REDUCE_BUCKET = 4096


def stored(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the tensors' storages, each counted once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def states_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]


def measure_ddp(model: torch.nn.Module, ids: torch.Tensor) -> dict[str, int]:
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    wrapped(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    return {
        "weights": stored(model.parameters()),
        "gradients": stored(p.grad for p in model.parameters() if p.grad is not None),
        "optimizer": stored(states_of(optimizer)),
    }


def measure_zero3(model: torch.nn.Module, ids: torch.Tensor, expert_parallel: int, config: object) -> dict[str, int]:
    import deepspeed

    settings = {
        "train_micro_batch_size_per_gpu": len(ids),
        "bf16": {"enabled": model.dtype == torch.bfloat16},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {
            "stage": 3,
            "reduce_bucket_size": REDUCE_BUCKET,
            # Else parameters this small would stay whole.
            "stage3_param_persistence_threshold": 0,
        },
    }
    if expert_parallel > 1:
        settings["expert_parallel"] = {"enabled": True, "autoep_size": expert_parallel}
    configure_experts(settings, config, Wishes(dist.get_world_size()))
    engine, zero, _, _ = deepspeed.initialize(model=model.train(), config=settings)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
    return {
        "weights": stored(parameter.ds_tensor for parameter in engine.module.parameters()),
        "gradients": stored(zero._DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition.values()),
        "optimizer": stored(states_of(zero.optimizer)) + stored(zero.fp32_partitioned_groups_flat),
        "buckets": stored(bucket.buffer for bucket in zero.ipg_buckets.values()),
    }


def main() -> None:
    out, *wanted = sys.argv[1:]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    measured = {}
    for name in wanted:
        placement, kind, dtype = name.split(":")
        model = AutoModelForCausalLM.from_config(CONFIGS[kind]()).to(getattr(torch, dtype))
        ids = torch.randint(0, model.config.vocab_size, (2, 32))
        if placement == "ddp":
            measured[name] = measure_ddp(model, ids)
        else:
            measured[name] = measure_zero3(model, ids, 2 if placement == "zero3_ep" else 1, model.config)
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, measured)
    if os.environ["RANK"] == "0":
        Path(out).write_text(json.dumps(gathered))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
