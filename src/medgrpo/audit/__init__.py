"""What a training log says: findings with their evidence, what they usually mean, and what to try."""
