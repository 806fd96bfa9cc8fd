"""The one implicit solve: Newton's method for one path, ready to be batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from stodyn.numerics.elimination import solve as eliminate

Solve = Callable[[Callable[[Array], Array], Array, Array], Array]  # (residual, x, r) -> J⁻¹ r


class Root(NamedTuple):
    """x with residual(x) = 0; ok is False where the iteration did not converge."""

    x: Array
    ok: Array
    iterations: Array


def newton(
    residual: Callable[[Array], Array],
    x: Array,
    *,
    tol: ArrayLike = 1e-10,
    limit: int = 20,
    solve: Solve | None = None,
    fallback: Solve | None = None,
) -> Root:
    """Solve residual(x) = 0 from the start value x: x <- x - J⁻¹ residual(x) until max|δ| <= tol (1 + max|x|).

    The loop is a while_loop of one path. Batched by the engine it runs while any path is active, behind a mask for
    each; a path that has converged keeps its value. The test is `delta <= tol`, so NaN never counts as converged,
    and a path whose δ is not finite stops at once: a path that failed in an earlier step (its state is NaN) costs
    the others nothing. `solve(residual, x, r)` replaces the dense J⁻¹ r for a structured Jacobian. A tolerance below
    16 ε of the precision of x is taken as 16 ε; a root more than (1 + max|x|)/(200 ε) away is none. One evaluation of
    the residual and its Jacobian an iteration.

    Where `solve` is only near J⁻¹ (a Jacobian taken elsewhere: simplified Newton), `fallback` gives a better one:
    paths that have not converged with `solve` begin again with `fallback`; the others do not pay for it.

    Derivatives with respect to what the residual closes over are those of the root, J dx = -∂residual, in forward and
    reverse mode.
    """
    # One trace of the residual serves the loop, its Jacobian and the derivatives of the root.
    traced, captured = jax.closure_convert(residual, x)

    def equations(x: Array) -> Array:
        return traced(x, *captured)

    if solve is None:

        def solve(residual, x, r):
            return eliminate(jax.jacfwd(residual)(x), r)

    eps = float(jnp.finfo(x.dtype).eps)
    tol, far = jnp.maximum(tol, 16 * eps), 1 / (200 * eps)

    # The loop carries x and the x before it, and judges by their difference: of all it carries only x then depends on
    # the residual, and the compiler has no reason to evaluate that more than once.
    def converged(x: Array, before: Array) -> tuple[Array, Array]:
        size = jnp.max(jnp.abs(x - before))
        finite = size < jnp.inf
        return finite & (size <= tol * (1.0 + jnp.max(jnp.abs(before)))), finite

    def unfinished(carry: Any) -> Array:
        x, before, iterations = carry
        ok, finite = converged(x, before)
        return (iterations == 0) | (~ok & finite & (iterations < limit))

    def search(residual: Callable[[Array], Array], start: Array) -> tuple[Array, tuple[Array, Array]]:
        def iterate_with(solve: Solve) -> Callable[[Any], Any]:
            def iterate(carry: Any) -> Any:
                x, _, iterations = carry
                return x - solve(residual, x, residual(x)), x, iterations + 1

            return iterate

        none = jnp.asarray(0, jnp.int32)
        x, before, iterations = lax.while_loop(unfinished, iterate_with(solve), (start, start, none))
        ok, _ = converged(x, before)
        if fallback is not None:
            first, found, spent = x, ok, iterations
            again = (jnp.where(found, first, start), jnp.where(found, before, start), none)
            x, before, iterations = lax.while_loop(
                lambda carry: ~found & unfinished(carry), iterate_with(fallback), again
            )
            ok, _ = converged(x, before)
            iterations = iterations + spent
        # A Jacobian that is singular but for rounding sends x so far that the residual is rounding too.
        ok &= jnp.max(jnp.abs(x - start)) <= far * (1.0 + jnp.max(jnp.abs(start)))
        return x, (ok.astype(x.dtype), iterations.astype(x.dtype))  # custom_root wants what it returns to be real

    def tangent(linear: Callable[[Array], Array], r: Array) -> Array:
        return jnp.linalg.solve(jax.jacfwd(linear)(r), r)

    x, (ok, iterations) = lax.custom_root(equations, x, search, tangent, has_aux=True)
    return Root(x, ok > 0, iterations.astype(jnp.int32))
