"""Statistics of an expansion in random parameters: coefficients, moments, Sobol indices, quantiles, densities."""

from __future__ import annotations

import dataclasses

import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.hints import Integer, Reals, is_integer
from stodyn.statistics.contract import Labelled, Statistic, Variable


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Surrogate(Statistic):
    """The expansion of Quadrature, Sampling, Collocation or Galerkin at some times, with statistics derived from it.

    Parameters
    ----------
    quantiles : sequence of numbers
        The levels, between 0 and 1, of the quantiles wanted.
    density : int
        The number of bins of the densities; 0 for no densities.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables by time and component: mean, variance, std, and truncation (the root mean square of the terms left out,
    estimated from the decay of the coefficients; inf where they do not decay yet, with a warning); coefficient (also by
    term), norm_by_degree (by degree), sobol_first and sobol_total (by parameter), shares of the variance of the
    expansion. On request, from the surrogate at scrambled Sobol points: quantile and quantile_stderr (by level),
    density and density_stderr (by bin), density_edge (by edge). quantile_stderr includes the truncation where that is
    known; density_stderr is the scatter of the points alone. degree_in (term, parameter) holds the degrees of each
    term.

    Moments are those of the expansion, except with Sampling: there they are those of the samples, with the standard
    errors mean_stderr, variance_stderr and std_stderr, and truncation is left_out, the root mean square error of the
    expansion at samples left out one at a time.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> surrogate = st.Surrogate(quantiles=(0.05, 0.95), density=40)
    """

    quantiles: Reals = ()
    density: Integer = 0

    def __post_init__(self):
        super().__post_init__()
        levels = tuple(float(q) for q in np.atleast_1d(self.quantiles))
        if not all(0.0 < q < 1.0 for q in levels):
            raise ValueError(f"Surrogate: quantiles are levels between 0 and 1, got {self.quantiles!r}")
        if self.density != 0 and not is_integer(self.density):
            raise ValueError(f"Surrogate: density is a number of bins, got {self.density!r}")
        object.__setattr__(self, "quantiles", levels)

    def prepared(self, problem, times):
        raise TypeError(
            "collect: Surrogate describes expansions in random parameters (Quadrature, Sampling, Collocation, "
            "Galerkin), but this method makes paths; collect Moments or Histogram"
        )

    def observe(self, snapshot):
        raise AssertionError("an expansion has no paths")

    def merge(self, a, b):
        raise AssertionError("an expansion has no blocks")

    def label(self, result, labels):
        series, basis = result.series, result.series.basis
        by = ("time", "component")
        variables = {
            "coefficient": Variable((*by, "term"), series.coefficients),
            "mean": Variable(by, series.mean),
            "variance": Variable(by, series.variance),
            "std": Variable(by, np.sqrt(series.variance)),
            "sobol_first": Variable((*by, "parameter"), series.first_order()),
            "sobol_total": Variable((*by, "parameter"), series.total()),
            "norm_by_degree": Variable((*by, "degree"), series.by_degree()),
            "truncation": Variable(by, series.truncation()),
            "degree_in": Variable(("term", "parameter"), basis.indices),
        }
        coords = {
            "term": Variable(("term",), np.array([",".join(map(str, index)) for index in basis.indices])),
            "parameter": Variable(("parameter",), np.array(result.parameters)),
        }
        if series.compared is not None:
            variables["mean_error"], variables["std_error"] = (Variable(by, part) for part in series.compared.bounds)
        if series.sampled is not None:
            variables["mean_stderr"] = Variable(by, series.sampled.mean_stderr)
            variables["variance_stderr"] = Variable(by, series.sampled.variance_stderr)
            variables["std_stderr"] = Variable(by, series.sampled.std_stderr)
            variables["left_out"] = Variable(by, series.sampled.left_out)
        if self.quantiles:
            quantiles = series.quantiles(self.quantiles)
            variables["quantile"] = Variable((*by, "level"), quantiles.values)
            variables["quantile_stderr"] = Variable((*by, "level"), quantiles.stderr)
            coords["level"] = Variable(("level",), np.array(self.quantiles))
        if self.density:
            bins = series.densities(self.density)
            variables["density"] = Variable((*by, "bin"), bins.values)
            variables["density_stderr"] = Variable((*by, "bin"), bins.stderr)
            variables["density_edge"] = Variable((*by, "edge"), bins.edges)
        return Labelled(variables, coords, tuple(map(UserWarning, series.doubts(labels.times, labels.names))))
