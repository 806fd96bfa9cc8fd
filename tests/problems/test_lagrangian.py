"""Mechanical systems from energies, against those written by hand."""

import numpy as np
import pytest

import stodyn as sd
from stodyn.models.double_pendulum import double_pendulum

sympy = pytest.importorskip("sympy")


def symbols():
    a, b, u, w = sympy.symbols("a b u w", real=True)
    m1, m2, L1, L2, g = sympy.symbols("m1 m2 L1 L2 g", positive=True)
    T = (m1 + m2) * (L1 * u) ** 2 / 2 + m2 * (L2 * w) ** 2 / 2 + m2 * L1 * L2 * u * w * sympy.cos(a - b)
    V = -(m1 + m2) * g * L1 * sympy.cos(a) - m2 * g * L2 * sympy.cos(b)
    return T, V, (a, b), (u, w), {m1: 1.0, m2: 2.0, L1: 1.0, L2: 1.0, g: 9.81}


def test_the_double_pendulum_is_the_model():
    T, V, q, v, params = symbols()
    start = ([1.0, 0.5], [0.5, -0.3])
    made = sd.Mechanical.from_lagrangian(T, V, q, v, params=params, start=start, noise=[v[0], v[1]])
    x = np.array([1.0, 0.5, 0.5, -0.3])
    found = made.f(0.0, x, None)[2:]
    np.testing.assert_allclose(found, [-11.513565536648361, 5.520796191088390], rtol=1e-13)
    model = double_pendulum()
    for state in np.random.default_rng(1).standard_normal((3, 4)):
        np.testing.assert_allclose(made.f(0.0, state, None), model.f(0.0, state, model.params), rtol=1e-11, atol=1e-12)
    assert made.components == ("a", "b", "da", "db") and callable(made.mass)


def test_dynamicsymbols_dissipation_forces_and_time():
    """A bead of mass m on a vertical hoop that turns: θ'' = (Ω² cos θ - g/R) sin θ - c θ' + sin t."""
    t = sympy.Symbol("t")
    θ = sympy.Function("theta")(t)
    R, Ω, g = sympy.symbols("R Omega g", positive=True)
    T = (R * θ.diff(t)) ** 2 / 2 + (R * Ω * sympy.sin(θ)) ** 2 / 2
    made = sd.Mechanical.from_lagrangian(T, -g * R * sympy.cos(θ), [θ], forces=[R**2 * sympy.sin(t)],
                                         dissipation=R**2 * θ.diff(t) ** 2 / 4, params={R: 2.0, Ω: 3.0, g: 9.81},
                                         noise=[0.5], start=(0.4, 0.7))  # fmt: skip
    expected = (9.0 * np.cos(0.4) - 9.81 / 2.0) * np.sin(0.4) - 0.5 * 0.7 + np.sin(1.3)
    np.testing.assert_allclose(made.f(1.3, np.array([0.4, 0.7]), None), [0.7, expected], rtol=1e-13)
    assert made.scalar and not callable(made.mass)
    run = sd.simulate(made, t=(0.0, 0.1), dt=0.05, paths=4, seed=1, progress=False)
    assert np.isfinite(run["mean"]).all()


def test_parameters_of_each_path_and_constraints():
    x, y, u, w = sympy.symbols("x y u w", real=True)
    g = sympy.Symbol("g")
    made = sd.Mechanical.from_lagrangian((u**2 + w**2) / 2, g * y, [x, y], [u, w], constraints=[(x**2 + y**2 - 1) / 2],
                                         params={g: sd.PerPath([9.0, 10.0])},
                                         start=([np.sin(1.0), -np.cos(1.0)], [0.0, 0.0]))  # fmt: skip
    np.testing.assert_allclose(made.constraints(0.0, np.array([0.6, 0.8]), {"g": 9.0}), [0.0], atol=1e-15)
    np.testing.assert_allclose(made.force(0.0, np.ones(2), np.ones(2), {"g": 9.0}), [0.0, -9.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"T": lambda s: -sympy.sqrt(1 - s.v[0] ** 2)}, "T: is not quadratic in the velocities"),
        ({"V": lambda s: s.q[0] * s.v[0]}, "V: depends on velocities"),
        ({"V": lambda s: sympy.Symbol("k") * s.q[0] ** 2}, "V: k are neither coordinates nor parameters"),
        ({"V": lambda s: sympy.Function("U")(s.q[0])}, "V: contains unknown functions: U"),
        ({"forces": lambda s: [1, 2]}, "forces: expected 1 expressions"),
        ({"constraints": lambda s: [s.v[0] - 1]}, "constraints: number 0, .* contains a velocity"),
        ({"noise": lambda s: [1, 2]}, "noise: expected 1 expressions"),
        ({"noise": lambda s: [[1, 2], [3, 4]]}, "noise: expected 1 expressions"),
        ({"noise": lambda s: [[]]}, "noise: expected 1 expressions"),
        ({"v": lambda s: None}, "v: expected the symbols of the velocities"),
        ({"v": lambda s: [*s.v, sympy.Symbol("w")]}, "v: expected 1 symbols, one for each coordinate"),
        ({"v": lambda s: [2 * s.v[0]]}, "v: expected 1 symbols, one for each coordinate"),
        ({"params": lambda s: {"k": 1.0, sympy.Symbol("k"): 2.0}}, "params: expected different names"),
        ({"q": lambda s: []}, r"q: expected symbols of SymPy, got \[\]"),
        ({"q": lambda s: [2 * s.q[0]]}, "q: expected symbols of SymPy"),
    ],
)
def test_energies_that_are_no_lagrangian_are_named(change, message):
    class S:
        q = sympy.symbols("x,", real=True)
        v = sympy.symbols("u,", real=True)

    given = {"T": S.v[0] ** 2 / 2, "V": S.q[0] ** 2, "q": S.q, "v": S.v, "start": ([1.0], [0.0])}
    given |= {name: make(S) for name, make in change.items()}
    with pytest.raises((ValueError, TypeError), match=message):
        sd.Mechanical.from_lagrangian(**given)


def test_one_coordinate_and_time_need_no_list_and_no_symbol():
    """x'' = -x + t from T = u²/2, V = x²/2; t is the symbol of that name."""
    x, u, t = sympy.symbols("x u t")
    made = sd.Mechanical.from_lagrangian(u**2 / 2, x**2 / 2, x, [u], forces=[t], start=([1.0], [0.0]))
    np.testing.assert_allclose(made.f(3.0, np.array([0.5, 0.25]), None), [0.25, 2.5], rtol=1e-14)


def test_symbols_and_functions_of_time_are_not_mixed():
    t, y = sympy.symbols("t y")
    x = sympy.Function("x")(t)
    with pytest.raises(ValueError, match="q: expected all symbols, or all functions of time"):
        sd.Mechanical.from_lagrangian(x.diff(t) ** 2, x**2, [x, y], start=([1.0, 0.0], [0.0, 0.0]))


def test_a_mass_that_grows_in_time_and_parameters_by_name():
    """d((1 + s²) x')/ds = -k x: (1 + s²) x'' = -k x - 2 s x', with the time called s."""
    x, u, s = sympy.symbols("x u s")
    k = sympy.Symbol("k")
    made = sd.Mechanical.from_lagrangian(
        (1 + s**2) * u**2 / 2, k * x**2 / 2, x, [u], t=s, params={"k": 3.0}, start=(1, 0)
    )
    expected = (-3.0 * 0.5 - 2 * 2.0 * 0.25) / 5.0
    np.testing.assert_allclose(made.f(2.0, np.array([0.5, 0.25]), None), [0.25, expected], rtol=1e-14)


@pytest.mark.parametrize("form", ["lists", "matrix", "functions of time"])
def test_several_channels_and_random_starts(form):
    """Two coordinates, three channels; a start that is drawn whole."""
    (x, y), t = sympy.symbols("x y", real=True), sympy.Symbol("t")
    u, w = sympy.symbols("u w", real=True)
    if form == "functions of time":
        x, y = (sympy.Function(name)(t) for name in "xy")
        u, w = x.diff(t), y.diff(t)
    noise = [[1, x, 0], [u, 2, t]]
    made = sd.Mechanical.from_lagrangian(
        (u**2 + w**2) / 2, x * y, [x, y], [u, w], noise=sympy.Matrix(noise) if form == "matrix" else noise,
        start=lambda rng, size: rng.normal(size=(size, 4)),
    )  # fmt: skip
    entries = made.noise(4.0, np.array([0.5, 0.25]), np.array([3.0, 7.0]), None)
    np.testing.assert_allclose(entries, [[1.0, 0.5, 0.0], [3.0, 2.0, 4.0]], rtol=1e-15)
    assert made.components == ("x", "y", "dx", "dy") and made.m == 3


def test_starts_that_do_not_fit_and_second_derivatives_are_refused():
    t = sympy.Symbol("t")
    x, y = (sympy.Function(name)(t) for name in "xy")
    T = (x.diff(t) ** 2 + y.diff(t) ** 2) / 2
    with pytest.raises(ValueError, match="start: expected two vectors of 2 entries"):
        sd.Mechanical.from_lagrangian(T, x * y, [x, y], start=(1.0, 0.0))
    with pytest.raises(ValueError, match=r"V: contains .*only first derivatives of coordinates"):
        sd.Mechanical.from_lagrangian(T, x.diff(t, 2), [x, y], start=([1.0, 0.0], [0.0, 0.0]))
