"""Variance from parameters and from noise, against closed forms given the parameters."""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, Hamiltonian
from stodyn.analysis.tolerance import split_variance
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.noise.distribution import Uniform
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.results import provenance

RANDOM = {"rate": Uniform(0.5, 1.5), "sigma": Uniform(0.3, 0.7)}
RUN = {"t": (0.0, 1.0), "dt": 1.0 / 64, "paths": 4096, "seed": 5, "at": [0.5, 1.0]}


def exact(t):
    """Mean, the part of the parameters and the part of the noise of dx = -rate x dt + sigma dW from 1."""
    rate, w = RANDOM["rate"].rule(20)
    mean = np.exp(-rate * t)
    noise = (w @ ((1.0 - np.exp(-2.0 * rate * t)) / (2.0 * rate))) * RANDOM["sigma"].moment(2)
    return w @ mean, w @ mean**2 - (w @ mean) ** 2, noise


@pytest.mark.brief("smolyak", "collocation")
@pytest.mark.parametrize("route", ["quadrature", "smolyak", "collocation"])
def test_the_parts_of_an_ornstein_uhlenbeck_process_are_the_exact_ones(route):
    """Within 5 standard errors (6e-7 each) of the exact parts; nothing of the mean comes from sigma."""
    found = split_variance(ornstein_uhlenbeck(), "SRA1", random=RANDOM, route=route, degree=3, **RUN)
    for k, t in enumerate((0.5, 1.0)):
        one = found.isel(time=k, component=0)
        mean, parameters, noise = exact(t)
        for name, value in (
            ("mean", mean), ("variance_parameters", parameters), ("variance_noise", noise),
            ("variance", parameters + noise), ("share_parameters", parameters / (parameters + noise)),
        ):  # fmt: skip
            assert abs(float(one[name]) - value) < 5.0 * float(one[f"{name}_stderr"]) + 2e-5, (name, t)
        first = one["variance_first"].values
        assert first[0] == pytest.approx(float(one["variance_parameters"]), abs=1e-3)
        assert abs(first[1]) < 5.0 * one["variance_first_stderr"].values[1] + 1e-9
        assert float(one["variance_stderr"]) < 0.05 * float(one["variance"])
    record = provenance(found)
    assert "Uniform(0.5, 1.5)" in str(record["random"]) and record["steps"] > 0 and record["dt"] > 0


def test_common_noise_makes_small_parameter_parts_visible():
    """Tolerances of 1 % against noise a thousand times their variance: still found to 20 %."""
    small = {"rate": Uniform(0.99, 1.01)}
    found = split_variance(ornstein_uhlenbeck(), "SRA1", random=small, degree=1, **RUN).isel(time=1, component=0)
    rate, w = small["rate"].rule(8)
    value = w @ np.exp(-2.0 * rate) - (w @ np.exp(-rate)) ** 2
    assert float(found["variance_noise"]) > 1e3 * value
    assert float(found["variance_parameters"]) == pytest.approx(value, rel=0.2)


def test_the_part_of_a_stiffness_is_exact_for_a_hamiltonian_problem():
    """q'' = -k q + σ w from rest at q = 1: E q = cos(√k t), the part of k within 5 standard errors (6e-7)."""
    problem = Hamiltonian(lambda t, q, p, c: 0.5 * (p**2 + c["k"] * q**2), lambda t, q, p, c: -0.2 * q,
                          start=(1.0, 0.0), params={"k": 1.0})  # fmt: skip
    k, w = Uniform(0.8, 1.2).rule(12)
    found = split_variance(problem, "StoermerVerlet", random={"k": Uniform(0.8, 1.2)}, degree=3, **RUN)
    one = found.isel(time=1).sel(component="q")
    q = np.cos(np.sqrt(k))
    off = abs(float(one["variance_parameters"]) - (w @ q**2 - (w @ q) ** 2))
    assert off < 5.0 * float(one["variance_parameters_stderr"]) + 1e-6
    with pytest.raises(TypeError, match="random parameters are entries of params, a mapping"):
        split_variance(ornstein_uhlenbeck_without(), random=RANDOM, **RUN)


def test_the_parts_of_an_sdae_are_those_of_its_sde():
    """The same process with its rate times x as an algebraic component: within 5 standard errors (6e-7)."""
    problem = SDAE(np.diag([1.0, 0.0]), lambda t, x, p: jnp.stack([-x[1], x[1] - p["rate"] * x[0]]),
                   lambda t, x, p: jnp.array([[0.5], [0.0]]), [1.0, 1.0], {"rate": 1.0}, names=("x", "z"))  # fmt: skip
    random = {"rate": RANDOM["rate"]}
    one = split_variance(problem, "RK1W2", random=random, degree=3, **RUN).isel(time=1).sel(component="x")
    rate, w = RANDOM["rate"].rule(20)
    noise = 0.25 * w @ ((1.0 - np.exp(-2.0 * rate)) / (2.0 * rate))
    for name, value in (("variance_parameters", exact(1.0)[1]), ("variance_noise", noise)):
        assert abs(float(one[name]) - value) < 5.0 * float(one[f"{name}_stderr"]) + 2e-5, name


def test_the_parts_of_a_mechanical_problem_are_the_exact_ones():
    """x'' = -k x + 0.2 ξ from rest at x = 1: the part of k as above, that of the noise 0.04 ∫ sin²(√k s)/k ds."""
    problem = Mechanical(lambda t, x, v, c: -c["k"] * x, lambda t, x, v, c: 0.2, (1.0, 0.0), params={"k": 1.0})
    one = split_variance(problem, "StochasticAlpha", random={"k": Uniform(0.8, 1.2)}, degree=3, **RUN).isel(time=1)
    one, (k, w) = one.isel(component=0), Uniform(0.8, 1.2).rule(12)
    x, r = np.cos(np.sqrt(k)), np.sqrt(k)
    noise = w @ (0.04 * (0.5 - np.sin(2.0 * r) / (4.0 * r)) / k)
    for name, value in (("variance_parameters", w @ x**2 - (w @ x) ** 2), ("variance_noise", noise)):
        assert abs(float(one[name]) - value) < 5.0 * float(one[f"{name}_stderr"]) + 2e-6, name


def ornstein_uhlenbeck_without():
    return SDE(lambda t, x: -x, lambda t, x: 0.5, 1.0)


def test_wrong_arguments_are_named_with_what_is_expected():
    for options, words in [
        ({"random": {"speed": Uniform(0, 1)}}, r"random: 'speed' is not one of the entries of params, \['rate', 'sig"),
        ({"random": {}}, "random: nothing is random; give distributions for some of the entries of params"),
        ({"random": RANDOM, "batches": 7}, "paths, batches: .* got 4096 paths in 7 batches; take a multiple of 7"),
        ({"random": RANDOM, "route": "guess"}, "route: expected one of"),
    ]:
        with pytest.raises(ValueError, match=words):
            split_variance(ornstein_uhlenbeck(), "SRA1", **RUN | options)
