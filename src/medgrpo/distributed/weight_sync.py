"""Rollouts from a vLLM server whose weights follow the trainer's, through the server's deaths and returns.

All processes go through every method in step. The first one alone talks to the server, and says to all what came
of it, so that they wait, go on and stop together.
"""

import atexit
import signal
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate.utils import broadcast_object_list
from trl.generation.vllm_generation import VLLMGeneration

from medgrpo.distributed.rollout_server import RolloutServer, ServerFault
from medgrpo.distributed.server_checks import check_server
from medgrpo.distributed.weight_carriers import FolderCarrier, NCCLCarrier
from medgrpo.errors import MedgrpoError

T = TypeVar("T")

# How far the two sides' log-probabilities may lie apart. In float32 even the largest difference is rounding (3e-6
# on tiny models); in 16 bits single tokens differ by far more where an expert's choice tips over, so the mean counts.
TOLERANCE = {"float32": 1e-3, "16 bit": 0.1}
RETRY_S = 2.0
TELL_S = 10.0


class RolloutServerGone(MedgrpoError):
    """The rollout server stayed away for longer than the run waits; raised on every process."""


class StoppedWaiting(RolloutServerGone):
    """The run was asked to stop while it waited for its server; raised on every process."""


@dataclass(frozen=True)
class SyncSettings:
    """How weights travel, how long a server is waited for, and what the two sides are compared on."""

    method: str
    """"filesystem" or "nccl"."""
    folder: Path
    wait: float
    """Seconds that a run waits for a server that is away, before it stops."""
    request_timeout: float
    """Seconds after which a silent request counts as hung."""
    key: str | None
    tolerance: float | None
    """In place of `TOLERANCE`."""
    probes: Callable[[], Sequence[Sequence[int]]]
    """Token ids of a few prompts, the same on all processes."""
    asked_to_stop: Callable[[], int | None]
    """On the first process: the signal that asked the run to stop, so that nobody waits on."""
    score: Callable[[Sequence[Sequence[int]]], list[list[float]]]
    """Collective: the log-probability, by the trainer's weights, of each probe's tokens after the first."""


class SyncedVLLMGeneration(VLLMGeneration):
    """TRL's `VLLMGeneration` with another server side: weights by folder or NCCL, verified, and faults survived.

    In the mode `colocate` it is TRL's. Methods raise `RolloutServerGone` after the wait, and `MedgrpoError` for what
    waiting does not mend, on every process.
    """

    def __init__(self, *args: Any, sync: SyncSettings, **kwargs: Any) -> None:
        self.sync = sync
        self.difference: float | None = None
        """The largest difference of the last comparison; on the first process."""
        self.mean_difference: float | None = None
        self.sync_seconds = 0.0
        self._stamp: str | None = None
        self._number = 0
        self._expected: list[list[float]] = []
        self._verified = False
        super().__init__(*args, **kwargs)

    def _init_vllm(self) -> None:
        if self.mode != "server":
            super()._init_vllm()
            return
        self._first = self.accelerator.is_main_process
        url = self.server_base_url or f"http://{self.server_host}:{self.server_port}"
        # TRL asks its `vllm_client` on the first process only.
        self.vllm_client = _GuardedServer(RolloutServer(url, self.sync.key, self.sync.request_timeout), self)
        theirs, self._run = self._decide(self._meet)
        dtype = next(self.model.parameters()).dtype
        exact = theirs == "float32" and dtype == torch.float32 and self.accelerator.mixed_precision == "no"
        self.tolerated = "float32" if exact else "16 bit"
        if self.sync.method == "nccl":
            self.carrier: FolderCarrier | NCCLCarrier = NCCLCarrier(
                self.model, self.group_port, self.accelerator.device, self._first
            )
        else:
            # The server would round them to its dtype anyway; rounded here there is half as much to write.
            narrow = getattr(torch, theirs) if dtype == torch.float32 and theirs != "float32" else None
            self.carrier = FolderCarrier(self.model, self.sync.folder, self._first, narrow)
        if self._first:
            atexit.register(self.carrier.close)

    def sync_weights(self) -> None:
        """Collective: let the server compute with the present weights, and see that it does."""
        if self.mode != "server":
            super().sync_weights()
            return
        started = time.monotonic()
        self._number += 1
        stamp = f"{self._run}-{self._number}"
        self.carrier.publish(stamp)
        self._expected = self.sync.score(self.sync.probes())
        self._stamp, self._verified = stamp, False
        self._persist(self._patience())
        self.sync_seconds = time.monotonic() - started

    def generate(self, prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None) -> tuple:
        """What TRL's returns, once the server has answered with the present weights."""
        if self.mode != "server":
            return super().generate(prompts, images, num_generations, profiler)
        patience = self._patience()
        while True:
            output = super().generate(prompts, images, num_generations, profiler)
            if output[1]:
                return output
            # No completion at all, on any process, is how `_GuardedServer` says that there was a problem.
            patience.wait(self._decide(self.vllm_client.tell_problem) or "no completions")
            self._persist(patience)

    def hold(self) -> str | None:
        """On the first process: see that the server holds the present weights; None when it does.

        Otherwise a word on what is wrong: only all processes together can send them.
        """
        server = self.vllm_client.server
        loaded = server.loaded()
        if loaded != self._stamp:
            self._verified = False
            if isinstance(self.carrier, NCCLCarrier):
                return loaded or "nothing of this run"
            self.carrier.load(server)
        if not self._verified:
            self._compare(server)
            self._verified = True
        return None

    def _persist(self, patience: "_Patience") -> None:
        """Collective: until the server holds the present weights."""
        while True:
            fault, stale = self._decide(lambda: _attempt(self.hold))
            if stale is not None:
                fault = self._stream(stale)
            elif fault is None:
                patience.over()
                return
            if fault is not None:
                patience.wait(fault)

    def _stream(self, held: str) -> str | None:
        """Collective: send the weights to a server that holds `held`; what went wrong, in words."""
        carrier, server = self.carrier, self.vllm_client.server if self._first else None
        assert isinstance(carrier, NCCLCarrier)
        fresh = not held.startswith(f"{self._run}-")
        fault, _ = self._decide(lambda: _attempt(lambda: carrier.connect(server, fresh)))
        if fault is not None:
            return fault
        problem: ServerFault | MedgrpoError | None = None
        try:
            carrier.stream(server)
        except (ServerFault, MedgrpoError) as error:
            problem = error
        return self._decide(lambda: _tell(problem))

    def _decide(self, action: Callable[[], T]) -> T:
        """Collective: what `action` gives on the first process, on all; a `MedgrpoError` is raised on all."""
        outcome: list[Any] = [None, None]
        if self._first:
            try:
                outcome = [None, action()]
            except MedgrpoError as error:
                outcome = [str(error), None]
        broadcast_object_list(outcome, from_process=0)
        if outcome[0] is not None:
            raise MedgrpoError(outcome[0])
        return outcome[1]

    def _meet(self) -> tuple[str, str]:
        """The server's dtype, and a name for this run."""
        server = self.vllm_client.server
        told = float("inf")

        def tell(left: float, why: str) -> None:
            nonlocal told
            if told - left >= TELL_S:
                told = left
                _say(f"waiting for the rollout server at {server.base_url}, {left:.0f} s left ({why})")

        server.wait_until_up(self.server_timeout, tell)
        dtype = check_server(
            server,
            self.model.config,
            self.processing_class,
            self.max_completion_length,
            nccl=self.sync.method == "nccl",
        )
        return dtype, uuid.uuid4().hex[:8]

    def _compare(self, server: RolloutServer) -> None:
        probes = self.sync.probes()
        theirs = server.score(probes)
        differences = [
            abs(ours - other)
            for mine, answer in zip(self._expected, theirs, strict=True)
            for ours, other in zip(mine, answer, strict=True)
        ]
        # NaN, on either side, is as far as can be.
        differences = [float("inf") if value != value else value for value in differences]
        self.difference, self.mean_difference = max(differences), sum(differences) / len(differences)
        measure = self.difference if self.tolerated == "float32" else self.mean_difference
        limit = TOLERANCE[self.tolerated] if self.sync.tolerance is None else self.sync.tolerance
        if measure > limit:
            kind = "largest" if self.tolerated == "float32" else "mean"
            raise MedgrpoError(
                f"{server.base_url}: weight sync {self._number} did not take: the server's log-probabilities of the "
                f"same prompts differ from the trainer's by {measure:.3g} ({kind}; at most {limit:g} in "
                f"{self.tolerated}): it computes with other weights (docs/rollout-server.md; vllm_sync_tolerance)"
            )

    def _patience(self) -> "_Patience":
        return _Patience(self)


class _GuardedServer:
    """What TRL takes for its client, on the first process: a fault is noted and answered with no completion at all."""

    def __init__(self, server: RolloutServer, generation: SyncedVLLMGeneration) -> None:
        self.server = server
        self._generation = generation
        self._problem: ServerFault | MedgrpoError | None = None

    def get_server_info(self) -> dict[str, Any]:
        return self.server.get_server_info()

    def generate(self, **request: Any) -> dict[str, Any]:
        self._problem = None
        try:
            if self._generation.hold() is None:
                return self.server.generate(**request)
            self._problem = ServerFault("the server holds other weights: it was started anew")
        except (ServerFault, MedgrpoError) as problem:
            self._problem = problem
        return {"prompt_ids": [], "completion_ids": [], "logprobs": None, "logprob_token_ids": None}

    def tell_problem(self) -> str | None:
        return _tell(self._problem)


class _Patience:
    """Waits for a server that is away, counting down where a person sees it; the same on all processes."""

    def __init__(self, generation: SyncedVLLMGeneration) -> None:
        self._generation = generation
        self._url = generation.vllm_client.server.base_url
        self._since: float | None = None
        self._told = float("-inf")

    def wait(self, fault: str) -> None:
        """Collective: pass a moment, or raise `RolloutServerGone` when the time is up."""
        sync = self._generation.sync
        limit = sync.wait
        left, asked = self._generation._decide(lambda: (self._tick(fault, limit), sync.asked_to_stop()))
        if asked:
            # launch/job.sh looks for a line that begins like this.
            raise StoppedWaiting(
                f"stopped by {signal.Signals(asked).name} while the rollout server at {self._url} is away ({fault})"
            )
        if left <= 0:
            raise RolloutServerGone(f"{self._url}: the rollout server is away for more than {limit:g} s ({fault})")
        if self._generation._first:
            time.sleep(min(RETRY_S, left))

    def over(self) -> None:
        """Say that it is back, where it was away."""
        if self._generation._first and self._since is not None:
            away = time.monotonic() - self._since
            _say(f"the rollout server at {self._url} is back after {away:.0f} s and holds the present weights")
            self._told = float("-inf")

    def _tick(self, fault: str, limit: float) -> float:
        now = time.monotonic()
        self._since = self._since or now
        left = self._since + limit - now
        if now - self._told >= TELL_S and left > 0:
            self._told = now
            _say(f"the rollout server at {self._url} is away ({fault}): stopping in {left:.0f} s unless it comes back")
        return left


def _attempt(action: Callable[[], T]) -> tuple[str | None, T | None]:
    """(fault in words, None), or (None, what `action` gives)."""
    try:
        return None, action()
    except ServerFault as fault:
        return str(fault), None


def _tell(problem: ServerFault | MedgrpoError | None) -> str | None:
    """A fault in words, None where there is none; what waiting does not mend is raised."""
    if isinstance(problem, MedgrpoError):
        raise problem
    return None if problem is None else str(problem)


def _say(text: str) -> None:
    """Seen whatever the log level: somebody has to look after the server meanwhile."""
    print(text, file=sys.stderr, flush=True)
