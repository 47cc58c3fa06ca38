"""Bytes that one GPU receives in an optimizer step, and those of them that cross the network between nodes."""

from dataclasses import dataclass

from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import Cluster
from medgrpo.distributed.plan.model_shape import ModelShape


@dataclass(frozen=True)
class Link:
    """Bytes of one kind of traffic for one GPU: received in all, and through its share of the node's network cards."""

    received: float
    network: float

    @property
    def nvlink(self) -> float:
        """Received from GPUs of the same node, at least."""
        return max(self.received - self.network, 0)


@dataclass(frozen=True)
class Traffic:
    """An optimizer step on one GPU."""

    all_gather: Link
    """Parameters made whole, and DDP's or ZeRO-3's gradients summed."""
    all_to_all: Link
    """Tokens sent to their experts and back."""
    sync: float
    """Bytes of weights that the rollout servers get for each generation, all GPUs together."""

    @property
    def network(self) -> float:
        """Through one network card."""
        return self.all_gather.network + self.all_to_all.network

    @property
    def nvlink(self) -> float:
        """From GPUs of the same node."""
        return self.all_gather.nvlink + self.all_to_all.nvlink


def plan_traffic(shape: ModelShape, cluster: Cluster, batch: Batch) -> Traffic:
    """Ideal ring collectives, tokens routed evenly, and a backward pass that recomputes from one gather."""
    sync = shape.total * shape.dtype.itemsize if cluster.rollout_nodes else 0
    if cluster.placement == "ddp":
        # One all-reduce a step (a reduce-scatter and an all-gather), whatever the accumulation.
        return Traffic(_world(2 * shape.total * shape.dtype.itemsize, cluster), Link(0, 0), sync)
    # Gathers: one a scoring pass, forward, backward; and a reduce-scatter of the gradients as large.
    times = batch.accumulation * (batch.forward_passes + 3)
    size = shape.dtype.itemsize * times
    dense = _world(size * shape.dense_total, cluster)
    experts = _replicas(size * shape.expert_total / cluster.expert_parallel, cluster)
    gathers = Link(dense.received + experts.received, dense.network + experts.network)
    return Traffic(gathers, _all_to_all(shape, cluster, batch), sync)


def _world(data: float, cluster: Cluster) -> Link:
    """A collective of all GPUs: what enters a node is shared by its network cards."""
    n, m = cluster.train_gpus, cluster.train_nodes
    return Link(data * (n - 1) / n, data * (m - 1) / m / cluster.gpus_per_node)


def _replicas(data: float, cluster: Cluster) -> Link:
    """A collective of the GPUs that hold the same experts; `data` is one GPU's share of the experts.

    Groups of consecutive GPUs hold all experts, so that of a replica group r = G / ep lie in a node, or one.
    """
    replicas, in_node = cluster.replicas, max(cluster.gpus_per_node // cluster.expert_parallel, 1)
    nodes = max(replicas // in_node, 1)
    return Link(data * (replicas - 1) / replicas, data * (nodes - 1) / nodes / in_node)


def _all_to_all(shape: ModelShape, cluster: Cluster, batch: Batch) -> Link:
    """There and back in each MoE layer and pass: 2 T k H b (ep - 1) / ep; the backward pass has as many bytes."""
    ep = cluster.expert_parallel
    if ep == 1:
        return Link(0, 0)
    passes = batch.forward_passes + 2 + batch.checkpointing
    tokens = batch.tokens * passes + batch.sft_tokens * (2 + batch.checkpointing)
    data = batch.accumulation * tokens * 2 * shape.experts_per_token * shape.hidden * shape.dtype.itemsize
    data *= shape.moe_layers
    outside = max(ep - cluster.gpus_per_node, 0)
    return Link(data * (ep - 1) / ep, data * outside / ep)
