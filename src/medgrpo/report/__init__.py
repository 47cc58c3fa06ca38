"""A verdict that a person can read: figures and pages, made from scored runs and the training log alone."""
