"""Search for A-stable stiff tables and for systems that upset them: python benchmarks/sdae_search.py tables|systems ...

tables   Tables of strong order 1 and order 2 for ODEs, stiffly accurate, that are stable in mean square on a grid of
         the equation's boundary, with small error constants: sequential quadratic programming from random starts. Ends
         that satisfy all are printed with their constants, R0 at infinity and the largest R̂ on a finer grid, for real
         and for complex arguments. Few starts end well: that nothing is found proves nothing. What is found is a table
         of floats: look for rational neighbours, and prove them with stodyn.analysis.stability.a_stability.
systems  Linear systems dx = A x dt + B x dW whose A and B do not commute, on the edge of stability in mean square, on
         which a step is not stable: random starts, then random changes that raise (ρ - 1)/min(1, |A| Δt)², ρ the
         mean-square radius of the step. In the scalar case its limit for small steps is proportional to κ.
"""

import argparse
import itertools
import time

import numpy as np
import scipy.optimize

from stodyn.methods import stiff
from stodyn.methods.stiff_table import StiffTable

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
WEIGHTS = WEIGHTS / np.sqrt(2.0 * np.pi)
TOLERANCE = 1e-6


class Pattern:
    """Which entries of a table are free: all below the diagonal, one γ on that of A, that of B3 with implicit noise."""

    def __init__(self, stages: int, explicit: bool, implicit_noise: bool, iterated: bool):
        self.stages, self.explicit = stages, explicit
        below = list(itertools.combinations(range(stages), 2))  # (j, i) with j < i
        names = ("A", "B1", "B2", "B3") if iterated else ("A", "B1", "B3")
        self.entries = [(name, i, j) for name in names for j, i in below]
        if implicit_noise:
            self.entries += [("B3", i, i) for i in range(int(explicit), stages)]
        self.size = len(self.entries) + 1

    def table(self, values: np.ndarray) -> StiffTable:
        s = self.stages
        rows = {name: np.zeros((s, s)) for name in ("A", "B1", "B2", "B3")}
        for (name, i, j), value in zip(self.entries, values, strict=False):
            rows[name][i, j] = value
        rows["A"][np.arange(int(self.explicit), s), np.arange(int(self.explicit), s)] = values[-1]
        exact = {name: tuple(map(tuple, matrix.tolist())) for name, matrix in rows.items()}
        return StiffTable(name="found", claims=(), source="search", **exact)


def mean_square(table: StiffTable, h: np.ndarray, k: np.ndarray) -> np.ndarray:
    """R̂ by forward substitution at the Gauss-Hermite nodes."""
    A, B1, B2, B3 = (np.array(rows, float) for rows in (table.A, table.B1, table.B2, table.B3))
    h, k = h[:, None], k[:, None]
    kick = B1[..., None] * NODES + B2[..., None] * (NODES**2 - 1.0) / 2.0 + B3[..., None]
    stages: list[np.ndarray] = []
    for i in range(len(A)):
        known = 1.0 + sum((h * A[i, j] + k * kick[i, j]) * stages[j] for j in range(i))
        stages.append(known / (1.0 - h * A[i, i] - k * kick[i, i]))
    return np.abs(stages[-1] * np.ones_like(NODES)) ** 2 @ WEIGHTS


def boundary(count: int, complex_arguments: bool) -> tuple[np.ndarray, np.ndarray]:
    x = np.logspace(-1.5, 3.0, count)
    tilt = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 10.0]) if complex_arguments else np.zeros(1)
    h = (-x[:, None] * (1.0 + 1j * tilt)).ravel()
    k = np.sqrt(-2.0 * h.real)
    h = h if complex_arguments else h.real
    return np.concatenate([h, h]), np.concatenate([k, -k])


def search_tables(pattern: Pattern, starts: int, seed: int, complex_arguments: bool, largest: float) -> None:
    rng = np.random.default_rng(seed)
    h, k = boundary(16, complex_arguments)

    def conditions(values):
        table = pattern.table(values)
        defects = table.conditions()
        return np.array([float(v) for n, v in defects.items() if n != 5] + [float(np.dot(table.α, table.c)) - 0.5])

    def margins(values):
        found = mean_square(pattern.table(values), h, k)
        return np.concatenate([1.0 - np.minimum(found, 1e3), [values[-1] - 0.05]])

    def constants(values):
        weights = {"f'g": 1.0, "g'f": 1.0, "g''(g,g)/2": 1.0, "g'g'g": 0.25}
        found = pattern.table(values).error_constants()
        return sum(weights[name] * value for name, value in found.items()) + 1e-4 * float(values @ values)

    ends = 0
    for start in range(starts):
        began = time.process_time()
        first = np.append(rng.normal(0.0, 0.6, pattern.size - 1), rng.uniform(0.25, 0.8))
        with np.errstate(all="ignore"):
            nearer = scipy.optimize.least_squares(conditions, first, bounds=(-largest, largest)).x
            found = scipy.optimize.minimize(
                constants, nearer, method="SLSQP", bounds=[(-largest, largest)] * pattern.size,
                constraints=[{"type": "eq", "fun": conditions}, {"type": "ineq", "fun": margins}],
                options={"maxiter": 150, "ftol": 1e-9},
            )  # fmt: skip
        values = found.x
        if not np.isfinite(values).all() or np.abs(conditions(values)).max() > TOLERANCE:
            continue
        table = pattern.table(values)
        real, plane = (float(mean_square(table, *boundary(400, c)).max()) for c in (False, True))
        if (plane if complex_arguments else real) > 1.0 + TOLERANCE:
            continue
        ends += 1
        words = " ".join(f"{name} {value:.4f}" for name, value in table.error_constants().items())
        far = mean_square(table, np.array([-1e8]), np.zeros(1))[0] ** 0.5
        print(f"start {start}: γ {values[-1]:.5f}, {words}, |R0(∞)| {far:.3f}, largest R̂ {real:.6f} real, {plane:.6f} ")
        print(f"    complex, largest entry {np.abs(values).max():.2f}, {time.process_time() - began:.0f} s", flush=True)
        for name in ("A", "B1", "B2", "B3"):
            print(f"    {name} = {np.round(np.array(getattr(table, name), float), 6).tolist()}")
    print(f"{ends} of {starts} starts ended in a table")


def radius(table: StiffTable, A: np.ndarray, B: np.ndarray) -> float:
    """The spectral radius of E[R ⊗ R], R of the step on dx = A x dt + B x dW with Δt = 1."""
    a, b1, b2, b3 = (np.array(rows, float) for rows in (table.A, table.B1, table.B2, table.B3))
    n, total = len(A), 0.0
    for ξ, weight in zip(NODES, WEIGHTS, strict=True):
        kick = ξ * b1 + 0.5 * (ξ**2 - 1.0) * b2 + b3
        stages: list[np.ndarray] = []
        for i in range(len(a)):
            known = np.eye(n) + sum(((a[i, j] * A + kick[i, j] * B) @ stages[j] for j in range(i)), np.zeros((n, n)))
            stages.append(np.linalg.solve(np.eye(n) - a[i, i] * A - kick[i, i] * B, known))
        total = total + weight * np.kron(stages[-1], stages[-1])
    return float(np.abs(np.linalg.eigvals(total)).max())


def on_the_edge(A: np.ndarray, B: np.ndarray) -> np.ndarray | None:
    """B times the number that makes the mean-square abscissa of the equation 0; None where A is not stable."""
    drift, noise = np.kron(A, np.eye(len(A))) + np.kron(np.eye(len(A)), A), np.kron(B, B)

    def abscissa(share):
        return np.linalg.eigvals(drift + share * noise).real.max()

    low, high = 0.0, 1.0
    if abscissa(low) >= 0.0:
        return None
    while abscissa(high) < 0.0:
        high *= 4.0
        if high > 1e12:
            return None
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if abscissa(middle) < 0.0 else (low, middle)
    return np.sqrt(low) * B


def search_systems(names: list[str], n: int, starts: int, rounds: int, seed: int) -> None:
    for name in names:
        table, rng = getattr(stiff, name).table, np.random.default_rng(seed)
        worst, where = -np.inf, None
        for _ in range(starts):
            A = rng.standard_normal((n, n))
            A = A - (np.linalg.eigvals(A).real.max() + rng.uniform(0.05, 1.0)) * np.eye(n)
            A, B = A / np.linalg.norm(A, 2) * 10.0 ** rng.uniform(-1, 2), rng.standard_normal((n, n))
            best, size = -np.inf, 0.3
            for trial in range(rounds):
                change = size * np.linalg.norm(A, 2) * rng.standard_normal((n, n)) * (trial > 0)
                new_A, other = A + change, B / np.linalg.norm(B, 2) + size * rng.standard_normal((n, n)) * (trial > 0)
                length = np.linalg.norm(new_A, 2)
                new_B = on_the_edge(new_A, other) if 0.05 < length < 1e3 else None
                found = -np.inf if new_B is None else (radius(table, new_A, new_B) - 1.0) / min(1.0, length) ** 2
                if new_B is not None and found > best:
                    A, B, best, size = new_A, new_B, found, min(1.5 * size, 1.0)
                else:
                    size = max(0.95 * size, 1e-4)
            if best > worst:
                worst, where = best, (A, B)
        assert where is not None
        ρ = radius(table, *where)
        print(
            f"{name}, dimension {n}, {starts} x {rounds}: largest (ρ - 1)/min(1, |A| Δt)² {worst:.3g}, ρ there {ρ:.6f}"
        )
        if worst > 1e-6:
            print(f"    A Δt = {np.round(where[0], 4).tolist()}, B √Δt = {np.round(where[1], 4).tolist()}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("tables")
    part.add_argument("--stages", type=int, default=4)
    part.add_argument("--implicit-start", action="store_true", help="the first stage is implicit too")
    part.add_argument("--implicit-noise", action="store_true", help="the diagonal of B3 is free")
    part.add_argument("--iterated", action="store_true", help="I_(1,1) is used (B2)")
    part.add_argument("--complex", action="store_true", help="stability is asked for complex arguments")
    part.add_argument("--largest", type=float, default=5.0, help="of all entries")
    part.add_argument("--starts", type=int, default=20)
    part.add_argument("--seed", type=int, default=1)
    part = parts.add_parser("systems")
    part.add_argument("methods", nargs="*", default=["RK1A3", "RK1A4", "RK1A4L", "RK1A4M", "Trapezoidal"])
    part.add_argument("--dimension", type=int, default=2)
    part.add_argument("--starts", type=int, default=20)
    part.add_argument("--rounds", type=int, default=300)
    part.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.part == "systems":
        search_systems(given.methods, given.dimension, given.starts, given.rounds, given.seed)
    else:
        pattern = Pattern(given.stages, not given.implicit_start, given.implicit_noise, given.iterated)
        search_tables(pattern, given.starts, given.seed, given.complex, given.largest)
