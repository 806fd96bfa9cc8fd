"""Functionals over one step, against closed forms, and which form of an extreme belongs to which problem."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate
import scipy.stats

import stodyn as sd
from stodyn.methods.coupled import Step
from stodyn.numerics import uncompiled
from stodyn.statistics import functional


@pytest.mark.parametrize("kind", [functional.Maximum, functional.Minimum])
def test_extremes_are_cubics_where_no_noise_acts(kind):
    """Noise acts on v of (x, v), between t = 2 and t = 4 only, and not at the start, where v = 1."""

    def noise(t, x):
        return jnp.stack([0.0, jnp.where((t > 2.0) & (t < 4.0), x[1] - 1.0, 0.0)])[:, None]

    problem = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0]]), noise, [0.0, 1.0])
    position, velocity = kind(lambda t, x: x[0]), kind(lambda t, x: x[1])
    assert velocity.along(problem, (2.0, 4.0)) is velocity
    smooth = position.along(problem, (2.0, 4.0))
    assert smooth == functional._Smooth(position.function, sign=kind.sign)
    assert isinstance(velocity.along(problem, (0.0, 2.0)), functional._Smooth)
    tied = sd.SDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.stack([-x[0], x[1] - x[0]]), None, [1.0, 1.0])
    assert position.along(tied, (2.0, 4.0)) is position


def test_a_cubic_has_the_values_and_slopes_of_both_ends():
    """x' = v; the extremes of Hermite's cubic between two states, where there is one, else those of its ends."""
    problem = sd.SDE(lambda t, x: jnp.stack([x[1], 0.0]), None, [0.0, 1.0])
    paths = [[0.2, 3.0, 0.1, -2.0], [0.1, -2.0, 0.3, 1.0], [0.0, 1.0, 2.0, 1.5], [0.0, 0.2, 2.0, -1.0]]
    from_rest = [[0.0, 0.0, 1.0, -1.0], [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, -1.0, -3.0], [0.0, 0.0, -0.5, -3.0]]
    h, ends = 0.5, np.array(paths + from_rest).reshape(-1, 2, 2)
    for kind, of in ((functional.Maximum, np.max), (functional.Minimum, np.min)):
        smooth = functional._Smooth(lambda t, x: x[0], sign=kind.sign)
        for before, after in ends:

            def move(before, after, smooth=smooth):
                step = Step(1.0, h, before, after, None, None, None)
                return smooth.move(problem, smooth.begin(problem, 1.0, before, None), step, None)

            cubic = scipy.interpolate.CubicHermiteSpline([0.0, h], [before[0], after[0]], [before[1], after[1]])
            inside = [u for u in cubic.derivative().roots(extrapolate=False) if 0.0 < u < h]
            exact = of(cubic(np.array([0.0, h, *inside])))
            np.testing.assert_allclose(uncompiled.value(move, before, after), [exact], rtol=1e-14, atol=1e-15)


def test_bridges_and_probabilities_are_those_of_brownian_motion():
    """f = x - 1 of x + drift t + 0.3 W₁ + 0.4 W₂: the variance rate is 1/4."""
    problem = sd.SDE(lambda t, x: 0.5 + 0.0 * x, lambda t, x: jnp.array([[0.3, 0.4]]), [0.0])
    h, x, y, W, first = 0.25, 0.2, 0.7, np.array([0.5, -0.2]), np.array([0.1, 0.3])

    def moved(move, gathered):
        def of(before, after, gathered):
            return move(problem, gathered, Step(1.0, h, before, after, W, first, np.array([0.4, -0.6])), None)

        return uncompiled.value(of, np.array([x]), np.array([y]), np.array([gathered]))

    f = functional.Probability(lambda t, x: x[0] - 1.0)
    mean = x + 0.5 * h - 1.0
    law = scipy.stats.norm
    np.testing.assert_allclose(moved(f.move, 0.0), [law.cdf(mean / np.sqrt(h / 4))], rtol=1e-13)
    known = mean + 0.3 * first[0] + 0.4 * first[1]
    np.testing.assert_allclose(moved(f.halved, 0.0), [law.cdf(known / np.sqrt(h / 8))], rtol=1e-13)

    def reached(a, b, variance, normal):
        """The m of a bridge from a to b at which P(max > m) = exp(-2 (m - a) (m - b)/variance) is Φ(normal)."""
        return 0.5 * (a + b + np.sqrt((b - a) ** 2 - 2.0 * variance * np.log(law.cdf(normal))))

    a, b = x - 1.0, y - 1.0
    highest = functional.Maximum(lambda t, x: x[0] - 1.0)
    found = moved(highest.move, -9.0)
    np.testing.assert_allclose(found, [reached(a, b, h / 4, 0.4)], rtol=1e-13)
    middle = 0.5 * (a + b) + 0.5 * np.array([0.3, 0.4]) @ (first - (W - first))
    both = reached(a, middle, h / 8, 0.4), reached(middle, b, h / 8, -0.6)
    np.testing.assert_allclose(moved(highest.halved, -9.0), [max(both)], rtol=1e-13)
    lowest = functional.Minimum(lambda t, x: 1.0 - x[0])
    np.testing.assert_allclose(moved(lowest.move, 9.0), -found, rtol=1e-13)


def test_integrals_and_averages_are_by_the_trapezoidal_rule():
    problem = sd.SDE(lambda t, x: x, None, [0.0])
    steps = [Step(2.0, 0.5, jnp.array([1.0]), jnp.array([3.0]), None, None, None),
             Step(2.5, 0.25, jnp.array([3.0]), jnp.array([2.0]), None, None, None)]  # fmt: skip
    exact = 0.25 * (2.0 * 1.0 + 2.5 * 3.0) + 0.125 * (2.5 * 3.0 + 2.75 * 2.0)
    for kind, divisor in ((functional.Integral, 1.0), (functional.TimeAverage, 0.75)):
        f = kind(lambda t, x: t * x)
        gathered = f.begin(problem, 2.0, steps[0].before, None)
        for step in steps:
            gathered = f.move(problem, gathered, step, None)
        np.testing.assert_allclose(f.finish(problem, 2.75, gathered, None, None), [exact / divisor], rtol=1e-14)


FACTS = {  # weak order, roots of h in the error, normals per step, needs f and g, gathers in time, numbers only
    "End": (np.inf, False, 0, False, False, False),
    "Integral": (np.inf, False, 0, False, True, False),
    "TimeAverage": (np.inf, False, 0, False, True, False),
    "Maximum": (1.0, True, 1, True, True, True),
    "Minimum": (1.0, True, 1, True, True, True),
    "_Smooth": (1.5, True, 0, True, True, True),
    "Probability": (np.inf, False, 0, True, False, True),
}


@pytest.mark.parametrize("name", FACTS)
def test_what_functionals_say_of_themselves(name):
    one = getattr(functional, name)(lambda t, x: x[0])
    said = (one.weak_order, one.has_roots, one.normals, one.diffuses, one.gathers_in_time, one.of_numbers)
    assert said == FACTS[name] and not one.watches
    watching = functional.Watching(one)
    assert (watching.weak_order, watching.normals, watching.diffuses) == (*said[:1], *said[2:4]) and watching.watches
    controlled = functional.Controlled(functional.End(lambda t, x: x), one, 1.0, 0.0) if not one.normals else None
    if controlled is not None:
        assert (controlled.weak_order, controlled.normals, controlled.diffuses) == (one.weak_order, 0, one.diffuses)
