"""What a person reads of a problem, a method and a model."""

import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.circuits import read
from stodyn.models.catalogue import catalogue
from stodyn.problems import describing


def test_a_problem_tells_its_noise_its_start_and_its_method():
    spring = sd.SDE(
        lambda t, x, p: -p["k"] * x,
        lambda t, x, p: p["s"] * x,
        1.0,
        params={"k": 2.0, "s": scipy.stats.norm(1.0, 0.1)},
    )
    lines = repr(spring).splitlines()
    assert lines[0] == "SDE with 1 component and 1 channel of noise"
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert told["components"] == "x"
    assert told["noise"] == f"{spring.noise_structure}, ito"
    assert told["start"] == "1"
    assert told["params"] == "k = 2, s = norm(loc=1, scale=0.1)"
    assert told["method"].startswith("SRIW1 unless another is named: ")
    page = spring._repr_html_()
    assert page.startswith("<b>SDE with 1 component") and "SRIW1" in page


def test_a_circuit_whose_noise_has_no_place_in_time_can_be_shown():
    """A switch with memory at a node without a capacitor: the words of the refusal stand in its line."""
    switch = "V1 a 0 1\nS1 a b c 0 sw\nR1 b 0 1k\nV2 c 0 sin(0 1 1k)\n.model sw sw(vt=.5 vh=.1 ron=1 roff=1meg)\n"
    assert "no capacitor from b to ground" in repr(read(f"switched\n{switch}"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (scipy.stats.norm(), "norm(loc=0, scale=1)"),
        (scipy.stats.beta(2, b=3.5, scale=2), "beta(a=2, b=3.5, loc=0, scale=2)"),
        (scipy.stats.poisson(3), "poisson(mu=3, loc=0)"),
        (scipy.stats.multivariate_normal([0.0, 1.0]), "multivariate_normal"),
        (sd.noise.Uniform(0.0, 1.0), "Uniform(0, 1)"),
        (sd.PerPath(np.arange(3.0)), "PerPath([0., 1., 2.])"),
        (sd.PerPath(np.ones((100, 2))), "PerPath(array of shape (100, 2))"),
        (object(), "object"),
    ],
)
def test_values_are_told_in_words_without_addresses(value, words):
    assert describing.short(value) == words


def test_coloured_noise_in_the_forces_is_noise():
    still = sd.Mechanical.from_matrices([1.0, 1.0], np.zeros((2, 2)), [[2.0, -1.0], [-1.0, 1.0]])
    ground = sd.noise.coloured.kanai_tajimi(15.0, 0.6, S0=1.0)
    assert repr(still).splitlines()[0] == "Structure with 4 components and no noise"
    lines = repr(sd.base_excited(still, ground)).splitlines()
    assert lines[0] == "DrivenMechanical with 6 components and coloured noise"
    assert lines[2].split() == ["noise", "coloured:", "ground"]
    kicked = sd.Mechanical(lambda t, x, v: -x, noise=lambda t, x, v: 0.1, start=(1.0, 0.0))
    both = sd.with_noise(kicked, sd.noise.coloured.gauss_markov(1.0, 1.0), into="x")
    assert repr(both).splitlines()[0].endswith("and 1 channel of noise and coloured noise")


def test_the_noise_of_a_circuit_is_known_from_its_elements():
    assert "additive (from its elements), ito" in repr(sd.circuits.read("rc\nr1 a 0 1k\nc1 a 0 1n\n.end"))


def test_many_components_are_counted_and_html_is_escaped():
    chain = sd.SDE(
        lambda t, x: -x, lambda t, x: sd.diagonal(0.1 + 0 * x), np.zeros(40), names=[f"<{i}>" for i in range(40)]
    )
    assert "... (40 in all)" in repr(chain) and "array of shape (40,)" in repr(chain)
    assert "&lt;0&gt;" in chain._repr_html_() and "<0>" not in chain._repr_html_()


def test_every_model_and_method_tells_itself():
    for model in catalogue().values():
        assert model.summary in repr(model)
    page = sd.method("SRA1")._repr_html_()
    assert "order 1.5 for additive noise" in page and "Rößler" in page


def test_a_structure_shows_its_first_frequencies():
    """Of two floors of 1 t and 1 MN/m: √((3 ∓ √5)/2 · 1000)/2π; a stiffness in kN among kg and m is √1000 too slow."""
    K = np.array([[2.0, -1.0], [-1.0, 1.0]])
    floors = sd.Mechanical.from_matrices([1e3, 1e3], None, 1e6 * K, damping=("modal", 0.05), units={"time": "s"})
    assert "frequencies  3.111, 8.143 Hz, undamped" in repr(floors)
    slow = sd.Mechanical.from_matrices([1e3, 1e3], None, 1e3 * K, damping=("modal", 0.05))
    assert "frequencies  0.09836, 0.2575 per unit of time, undamped" in repr(slow)
    chain = sd.Mechanical.from_matrices(np.ones(40), np.eye(40), 2.0 * np.eye(40) - np.eye(40, k=1) - np.eye(40, k=-1))
    assert repr(chain).count(", ...") and "undamped" in repr(chain)
    rotor = sd.Mechanical.from_matrices([1.0, 1.0], np.zeros((2, 2)), [[1.0, 0.1], [-0.1, 1.0]], symmetric=False)
    assert "frequencies" not in repr(rotor)


def test_noises_and_recommendations_are_tables_in_a_notebook():
    noise = sd.noise.coloured.gauss_markov2(sigma=2.0, omega=3.0, zeta=0.1, name="gust")._repr_html_()
    assert "2 states, with memories of 3.33<" in noise and "<td>2</td>" in noise and "gust" in noise
    choices = sd.recommend(sd.SDE(lambda t, x: -x, lambda t, x: 0.5, 1.0))
    page = choices._repr_html_()
    assert page.count("<tr>") == len(choices) and choices[0].method.name in page
