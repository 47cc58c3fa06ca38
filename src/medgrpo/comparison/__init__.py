"""Scored runs of the same questions become a comparison: who differs from whom, where, and how surely."""
