"""Stationary covariances of 300 random linear systems against mpmath, and what a solution costs.

    python benchmarks/lyapunov.py                 the errors (some minutes), then the costs
    python benchmarks/lyapunov.py --systems 40

The systems have 2 to 6 components, rates from 1e-12 to 1e12, in one system up to 1e14 apart, and components in units up
to 1e16 apart. Printed for each family: the largest relative error of a variance by stodyn and by SciPy, and how many
variances are negative by SciPy. An error above 1e-9 makes the script fail.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import mpmath
import numpy as np
import scipy

from stodyn.numerics import lyapunov

System = tuple[np.ndarray, np.ndarray]


def in_other_units(A: np.ndarray, B: np.ndarray, rng: np.random.Generator, decades: float) -> System:
    unit = 10.0 ** rng.uniform(-decades, decades, len(A))
    return A * unit / unit[:, None], B / unit[:, None]


def channels(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, rng.integers(1, n + 1)))


def dense(rng: np.random.Generator, n: int) -> System:
    """Any rate, any units."""
    A = rng.standard_normal((n, n))
    A -= (np.linalg.eigvals(A).real.max() + 10.0 ** rng.uniform(-3, 0)) * np.eye(n)
    return in_other_units(A * 10.0 ** rng.uniform(-12, 12), channels(rng, n), rng, 8)


def chains(rng: np.random.Generator, n: int) -> System:
    """Oscillators between springs, from hardly damped to overdamped."""
    k = max(1, n // 2)
    springs = 2.0 * np.eye(k) - np.eye(k, k=1) - np.eye(k, k=-1)
    frequency, damping = 10.0 ** rng.uniform(-12, 12), 10.0 ** rng.uniform(-4, 0.5)
    A = np.block([[np.zeros((k, k)), np.eye(k)], [-(frequency**2) * springs, -2.0 * damping * frequency * np.eye(k)]])
    return A, np.concatenate([np.zeros((k, k)), np.diag(10.0 ** rng.uniform(-5, 5, k))])


def cascades(rng: np.random.Generator, n: int) -> System:
    """Filters in a row, rates up to 1e14 apart."""
    rates = 10.0 ** (rng.uniform(-12, -2) + rng.uniform(0, 14, n))
    return np.diag(10.0 ** rng.uniform(-6, 6, n - 1), -1) - np.diag(rates), np.eye(n, 1) * 10.0 ** rng.uniform(-6, 6)


def coupled(rng: np.random.Generator, n: int) -> System:
    """Rates up to 1e14 apart, everything coupled with everything."""
    rates = 10.0 ** (rng.uniform(-12, -2) + rng.uniform(0, 14, n))
    A = -rates[:, None] * (np.eye(n) + 0.5 / n * rng.standard_normal((n, n)))
    return in_other_units(A, channels(rng, n), rng, 8)


def stiff(rng: np.random.Generator, n: int) -> System:
    """Modes with rates 1e8 apart, mixed in all components."""
    modes = rng.standard_normal((n, n))
    rates = 10.0 ** np.append([0.0, 8.0], rng.uniform(0, 8, n - 2)) * 10.0 ** rng.uniform(-12, 4)
    return in_other_units(np.linalg.solve(modes, -rates[:, None] * modes), channels(rng, n), rng, 4)


def driven(rng: np.random.Generator, n: int) -> System:
    """An oscillator that a filter of other rates drives."""
    A, B = np.zeros((n, n)), np.zeros((n, 1))
    A[:2, :2], B[:2] = (matrix for matrix in chains(rng, 2))
    if n > 2:
        A[2:, 2:], noise = dense(rng, n - 2)
        A[1, 2:], B = 10.0 ** rng.uniform(-6, 6, n - 2), np.concatenate([np.zeros((2, noise.shape[1])), noise])
    order = rng.permutation(n)
    return A[np.ix_(order, order)], B[order]


def ladders(rng: np.random.Generator, n: int) -> System:
    """Charges of the capacitors of RC ladders from 1 fF to 1 µF, with the noise of the resistors."""
    C, g = 10.0 ** rng.uniform(-15, -6, n), 10.0 ** rng.uniform(-7, 1, n)
    G = np.diag(g + np.append(g[1:], 0.0)) - np.diag(g[1:], 1) - np.diag(g[1:], -1)
    return -G / C, (np.eye(n) - np.eye(n, k=1)) * np.sqrt(2.0 * 1.38e-23 * 300.0 * g)


FAMILIES = (dense, chains, cascades, coupled, stiff, driven, ladders)


def system(number: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The family of a random system, its A, and its Q."""
    rng = np.random.default_rng(number)
    family = FAMILIES[number % len(FAMILIES)]
    A, B = family(rng, int(rng.integers(2, 7)))
    return family.__name__, A, B @ B.T


def exact_variances(A: np.ndarray, Q: np.ndarray, discrete: bool = False, digits: int = 80) -> np.ndarray:
    """The variances, by Gauss's elimination of the equations for the entries of P."""
    n, places = len(A), [(i, j) for i in range(len(A)) for j in range(i, len(A))]
    place = {pair: k for k, (i, j) in enumerate(places) for pair in ((i, j), (j, i))}
    with mpmath.workdps(digits):
        A, Q = mpmath.matrix(A.tolist()), mpmath.matrix(Q.tolist())
        left, right = mpmath.zeros(len(places)), mpmath.zeros(len(places), 1)
        for k, (i, j) in enumerate(places):
            right[k] = -Q[i, j]
            left[k, k] -= int(discrete)
            for a in range(n):
                if discrete:
                    for b in range(n):
                        left[k, place[a, b]] += A[i, a] * A[j, b]
                else:
                    left[k, place[a, j]] += A[i, a]
                    left[k, place[i, a]] += A[j, a]
        solution = mpmath.lu_solve(left, right)
        return np.array([float(solution[place[i, i]]) for i in range(n)])


def off(variances: np.ndarray, exact: np.ndarray) -> float:
    """The largest relative error."""
    return float(np.max(np.abs(variances - exact) / np.where(exact == 0.0, np.finfo(float).tiny, exact)))


def errors(systems: int) -> float:
    worst: dict[str, list[tuple[float, float, bool]]] = {}
    for number in range(systems):
        name, A, Q = system(number)
        exact = exact_variances(A, Q)
        by_scipy = scipy.linalg.solve_continuous_lyapunov(A, -Q).diagonal()
        of_one = off(lyapunov.continuous(A, Q).diagonal(), exact), off(by_scipy, exact), bool((by_scipy < 0.0).any())
        worst.setdefault(name, []).append(of_one)
    for name, of_all in worst.items():
        mine, scipys, negative = zip(*of_all, strict=True)
        print(f"{name:10} {len(of_all):3} systems   stodyn {max(mine):8.1e}   SciPy {max(scipys):8.1e}, "
              f"{sum(negative)} with negative variances", flush=True)  # fmt: skip
    return max(mine for of_all in worst.values() for mine, _, _ in of_all)


def processor_time(solve, *arguments) -> float:
    """Microseconds of one call, the least of some rounds."""
    calls, rounds = 1, []
    while len(rounds) < 7:
        began = time.process_time()
        for _ in range(calls):
            solve(*arguments)
        spent = time.process_time() - began
        if spent < 0.05:
            calls *= 2
        else:
            rounds.append(1e6 * spent / calls)
    return min(rounds)


def costs() -> None:
    """Beside SciPy with the eigenvalues that show whether there is a solution."""

    def of_scipy(solve, A, Q):
        return np.linalg.eigvals(A), solve(A, Q)

    for n in (2, 4, 10, 50, 200):
        rng = np.random.default_rng(n)
        A, B = rng.standard_normal((n, n)), rng.standard_normal((n, n))
        A -= (np.linalg.eigvals(A).real.max() + 1.0) * np.eye(n)
        Phi = 0.9 * A / np.abs(np.linalg.eigvals(A)).max()
        times = (
            processor_time(of_scipy, scipy.linalg.solve_continuous_lyapunov, A, -B @ B.T),
            processor_time(lyapunov.continuous, A, B @ B.T),
            processor_time(of_scipy, scipy.linalg.solve_discrete_lyapunov, Phi, B @ B.T),
            processor_time(lyapunov.discrete, Phi, B @ B.T),
        )
        for kind, by_scipy, mine in (("continuous", *times[:2]), ("discrete", *times[2:])):
            print(f"n = {n:3} {kind:10} SciPy {by_scipy:8.0f} µs, stodyn {mine:8.0f} ({mine / by_scipy:.1f} times)")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--systems", type=int, default=300)
    warnings.simplefilter("ignore", RuntimeWarning)  # of SciPy
    worst = errors(options.parse_args().systems)
    costs()
    sys.exit(worst > 1e-9)


if __name__ == "__main__":
    main()
