"""Randomness, which knows nothing of problems."""
