"""Newton's method: how fast it converges, when it says so, and what a batch of it does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from stodyn.numerics.elimination import row_order, solve
from stodyn.numerics.newton import newton
from stodyn.numerics.printing.over_arrays import Printed
from stodyn.numerics.printing.points import AtPoints, at_one, at_points

pytestmark = pytest.mark.usefixtures("quick_compiling")


def circle(c):
    """x² + y² = 1 and x y = c."""
    return lambda x: jnp.stack([x[0] ** 2 + x[1] ** 2 - 1.0, x[0] * x[1] - c])


def circle_root(c):
    total, difference = np.sqrt(1 + 2 * c), np.sqrt(1 - 2 * c)
    return np.stack([total + difference, total - difference], axis=-1) / 2


def solved(residual, start, **options):
    """Newton's method from one start, as runs print it."""
    return at_one(lambda x: newton(residual, x, **options), start)


def test_finds_the_root_to_rounding():
    root = solved(circle(0.3), jnp.array([1.0, 0.5]))
    assert root.ok
    np.testing.assert_allclose(root.x, circle_root(0.3), rtol=1e-15)


def test_converges_quadratically():
    """Newton on x² = 2: e' = e²/(2x), so the errors of successive iterates have the ratio e'/e² = 1/(2x)."""
    exact = np.sqrt(2.0)
    iterates = [solved(lambda x: x * x - 2.0, jnp.array([2.0]), limit=k, tol=0.0).x[0] for k in range(1, 5)]
    errors = np.array([2.0, *iterates]) - exact
    for before, after, x in zip(errors[:-2], errors[1:-1], [2.0, *iterates], strict=False):
        assert abs(after / before**2 - 1 / (2 * x)) < 1e-2 / (2 * x)
    assert abs(errors[-1]) < 1e-11


def test_linear_equation_takes_one_iteration_and_one_to_see_it():
    a = np.array([[3.0, 1.0], [1.0, 2.0]])
    root = solved(lambda x: a @ x - jnp.array([1.0, 2.0]), jnp.zeros(2))
    assert root.ok and root.iterations == 2
    assert solved(lambda x: a @ x, jnp.zeros(2)).iterations == 1


@pytest.mark.parametrize("units", [(1e-12, 1e-12), (1e-9, 1.0), (1.0, 1e-15)])
def test_unknowns_far_below_the_tolerance_are_solved_in_their_own_units(units):
    """x + 2 x³ = 3 and y + x y = 1 from 0, each in units of its own: x = 1, y = 1/2."""
    units = np.array(units)

    def residual(z):
        x, y = z / units
        return jnp.stack([x + 2.0 * x**3 - 3.0, y + x * y - 1.0]) * units

    root = solved(residual, jnp.zeros(2), limit=50)
    assert root.ok and not root.rounded
    np.testing.assert_allclose(root.x / units, [1.0, 0.5], rtol=2e-6)


def test_an_unknown_that_is_rounding_alone_costs_no_iteration():
    """The second unknown is what rounding leaves of x² - 2, where x = √2."""
    root = solved(lambda x: jnp.stack([x[0] ** 2 - 2.0, x[1] - 1e-3 * (x[0] * x[0] - 2.0)]), jnp.array([1.0, 0.0]))
    alone = solved(lambda x: x * x - 2.0, jnp.array([1.0]))
    assert root.ok and root.iterations == alone.iterations


@pytest.mark.parametrize("start", [np.nan, np.inf])
def test_a_start_that_is_not_finite_stops_at_once(start):
    root = solved(circle(0.3), jnp.array([start, 0.5]))
    assert not root.ok
    assert root.iterations == 1
    assert not np.isfinite(root.x).all()


def test_singular_jacobian_stops_without_a_number():
    root = solved(circle(0.3), jnp.array([1.0, 1.0]))
    assert not root.ok and root.iterations == 1
    assert not np.isfinite(root.x).all()


def test_infinity_does_not_count_as_converged():
    """δ = ∞ is not <= tol (1 + ∞)."""
    root = solved(lambda x: x, jnp.array([np.inf]), solve=lambda residual, x, r: jnp.full(1, np.inf))
    assert not root.ok


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_limit_reached_is_not_ok(limit):
    """x² + 1 has no root: the iteration wanders until it is stopped."""
    root = solved(lambda x: x * x + 1.0, jnp.array([0.3]), limit=limit)
    assert not root.ok
    assert root.iterations == limit


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-10])
def test_stops_at_the_first_correction_within_the_tolerance(tol):
    """Halley's table for x³ = 1e6: corrections from the iterates themselves, x = 100 making the tolerance relative."""
    x, iterations = 150.0, 0
    while True:
        delta = (x**3 - 1e6) / (3 * x * x)
        iterations += 1
        done = abs(delta) <= tol * (1 + x)
        x -= delta
        if done:
            break
    root = solved(lambda x: x**3 - 1e6, jnp.array([150.0]), tol=tol)
    assert root.ok and root.iterations == iterations
    np.testing.assert_allclose(root.x[0], x, rtol=1e-15)


def test_tolerance_below_rounding_is_taken_as_rounding():
    assert solved(circle(0.3), jnp.array([1.0, 0.5]), tol=0.0).ok
    root = newton(circle(jnp.float32(0.3)), jnp.array([1.0, 0.5], jnp.float32))
    assert root.ok and root.x.dtype == jnp.float32
    np.testing.assert_allclose(root.x, circle_root(0.3), rtol=1e-5)


def batch():
    """Easy, hard, hopeless (no real root), NaN and already solved paths side by side."""
    c = np.array([0.3, 0.1, 0.4999, 0.9, np.nan, 0.2])
    starts = np.tile([1.0, 0.5], (6, 1))
    starts[3] = [2.0, 0.1]
    starts[5] = circle_root(0.2)
    return jnp.asarray(starts), jnp.asarray(c)


def one_path(x, c, limit=12):
    return newton(circle(c), x, limit=limit)


by_vmap = jax.jit(jax.vmap(one_path, (0, 0, None)))


def by_print(starts, c, limit):
    printed = Printed({"root": one_path}, [np.zeros(2), np.float64(0.0), np.int64(0)], common=(2,))
    x, *others = printed("root", np.asarray(starts).T, c, np.int64(limit))
    return x.T, *others


@pytest.mark.parametrize("batched", [by_vmap, by_print])
def test_paths_of_a_batch_do_not_disturb_each_other(batched):
    starts, c = batch()
    x, ok, iterations, _ = map(np.asarray, batched(starts, c, 12))
    alone = [at_one(one_path, s, k) for s, k in zip(starts, c, strict=True)]
    np.testing.assert_array_equal(ok, [True, True, True, False, False, True])
    np.testing.assert_array_equal(ok, [root.ok for root in alone])
    np.testing.assert_array_equal(iterations, [root.iterations for root in alone])
    assert iterations[3] == 12 and iterations[4] == 1 and iterations[5] == 1
    np.testing.assert_allclose(x[ok], circle_root(np.asarray(c)[ok]), rtol=1e-9)


@pytest.mark.parametrize("batched", [by_vmap, by_print])
def test_a_converged_path_keeps_its_bits_while_others_go_on(batched):
    """The values of a path after the iteration it converges in are those after every later one."""
    starts, c = batch()
    iterations = batched(starts, c, 12)[2]
    final = np.asarray(batched(starts, c, 12)[0])
    for limit in range(1, 12):
        stopped = np.asarray(batched(starts, c, limit)[0])
        done = np.asarray(iterations) <= limit
        np.testing.assert_array_equal(stopped[done], final[done])
        assert limit >= 9 or not np.array_equal(stopped[~done], final[~done])


def test_structured_solve_replaces_the_dense_one():
    """A chain of springs: tridiagonal, solved by the banded elimination the problem supplies."""
    n = 15

    def residual(x):
        inner = jnp.concatenate([jnp.zeros(1), x, jnp.zeros(1)])
        return 2.5 * x + 0.1 * x**3 - inner[:-2] - inner[2:] - jnp.arange(1.0, n + 1)

    calls = []

    def banded(residual, x, r):
        calls.append(x.shape)
        diagonal = 2.5 + 0.3 * x**2
        pivots, right = [diagonal[0]], [r[0]]
        for i in range(1, n):
            factor = -1.0 / pivots[-1]
            pivots.append(diagonal[i] + factor)
            right.append(r[i] - factor * right[-1])
        x = [right[-1] / pivots[-1]]
        for i in reversed(range(n - 1)):
            x.insert(0, (right[i] + x[0]) / pivots[i])
        return jnp.stack(x)

    structured, dense = solved(residual, np.ones(n), solve=banded), solved(residual, np.ones(n))
    assert calls and structured.ok and dense.ok
    np.testing.assert_allclose(structured.x, dense.x, rtol=1e-13)
    np.testing.assert_allclose(at_one(residual, structured.x), 0.0, atol=1e-12)


def test_row_order_matters_to_time_alone():
    """Five unknowns in a ring, x_(i+1)³ + x_(i+1) = i: the natural order has zero pivots, the chosen one has none."""

    def residual(x):
        y = jnp.roll(x, -1)
        return y**3 + y - jnp.arange(5.0)

    order = row_order(at_one(jax.jacfwd(residual), np.ones(5)))
    ordered = solved(residual, np.ones(5), solve=lambda f, x, r: solve(jax.jacfwd(f)(x), r, order))
    exchanging = solved(residual, np.ones(5))
    for root in (ordered, exchanging):
        assert root.ok and root.iterations == ordered.iterations
        np.testing.assert_allclose(residual(root.x), 0.0, atol=1e-14)


@pytest.mark.brief("jacrev")
@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_derivatives_are_those_of_the_root(derivative):
    def root(c):
        return newton(circle(c), jnp.array([1.0, 0.5])).x

    c = 0.3
    total, difference = np.sqrt(1 + 2 * c), np.sqrt(1 - 2 * c)
    exact = np.array([1 / total - 1 / difference, 1 / total + 1 / difference]) / 2
    np.testing.assert_allclose(at_one(derivative(root), c), exact, rtol=1e-14)
    both = jax.jit(jax.vmap(derivative(root)))
    np.testing.assert_allclose(both(jnp.array([c, c])), [exact, exact], rtol=1e-14)


def test_paths_that_a_poor_inverse_loses_begin_again_with_the_fallback():
    """x³ = c with the slope frozen at the start: near it that converges, far from it only Newton itself does."""
    c = np.array([1.1, 50.0])

    def one(c, with_fallback):
        frozen = lambda residual, x, r: r / 3.0  # noqa: E731
        exact = lambda residual, x, r: r / (3.0 * x**2)  # noqa: E731
        return newton(lambda x: x**3 - c, jnp.ones(1), solve=frozen, fallback=exact if with_fallback else None)

    alone, rescued = (at_points(lambda c, way=way: one(c, way), c) for way in (False, True))
    assert alone.ok.tolist() == [True, False] and rescued.ok.tolist() == [True, True]
    np.testing.assert_array_equal(rescued.x[0], alone.x[0])
    np.testing.assert_allclose(rescued.x[:, 0], np.cbrt(c), rtol=1e-9)
    slope = at_one(jax.grad(lambda c: one(c, True).x[0]), 50.0)
    np.testing.assert_allclose(slope, 50.0 ** (-2 / 3) / 3, rtol=1e-9)


# --- rounding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_equations_whose_rounding_exceeds_the_tolerance_are_solved_to_rounding(dtype):
    """K (y + h x) + sin x = F, a stiff spring held by a force F near K y: known to ε F, so that x follows to ε F only.
    The updates stay there, for ever above a tolerance of 16 ε."""
    eps = float(jnp.finfo(dtype).eps)
    F, h = eps**-0.4, 1.0 / eps**-0.4
    y = jnp.linspace(1.0, 1.4, 64, dtype=dtype)

    @jax.jit
    @jax.vmap
    def solve_with(y, force):
        return newton(lambda x: F * (y + h * x) + jnp.sin(x) - force, jnp.zeros(1, dtype), tol=0.0)

    root = solve_with(y, F * y + 0.3)
    assert root.ok.all() and root.rounded.any() and (root.iterations < 20).all()
    np.testing.assert_allclose(root.x + jnp.sin(root.x), 0.3, atol=100 * eps * F)
    assert not at_one(one_path, np.array([1.0, 0.5]), 0.3).rounded


def test_updates_that_stay_for_another_reason_are_no_rounding():
    """A solver that does not look at the residual: updates of one size, small and above the tolerance."""
    root = solved(lambda x: x - 1.0, jnp.zeros(1), solve=lambda residual, x, r: jnp.full(1, -1e-9))
    assert not root.ok and not root.rounded and root.iterations == 2


@pytest.mark.parametrize("inside", [True, False])
def test_equations_whose_terms_cancel_are_solved_to_rounding(inside):
    """3 (sin(y + h x) - sin y) = h cos x: 3 x cos y = cos x but for h, known to ε/h. The sum y + h x loses digits of
    h x, the same ones for all neighbouring y, so that changes of y do not show what is lost."""
    y = np.linspace(-1.2, 1.2, 200)

    def solve_with(y, h):
        before = jnp.sin(y)
        return newton(lambda x: 3.0 * (jnp.sin(y + h * x) - (jnp.sin(y) if inside else before)) - h * jnp.cos(x),
                      jnp.zeros(1))  # fmt: skip

    def limit(y):
        return scipy.optimize.brentq(lambda x: 3.0 * np.cos(y) * x - np.cos(x), 0.0, 1.5, xtol=1e-15)

    exact, roots = np.array([limit(one) for one in y]), AtPoints(solve_with, (0, None))
    for h in (1e-5, 1e-8, 1e-11):
        root = roots(y, h)
        assert root.ok.all() and root.rounded.any() == (h < 1e-6)
        np.testing.assert_allclose(root.x[:, 0], exact, atol=10 * h + 100 * np.finfo(float).eps / h)


@pytest.mark.parametrize(
    "force",
    [
        lambda x: -1e12 * (1.0 - jnp.cos(1e-4 * x)) * jnp.sign(x) - x,  # the digits that the cosine loses
        lambda x: -1e10 * (jnp.cosh(1e-3 * x) - 1.0) * jnp.sign(x) - x,
        lambda x: 1e13 * x * 0.1 * x * 10.0 - 1e13 * x * x - x,  # those that products lose
        lambda x: 1e13 * (3.0 * (x * x / 3.0) - x * x) - x,
    ],
)
def test_functions_and_products_that_cancel_are_solved_to_rounding(force):
    """Steps of stiff problems whose force is known to 1e-6 to 1e-2 of the scale of x: no path fails, many are rounded,
    and each is a root but for that."""
    x = np.linspace(-1.0, 1.0, 200)
    roots = at_points(lambda x: newton(lambda y: y - x - 0.01 * force(y), jnp.array([x]), tol=1e-14), x)
    assert roots.ok.all() and roots.rounded.any()
    assert (
        np.abs(roots.x[:, 0] - x - 0.01 * np.asarray(force(roots.x[:, 0]))).max()
        < 1e13 * 0.01 * 8 * np.finfo(float).eps
    )


def test_what_has_not_converged_is_no_rounding():
    """Paths stopped on their way, with residuals of 10⁻² to 10⁻¹⁰ of the terms in them; and an equation that cancels,
    h x = h (x + x² + 1) but for h², without a root."""
    root = at_one(
        lambda y: newton(
            lambda x: jnp.sin(y + 1e-8 * x) - jnp.sin(y) - 1e-8 * jnp.cos(y) * (x + x**2 + 1), jnp.zeros(1)
        ),
        0.7,
    )
    assert not root.ok and not root.rounded
    for limit in (1, 2, 3):
        root = at_one(lambda y, limit=limit: newton(lambda x: x**2 + y * x - y, jnp.ones(1), limit=limit), 0.9)
        assert not root.ok and not root.rounded
