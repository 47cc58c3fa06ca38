"""A process that watches the clock for another one: a thread can't, while a C loop such as `re` holds Python's lock.

Reads `start <number> <seconds> <grace> <name>` and `stop <number>` from standard input, and answers each `end` with the
name of the call that was late, or an empty line, after which it sends no signal any more. A call that is late gets its
process SIGUSR2, and SIGKILL when the grace is over, too. Imports the standard library only, to start at once. Whoever
starts it blocks the signals that are meant for the training process (`reward_limit`).
"""

import os
import select
import signal
import sys
import time

PARENT = os.getppid()


def main() -> None:
    """Watch until standard input is closed: its process has ended."""
    calls: dict[str, tuple[float, float, float, str]] = {}
    late, killing, rest = "", None, b""
    while True:
        times = [until for until, *_ in calls.values()] + ([killing] if killing is not None else [])
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        if select.select([0], [], [], timeout)[0]:
            read = os.read(0, 1 << 16)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in map(bytes.decode, lines):
                word, _, more = line.partition(" ")
                if word == "start":
                    number, seconds, grace, name = more.split(" ", 3)
                    calls[number] = (time.monotonic() + float(seconds), float(seconds), float(grace), name)
                elif word == "stop":
                    calls.pop(more, None)
                else:
                    os.write(1, f"{late}\n".encode())
                    calls, late, killing = {}, "", None
        now = time.monotonic()
        for number, (until, seconds, grace, name) in list(calls.items()):
            if until <= now and killing is None:
                late, killing, limit = name, now + grace, seconds
                del calls[number]
                os.kill(PARENT, signal.SIGUSR2)
        if killing is not None and killing <= now:
            print(
                f"error: reward {late!r} ran longer than reward_timeout ({limit:g} s) and can't be interrupted: the "
                "process is killed; go on with --resume_from_checkpoint last",
                file=sys.stderr,
                flush=True,
            )
            os.kill(PARENT, signal.SIGKILL)
            return


if __name__ == "__main__":
    main()
