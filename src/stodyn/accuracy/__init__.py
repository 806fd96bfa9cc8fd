"""Expectations to a stated error: levels of steps, points, and how many of each."""
