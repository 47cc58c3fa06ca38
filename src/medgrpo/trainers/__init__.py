"""One subclass of TRL's `GRPOTrainer` per method, each with its config; they combine by multiple inheritance."""
