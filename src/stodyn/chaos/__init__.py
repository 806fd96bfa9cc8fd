"""Randomness in parameters: orthonormal bases, grids, coupled systems, and what an expansion tells."""
