"""A plan for people, and as JSON."""

from dataclasses import asdict
from math import isinf
from typing import Any

from medgrpo.distributed.plan.advice import Advice
from medgrpo.distributed.plan.estimate import Plan

GB = 1e9


def describe_plan(plan: Plan, advice: Advice | None) -> str:
    """Several lines, decimal gigabytes, what fits last."""
    shape, cluster, batch, memory = plan.shape, plan.cluster, plan.batch, plan.memory
    experts = f": {_count(shape.expert_total, 2)} in experts, {_count(shape.active, 2)} used a token"
    ep = f" over {cluster.expert_parallel} GPUs" if cluster.placement == "zero3_ep" else ""
    gpus = cluster.train_gpus
    lines = [
        f"{shape.name}: {_count(shape.total, 3)} parameters" + (experts if shape.experts else ""),
        f"{_nodes(cluster.train_nodes)} x {cluster.gpus_per_node} GPUs train ({cluster.placement}{ep})"
        + (f", {_nodes(cluster.rollout_nodes)} for rollouts" if cluster.rollout_nodes else ", and generate themselves"),
        f"optimizer step: {batch.per_device} completions x {batch.accumulation} micro-batches x {gpus} GPUs = "
        f"{batch.global_batch(gpus)} completions; a generation of {batch.generation_batch(gpus)} serves "
        f"{batch.steps_per_generation / batch.accumulation:g} steps",
        f"tokens a micro-batch: {batch.tokens} (prompts of {batch.prompt}, completions of {batch.completion}"
        + (", each prompt run once)" if batch.shared_prefix else ")")
        + (f" + {batch.sft_tokens} of SFT" if batch.sft else ""),
        f"tokens a step: {_tokens(plan):,}",
        "",
        f"GB on a training GPU ({plan.hardware.memory / GB:g})",
        *(f"  {name:<38}{_gb(value)}" for name, value in _memory_rows(plan) if value),
        f"  {'most at any moment':<38}{_gb(memory.peak)}   {'fits' if plan.trains else 'DOES NOT FIT'}",
    ]
    if memory.host:
        lines.append(f"  {'in the memory of the node, a GPU':<38}{_gb(memory.host)}")
    lines += ["", *_rollout_lines(plan), "", *_traffic_lines(plan), "", *_time_lines(plan)]
    if not plan.fits:
        lines += ["", _advise(advice)]
    return "\n".join(lines)


def as_json(plan: Plan, advice: Advice | None) -> dict[str, Any]:
    """The same as numbers: bytes, FLOPs and seconds."""
    shape, memory, gpus = plan.shape, plan.memory, plan.cluster.train_gpus
    return {
        "model": {
            "name": shape.name,
            "parameters": shape.total,
            "expert_parameters": shape.expert_total,
            "dense_parameters": shape.dense_total,
            "active_parameters": shape.active,
        },
        "cluster": asdict(plan.cluster),
        "batch": {
            **asdict(plan.batch),
            "global_batch": plan.batch.global_batch(gpus),
            "generation_batch": plan.batch.generation_batch(gpus),
            "tokens_per_micro_batch": plan.batch.tokens,
            "tokens_per_step": _tokens(plan),
        },
        "assumed_hardware": asdict(plan.hardware),
        "bytes_per_gpu": {**asdict(memory), "peak": memory.peak},
        "traffic_per_gpu_and_step": asdict(plan.traffic),
        "flops_per_gpu_and_step": {**asdict(plan.compute), "total": plan.compute.total},
        "rollouts": {name: None if value == float("inf") else value for name, value in asdict(plan.rollouts).items()},
        "seconds_per_step": {
            name: None if isinf(value) else value
            for name, value in {
                **asdict(plan.seconds),
                "overlapped": plan.seconds.overlapped,
                "in_turn": plan.seconds.in_turn,
            }.items()
        },
        "fits": plan.fits,
        "advice": None if plan.fits or advice is None else {
            "changes": list(advice.changes),
            "other_method": advice.other_method,
            "peak_bytes": advice.plan.memory.peak,
            "gpu_seconds_per_step": advice.plan.gpu_seconds,
        },
    }  # fmt: skip


def _gb(value: float) -> str:
    """Nine characters; what is small is not rounded to nothing."""
    return f"{value / GB:9.2f}" if value >= 0.01 * GB else f"{value / GB:9.2g}"


def _count(parameters: int, digits: int) -> str:
    return f"{parameters / 1e9:.{digits}f} B" if parameters >= 1e8 else f"{parameters / 1e6:.{digits}f} M"


def _nodes(count: int) -> str:
    return f"{count} node" + ("s" if count != 1 else "")


def _tokens(plan: Plan) -> int:
    return (plan.batch.tokens + plan.batch.sft_tokens) * plan.batch.accumulation * plan.cluster.train_gpus


def _memory_rows(plan: Plan) -> list[tuple[str, float]]:
    memory, states = plan.memory, plan.memory.states
    kept = "checkpointed" if plan.batch.checkpointing else "all layers"
    return [
        ("weights", states.weights),
        ("gradients", states.gradients),
        ("optimizer (Adam)", states.optimizer),
        ("reference model", states.reference),
        ("gradient buckets", states.buckets),
        (f"training: activations ({kept})", memory.activations),
        ("training: logits and LM head", memory.logits),
        ("training: gathered for a moment", memory.gathers),
        ("or optimizer step", memory.optimizer_step),
        ("or generation", memory.generation),
        ("reserve", memory.reserve),
    ]


def _rollout_lines(plan: Plan) -> list[str]:
    rollouts = plan.rollouts
    if not plan.cluster.rollout_nodes:
        return [f"rollouts: {rollouts.sequences} completions by transformers on the training GPUs"]
    gpu = f"{rollouts.weights / GB:.2f} GB of weights and {max(rollouts.cache_room, 0) / GB:.2f} GB of cache a GPU"
    return [
        f"rollouts: {rollouts.engines} engines of {rollouts.tensor_parallel} GPUs, {gpu}: "
        + (f"{rollouts.at_once} longest sequences at once each" if rollouts.fits else "DOES NOT FIT"),
    ]


def _traffic_lines(plan: Plan) -> list[str]:
    traffic = plan.traffic
    rows = (("gathers and gradient sums", traffic.all_gather), ("all-to-all (tokens to experts)", traffic.all_to_all))
    return [
        f"{'GB into a GPU in a step':<40}{'NVLink':>9}{'network':>9}",
        *(f"  {name:<38}{link.nvlink / GB:9.1f}{link.network / GB:9.1f}" for name, link in rows),
        f"  weights to the rollout servers, a generation, in all {traffic.sync / GB:.1f}" if traffic.sync
        else "  no weights sent to a server",
    ]  # fmt: skip


def _time_lines(plan: Plan) -> list[str]:
    seconds, hardware = plan.seconds, plan.hardware
    parts = ", ".join(
        f"{name} {getattr(seconds, name):.3g}"
        for name in ("arithmetic", "nvlink", "network", "generation", "sync", "offload")
    )
    return [
        f"a step: {plan.compute.total / 1e15:.2f} PFLOP a GPU; seconds: {parts}",
        f"  {seconds.overlapped:.3g} s if arithmetic and traffic overlap, {seconds.in_turn:.3g} s if not",
        f"  ASSUMED, not measured: {hardware.name}: {hardware.flops / 1e12:g} TFLOP/s at {hardware.mfu:.0%}, "
        f"NVLink {hardware.nvlink / GB:g}, network {hardware.network / GB:g}, own memory {hardware.hbm / GB:g}, "
        f"storage {hardware.storage / GB:g} GB/s; every completion at its longest",
    ]


def _advise(advice: Advice | None) -> str:
    if advice is None:
        return "does not fit, and no change that was tried makes it fit"
    plan = advice.plan
    return (
        f"does not fit. The cheapest change that makes it fit: {'; '.join(advice.changes)}. "
        f"Then {plan.memory.peak / GB:.1f} GB a training GPU, {plan.seconds.in_turn:.0f} s a step at most"
    )
