"""Secrets and names that a run is given and must not repeat, and a search for them in everything that it leaves."""

import base64
import os
from pathlib import Path

USER = "canary-user"
SECRETS = {
    "HF_TOKEN": "hf_CanaryCanaryCanaryCanaryCanary0001",
    "OPENAI_API_KEY": "sk-canary-canary-canary-canary-0002",
    "WANDB_API_KEY": "canary0003canary0003canary0003canary0003",
    "MY_SERVER_KEY": "canary-server-key-0004",
}


def environment(home: Path) -> dict[str, str]:
    """The environment of a process whose owner is the canary."""
    owner = {name: USER for name in ("LOGNAME", "USER", "LNAME", "USERNAME")}
    return {
        **os.environ,
        **SECRETS,
        **owner,
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "MPLCONFIGDIR": str(home.parent / "matplotlib"),
    }


def find_leaks(*places: Path | str) -> list[str]:
    """`where: what` for each canary in a text or in a file under a folder, as it is or in base64."""
    found = []
    for place in places:
        files = [path for path in place.rglob("*") if path.is_file()] if isinstance(place, Path) else []
        contents = [(str(path), path.read_bytes()) for path in files]
        if isinstance(place, str):
            contents.append(("printed", place.encode()))
        for where, content in contents:
            for canary in (USER, *SECRETS.values()):
                forms = (canary.encode(), base64.b64encode(canary.encode())[:-4])
                if any(form in content for form in forms):
                    found.append(f"{where}: {canary}")
    return found
