"""The one implicit solve: Newton's method for one path, ready to be batched."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core
from jax.typing import ArrayLike

from stodyn.numerics.elimination import WRITTEN_OUT, factorised, is_written_out, solved
from stodyn.numerics.elimination import solve as eliminate
from stodyn.numerics.facts.degree import is_affine
from stodyn.numerics.rarely import rarely
from stodyn.numerics.rounding import is_rounding
from stodyn.numerics.sparse import full_order

Solve = Callable[[Callable[[Array], Array], Array, Array], Array]  # (residual, x, r) -> J⁻¹ r
Twice = Callable[[Callable[[Array], Array], Array, Array], tuple[Array, Callable[[Array], Array]]]  # and r -> J⁻¹ r
QUARTER = 0.25  # of an update: a second one with the same Jacobian that is larger is not taken
TABLED = 64  # unknowns up to which a dense Jacobian is eliminated in a printed loop; beyond it is LAPACK's LU
SHRINKING = 0.9  # times the last update: one above it is about as good as rounding lets it be

_underived: contextvars.ContextVar[bool] = contextvars.ContextVar("underived", default=False)

_forwards: contextvars.ContextVar[bool] = contextvars.ContextVar("forwards", default=False)


def underived() -> contextlib.AbstractContextManager[None]:
    """Traces made inside are not differentiated: how the roots in them depend on other values is left out."""
    return _marked(True)


def derived() -> contextlib.AbstractContextManager[None]:
    """Roots inside know how they depend on other values, even in a trace that as a whole is not differentiated: without
    that knowledge a derivative that a step takes would follow every iteration, in a loop of its own."""
    return _marked(False)


@contextlib.contextmanager
def derived_forwards() -> Iterator[None]:
    """Let roots be differentiated as `derived` does, but forwards alone: large systems are never solved backwards,
    which would take dense matrices."""
    token = _forwards.set(True)
    try:
        with derived():
            yield
    finally:
        _forwards.reset(token)


@contextlib.contextmanager
def _marked(are_underived: bool) -> Iterator[None]:
    token = _underived.set(are_underived)
    try:
        yield
    finally:
        _underived.reset(token)


class Root(NamedTuple):
    """x with residual(x) = 0; ok is False where the iteration did not converge.

    rounded  whether the updates ended above the tolerance although x is as good as the rounding of its equations
             allows; ok is then True as well
    """

    x: Array
    ok: Array
    iterations: Array
    rounded: Array


def _is_tabled(n: int) -> bool:
    return WRITTEN_OUT < n <= TABLED


def _solved(J: Array, r: Array) -> tuple[Array, Callable[[Array], Array]]:
    """J⁻¹ r for a dense Jacobian, and a function that gives it for further r.

    More unknowns than are written out are eliminated in their order by a table of instructions, which a printed program
    executes in one loop, without LAPACK. Updates need no more digits than that leaves.
    """
    if not _is_tabled(len(r)):
        return solved(J, r)
    solve_again = full_order(len(r)).factorised(J.ravel())
    return solve_again(r), solve_again


def newton(
    residual: Callable[[Array], Array],
    x: Array,
    *,
    tol: ArrayLike = 1e-10,
    limit: int = 20,
    solve: Solve | None = None,
    fallback: Solve | None = None,
    twice: bool | Twice = False,
    linear: Solve | None = None,
) -> Root:
    """Solve residual(x) = 0 from the start value x: x <- x - J⁻¹ residual(x) until max|δ| <= tol (1 + max|x|).

    The loop is a while_loop of one path. Batched by the engine it runs while any path is active, behind a mask for
    each; a path that has converged keeps its value. The test is `delta <= tol`, so NaN never counts as converged,
    and a path whose δ is not finite stops at once: a path that failed in an earlier step (its state is NaN) costs
    the others nothing. `solve(residual, x, r)` replaces the dense J⁻¹ r for a structured Jacobian. A tolerance below
    16 ε of the precision of x is taken as 16 ε; a root more than (1 + max|x|)/(200 ε) away does not count. One
    evaluation of the residual and its Jacobian per iteration.

    That alone would ignore unknowns far below tol, such as lengths of 1e-9 m. So a path also goes on while an update
    is above √tol |x_i| + tol max|x|, as long as the updates shrink by at least a tenth; otherwise it ends as converged.

    Stiff forces and differences of large numbers may leave residuals whose rounding alone keeps δ above tol. So a path
    also ends when δ no longer shrinks below √ε (1 + max|x|), where Newton's method squares it in every iteration. A
    path that has not converged is ok if every equation is solved to rounding: |residual| is at most twice its change
    under changes by 32 ε of its data (x and every value that the residual closes over) and of every sum, product and
    function in it.

    Where `solve` is only near J⁻¹ (a Jacobian taken elsewhere: simplified Newton), `fallback` gives a better one:
    paths that have not converged with `solve` begin again with `fallback`; the others do not pay for it.

    With `twice` a dense Jacobian is used for two updates, the second of which is taken if it is at most a quarter as
    large as the first: where Newton's method converges, it is the test that the first would otherwise need another
    Jacobian for. A residual whose trace shows it to be affine in x is then solved by one elimination. A function
    `twice(residual, x, r)` makes that elimination where the Jacobian is known in another way: it gives J⁻¹ r, and a
    function for further r.

    Derivatives with respect to values that the residual closes over are those of the root, J dx = -∂residual with J at
    the root, in forward and reverse mode; forwards by `linear`, where that is given.

    Parameters
    ----------
    residual : callable
        The left side of the equations, a function of the unknowns (n,) that returns an array (n,), in plain JAX.
    x : array (n,)
        The start value.
    tol : float
        The tolerance, relative to 1 + max|x|.
    limit : int
        The most iterations.
    solve : callable, optional
        A function of (residual, x, r) that returns J⁻¹ r; by default J is computed and eliminated as a dense matrix.
    fallback : callable, optional
        As `solve`, for the paths that have not converged with it.
    twice : bool or callable
        Whether two updates are made with each Jacobian.
    linear : callable, optional
        As `solve`, for derivatives of the root: it must take J from the function that it is given, which is linear.

    Returns
    -------
    Root
        The root `x`, and `ok`, `iterations` and `rounded`, of which a step makes its report: `Report(*root[1:])`.
    """
    # One trace of the residual is used for the loop, its Jacobian and the derivatives of the root.
    traced = jax.make_jaxpr(residual)(x)

    def equations(x: Array) -> Array:
        return core.jaxpr_as_fun(traced)(x)[0]

    def two_updates(residual: Callable[[Array], Array], x: Array) -> tuple[Array, Array, Array]:
        """Two updates with the Jacobian at x: the first, x after it, and the second."""
        r = residual(x)
        first, solve_again = twice(residual, x, r) if callable(twice) else _solved(jax.jacfwd(residual)(x), r)
        between = x - first
        return first, between, solve_again(residual(between))

    if solve is None and not twice:

        def solve(residual, x, r):
            J = jax.jacfwd(residual)(x)
            return _solved(J, r)[0] if _is_tabled(len(r)) else eliminate(J, r)

    def update(residual: Callable[[Array], Array], x: Array, solve: Solve | None) -> tuple[Array, Array]:
        """x after an iteration, and the size of the last update of each of its entries."""
        if solve is not None:
            after = x - solve(residual, x, residual(x))
            return after, jnp.abs(after - x)
        first, between, second = two_updates(residual, x)
        helps = jnp.max(jnp.abs(second)) <= QUARTER * jnp.max(jnp.abs(first))
        after = jnp.where(helps, between - second, between)
        return after, jnp.abs(jnp.where(helps, after - between, after - x))

    eps, largest = float(jnp.finfo(x.dtype).eps), float(jnp.finfo(x.dtype).max)
    tol, far, near = jnp.maximum(tol, 16 * eps), 1 / (200 * eps), eps**0.5
    is_linear = solve is None and is_affine(traced, [True])

    def is_near(start: Array, root: Array) -> Array:
        """A Jacobian that is singular except for rounding sends x so far that the residual is rounding too."""
        return jnp.max(jnp.abs(root - start)) <= far * (1.0 + jnp.max(jnp.abs(start)))

    def search(residual: Callable[[Array], Array], start: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        def iterate_with(solve: Solve | None) -> Callable[[Any], Any]:
            def iterate(carry: Any) -> Any:
                """x, the size of its last update, whether it has converged, whether it goes on, how often it has."""
                x, last, _, _, iterations = carry
                # The barrier keeps XLA from evaluating the residual once for each carried value.
                after, updates = lax.optimization_barrier(update(residual, x, solve))
                sizes = jnp.abs(x)
                size, most = jnp.max(updates), jnp.max(sizes)
                scale, is_finite = 1.0 + most, size <= largest
                is_far, is_there = is_finite & (size > jnp.maximum(tol, near) * scale), size <= tol * most

                def closer_look(_: Any) -> tuple[Array, Array]:
                    ok, stalled = is_finite & (size <= tol * scale), (last <= size) & (size <= near * scale)
                    is_unseen = (size <= SHRINKING * last) & jnp.any(updates > jnp.sqrt(tol) * sizes + tol * most)
                    return ok, (~ok | is_unseen) & is_finite & ~stalled

                ok, goes_on = rarely(~(is_far | is_there), closer_look, (is_there, is_far))
                goes_on = goes_on & (iterations + 1 < limit)
                return after, size, ok, goes_on, iterations + 1

            return iterate

        def goes_on(carry: Any) -> Array:
            return carry[3]

        if is_linear:
            # The second update is rounding, in units of a start that may be far above the root.
            first, between, rest = two_updates(residual, start)
            rest = jnp.where(jnp.isnan(rest), 0.0, rest)
            root, most = between - rest, jnp.max(jnp.abs(rest))
            is_rest = (most <= QUARTER * jnp.max(jnp.abs(first))) | (most <= tol * (1.0 + jnp.max(jnp.abs(root))))
            ok = is_rest & is_near(start, between)
            return root, (ok.astype(x.dtype), jnp.ones((), x.dtype), jnp.zeros((), x.dtype))
        none, never = jnp.zeros((), x.dtype), jnp.asarray(jnp.inf, x.dtype)
        no, yes = jnp.asarray(False), jnp.asarray(True)
        root, size, ok, _, spent = lax.while_loop(goes_on, iterate_with(solve), (start, never, no, yes, none))
        if fallback is not None:
            restart = (jnp.where(ok, root, start), jnp.where(ok, size, never), ok, ~ok, none)
            root, size, ok, _, more = lax.while_loop(goes_on, iterate_with(fallback), restart)
            spent = spent + more
        # A loop, because the paths of a block run one only while one of them needs it.
        _, rounded = lax.while_loop(
            lambda state: state[0],
            lambda state: (jnp.zeros_like(state[0]), is_rounding(traced, root)),
            ((size <= largest) & ~ok, jnp.zeros_like(ok)),
        )
        real = x.dtype  # custom_root requires its results to be real
        return root, (((ok | rounded) & is_near(start, root)).astype(real), spent, rounded.astype(real))

    def tangent(slope: Callable[[Array], Array], r: Array) -> Array:
        def J() -> Array:
            return jax.jacfwd(slope)(jnp.zeros_like(r))

        if linear is not None:
            backwards = None if goes_forwards else lambda _, b: eliminate(J().T, b)
            return lax.custom_linear_solve(slope, r, lambda slope, b: linear(slope, jnp.zeros_like(b), b), backwards)
        matrix = J()
        if goes_forwards and _is_tabled(len(r)):
            return lax.custom_linear_solve(lambda x: matrix @ x, r, lambda _, b: _solved(matrix, b)[0])
        # Eliminated once for all directions: whether its order suits the matrix does not depend on r.
        divide = factorised(matrix)
        return lax.custom_linear_solve(
            lambda x: matrix @ x, r, lambda _, b: divide(b),
            transpose_solve=lambda _, b: eliminate(matrix.T, b),
        )  # fmt: skip

    goes_forwards = _forwards.get() and not is_written_out(len(x), None)
    if _underived.get():
        x, (ok, iterations, rounded) = search(equations, x)
    else:
        x, (ok, iterations, rounded) = lax.custom_root(equations, x, search, tangent, has_aux=True)
    return Root(x, ok > 0, iterations.astype(jnp.int32), rounded > 0)
