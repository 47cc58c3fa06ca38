"""How the nodes are divided, and how the model lies on those that train."""

from dataclasses import dataclass

from medgrpo.distributed.placement import Placement
from medgrpo.distributed.plan.model_shape import ModelShape
from medgrpo.errors import MedgrpoError

PLACEMENTS = ("ddp", "zero3", "zero3_ep")


@dataclass(frozen=True)
class Cluster:
    """Nodes that train, nodes that generate, GPUs in each, and the placement on those that train."""

    train_nodes: int
    rollout_nodes: int
    gpus_per_node: int
    placement: str = "zero3"
    expert_parallel: int = 1

    @property
    def train_gpus(self) -> int:
        """N: training processes, one a GPU."""
        return self.train_nodes * self.gpus_per_node

    @property
    def rollout_gpus(self) -> int:
        """GPUs that only generate."""
        return self.rollout_nodes * self.gpus_per_node

    @property
    def replicas(self) -> int:
        """R = N / ep: processes that hold the same experts."""
        return self.train_gpus // self.expert_parallel

    def as_placement(self) -> Placement:
        """The placement as checkpoints record it."""
        stage = None if self.placement == "ddp" else 3
        return Placement(self.train_gpus, stage, self.expert_parallel)


def divide(
    shape: ModelShape, nodes: int, gpus_per_node: int, placement: str, expert_parallel: int, rollout_nodes: int = 0
) -> Cluster:
    """The cluster of `nodes` nodes, `rollout_nodes` of which generate.

    Raises `MedgrpoError` for a division that leaves no node to train, an unknown placement, and an expert-parallel
    size that divides neither experts nor processes, or on a dense model.
    """
    for name, value in (("--nodes", nodes), ("--gpus-per-node", gpus_per_node), ("--ep", expert_parallel)):
        if value < 1:
            raise MedgrpoError(f"{name} has to be at least 1, got {value}")
    if placement not in PLACEMENTS:
        raise MedgrpoError(f"--placement {placement}: has to be one of {', '.join(PLACEMENTS)}")
    if not 0 <= rollout_nodes < nodes:
        raise MedgrpoError(f"--rollout-nodes {rollout_nodes} of {nodes} nodes leaves none to train")
    if placement != "zero3_ep":
        expert_parallel = 1
    cluster = Cluster(nodes - rollout_nodes, rollout_nodes, gpus_per_node, placement, expert_parallel)
    if placement != "zero3_ep":
        return cluster
    if not shape.experts:
        raise MedgrpoError(f"--placement zero3_ep: {shape.name} is dense, without experts to spread: use zero3")
    if shape.experts % expert_parallel:
        raise MedgrpoError(f"--ep {expert_parallel} does not divide the {shape.experts} experts of a layer")
    if cluster.train_gpus % expert_parallel:
        raise MedgrpoError(f"--ep {expert_parallel} does not divide the {cluster.train_gpus} training GPUs")
    return cluster
