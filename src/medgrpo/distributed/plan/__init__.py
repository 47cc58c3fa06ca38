"""What a run needs before a cluster is booked: bytes a GPU, bytes a network, arithmetic and time. docs/scaling.md."""
