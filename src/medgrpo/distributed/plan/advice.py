"""The cheapest change that makes a run fit: all combinations of a few changes are planned, and the cheapest taken."""

from dataclasses import dataclass, replace
from itertools import product

from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import Cluster
from medgrpo.distributed.plan.estimate import Plan, make_plan
from medgrpo.errors import MedgrpoError

# Times as many nodes are tried as are asked for.
MOST_TIMES_NODES = 16


@dataclass(frozen=True)
class Advice:
    """What to change, and the plan that it leads to. `other_method`: the run is then another experiment, without KL."""

    changes: tuple[str, ...]
    plan: Plan
    other_method: bool


def cheapest_change(plan: Plan) -> Advice | None:
    """The fitting plan with the fewest GPU-seconds an optimizer step, same global batch and generation batch.

    First among those on as many nodes, then with more nodes, and only then without the reference model. None where
    nothing that is tried fits. Equal costs: the fewest changes.
    """
    for reference in (True, False):
        if not reference and not plan.batch.reference:
            continue
        batch = plan.batch if reference else replace(plan.batch, reference=False)
        given = plan.cluster.train_nodes + plan.cluster.rollout_nodes
        for nodes in (given, *_more_nodes(given)):
            found = [advice for advice in _candidates(plan, batch, nodes) if advice.plan.fits]
            if found:
                return min(found, key=lambda advice: (round(advice.plan.gpu_seconds, 6), len(advice.changes)))
    return None


def _more_nodes(given: int) -> list[int]:
    near = [given + extra for extra in range(1, given)] if given < 16 else []
    return sorted({*near, *(given * times for times in (2, 3, 4, 6, 8, 12, MOST_TIMES_NODES))})


def _candidates(plan: Plan, batch: Batch, nodes: int) -> list[Advice]:
    cluster = plan.cluster
    placements = {(cluster.placement, cluster.expert_parallel), ("zero3", 1)}
    if plan.shape.experts:
        placements.add(("zero3_ep", cluster.gpus_per_node))
    # A run has one rollout server, on one node.
    rollout_nodes = sorted({n for n in (cluster.rollout_nodes, 1) if n < nodes})
    micro_batches = [size for size in range(1, batch.per_device + 1) if batch.per_device % size == 0]
    offloads = sorted({plan.offload_optimizer, True})
    tensor_parallels = sorted({min(plan.rollouts.tensor_parallel, cluster.gpus_per_node), cluster.gpus_per_node})
    found = []
    for (placement, ep), rollouts, micro, checkpointing, offload, tp in product(
        sorted(placements),
        rollout_nodes,
        micro_batches,
        sorted({batch.checkpointing, True}),
        offloads,
        tensor_parallels,
    ):
        if rollouts < min(cluster.rollout_nodes, 1) or (placement == "ddp" and offload != plan.offload_optimizer):
            continue
        moved = Cluster(nodes - rollouts, rollouts, cluster.gpus_per_node, placement, ep)
        if moved.train_gpus % ep or (plan.shape.experts and plan.shape.experts % ep):
            continue
        changed = _redistribute(plan, batch, moved, micro)
        if changed is None:
            continue
        changed = replace(changed, checkpointing=checkpointing)
        try:
            candidate = make_plan(plan.shape, moved, changed, plan.hardware, offload, tp if rollouts else None)
        except MedgrpoError:
            continue  # a combination that TRL or vLLM refuses is no advice
        found.append(Advice(_describe(plan, candidate), candidate, plan.batch.reference and not changed.reference))
    return found


def _redistribute(plan: Plan, batch: Batch, cluster: Cluster, micro: int) -> Batch | None:
    """The same completions a step and a generation on other GPUs in micro-batches of `micro`; None: not evenly."""
    processes = plan.cluster.train_gpus
    step, generation = batch.global_batch(processes), batch.generation_batch(processes)
    unit = micro * cluster.train_gpus
    if step % unit or generation % unit:
        return None
    return replace(batch, per_device=micro, accumulation=step // unit, steps_per_generation=generation // unit)


def _describe(before: Plan, after: Plan) -> tuple[str, ...]:
    old, new = before.cluster, after.cluster
    said = []
    if (new.train_nodes, new.rollout_nodes) != (old.train_nodes, old.rollout_nodes):
        more = new.train_nodes + new.rollout_nodes
        served = f", {new.rollout_nodes} of them for rollouts" if new.rollout_nodes else ""
        said.append(f"--nodes {more} --rollout-nodes {new.rollout_nodes} ({more} nodes{served})")
    if (new.placement, new.expert_parallel) != (old.placement, old.expert_parallel):
        experts = f" --ep {new.expert_parallel}" if new.placement == "zero3_ep" else ""
        said.append(f"--placement {new.placement}{experts}")
    if new.rollout_nodes and old.rollout_nodes and after.rollouts.tensor_parallel != before.rollouts.tensor_parallel:
        said.append(f"--tp {after.rollouts.tensor_parallel}")
    if after.batch.per_device != before.batch.per_device:
        said.append(
            f"--micro-batch {after.batch.per_device} (per_device_train_batch_size {after.batch.per_device}, "
            f"gradient_accumulation_steps {after.batch.accumulation}, "
            f"steps_per_generation {after.batch.steps_per_generation})"
        )
    if after.batch.checkpointing and not before.batch.checkpointing:
        said.append("--checkpointing (gradient_checkpointing: true)")
    if after.offload_optimizer and not before.offload_optimizer:
        said.append("--offload-optimizer (its states in the node's own memory)")
    if before.batch.reference and not after.batch.reference:
        said.append("--no-reference (beta: 0; another experiment: no KL term)")
    return tuple(said)
