"""Everyday constructs of users' functions: a test that takes `construct` is asked for each of them by name. Functions
printed as loops over arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from stodyn.numerics.printing import compiling, rows
from stodyn.numerics.printing.array_traces import ArrayTraces
from stodyn.numerics.printing.arrays import Buffer
from stodyn.numerics.printing.loops import WIDTH, Program, mapped

N = 4
TABLE = np.linspace(-3.0, 3.0, 9)
MATRIX = np.random.default_rng(3).standard_normal((N, N))
SINGLE = np.float32(0.1) * np.arange(N, dtype=np.float32)


def newton_square_root(x):
    def body(carry):
        y, k = carry
        return 0.5 * (y + (1.0 + x[0] ** 2) / y), k + 1

    return lax.while_loop(lambda c: (jnp.abs(c[0] ** 2 - 1 - x[0] ** 2) > 1e-13) & (c[1] < 60), body, (1.0, 0))


@jax.custom_jvp
def soft(x):
    return jnp.log1p(jnp.exp(x))


@soft.defjvp
def soft_jvp(primals, tangents):
    return soft(primals[0]), tangents[0] * jax.nn.sigmoid(primals[0])


def unpacked(x, s):
    a, b, c, d = x
    return a * b - c * d


# name -> function of x (N,) and a scalar s common to all paths
EVERYDAY = {
    "index": lambda x, s: x[0] + x[-1],
    "slice": lambda x, s: x[1:3],
    "strided slice": lambda x, s: x[::2],
    "reversed slice": lambda x, s: x[::-1],
    "fancy index": lambda x, s: x[np.array([2, 0, 2])],
    "new axis": lambda x, s: x[:, None] * x[None, :],
    "reshape": lambda x, s: x.reshape(2, 2).T.ravel(),
    "at set": lambda x, s: x.at[1].set(s),
    "at add": lambda x, s: x.at[np.array([0, 0, 2])].add(x[1]),
    "at mul": lambda x, s: x.at[1:3].mul(2.0),
    "at min": lambda x, s: x.at[0].min(s),
    "at max": lambda x, s: x.at[3].max(s),
    "at set slice": lambda x, s: x.at[1:3].set(x[:2]),
    "where": lambda x, s: jnp.where(x > 0, x, s),
    "where nested": lambda x, s: jnp.where(x > 1, 1.0, jnp.where(x < -1, -1.0, x)),
    "select": lambda x, s: jnp.select([x < -1, x < 1], [x, x**2], 3.0),
    "clip": lambda x, s: jnp.clip(x, -0.5, s),
    "cond": lambda x, s: lax.cond(x[0] > 0, lambda x: x, lambda x: -2 * x, x),
    "cond common": lambda x, s: lax.cond(s > 0, lambda x: x, lambda x: -2 * x, x),
    "switch": lambda x, s: lax.switch(jnp.int32(jnp.abs(x[0]) * 2), [lambda: x, lambda: 2 * x, lambda: x * x]),
    "norm": lambda x, s: jnp.linalg.norm(x),
    "norm 1": lambda x, s: jnp.linalg.norm(x, 1),
    "norm inf": lambda x, s: jnp.linalg.norm(x, jnp.inf),
    "dot": lambda x, s: x @ x,
    "matvec": lambda x, s: MATRIX @ x,
    "vecmat": lambda x, s: x @ MATRIX,
    "outer": lambda x, s: jnp.outer(x, x),
    "cross": lambda x, s: jnp.cross(x[:3], jnp.array([1.0, s, 2.0])),
    "einsum": lambda x, s: jnp.einsum("i,ij,j->", x, MATRIX, x),
    "batched matmul": lambda x, s: jnp.einsum("bi,bij->bj", x.reshape(2, 2), MATRIX.reshape(2, 2, 4)[:, :, :2]),
    "tensordot": lambda x, s: jnp.tensordot(x.reshape(2, 2), x.reshape(2, 2), axes=2),
    "trace": lambda x, s: jnp.trace(jnp.outer(x, x)),
    "diag": lambda x, s: jnp.diag(x),
    "diagonal": lambda x, s: jnp.diagonal(jnp.outer(x, x)),
    "eye": lambda x, s: jnp.eye(N) * x,
    "kron": lambda x, s: jnp.kron(x[:2], x[2:]),
    "sum": lambda x, s: jnp.sum(x),
    "sum axis": lambda x, s: jnp.outer(x, x).sum(axis=1),
    "mean": lambda x, s: x.mean(),
    "var": lambda x, s: x.var(),
    "std": lambda x, s: jnp.std(x + s),
    "prod": lambda x, s: jnp.prod(x),
    "max": lambda x, s: jnp.max(x),
    "min axis": lambda x, s: jnp.outer(x, x).min(axis=0),
    "argmax": lambda x, s: jnp.argmax(x),
    "argmin": lambda x, s: x[::-1].argmin(),
    "any": lambda x, s: jnp.any(x > 1),
    "all": lambda x, s: jnp.all(x > -1),
    "cumsum": lambda x, s: jnp.cumsum(x),
    "cumsum reversed": lambda x, s: lax.cumsum(x, reverse=True),
    "cumprod": lambda x, s: jnp.cumprod(x),
    "cummax": lambda x, s: lax.cummax(x),
    "diff": lambda x, s: jnp.diff(x),
    "roll": lambda x, s: jnp.roll(x, 1),
    "pad": lambda x, s: jnp.pad(x, (1, 2)),
    "pad edge": lambda x, s: jnp.pad(x, 1, mode="edge"),
    "tile": lambda x, s: jnp.tile(x, 2),
    "repeat": lambda x, s: jnp.repeat(x, 2),
    "flip": lambda x, s: jnp.flip(x.reshape(2, 2), axis=1),
    "concatenate": lambda x, s: jnp.concatenate([x, x[:1]]),
    "stack": lambda x, s: jnp.stack([x, 2 * x]),
    "hstack": lambda x, s: jnp.hstack([x, s]),
    "array of scalars": lambda x, s: jnp.array([x[1], -x[0], s, 0.0]),
    "array of rows": lambda x, s: jnp.array([[x[0], 0.0], [s, x[1]]]),
    "split": lambda x, s: jnp.split(x, 2)[1],
    "unpacking": unpacked,
    "linspace": lambda x, s: jnp.linspace(0.0, 1.0, N) * x,
    "arange": lambda x, s: jnp.arange(N) * x,
    "powers": lambda x, s: x**2 + x**3 + jnp.abs(x) ** 1.5 + x**-1,
    "sqrt": lambda x, s: jnp.sqrt(jnp.abs(x)) + lax.rsqrt(1 + x * x),
    "exp log": lambda x, s: jnp.exp(-x) + jnp.log1p(x * x) + jnp.expm1(x),
    "trigonometric": lambda x, s: jnp.sin(x) * jnp.cos(x) + jnp.tan(0.1 * x) + jnp.arctan2(x, 1 + s),
    "inverse": lambda x, s: jnp.arcsin(jnp.tanh(x)) + jnp.arccos(jnp.tanh(x)) + jnp.arctan(x),
    "hyperbolic": lambda x, s: jnp.sinh(x) + jnp.cosh(x) + jnp.arcsinh(x) + jnp.arctanh(0.5 * jnp.tanh(x)),
    "sigmoid": lambda x, s: jax.nn.sigmoid(x) + jax.nn.softplus(x) + jax.nn.relu(x),
    "softmax": lambda x, s: jax.nn.softmax(x),
    "logsumexp": lambda x, s: jax.scipy.special.logsumexp(x),
    "erf": lambda x, s: jax.scipy.special.erf(x) + jax.scipy.special.gammaln(1 + x * x),
    "rounding": lambda x, s: jnp.floor(x) + jnp.ceil(x) + jnp.round(x) + jnp.sign(x),
    "mod": lambda x, s: jnp.mod(x, 1.0) + jnp.remainder(x, 2.0),
    "floor divide": lambda x, s: x // 0.5,
    "hypot": lambda x, s: jnp.hypot(x, s),
    "maximum": lambda x, s: jnp.maximum(x, 0.0) + jnp.minimum(x, s),
    "comparison": lambda x, s: (x > 0) * 1.0 + (x <= s) * 2.0,
    "logical": lambda x, s: jnp.logical_and(x > 0, x < 1) | jnp.isfinite(x),
    "isnan": lambda x, s: jnp.nan_to_num(x),
    "interp": lambda x, s: jnp.interp(x[0], TABLE, TABLE**2),
    "interp of a row": lambda x, s: jnp.interp(x, TABLE, TABLE**2),  # of another shape than the number before
    "interp many": lambda x, s: jax.vmap(lambda y: jnp.interp(y, TABLE, TABLE**3))(x),
    "polyval": lambda x, s: jnp.polyval(np.array([1.0, -2.0, s if isinstance(s, float) else 0.5]), x),
    "piecewise": lambda x, s: jnp.piecewise(x, [x < 0], [lambda y: -y, lambda y: y * y]),
    "searchsorted": lambda x, s: jnp.searchsorted(TABLE, x[0]),
    "heaviside": lambda x, s: jnp.heaviside(x, 0.5),
    "unwrap angle": lambda x, s: (x + jnp.pi) % (2 * jnp.pi) - jnp.pi,
    "grad": lambda x, s: jax.grad(lambda y: jnp.sum(jnp.sin(y) * y[::-1] ** 2))(x),
    "hessian": lambda x, s: jax.hessian(lambda y: jnp.prod(y) + jnp.sum(y**3) * s)(x),
    "jacfwd": lambda x, s: jax.jacfwd(lambda y: y * jnp.roll(y, 1))(x),
    "jacrev": lambda x, s: jax.jacrev(lambda y: jnp.cumsum(y) * y[0])(x),
    "jvp": lambda x, s: jax.jvp(lambda y: jnp.linalg.norm(y) * y, (x,), (jnp.ones(N),))[1],
    "vjp": lambda x, s: jax.vjp(lambda y: y @ MATRIX @ y, x)[1](1.0)[0],
    "grad of max": lambda x, s: jax.grad(lambda y: jnp.max(y))(x),
    "grad of index": lambda x, s: jax.grad(lambda y: y[1] * y[np.array([0, 3])].sum())(x),
    "custom jvp": lambda x, s: jax.grad(lambda y: jnp.sum(soft(y)))(x),
    "checkpoint": lambda x, s: jax.grad(lambda y: jnp.sum(jax.checkpoint(jnp.sin)(y)))(x),
    "vmap inside": lambda x, s: jax.vmap(lambda y: y * y + s)(x),
    "jit inside": lambda x, s: jax.jit(lambda y: y @ y)(x),
    "fori_loop": lambda x, s: lax.fori_loop(0, 5, lambda i, y: y * 0.9 + i, x),
    "long fori_loop": lambda x, s: lax.fori_loop(0, 400, lambda i, y: jnp.sin(y) + 0.001 * i, x),
    "fori_loop indexing": lambda x, s: lax.fori_loop(0, N, lambda i, y: y + x[i] ** 2, 0.0),
    "fori_loop storing": lambda x, s: lax.fori_loop(1, N, lambda i, y: y.at[i].set(y[i - 1] * 0.5), x),
    "dynamic index": lambda x, s: x[jnp.argmax(jnp.abs(x))],
    "while_loop": lambda x, s: newton_square_root(x),
    "while common": lambda x, s: lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))[1],
    "scan": lambda x, s: lax.scan(lambda c, y: (c + y, c * y), 0.0, x),
    "long scan": lambda x, s: lax.scan(lambda c, k: (0.5 * c + x * k, c[0]), x, np.linspace(0, 1, 300)),
    "associative scan": lambda x, s: lax.associative_scan(jnp.add, x),
    "float32 constant": lambda x, s: x * SINGLE,
    "python float": lambda x, s: 0.1 * x + 1 / 3,
    "integer constant": lambda x, s: x * np.arange(N) + 2,
    "cast": lambda x, s: jnp.asarray(x > 0, float) + jnp.int32(x * 3),
    "complex": lambda x, s: jnp.real(jnp.exp(1j * x) * (1 + 2j)),
    "solve 2x2": lambda x, s: jnp.linalg.det(jnp.array([[x[0], s], [1.0, x[1]]])),
    "determinant 3x3": lambda x, s: jnp.linalg.det(jnp.outer(x[:3], x[1:]) + jnp.eye(3)),
    "stop_gradient": lambda x, s: lax.stop_gradient(x) * x,
    "tuple": lambda x, s: {"a": x, "b": (x[0], s)},
    "constant": lambda x, s: jnp.array([1.0, 2.0]),
    "empty": lambda x, s: x[:0],
    "take with a fill": lambda x, s: jnp.take(x, np.array([3, -1, 0, 9]), mode="fill", fill_value=7.5),
    "take along an axis": lambda x, s: jnp.take_along_axis(x.reshape(2, 2), np.array([[1], [0]]), 1),
    "index by the state": lambda x, s: x[jnp.int32(jnp.abs(x[0])) % N],
    "index beyond the end": lambda x, s: x[jnp.int32(4 * x[0])],
    "row by the state": lambda x, s: jnp.asarray(MATRIX)[jnp.int32(jnp.abs(x[0])) % N],
    "slice by the state": lambda x, s: lax.dynamic_slice(x, (jnp.int32(3 * x[0]),), (2,)),
    "update by the state": lambda x, s: lax.dynamic_update_slice(x, x[:2] * 2, (jnp.int32(3 * x[0]),)),
    "add by the state": lambda x, s: x.at[jnp.int32(3 * x[0])].add(x[1]),
    "add outside": lambda x, s: x.at[np.array([0, 9, -1])].add(x[:3]),
    "subtract at": lambda x, s: x.at[np.array([1, 2, 2])].subtract(x[:3]),
    "divide at": lambda x, s: x.at[np.array([1, 2])].divide(1 + x[:2] ** 2),
    "apply at": lambda x, s: x.at[np.array([1, 2])].apply(jnp.cos),
    "whole power": lambda x, s: x ** np.array([1, 2, 3, 4]),
    "root and inverse": lambda x, s: jnp.cbrt(x) + jnp.exp2(x) + lax.rsqrt(2 + x * x) + jnp.reciprocal(3 + x * x),
    "inverse of erf": lambda x, s: jax.scipy.special.erfinv(jnp.tanh(x)) + jax.scipy.special.erfc(x),
    "digamma": lambda x, s: jax.scipy.special.digamma(1 + x * x),
    "normal law": lambda x, s: jax.scipy.stats.norm.cdf(x) + jax.scipy.stats.norm.logpdf(x),
    "soft functions": lambda x, s: jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.elu(x) + jax.nn.leaky_relu(x),
    "copysign": lambda x, s: jnp.copysign(s, x) + jnp.signbit(x),
    "whole parts": lambda x, s: jnp.trunc(x) + jnp.modf(x)[0] + jnp.fmod(x, 0.7) + jnp.rint(2 * x),
    "whole numbers": lambda x, s: jnp.int32(9 * x) // 4 + jnp.int32(9 * x) % 4 - jnp.int32(3 * x) ** 2,
    "bits": lambda x, s: (jnp.int32(99 * x) & 12) | (jnp.int32(9 * x) << 2) ^ (jnp.int32(9 * x) >> 1),
    "not yet filled": lambda x, s: lax.empty((N,), float).at[1:].set(x[1:]) + x,
    "logarithms": lambda x, s: jnp.log2(1 + x * x) - jnp.log10(2 + x * x),
    "slope of log2": lambda x, s: jax.grad(lambda y: jnp.sum(jnp.log2(1 + y * y)))(x),
    "slope of tanh": lambda x, s: jax.hessian(lambda y: jnp.sum(jnp.tanh(y)))(x),
    "slopes of polyval": lambda x, s: jax.jacfwd(jnp.polyval, (0, 1))(x[:3], x),
    "polyval of many": lambda x, s: jnp.polyval(np.linspace(-1.0, 1.0, 20), jnp.sin(x)),
    "logarithm of sums": lambda x, s: jnp.logaddexp(x, s) + jnp.logaddexp2(x, s),
    "sinc": lambda x, s: jnp.sinc(x) + jnp.deg2rad(x),
    "quadratic form": lambda x, s: jnp.vdot(x, MATRIX @ x) + jnp.inner(x, x),
    "triangle": lambda x, s: jnp.tril(jnp.outer(x, x)) + jnp.triu(MATRIX, 1),
    "meshgrid": lambda x, s: jnp.stack(jnp.meshgrid(x, x[:2])),
    "unrolled convolution": lambda x, s: sum(x[k : k + 2] * (k + 1) for k in range(3)),
    "extremes and where": lambda x, s: jnp.where(x == x.max(), s, x) + jnp.ptp(x),
    "count": lambda x, s: jnp.count_nonzero(x > 0) + jnp.sum(x < s),
    "cumulative of whole numbers": lambda x, s: jnp.cumsum(jnp.int32(5 * x)) + jnp.cumprod(jnp.sign(x)),
    "switch beyond": lambda x, s: lax.switch(jnp.int32(4 * x[0]), [lambda: x, lambda: 2 * x, lambda: x * x]),
    "cond of two results": lambda x, s: lax.cond(x[0] < x[1], lambda: (x[0], 1), lambda: (x[1], 2)),
    "nested where": lambda x, s: jnp.where(x > 0, jnp.where(x > 1, jnp.log(jnp.abs(x)), x), jnp.exp(x)),
    "loop in a loop": lambda x, s: lax.fori_loop(
        0, 3, lambda i, y: lax.fori_loop(0, 2, lambda j, z: 0.5 * z + x, y), x
    ),
    "while of arrays": lambda x, s: lax.while_loop(lambda y: y @ y > 0.1, lambda y: 0.7 * y, x),
    "while under vmap": lambda x, s: jax.vmap(lambda y: lax.while_loop(lambda z: z > 0.1, lambda z: z / 2, y))(x),
    "scan backwards": lambda x, s: lax.scan(lambda c, y: (0.5 * c + y, c), 0.0, x, reverse=True),
    "map": lambda x, s: lax.map(lambda y: jnp.sin(y) * y, x),
    "hessian of a norm": lambda x, s: jax.hessian(lambda y: jnp.linalg.norm(y))(x),
    "derivative of a loop": lambda x, s: jax.jacfwd(lambda y: lax.fori_loop(0, 4, lambda i, z: jnp.sin(z) * y, y))(x),
    "derivative of a where": lambda x, s: jax.grad(lambda y: jnp.sum(jnp.where(y > 0, y**3, jnp.sin(y))))(x),
    "derivative of a sum": lambda x, s: jax.jacrev(lambda y: jnp.stack([y.sum(), y.prod(), jnp.max(y)]))(x),
    "product of precisions": lambda x, s: jax.lax.dot_general(
        np.float32(0.1) * np.eye(N, dtype=np.float32) + SINGLE,
        x,
        (((1,), (0,)), ((), ())),
        preferred_element_type=float,
    ),
    "product of variable precisions": lambda x, s: jax.lax.dot_general(
        jnp.outer(x, x).astype(np.float32), x, (((1,), (0,)), ((), ())), preferred_element_type=float
    ),
    "single precision": lambda x, s: jnp.sin(x.astype(np.float32)) * np.float32(0.3) + x.astype(np.float32),
    "linalg.solve": lambda x, s: jnp.linalg.solve(MATRIX + jnp.diag(x * x), x),
    "linalg.inv": lambda x, s: jnp.linalg.inv(jnp.outer(x, x) + jnp.eye(N)),
    "cholesky": lambda x, s: jnp.linalg.cholesky(jnp.outer(x, x) + jnp.eye(N)),
    "sort": lambda x, s: jnp.sort(x),
    "median": lambda x, s: jnp.median(x),
    "fft": lambda x, s: jnp.abs(jnp.fft.fft(x)),
    "scatter at a path's index": lambda x, s: x.at[jnp.argmax(x)].set(0.0),
    "expm": lambda x, s: jax.scipy.linalg.expm(0.1 * jnp.outer(x, x)),
}


def pytest_generate_tests(metafunc):
    if "construct" in metafunc.fixturenames:
        metafunc.parametrize("construct", list(EVERYDAY))


@pytest.fixture(scope="session")
def everyday():
    """name -> function of x (4,) and a scalar s common to all paths."""
    return EVERYDAY


FRAME = ("x", "y", "scratch", "tables", "stride", "first_lane", "last_lane")


def _program_of(function, shape, dtype=float):
    """The loops of function(x), its table, and what it stores."""
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(shape, dtype))
    arrays = ArrayTraces()
    (y,) = arrays.run(closed, [arrays.buffered(Buffer("x", 0, shape, np.dtype(dtype)))])
    arrays.in_memory(y, Buffer("y", 0, y.shape, y.dtype))
    return Program(arrays), arrays, y


def _evaluated(function, x):
    """function of every path of x (*shape, lanes) by loops."""
    *shape, lanes = x.shape
    program, arrays, y = _program_of(function, tuple(shape))
    written = mapped("run", program, FRAME, ("x", "y"))
    machine = compiling.compiled(rows.module([written]), ["run"], **compiling.effort(written.operations))
    found = np.empty((max(y.size, 1), lanes))
    given = np.ascontiguousarray(x.reshape(-1, lanes))
    frame = rows.Frame(FRAME)
    frame.set(x=given, y=found, scratch=np.empty(program.scratch * WIDTH + 1), stride=lanes, last_lane=lanes,
              tables=np.concatenate([*arrays.tables, np.zeros(1, np.int64)]))  # fmt: skip
    machine["run"](frame.address)
    values = found if y.dtype.kind == "f" else found.view(np.int64)
    return values.astype(y.dtype).reshape(*y.shape, lanes)


@pytest.fixture(scope="session")
def program_of():
    """program_of(function, shape, dtype): its loops, their arrays, and the array that they store."""
    return _program_of


@pytest.fixture(scope="session")
def evaluated():
    """evaluated(function, x): function of every path of x, by loops; the last axis counts a multiple of 8 paths."""
    return _evaluated
