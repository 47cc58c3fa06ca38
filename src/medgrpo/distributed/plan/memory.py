"""Bytes on one training GPU, each part by its formula. Symbols: docs/scaling.md."""

from dataclasses import dataclass, fields
from math import ceil

from medgrpo.distributed.plan.activations import activation_bytes
from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import Cluster
from medgrpo.distributed.plan.hardware import Hardware
from medgrpo.distributed.plan.model_shape import ModelShape

FLOAT32 = 4
# DeepSpeed's defaults: elements that stay gathered, and of the optimizer's step at a time.
MAX_LIVE_PARAMETERS = 10**9
SUB_GROUP = 10**9
DDP_BUCKETS_PER_GRADIENT = 1  # DDP copies each gradient into a bucket as large
# TRL's fused LM head: tokens and words of the vocabulary in a tile.
HEAD_TOKENS = 4096
HEAD_WORDS = 32768
# Whole-vocabulary float32 copies of an SFT sample's logits: logits, their softmax and the gradients of both.
SFT_LOGIT_COPIES = 4


@dataclass(frozen=True)
class States:
    """Bytes that lie on a GPU all the time."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    buckets: float

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True)
class Memory:
    """Bytes of one training GPU: `states` all the time, the rest at the worst moment of each phase."""

    states: States
    activations: float
    logits: float
    gathers: float
    """ZeRO-3: parameters that are whole for a moment, and the gradient of the largest leaf."""
    optimizer_step: float
    generation: float
    """KV cache and gathered weights where the training GPUs generate themselves; 0 with a server."""
    reserve: float
    host: float
    """Bytes of the node's own memory for each GPU: offloaded optimizer states."""

    @property
    def training(self) -> float:
        """Beside the states, while a micro-batch is differentiated."""
        return self.activations + self.logits + self.gathers

    @property
    def peak(self) -> float:
        """The most at any moment."""
        return self.states.total + max(self.training, self.optimizer_step, self.generation) + self.reserve


def state_bytes(
    shape: ModelShape,
    cluster: Cluster,
    reference: bool,
    reduce_bucket: int | None = None,
    offload_optimizer: bool = False,
) -> States:
    """What lies on one GPU all the time. Under ZeRO-3 each parameter is cut into N parts (R for experts), rounded up.

    Adam holds two values a parameter; ZeRO-3 adds a float32 master copy and keeps all three in float32.
    `reduce_bucket`: elements of DeepSpeed's buffer of gradients; None: hidden size squared, as `auto` makes it.
    """
    size = shape.dtype.itemsize
    if cluster.placement == "ddp":
        whole = shape.total * size
        buckets = whole * DDP_BUCKETS_PER_GRADIENT if cluster.train_gpus > 1 else 0
        return States(whole, whole, 2 * whole, whole if reference else 0, buckets)
    part = partition(shape, cluster)
    bucket = shape.hidden**2 if reduce_bucket is None else reduce_bucket
    return States(
        weights=part * size,
        gradients=part * size,
        optimizer=0 if offload_optimizer else part * 3 * FLOAT32,
        reference=part * size if reference else 0,
        buckets=bucket * size,
    )


def partition(shape: ModelShape, cluster: Cluster) -> int:
    """Elements of a GPU's part of all parameters."""
    total = 0
    for parameter in shape.parameters:
        if parameter.kind == "expert":
            total += ceil(parameter.numel / cluster.expert_parallel / cluster.replicas)
        else:
            total += ceil(parameter.numel / cluster.train_gpus)
    return total


def plan_memory(
    shape: ModelShape,
    cluster: Cluster,
    batch: Batch,
    hardware: Hardware,
    offload_optimizer: bool = False,
) -> Memory:
    """All parts. Under ZeRO-3 `offload_optimizer` lays the optimizer's states into the node's own memory."""
    offload = offload_optimizer and cluster.placement != "ddp"
    part = partition(shape, cluster) if cluster.placement != "ddp" else shape.total
    tokens = batch.tokens + batch.sft_tokens
    return Memory(
        states=state_bytes(shape, cluster, batch.reference, offload_optimizer=offload),
        activations=activation_bytes(shape, tokens, batch.checkpointing),
        logits=logit_bytes(shape, batch),
        gathers=0 if cluster.placement == "ddp" else gather_bytes(shape, cluster),
        optimizer_step=0 if cluster.placement == "ddp" or offload else FLOAT32 * min(SUB_GROUP, part),
        generation=0 if cluster.rollout_nodes else generation_bytes(shape, cluster, batch),
        reserve=hardware.reserve * hardware.memory,
        host=part * 3 * FLOAT32 if offload else 0,
    )


def logit_bytes(shape: ModelShape, batch: Batch) -> float:
    """TRL's fused LM head: a tile of logits, and float32 gradients of the head and of its inputs.

    CHORD's SFT loss holds the logits of its samples over the whole vocabulary.
    """
    tokens = batch.completion_tokens
    tile = min(tokens, HEAD_TOKENS) * min(shape.vocab, HEAD_WORDS) * shape.dtype.itemsize
    gradients = FLOAT32 * (shape.vocab + tokens) * shape.hidden
    sft = SFT_LOGIT_COPIES * FLOAT32 * batch.sft_tokens * shape.vocab
    return max(tile + gradients, sft)


def gather_bytes(shape: ModelShape, cluster: Cluster) -> float:
    """Parameters whole at once, and the largest leaf's gradient before it is cut.

    A block of experts is a leaf: gathered whole, or under expert parallelism this GPU's share of it.
    """
    shared = shape.layer_experts // cluster.expert_parallel if cluster.replicas > 1 else 0
    largest = max([shared, *(parameter.numel for parameter in shape.parameters if parameter.kind != "expert")])
    gatherable = shape.dense_total + shared * shape.moe_layers
    live = max(largest, min(MAX_LIVE_PARAMETERS, gatherable))
    return (live + largest) * shape.dtype.itemsize


def kv_bytes_per_token(shape: ModelShape) -> int:
    """Keys and values of a token, all attention layers together; linear attention keeps none."""
    heads = getattr(shape.config, "num_key_value_heads", None) or shape.config.num_attention_heads
    layers = sum("linear" not in kind for kind in shape.layer_types)
    return layers * 2 * heads * shape.head_dim * shape.dtype.itemsize


def state_bytes_per_sequence(shape: ModelShape) -> int:
    """Linear attention's state of a sequence of any length: a matrix for each value head, and the convolution."""
    layers = sum("linear" in kind for kind in shape.layer_types)
    if not layers:
        return 0
    config = shape.config
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    values = config.linear_num_value_heads * config.linear_value_head_dim
    matrix = config.linear_num_value_heads * config.linear_key_head_dim * config.linear_value_head_dim * FLOAT32
    convolution = (2 * keys + values) * config.linear_conv_kernel_dim * shape.dtype.itemsize
    return layers * (matrix + convolution)


def generation_bytes(shape: ModelShape, cluster: Cluster, batch: Batch) -> float:
    """transformers' generation on the training GPUs: all of a GPU's completions at once; ZeRO-3 gathers all weights."""
    sequences = batch.per_device * batch.steps_per_generation
    longest = batch.prompt + batch.completion
    cache = sequences * (longest * kv_bytes_per_token(shape) + state_bytes_per_sequence(shape))
    return cache + (0 if cluster.placement == "ddp" else shape.total * shape.dtype.itemsize)
