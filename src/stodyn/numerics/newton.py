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

from stodyn.numerics.elimination import solve as eliminate
from stodyn.numerics.rounding import is_rounding

Solve = Callable[[Callable[[Array], Array], Array, Array], Array]  # (residual, x, r) -> J⁻¹ r


_underived: contextvars.ContextVar[bool] = contextvars.ContextVar("underived", default=False)


@contextlib.contextmanager
def underived() -> Iterator[None]:
    """Traces made inside are not differentiated: how the roots in them depend on other things is left out of them."""
    token = _underived.set(True)
    try:
        yield
    finally:
        _underived.reset(token)


class Root(NamedTuple):
    """x with residual(x) = 0; ok is False where the iteration did not converge.

    rounded  whether the updates ended above the tolerance, and yet x is as good as the rounding of its equations lets
             it be: ok, too
    """

    x: Array
    ok: Array
    iterations: Array
    rounded: Array


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

    Stiff forces and differences of large numbers may leave residuals whose rounding alone keeps δ above tol. So a path
    ends, too, when δ no longer shrinks below √ε (1 + max|x|), where Newton's method squares it in every iteration. A
    path that has not converged is ok if every equation is solved to rounding: |residual| is at most twice what changes
    by 32 ε of its data (x and all that the residual closes over) and of every sum in it make of it.

    Where `solve` is only near J⁻¹ (a Jacobian taken elsewhere: simplified Newton), `fallback` gives a better one:
    paths that have not converged with `solve` begin again with `fallback`; the others do not pay for it.

    Derivatives with respect to what the residual closes over are those of the root, J dx = -∂residual, in forward and
    reverse mode.
    """
    # One trace of the residual serves the loop, its Jacobian and the derivatives of the root.
    traced = jax.make_jaxpr(residual)(x)

    def equations(x: Array) -> Array:
        return core.jaxpr_as_fun(traced)(x)[0]

    if solve is None:

        def solve(residual, x, r):
            return eliminate(jax.jacfwd(residual)(x), r)

    eps = float(jnp.finfo(x.dtype).eps)
    tol, far, near = jnp.maximum(tol, 16 * eps), 1 / (200 * eps), eps**0.5

    # The loop carries x, the x before it and the size of the update before that, and judges by differences: of all it
    # carries only x then depends on the residual, and the compiler has no reason to evaluate that more than once.
    def judged(carry: Any) -> tuple[Array, Array, Array]:
        """Whether it has converged, whether its updates are finite, and whether they no longer shrink."""
        x, before, last, _ = carry
        size, scale = jnp.max(jnp.abs(x - before)), 1.0 + jnp.max(jnp.abs(before))
        finite = size < jnp.inf
        return finite & (size <= tol * scale), finite, (last <= size) & (size <= near * scale)

    def unfinished(carry: Any) -> Array:
        ok, finite, stalled = judged(carry)
        return (carry[-1] == 0) | (~ok & finite & ~stalled & (carry[-1] < limit))

    def search(residual: Callable[[Array], Array], start: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        def iterate_with(solve: Solve) -> Callable[[Any], Any]:
            def iterate(carry: Any) -> Any:
                x, before, _, iterations = carry
                last = jnp.where(iterations == 0, jnp.inf, jnp.max(jnp.abs(x - before)))
                return x - solve(residual, x, residual(x)), x, last, iterations + 1

            return iterate

        none, never = jnp.asarray(0, jnp.int32), jnp.asarray(jnp.inf, x.dtype)
        carry = lax.while_loop(unfinished, iterate_with(solve), (start, start, never, none))
        ok, finite, _ = judged(carry)
        spent = carry[-1]
        if fallback is not None:
            found = ok
            again = (jnp.where(found, carry[0], start), jnp.where(found, carry[1], start), never, none)
            carry = lax.while_loop(lambda carry: ~found & unfinished(carry), iterate_with(fallback), again)
            ok, finite, _ = judged(carry)
            spent = spent + carry[-1]
        root = carry[0]
        # A loop, because the paths of a block run one only while one of them needs it.
        _, rounded = lax.while_loop(
            lambda state: state[0],
            lambda state: (jnp.zeros_like(state[0]), is_rounding(traced, root)),
            (finite & ~ok, jnp.zeros_like(ok)),
        )
        # A Jacobian that is singular but for rounding sends x so far that the residual is rounding too.
        close = jnp.max(jnp.abs(root - start)) <= far * (1.0 + jnp.max(jnp.abs(start)))
        real = x.dtype  # custom_root wants what it returns to be real
        return root, (((ok | rounded) & close).astype(real), spent.astype(real), rounded.astype(real))

    def tangent(linear: Callable[[Array], Array], r: Array) -> Array:
        return eliminate(jax.jacfwd(linear)(r), r)

    if _underived.get():
        x, (ok, iterations, rounded) = search(equations, x)
    else:
        x, (ok, iterations, rounded) = lax.custom_root(equations, x, search, tangent, has_aux=True)
    return Root(x, ok > 0, iterations.astype(jnp.int32), rounded > 0)
