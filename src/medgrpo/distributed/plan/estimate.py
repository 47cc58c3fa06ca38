"""All of a plan at once: memory, arithmetic, traffic, rollouts, time."""

from dataclasses import dataclass

from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import Cluster
from medgrpo.distributed.plan.compute import Compute, step_flops
from medgrpo.distributed.plan.hardware import Hardware
from medgrpo.distributed.plan.memory import Memory, plan_memory
from medgrpo.distributed.plan.model_shape import ModelShape
from medgrpo.distributed.plan.rollouts import Rollouts, plan_rollouts
from medgrpo.distributed.plan.traffic import Traffic, plan_traffic


@dataclass(frozen=True)
class Seconds:
    """Parts of an optimizer step; a generation's and a sync's are divided by the steps that they serve."""

    arithmetic: float
    nvlink: float
    network: float
    generation: float
    sync: float
    offload: float = 0.0
    """Adam in the node's own memory."""

    @property
    def overlapped(self) -> float:
        """Arithmetic and traffic at the same time: the least."""
        return max(self.arithmetic, self.nvlink, self.network) + self.generation + self.sync + self.offload

    @property
    def in_turn(self) -> float:
        """One after the other: the most."""
        return self.arithmetic + self.nvlink + self.network + self.generation + self.sync + self.offload


@dataclass(frozen=True)
class Plan:
    """A run as asked for, and what it takes."""

    shape: ModelShape
    cluster: Cluster
    batch: Batch
    hardware: Hardware
    offload_optimizer: bool
    memory: Memory
    compute: Compute
    traffic: Traffic
    rollouts: Rollouts
    seconds: Seconds

    @property
    def trains(self) -> bool:
        """Whether a training GPU has room."""
        return self.memory.peak <= self.hardware.memory

    @property
    def fits(self) -> bool:
        """Whether training and rollouts both have room."""
        return self.trains and self.rollouts.fits

    @property
    def gpu_seconds(self) -> float:
        """Seconds of an optimizer step times all GPUs: what it costs."""
        return self.seconds.in_turn * (self.cluster.train_gpus + self.cluster.rollout_gpus)


def make_plan(
    shape: ModelShape,
    cluster: Cluster,
    batch: Batch,
    hardware: Hardware,
    offload_optimizer: bool = False,
    tensor_parallel: int | None = None,
) -> Plan:
    """Work everything out. Raises `MedgrpoError` for a batch that TRL refuses, and a wrong tensor-parallel size."""
    batch.check(cluster.train_gpus)
    compute = step_flops(shape, batch)
    traffic = plan_traffic(shape, cluster, batch)
    rollouts = plan_rollouts(shape, cluster, batch, hardware, tensor_parallel)
    served = batch.steps_per_generation / batch.accumulation
    # The sync is written to shared storage and read once by all engines, whatever their number.
    sync = 2 * traffic.sync / hardware.storage
    memory = plan_memory(shape, cluster, batch, hardware, offload_optimizer)
    seconds = Seconds(
        arithmetic=compute.total / (hardware.flops * hardware.mfu),
        nvlink=traffic.nvlink / hardware.nvlink,
        network=traffic.network / hardware.network,
        generation=rollouts.seconds / served,
        sync=sync / served,
        # Twelve bytes of states a parameter are read and written, four of gradient and weight read or written.
        offload=memory.host * (2 + 4 / 12) / hardware.host,
    )
    return Plan(shape, cluster, batch, hardware, offload_optimizer, memory, compute, traffic, rollouts, seconds)
