"""The exact likelihood of a record beside statsmodels, dynamax, filterpy and a Numba loop by hand, in one run.

    pip install statsmodels dynamax filterpy numba      in an environment of their own, with stodyn
    python benchmarks/inference.py [--readings 5000]

An oscillator with two states, whose position is read with noise at equal distances: processor time per reading of one
log-likelihood, of value and gradient by four parameters, and of a fit with profiles. All get the same matrices and the
same record, and their log-likelihoods are compared. A package that is not installed is left out, and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable

import numpy as np
import scipy

import stodyn as sd

TRUE = {"omega": 2.0, "zeta": 0.1, "q": 0.7, "r": 0.2}
INTERVAL = 0.2
REPEATS, WARM = 15, 0.5


def oscillator() -> sd.SDE:
    import jax.numpy as jnp

    return sd.SDE(
        lambda t, x, p: jnp.array([x[1], -(p["omega"] ** 2) * x[0] - 2 * p["zeta"] * p["omega"] * x[1]]),
        lambda t, x, p: jnp.array([[0.0], [p["q"]]]),
        start=np.zeros(2), params=TRUE, names=["x", "v"],
    )  # fmt: skip


def matrices() -> tuple[np.ndarray, np.ndarray]:
    """What a reading interval does: Φ and Q."""
    A = np.array([[0.0, 1.0], [-(TRUE["omega"] ** 2), -2 * TRUE["zeta"] * TRUE["omega"]]])
    block = np.block([[A, np.diag([0.0, TRUE["q"] ** 2])], [np.zeros((2, 2)), -A.T]])
    power = scipy.linalg.expm(INTERVAL * block)
    Q = power[:2, 2:] @ power[:2, :2].T
    return power[:2, :2], 0.5 * (Q + Q.T)


def record(readings: int) -> np.ndarray:
    Phi, Q = matrices()
    rng, x, values = np.random.default_rng(1), np.zeros(2), np.empty(readings)
    root = np.linalg.cholesky(Q)
    for k in range(readings):
        x = Phi @ x + root @ rng.standard_normal(2)
        values[k] = x[0] + TRUE["r"] * rng.standard_normal()
    return values


def cost(function: Callable[[], object]) -> float:
    """The least processor time of some calls, after calls of half a second: programs are made with care once they have
    run for a while."""
    began = time.process_time()
    function()
    while time.process_time() - began < WARM:
        function()
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def by_stodyn(values: np.ndarray) -> dict[str, tuple[Callable[[], float], float]]:
    times = INTERVAL * np.arange(1, len(values) + 1)
    sensor = sd.Sensor("y", of="x", noise=sd.per_sample("r"))
    like = sd.likelihood(oscillator(), data=(times, values), sensors=sensor, free=list(TRUE))
    vector = np.array(list(TRUE.values()))

    def gradient() -> float:
        return float(like.gradient(vector)[0])

    return {"stodyn": (lambda: like(vector), 1.0), "stodyn, gradient": (gradient, 1.0)}


def by_numba(values: np.ndarray) -> dict[str, tuple[Callable[[], float], float]]:
    import numba

    @numba.njit
    def loop(Phi, Q, r, values):
        a, b, c, d = Phi[0, 0], Phi[0, 1], Phi[1, 0], Phi[1, 1]
        m0 = m1 = p0 = p1 = p2 = total = 0.0
        for y in values:
            m0, m1 = a * m0 + b * m1, c * m0 + d * m1
            u0, u1, w0, w1 = a * p0 + b * p1, a * p1 + b * p2, c * p0 + d * p1, c * p1 + d * p2
            p0, p1, p2 = u0 * a + u1 * b + Q[0, 0], u0 * c + u1 * d + Q[0, 1], w0 * c + w1 * d + Q[1, 1]
            S, v = p0 + r * r, y - m0
            k0, k1 = p0 / S, p1 / S
            m0, m1 = m0 + k0 * v, m1 + k1 * v
            p0, p1, p2 = p0 - k0 * p0, p1 - k0 * p1, p2 - k1 * p1
            total -= 0.5 * (v * v / S + np.log(2 * np.pi * S))
        return total

    Phi, Q = matrices()
    return {"numba, by hand": (lambda: loop(Phi, Q, TRUE["r"], values), 1.0)}


def by_statsmodels(values: np.ndarray) -> dict[str, tuple[Callable[[], float], float]]:
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    Phi, Q = matrices()
    model = MLEModel(values, k_states=2, k_posdef=2)
    model["design"], model["transition"], model["selection"] = np.array([[1.0, 0.0]]), Phi, np.eye(2)
    model["state_cov"], model["obs_cov"] = Q, np.array([[TRUE["r"] ** 2]])
    model.initialize_known(np.zeros(2), Q)  # it begins with the law at the first reading
    model.ssm.filter_timing = 0
    return {"statsmodels": (lambda: float(model.ssm.loglike()), 1.0)}


def by_dynamax(values: np.ndarray) -> dict[str, tuple[Callable[[], float], float]]:
    import jax
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    jax.config.update("jax_enable_x64", True)
    model, emissions = LinearGaussianSSM(2, 1), jnp.asarray(values)[:, None]

    def loglik(theta):
        """Φ and Q by the same exponential, so that the gradient has the same parameters."""
        omega, zeta, q, r = theta
        A = jnp.array([[0.0, 1.0], [-(omega**2), -2 * zeta * omega]])
        block = jnp.block([[A, jnp.diag(jnp.array([0.0, 1.0])) * q**2], [jnp.zeros((2, 2)), -A.T]])
        power = jax.scipy.linalg.expm(INTERVAL * block)
        F = power[:2, :2]
        Q = power[:2, 2:] @ F.T
        params, _ = model.initialize(
            jax.random.PRNGKey(0), initial_mean=jnp.zeros(2), initial_covariance=Q, dynamics_weights=F,
            dynamics_covariance=Q, emission_weights=jnp.array([[1.0, 0.0]]), emission_covariance=r**2 * jnp.eye(1),
        )  # fmt: skip
        return model.marginal_log_prob(params, emissions)

    theta = jnp.array(list(TRUE.values()))
    value, gradient = jax.jit(loglik), jax.jit(jax.value_and_grad(loglik))
    return {"dynamax": (lambda: float(value(theta)), 1.0),
            "dynamax, gradient": (lambda: float(gradient(theta)[1][0]), 1.0)}  # fmt: skip


def by_filterpy(values: np.ndarray) -> dict[str, tuple[Callable[[], float], float]]:
    from filterpy.kalman import KalmanFilter

    Phi, Q = matrices()
    part = values[: max(200, len(values) // 20)]  # it takes a hundred times as long as the others

    def loglik() -> float:
        filtering = KalmanFilter(dim_x=2, dim_z=1)
        filtering.x, filtering.P = np.zeros((2, 1)), np.zeros((2, 2))
        filtering.F, filtering.Q, filtering.H = Phi, Q, np.array([[1.0, 0.0]])
        filtering.R = np.array([[TRUE["r"] ** 2]])
        total = 0.0
        for value in part:
            filtering.predict()
            filtering.update(value)
            total += filtering.log_likelihood
        return total

    return {"filterpy": (loglik, len(values) / len(part))}


PEERS: dict[str, Callable] = {
    "numba": by_numba, "statsmodels": by_statsmodels, "dynamax": by_dynamax, "filterpy": by_filterpy,
}  # fmt: skip


def fits(values: np.ndarray) -> None:
    times = INTERVAL * np.arange(1, len(values) + 1)
    sensor = sd.Sensor("y", of="x", noise=sd.per_sample("r"))
    for label in ("first fit", "second fit"):
        began = time.process_time()
        ranges = {name: (0, None) for name in TRUE}
        sd.fit(oscillator(), data=(times, values), sensors=sensor, free=ranges, progress=False)
        print(f"{label} of 4 parameters to {len(values)} readings, with profiles: {time.process_time() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=int, default=5000)
    readings = parser.parse_args().readings
    values = record(readings)
    entries = by_stodyn(values)
    for name, peer in PEERS.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name}: not installed")
        else:
            entries |= peer(values)
    print(f"{'':20s} µs a reading   of stodyn's   log-likelihood")
    own = {}
    for name, (function, factor) in entries.items():
        value, each = function(), 1e6 * cost(function) * factor / readings
        kind = "gradient" in name
        own.setdefault(kind, each)
        shown = "" if kind or factor != 1.0 else f"{value:16.8f}"
        print(f"{name:20s} {each:12.3f} {each / own[kind]:13.1f} {shown}")
    fits(values[:2000])


if __name__ == "__main__":
    main()
