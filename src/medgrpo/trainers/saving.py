"""Saves checkpoints that are whole or absent, and finds the one that a run goes on from."""

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from accelerate.utils import broadcast_object_list, gather_object
from safetensors import SafetensorError
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import rotate_checkpoints
from trl import GRPOTrainer

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.checkpoints import UNFINISHED, find_last, finish, read_run_id, resolve
from medgrpo.trainers.metrics_file import read_current_run

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UnsavedError(MedgrpoError):
    """A checkpoint can't be written, and only the process that failed knows."""


class SavingGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` with atomic checkpoints.

    All processes write into a folder beside the checkpoints, which takes its name only when everything is on the
    disk and a manifest of it written; older checkpoints go after that. `train(resume_from_checkpoint=...)` takes
    what `checkpoints.resolve` takes. Raises `MedgrpoError` where a checkpoint can't be written: what was
    written of it is removed, and the older ones are kept.
    """

    run_id = ""
    """Random, made when a run starts from step 0; a resumed run keeps it."""

    _unfinished = False

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train, from the checkpoint that `resume_from_checkpoint` names: a folder, True or `last`, `auto`."""
        resume, self.run_id = self._agree_on_checkpoint(resume_from_checkpoint)
        try:
            return super().train(resume, *args, **kwargs)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            place = error.filename or self.args.output_dir
            raise UnsavedError(f"{place}: can't be written ({error.strerror}): {self._what_is_left()}") from error

    def _agree_on_checkpoint(self, asked: str | bool | None) -> tuple[str | None, str]:
        """The checkpoint to go on from, and the run's id, the same on all processes."""
        found: list[Any] = [None, None]
        if self.accelerator.is_main_process:
            folder = self.args.output_dir
            try:
                resume = resolve(asked, folder, read_current_run(folder))
                found = [resume, (read_run_id(resume) if resume else None) or uuid.uuid4().hex[:12]]
            except MedgrpoError as error:
                found = [error, None]
        broadcast_object_list(found)
        if isinstance(found[0], MedgrpoError):
            raise found[0]
        return found[0], found[1]

    def _get_output_dir(self, trial: Any) -> str:
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, UNFINISHED) if self._unfinished else folder

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run_dir = Path(self._get_output_dir(trial))
        name = f"checkpoint-{self.state.global_step}"
        unfinished = run_dir / UNFINISHED
        if self.args.should_save and unfinished.exists():
            shutil.rmtree(unfinished)
        self.accelerator.wait_for_everyone()
        save = super()._save_checkpoint
        self._unfinished = True
        try:
            self._write(run_dir, name, lambda: save(model, trial))
        finally:
            self._unfinished = False
        # Noted on every process: each loads the best one at the end.
        best = self.state.best_model_checkpoint == str(unfinished / name)
        if best:
            self.state.best_model_checkpoint = str(run_dir / name)
        self._write(run_dir, name, lambda: self._finish(unfinished / name, run_dir / name, best))
        if self.args.should_save:
            rotate_checkpoints(
                output_dir=str(run_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=self.state.best_model_checkpoint,
                use_mtime=True,
            )

    def _finish(self, written: Path, final: Path, best: bool) -> None:
        if not self.args.should_save:
            return
        if best:
            self.state.save_to_json(str(written / TRAINER_STATE_NAME))
        finish(written, final, self.run_id)
        written.parent.rmdir()

    def _write(self, run_dir: Path, name: str, write: Callable[[], None]) -> None:
        """Call `write` on every process; where it fails on one for want of room, all remove the rest and raise."""
        problem = None
        try:
            write()
        except MedgrpoError as error:  # of the export, which raises it on all processes
            self._give_up(run_dir, name, str(error))
        except (OSError, RuntimeError, SafetensorError) as error:
            problem = _find_reason(error, run_dir)
            if problem is None:
                raise
            # Under a sharded engine the others wait inside for this process, not at the question below.
            if self.is_deepspeed_enabled or self.is_fsdp_enabled:
                self._give_up(run_dir, name, problem, UnsavedError)
        problems = [reason for reason in gather_object([problem]) if reason is not None]
        if problems:
            self._give_up(run_dir, name, problems[0])

    def _give_up(self, run_dir: Path, name: str, problem: str, kind: type[MedgrpoError] = MedgrpoError) -> NoReturn:
        if self.args.should_save:
            shutil.rmtree(run_dir / UNFINISHED, ignore_errors=True)
        raise kind(f"{run_dir / name}: can't be saved ({problem}); {self._what_is_left()}")

    def _what_is_left(self) -> str:
        """Which checkpoint is the last one, and what to do."""
        last = find_last(Path(self.args.output_dir), self.run_id)
        if last is None:
            return "there is no older checkpoint; make room and start again"
        return f"{last} is kept; make room, then go on with --resume_from_checkpoint last"


def _find_reason(error: Exception, folder: Path) -> str | None:
    """Why nothing more can be written to a folder; None where it can, so that `error` means something else."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return error.strerror
    # torch and safetensors raise errors of their own, without the system's reason.
    probe = folder / UNFINISHED / "probe"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        with probe.open("wb") as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as reason:
        return reason.strerror
    finally:
        probe.unlink(missing_ok=True)
    return None
