"""What the training recipes share: their arguments, the exam, and the way from a trained model to a verdict."""
