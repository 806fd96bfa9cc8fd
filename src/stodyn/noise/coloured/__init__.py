"""Noise with a spectrum: gusts, ground motion, flicker, any filter or measured density, exact at any step."""

from stodyn.noise.coloured.filters import flicker, gauss_markov, gauss_markov2, kanai_tajimi, through
from stodyn.noise.coloured.fit import Fit, SpectrumNotMet, fitted
from stodyn.noise.coloured.gusts import Scales, dryden, turbulence_scales, von_karman, von_karman_spectrum
from stodyn.noise.coloured.process import Coloured, stacked, summed

__all__ = [
    "Coloured",
    "Fit",
    "Scales",
    "SpectrumNotMet",
    "dryden",
    "fitted",
    "flicker",
    "gauss_markov",
    "gauss_markov2",
    "kanai_tajimi",
    "stacked",
    "summed",
    "through",
    "turbulence_scales",
    "von_karman",
    "von_karman_spectrum",
]
