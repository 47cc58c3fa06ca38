"""A process that has imported everything, and forks the processes of a script for each line that it reads.

A line is JSON: `argv` (the script first), `processes`, `cwd`, `environment`, the files `stdout` and `stderr`. What is
printed is JSON, too: the statuses of the processes when all have ended: exit code, or minus the signal.
"""

import atexit
import gc
import json
import os
import random
import runpy
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import NoReturn

import numpy
from ranks import free_port, rank_environment

import medgrpo.cli
import medgrpo.experiment.arguments
import medgrpo.experiment.side_by_side.train
import medgrpo.experiment.verdict
from medgrpo import CHORDTrainer, GSPOTrainer, MOGRPOTrainer

GRACE_S = 20.0
"""How long the others may go on when one has failed: they may wait for it."""
PRELOADED = (medgrpo.cli, medgrpo.experiment, CHORDTrainer, GSPOTrainer, MOGRPOTrainer)


def become(order: dict, rank: int, port: int) -> NoReturn:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["processes"] is not None:
        os.environ.update(rank_environment(rank, order["processes"], port))
    # Nothing that two processes do alike by chance may be alike here because they are forks.
    random.seed()
    numpy.random.seed()
    os.chdir(order["cwd"])
    sys.argv = order["argv"]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [str(Path(sys.argv[0]).parent), *(path for path in paths if path and path not in sys.path)]
    status = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait_for(children: list[int]) -> list[int]:
    statuses: dict[int, int] = {}
    until = None
    while len(statuses) < len(children):
        child, status = os.waitpid(-1, os.WNOHANG if until else 0)
        if child:
            statuses[child] = os.waitstatus_to_exitcode(status)
            if statuses[child] != 0 and until is None:
                until = time.monotonic() + GRACE_S
        elif time.monotonic() > until:
            for left in set(children) - set(statuses):
                os.kill(left, signal.SIGKILL)
            until = float("inf")
        else:
            time.sleep(0.05)
    return [statuses[child] for child in children]


def main() -> None:
    # A fork copies one thread only. (The allocator of pyarrow has another, and starts it again by itself.)
    assert threading.active_count() == 1, threading.enumerate()
    # DeepSpeed and accelerate collect garbage many times a run: what has been imported need not be looked through.
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        port = free_port()
        children = []
        for rank in range(order["processes"] or 1):
            child = os.fork()
            if child == 0:
                become(order, rank, port)
            children.append(child)
        print(json.dumps(wait_for(children)), flush=True)


if __name__ == "__main__":
    main()
