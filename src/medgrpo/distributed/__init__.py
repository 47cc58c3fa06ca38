"""Models that lie on many processes: their weights by Hugging Face's names, and experts spread over processes."""
