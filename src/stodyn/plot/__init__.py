"""Pictures of results: every function draws a Dataset on matplotlib Axes and returns them; none opens a window."""

from stodyn import listing
from stodyn.plot.causes import indices, shares
from stodyn.plot.cycles import cycle, cyclostationary, jitter, phase_noise
from stodyn.plot.fits import allan, filtered, predictive, profile
from stodyn.plot.methods import comparison, order, region, spy
from stodyn.plot.reliability import fragility, hazard, levels, survival
from stodyn.plot.runs import band, free_energy, histogram, observable, paths, phase, sweep
from stodyn.plot.shared import AMBER, BLUE, GREEN, GREY, ORANGE, PALETTE, PURPLE, SKY, save
from stodyn.plot.spectra import autocorrelation, noise_density, spectrum, transient_noise

__all__ = [
    "AMBER",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "PURPLE",
    "SKY",
    "allan",
    "autocorrelation",
    "band",
    "comparison",
    "cycle",
    "cyclostationary",
    "filtered",
    "fragility",
    "free_energy",
    "hazard",
    "histogram",
    "indices",
    "jitter",
    "levels",
    "noise_density",
    "observable",
    "order",
    "paths",
    "phase",
    "phase_noise",
    "predictive",
    "profile",
    "region",
    "save",
    "shares",
    "spectrum",
    "spy",
    "survival",
    "sweep",
    "transient_noise",
]

__dir__ = listing.names_of(__name__)
