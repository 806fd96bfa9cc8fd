"""Periodic solutions, and what small noise does around them: phase noise, jitter, cyclostationary spectra."""
