"""A process that has imported everything, and forks a run for each line it reads: a start takes no ten seconds.

Each line is JSON: what `killed_run.run` takes, `output`, a file for what the run prints, and `processes` (1). What is
printed is JSON, too: the processes' ids, and when all have ended, their statuses: exit code, or minus the signal.
"""

import gc
import json
import os
import sys
import threading
from typing import NoReturn

import killed_run
from ranks import free_port, rank_environment

from medgrpo.experiment import arguments


def become(order: dict, rank: int, processes: int, port: int) -> NoReturn:
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.argv = ["train.py", "--max_steps", "8"]
    if processes > 1:
        os.environ.update(rank_environment(rank, processes, port))
    if rank:
        order.pop("pipe")
    status = 1
    try:
        arguments.run(lambda: killed_run.run(order))
    except SystemExit as done:
        status = done.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    # A fork copies one thread only. (The allocator of pyarrow has another, and starts it again by itself.)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()  # DeepSpeed and accelerate collect garbage many times a run
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        processes = order.get("processes", 1)
        port = free_port()
        children = []
        for rank in range(processes):
            child = os.fork()
            if child == 0:
                become(order, rank, processes, port)
            children.append(child)
        print(json.dumps(children), flush=True)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)


if __name__ == "__main__":
    main()
