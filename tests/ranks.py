"""What a launcher tells the processes of a run: which one each is, and where they meet."""

import socket


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rank_environment(rank: int, processes: int, port: int) -> dict[str, str]:
    """The environment of one of `processes` on this machine that meet at a port."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    return {**{name: str(value) for name, value in names.items()}, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
