"""Generation: what a vLLM engine holds on each of its GPUs, and how long a batch of rollouts takes."""

from dataclasses import dataclass
from math import ceil

from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import Cluster
from medgrpo.distributed.plan.hardware import Hardware
from medgrpo.distributed.plan.memory import kv_bytes_per_token, state_bytes_per_sequence
from medgrpo.distributed.plan.model_shape import ModelShape
from medgrpo.errors import MedgrpoError

# vLLM's own default share of a GPU's memory.
MEMORY_SHARE = 0.9
# vLLM's default limit of sequences that are generated at once.
MAX_SEQUENCES = 1024


@dataclass(frozen=True)
class Rollouts:
    """One generation. Bytes are of one GPU of an engine; an engine is `tensor_parallel` GPUs."""

    engines: int
    tensor_parallel: int
    weights: float
    cache_room: float
    """Bytes left for the KV cache; negative where the weights alone don't fit."""
    cache_per_sequence: float
    """Bytes of a longest sequence."""
    at_once: int
    """Longest sequences that an engine generates at the same time."""
    sequences: int
    """Completions of a generation, all engines together."""
    seconds: float
    """A generation in which every completion is the longest."""

    @property
    def fits(self) -> bool:
        """Whether at least one longest sequence has room."""
        return self.at_once >= 1


def plan_rollouts(
    shape: ModelShape, cluster: Cluster, batch: Batch, hardware: Hardware, tensor_parallel: int | None = None
) -> Rollouts:
    """A generation by the rollout nodes, or where there are none by each training GPU with its own copy.

    Raises `MedgrpoError` for a tensor-parallel size that does not divide a node's GPUs.
    """
    if cluster.rollout_nodes:
        tp = cluster.gpus_per_node if tensor_parallel is None else tensor_parallel
        if tp < 1 or cluster.gpus_per_node % tp:
            raise MedgrpoError(f"--tp {tp} does not divide the {cluster.gpus_per_node} GPUs of a node")
        engines = cluster.rollout_gpus // tp
        room = MEMORY_SHARE * hardware.memory - shape.total * shape.dtype.itemsize / tp
    else:
        # Here all of a GPU's completions run at once; whether they have room is memory.py's to say.
        tp, engines, room = 1, cluster.train_gpus, float("inf")
    heads = getattr(shape.config, "num_key_value_heads", None) or shape.config.num_attention_heads
    longest = batch.prompt + batch.completion
    # Fewer heads than GPUs are repeated.
    per_sequence = longest * kv_bytes_per_token(shape) / min(tp, heads) + state_bytes_per_sequence(shape) / tp
    sequences = batch.generation_batch(cluster.train_gpus)
    share = ceil(sequences / engines)
    at_once = share if room == float("inf") else max(min(int(room // per_sequence), MAX_SEQUENCES, share), 0)
    seconds = _seconds(shape, batch, hardware, tp, share, at_once, per_sequence) if at_once else float("inf")
    return Rollouts(
        engines=engines,
        tensor_parallel=tp,
        weights=shape.total * shape.dtype.itemsize / tp,
        cache_room=room if cluster.rollout_nodes else 0,
        cache_per_sequence=per_sequence,
        at_once=at_once,
        sequences=sequences,
        seconds=seconds,
    )


def _seconds(
    shape: ModelShape, batch: Batch, hardware: Hardware, tp: int, share: int, at_once: int, per_sequence: float
) -> float:
    """Prefill by arithmetic; each further token by reading the weights that are used and half the cache, or arithmetic.

    An expert is used by a batch of b tokens with probability 1 - (1 - k/E)^b.
    """
    size, rounds = shape.dtype.itemsize, ceil(share / at_once)
    flops = hardware.flops * hardware.mfu * tp
    used = 1 - (1 - shape.experts_per_token / shape.experts) ** at_once if shape.experts else 0
    read = size * (shape.dense_total + shape.expert_total * used) / tp + at_once * per_sequence / 2
    token = max(read / hardware.hbm, 2 * shape.active * at_once / flops)
    prefill = ceil(share / batch.num_generations) * batch.prompt * 2 * shape.active / flops
    return prefill + rounds * batch.completion * token
