"""The same base, data and rewards under several methods and seeds, trained, scored, compared and reported at once."""
