"""What a GPU and a network are taken to do. Data sheets and guesses: none of it was measured here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hardware:
    """Rates in units a second, memory in bytes, each of one GPU and one direction."""

    name: str
    memory: float
    """Bytes of a GPU, decimal (80 GB = 80e9)."""
    flops: float
    """Dense bfloat16 FLOP/s by the data sheet."""
    hbm: float
    """Bytes/s from the GPU's own memory."""
    nvlink: float
    """Bytes/s between the GPUs of a node."""
    network: float
    """Bytes/s into a node for each GPU (one network card a GPU)."""
    storage: float = 5e9
    """Bytes/s of shared storage, all nodes together: for the file system's weight sync."""
    host: float = 20e9
    """Bytes/s of a GPU's share of the node's own memory: for an offloaded optimizer."""
    mfu: float = 0.3
    """Share of `flops` that training reaches."""
    reserve: float = 0.1
    """Share of `memory` for the CUDA context, NCCL's buffers, the backward pass's own and fragmentation."""


HARDWARE = {
    "a100": Hardware("A100 80GB, NVLink 3, 200 Gb/s a GPU", 80e9, 312e12, 2.0e12, 300e9, 25e9),
    "h100": Hardware("H100 80GB, NVLink 4, 400 Gb/s a GPU", 80e9, 989e12, 3.35e12, 450e9, 50e9),
}
