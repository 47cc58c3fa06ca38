"""A checkpoint becomes samples: generation, scoring, and the two files that everything later reads."""
