"""What an area I_(j,k) costs: the error of the three samplers against their work, and the work against W alone.

    python benchmarks/area_samplers.py [--quick] [--json FILE] [--plot FILE]

Errors are root mean squares for m = 2 channels and h = 1 (they are proportional to h), measured on common paths:
Substeps(K) against the same path with 64 K substeps; Fourier(p) and MrongowiusRoessler(p) against 32 p terms with the
same coefficients, the one normal of the tail being what makes the finer tail of it. Times include the drawing of the
normals by the library's generator; one thread, 1024 paths at a time, printed or under vmap (the column `by`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import zeta
from timing import Contender, race

from stodyn.noise import iterated, wiener
from stodyn.noise.increment import Increment, Recipe, compose_all
from stodyn.noise.iterated import Approximation, Fourier, MrongowiusRoessler, Substeps
from stodyn.noise.supply import DrawnNormals
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.over_arrays import Printed
from stodyn.numerics.printing.unprintable import Unprintable

SAMPLERS: tuple[type[Approximation], ...] = (Substeps, Fourier, MrongowiusRoessler)
LANES, STEPS = 1024, 32


def make(recipe: Recipe, h: float, x, m: int) -> Increment:
    """The increment of a flat vector of normals."""
    counts = recipe.normals(m)
    return recipe.increment(h, dict(zip(counts, jnp.split(x, np.cumsum([*counts.values()])[:-1]), strict=True)), m)


def substeps_difference(K: int, finer: int = 64) -> tuple[int, Callable]:
    """How many normals, and I_(1,2) of K substeps less that of finer · K on the path they make."""
    n = K * finer

    def difference(x):
        fine = jax.vmap(lambda y: make(Substeps(1), 1 / n, y, 2))(x.reshape(n, 4))
        ends = compose_all(Increment(fine.h, fine.W, fine.Z), finer)
        U = ends.W * math.sqrt(K)
        V = math.sqrt(3) * (2 * ends.Z * K**1.5 - U)
        coarse = jax.vmap(lambda y: make(Substeps(1), 1 / K, y, 2))(jnp.concatenate([U, V], axis=1))
        return compose_all(coarse).II[0, 1] - compose_all(fine).II[0, 1]

    return 4 * n, difference


def series_difference(recipe: Fourier | MrongowiusRoessler, finer: int = 32) -> tuple[int, Callable]:
    """How many normals, and I_(1,2) of p terms less that of finer · p with a matched tail and the same coefficients."""
    p, fine = recipe.p, MrongowiusRoessler(recipe.p * finer)
    r = np.arange(1, fine.p + 1)
    rest = zeta(2, fine.p + 1)
    c = -np.append(1 / r, math.sqrt(rest))

    def difference(x):
        V, series, G = x[2:4], x[4:-1].reshape(2, 2, fine.p), x[-1]
        xi, eta = iterated._conditioned(V, series[0], c), series[1]
        linear_tail = -xi[:, p:] @ (c[p:] / np.linalg.norm(c[p:]))
        kept = jnp.concatenate([xi[:, 1:p], linear_tail[:, None]], axis=1)
        # The reflection that conditions the coefficients on Z is its own inverse.
        others = iterated._conditioned(xi[:, 0], kept, np.append(c[:p], -np.linalg.norm(c[p:])))[:, 1:]
        # Given the ξ the tail is Gaussian: divided by its standard deviation it is the normal that stands for it.
        a, b = xi[:, p:-1] / r[p:], eta[:, p:] / (2 * math.pi)
        tail = a[0] @ b[1] - a[1] @ b[0] + math.sqrt(rest / 2) / math.pi * G
        deviation = jnp.sqrt(jnp.sum(a**2) / (4 * math.pi**2) + rest / (2 * math.pi**2))
        y = jnp.concatenate([x[:4], others.ravel(), eta[:, :p].ravel(), (tail / deviation)[None]])
        return make(recipe, 1.0, y[: sum(recipe.normals(2).values())], 2).II[0, 1] - make(fine, 1.0, x, 2).II[0, 1]

    return sum(fine.normals(2).values()), difference


def measured_error(recipe: Approximation, paths: int) -> tuple[float, float]:
    """The rms error at h = 1, m = 2, and its standard error."""
    count, difference = substeps_difference(recipe.K) if isinstance(recipe, Substeps) else series_difference(recipe)
    squares = []
    compiled, rng = jax.jit(jax.vmap(difference)), np.random.default_rng(1)
    for _ in range(max(1, paths // 100)):
        squares.append(np.asarray(compiled(rng.standard_normal((100, count)))) ** 2)
    square = np.concatenate(squares)
    rms = math.sqrt(square.mean())
    return rms, square.std() / math.sqrt(len(square)) / (2 * rms)


def sampler(name: str, recipe: Recipe, m: int) -> tuple[Contender, str]:
    """Draw and make the increments of LANES paths over STEPS steps, and sum them up; by print or by vmap."""
    streams = tuple((name, count) for name, count in recipe.normals(m).items() if count)
    feed = DrawnNormals(1).feed(streams, 0, LANES)

    def increment(*normals):
        given = {name: jnp.zeros(0) for name in recipe.normals(m)}
        made = recipe.increment(0.01, given | {name: x for (name, _), x in zip(streams, normals, strict=True)}, m)
        return (made.W,) if made.II is None else (made.W, made.II)

    examples = [np.zeros(count) for _, count in streams]
    shapes = jax.eval_shape(increment, *examples)

    def by_print(slab):
        made = [printed("increment", *(z[step] for z in slab)) for step in range(STEPS)]
        return [sum(parts) for parts in zip(*made, strict=True)]

    def add(total, normals):
        made = jax.vmap(lambda x: list(increment(*x)), in_axes=-1, out_axes=-1)(normals)
        return [a + b for a, b in zip(total, made, strict=True)], None

    zero = [jnp.zeros((*out.shape, LANES)) for out in shapes]
    by_vmap = jax.jit(lambda slab: jax.lax.scan(add, zero, list(slab))[0])
    try:
        printed = Printed({"increment": increment}, examples, width=2 * compiling.processor().register)
        by, total = "print", by_print
    except Unprintable:
        by, total = "vmap", by_vmap

    def run() -> float:
        return float(jax.block_until_ready(total(feed(STEPS)))[0][0, 0])

    return Contender(name, run, LANES * STEPS), by


def timed(named: list[tuple[str, Recipe]], m: int, rounds: int) -> list[dict[str, Any]]:
    """One row a recipe, the first being what the others are compared with."""
    contenders = [sampler(name, recipe, m) for name, recipe in named]
    race([contender for contender, _ in contenders], rounds, patience=1.0)
    return [
        {"recipe": c.name, "m": m, "by": by, "normals": sum(recipe.normals(m).values()), "ns": c.ns,
         "times_W": c.ns / contenders[0][0].ns}
        for (c, by), (_, recipe) in zip(contenders, named, strict=True)
    ]  # fmt: skip


def rates(sizes: tuple[int, ...], paths: int, rounds: int) -> list[dict[str, Any]]:
    """One row a sampler and size: work and error for m = 2."""
    recipes = [kind(size) for kind in SAMPLERS for size in sizes]  # type: ignore[call-arg]
    rows = timed([("W", wiener.W), *((str(recipe), recipe) for recipe in recipes)], 2, rounds)[1:]
    for recipe, row in zip(recipes, rows, strict=True):
        error, doubt = measured_error(recipe, paths)
        row |= {"sampler": type(recipe).__name__, "error": error, "error_stderr": doubt, "stated": recipe.error(1.0)}
    return rows


def costs(h: float, rounds: int) -> list[dict[str, Any]]:
    """What reaches strong order 1 at step h, for 2 and 4 channels."""
    rows = []
    for m in (2, 4):
        recipes = [kind.for_order(1.0, h, m) for kind in SAMPLERS]
        rows += timed([("W", wiener.W), ("W and Z", wiener.WZ), *((str(r), r) for r in recipes)], m, rounds)
    return rows


def slope(rows: list[dict[str, Any]], work: str) -> float:
    """The exponent of the error in the work, least squares."""
    return float(np.polyfit(np.log([row[work] for row in rows]), np.log([row["error"] for row in rows]), 1)[0])


def show(title: str, rows: list[dict[str, Any]], columns: dict[str, str]) -> None:
    """Print some columns of a table, each in its format."""
    print(f"\n{title}\n{'recipe':26s}" + "".join(f"{name:>13s}" for name in columns))
    for row in rows:
        print(f"{row['recipe']:26s}" + "".join(f"{row[name]:>13{form}}" for name, form in columns.items()))


def plot(rows: list[dict[str, Any]], file: Path) -> None:
    """Error against normals per step and against time, with the slopes -1/2 and -1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axes, work, label in zip(panels, ("normals", "ns"), ("normals per step", "ns per step"), strict=True):
        for kind in SAMPLERS:
            own = [row for row in rows if row["sampler"] == kind.__name__]
            axes.loglog([row[work] for row in own], [row["error"] for row in own], "o-", label=kind.__name__)
        x = np.array([min(row[work] for row in rows), max(row[work] for row in rows)])
        for exponent, style in ((-0.5, ":"), (-1.0, "--")):
            axes.loglog(x, 0.3 * (x / x[0]) ** exponent, style, color="grey", label=f"slope {exponent:g}")
        axes.set_xlabel(label)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    panels[0].set_ylabel("rms error of $I_{(1,2)}$ / h")
    panels[0].legend()
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer paths and repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw error against work")
    options = parser.parse_args()
    with jax.enable_x64(True):
        rows = rates((1, 2, 4, 8, 16), 1000 if options.quick else 5000, 3 if options.quick else 9)
        cost = costs(1e-3, 3 if options.quick else 9)
    work = {"normals": "d", "ns": ".1f", "times_W": ".1f", "by": "s"}
    columns = {"error": ".4f", "error_stderr": ".4f", "stated": ".4f", **work}
    show("Errors at h = 1 and work a step, m = 2", rows, columns)
    exponents = {}
    for kind in SAMPLERS:
        own = [row for row in rows if row["sampler"] == kind.__name__][1:]
        exponents[kind.__name__] = {kind_of: slope(own, kind_of) for kind_of in ("normals", "ns")}
    for name, found in exponents.items():
        print(f"{name}: error ~ normals^{found['normals']:.2f}, time^{found['ns']:.2f}")
    show("Strong order 1 at h = 0.001", cost, {"m": "d", **work})
    if options.json:
        options.json.write_text(json.dumps({"rates": rows, "exponents": exponents, "costs": cost}, indent=1))
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
