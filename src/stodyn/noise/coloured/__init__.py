"""Noise with a spectrum: gusts, ground motion, flicker, any filter or measured density, exact at any step."""

from stodyn import listing
from stodyn.noise.coloured import envelopes
from stodyn.noise.coloured.delay import Delayed, delayed
from stodyn.noise.coloured.filters import flicker, gauss_markov, gauss_markov2, kanai_tajimi, through
from stodyn.noise.coloured.fit import Fit, fitted
from stodyn.noise.coloured.gusts import Scales, dryden, turbulence_scales, von_karman, von_karman_spectrum
from stodyn.noise.coloured.loads import (
    clough_penzien,
    iso_road,
    jonswap,
    jonswap_spectrum,
    kaimal,
    kaimal_spectrum,
    pierson_moskowitz,
    von_karman_wind,
    von_karman_wind_spectrum,
)
from stodyn.noise.coloured.points import at_points, correlated, relaxing
from stodyn.noise.coloured.process import Coloured, stacked, summed
from stodyn.warnings import SpectrumFolded, SpectrumNotMet

__all__ = [
    "Coloured",
    "Delayed",
    "Fit",
    "Scales",
    "SpectrumFolded",
    "SpectrumNotMet",
    "at_points",
    "clough_penzien",
    "correlated",
    "delayed",
    "dryden",
    "envelopes",
    "fitted",
    "flicker",
    "gauss_markov",
    "gauss_markov2",
    "iso_road",
    "jonswap",
    "jonswap_spectrum",
    "kaimal",
    "kaimal_spectrum",
    "kanai_tajimi",
    "pierson_moskowitz",
    "relaxing",
    "stacked",
    "summed",
    "through",
    "turbulence_scales",
    "von_karman",
    "von_karman_spectrum",
    "von_karman_wind",
    "von_karman_wind_spectrum",
]
__dir__ = listing.names_of(__name__)
