"""What `run.json` records, so that a score can be made again: model, prompt, sampling, versions, commit."""

from collections.abc import Mapping
from typing import Any

from medgrpo.versions import collect_versions, find_commit


def build_run_info(
    *,
    model: str | None,
    revision: str | None,
    prompt_template: Mapping[str, Any] | None,
    sampling: Mapping[str, Any] | None,
    seed: int | None,
    **more: Any,
) -> dict[str, Any]:
    """The content of `run.json`; None says that it is not known (completions that came from elsewhere).

    `sampling` holds `backend`, `temperature` (0 = greedy), `max_new_tokens` and whatever else decides the
    completions. `more` is added as it is and has to be JSON.
    """
    return {
        "model": model,
        "revision": revision,
        "prompt_template": None if prompt_template is None else dict(prompt_template),
        "sampling": None if sampling is None else dict(sampling),
        "seed": seed,
        "versions": collect_versions(),
        "commit": find_commit(),
        **more,
    }
