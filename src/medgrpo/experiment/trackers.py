"""Where `report_to` sends metrics is looked at first: transformers does so when training starts, after the scoring."""

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches

from transformers.integrations import integration_utils

from medgrpo.errors import MedgrpoError

OF_THE_EXTRA: dict[str, Callable[[], bool]] = {
    "tensorboard": integration_utils.is_tensorboard_available,
    "trackio": integration_utils.is_trackio_available,
    "wandb": integration_utils.is_wandb_available,
}


def check_trackers(names: Iterable[str], project: str, *, log_in: bool) -> None:
    """Raise `MedgrpoError` for a tracker that there is not, that isn't installed, or that knows no account.

    Where `log_in` is true (on the first process), W&B asks for its key if there is a terminal to ask at. It is told
    the `project` as well, which transformers hands to trackio alone.
    """
    known = sorted(integration_utils.INTEGRATION_TO_CALLBACK)
    for name in names:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}; or none, or all, alone"
            raise MedgrpoError(f"report_to: unknown {name!r}: {hint}")
        if name in OF_THE_EXTRA and not OF_THE_EXTRA[name]():
            raise MedgrpoError(f"report_to {name} needs the package {name}: pip install 'medgrpo[trackers]'")
        if name == "wandb":
            os.environ.setdefault("WANDB_PROJECT", project)
            if log_in and os.environ.get("WANDB_MODE", "online") in ("online", "run"):
                _log_in_to_wandb()


def _log_in_to_wandb() -> None:
    import wandb

    try:
        wandb.login()
    except wandb.errors.Error as error:  # no key, a wrong one, or nobody there
        raise MedgrpoError(
            f"report_to wandb: {' '.join(str(error).split())} Set WANDB_API_KEY, or WANDB_MODE=offline to keep the run "
            "on this machine"
        ) from error
