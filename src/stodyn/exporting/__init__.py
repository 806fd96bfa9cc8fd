"""Models that leave the house: one path of a problem, its method and its noise, as C, as an FMU, or as NumPy."""
