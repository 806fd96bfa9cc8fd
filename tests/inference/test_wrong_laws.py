"""What laws that are not those of the data make of a record, without sampling: from steady states of both."""

import numpy as np
import pytest
import scipy
from inference.records import oscillator, sensor

import stodyn as sd

TRUE = {"ω": 2.0, "ζ": 0.05, "q": 1.0, "r": 0.1}


class Steady:
    """A law of a step, and the filter that takes it for that of the data: its gain and the variance of what it expects
    to be off by."""

    def __init__(self, Phi, Q):
        self.Phi, self.Q, self.h, r = Phi, Q, np.array([1.0, 0.0]), TRUE["r"] ** 2
        self.P = scipy.linalg.solve_discrete_are(Phi.T, self.h[:, None], Q, [[r]])
        self.S = self.h @ self.P @ self.h + r
        self.gain = self.P @ self.h / self.S

    def expected(self, data):
        """The mean square of the innovations over S, of readings by the law of the data."""
        C = np.outer(self.gain, self.h)
        F = np.block([[data.Phi, np.zeros((2, 2))], [self.Phi @ C, self.Phi @ (np.eye(2) - C)]])
        into = np.zeros((4, 4))
        into[:2, :2], into[2:, 2:] = data.Q, TRUE["r"] ** 2 * self.Phi @ np.outer(self.gain, self.gain) @ self.Phi.T
        M = scipy.linalg.solve_discrete_lyapunov(F, into)
        off = np.concatenate([self.h, -self.h])
        return (off @ M @ off + TRUE["r"] ** 2) / self.S


VALUES = np.array([TRUE["ω"], TRUE["ζ"], TRUE["q"]])


def steady(law, h, thetas):
    """One for each (ω, ζ, q)."""
    by_steps = {} if law == "exact" else {"law": law, "dt": h}
    like = sd.likelihood(
        oscillator(**TRUE), data=([h, 2 * h], [0.0, 0.0]), sensors=sensor(), free=["ω", "ζ", "q"], **by_steps
    )
    laws = like.question.evaluated.parts(like._whole(np.array(thetas), False)).law
    return [Steady(np.eye(2) + E[-1], Q[-1]) for E, Q in zip(laws.E, laws.Q, strict=True)]


@pytest.mark.parametrize(("law", "nis"), [("Heun", 1.0148), ("RK4", 0.9746), ("ImplicitMidpoint", 0.9634)])
def test_a_right_filter_is_called_wrong_by_records_of_a_simulator(law, nis):
    """The mean square of its innovations on what the method makes; with the method's own law it is 1."""
    (data,), (filter_by,) = (steady(own, 0.2, [VALUES]) for own in (law, "exact"))
    np.testing.assert_allclose(filter_by.expected(data), nis, atol=6e-5)
    np.testing.assert_allclose(data.expected(data), 1.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("law", "h", "estimates"),
    [
        ("EulerMaruyama", 0.02, (1.9978, 0.0699, 0.9970)),
        ("EulerMaruyama", 0.1, (1.9854, 0.1485, 0.9761)),
        ("EulerMaruyama", 0.2, (1.9629, 0.2444, 0.935)),
        ("Heun", 0.1, (1.9876, 0.0507, 0.9923)),
        ("Heun", 0.2, (1.9531, 0.0555, 0.9675)),
        ("RK4", 0.2, (2.0030, 0.0508, 1.0175)),
        ("ImplicitMidpoint", 0.2, (2.0296, 0.0522, 1.0448)),
    ],
)
def test_a_likelihood_by_the_law_of_a_method_has_its_maximum_elsewhere(law, h, estimates):
    """The expected log-likelihood of exact data: Euler's steps put ω h/2 on the damping, and no residual tells."""
    (data,) = steady("exact", h, [VALUES])
    size, unit = 1e-3, np.eye(3)
    moves = np.array([0 * unit[0], *unit, *-unit, *(unit[i] + unit[j] for i, j in ((0, 1), (0, 2), (1, 2)))])
    filters = steady(law, h, np.array(estimates) * np.exp(size * moves))
    losses = np.array([0.5 * (np.log(own.S) + own.expected(data)) for own in filters])
    middle, up, down = losses[0], losses[1:4], losses[4:7]
    slope, bend = (up - down) / 2, np.diag(up + down - 2 * middle)
    for (i, j), both in zip(((0, 1), (0, 2), (1, 2)), losses[7:], strict=True):
        bend[i, j] = bend[j, i] = both - up[i] - up[j] + middle
    step = -size * np.linalg.solve(bend, slope)  # of the logarithms, to the maximum
    np.testing.assert_allclose(np.array(estimates) * np.expm1(step), 0.0, atol=1.5e-4)
