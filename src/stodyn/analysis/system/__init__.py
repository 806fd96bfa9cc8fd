"""Whole systems: structures, circuits, tolerances beside noise, planned steps, long runs, conserved quantities."""
