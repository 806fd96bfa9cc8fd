"""The damped Kubo oscillator as a forced Hamiltonian system."""

from stodyn import listing
from stodyn.models.catalogue import Model
from stodyn.models.kubo import energy, mean, solution, variance
from stodyn.problems.hamiltonian import Hamiltonian

__dir__ = listing.names_of(__name__)


def damped_kubo(beta=0.5, nu=0.001, start=(2.0, 0.0)) -> Hamiltonian:
    """d(q, p) of H = (q² + p²)/2, h = beta H, F = -nu p, f = -beta nu p: the model `kubo`, as a Hamiltonian system.

    M. Kraus & T. M. Tyranowski, Variational integrators for stochastic dissipative Hamiltonian systems, IMA J. Numer.
    Anal. 41 (2021), section 4.1.

    Parameters
    ----------
    beta : float
        The strength of the noise.
    nu : float
        The friction.
    start : pair of float
        (q, p) at the start.

    Returns
    -------
    Hamiltonian
        The problem.
    """

    def H(t, q, p, c):
        return 0.5 * (q**2 + p**2)

    def friction(t, q, p, c):
        return -c["nu"] * p

    return Hamiltonian(
        H,
        lambda t, q, p, c: c["beta"] * H(t, q, p, c),
        friction,
        lambda t, q, p, c: c["beta"] * friction(t, q, p, c),
        start,
        params={"beta": beta, "nu": nu},
    )


DAMPED_KUBO = Model(damped_kubo, {"solution": solution, "mean": mean, "variance": variance, "energy": energy})
