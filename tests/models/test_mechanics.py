"""The mechanical models without noise, under an integrator that is not ours, and what is known of them exactly."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from stodyn.models.beam import BEAM
from stodyn.models.bushing import BUSHING
from stodyn.models.double_pendulum import DOUBLE_PENDULUM
from stodyn.models.oscillators import OSCILLATOR_CHAIN
from stodyn.models.slider_crank import QUADRATIC, SLIDER_CRANK, equations, two_node_rod
from stodyn.models.spring_pendulum import SPRING_PENDULUM
from stodyn.numerics.printing.points import AtPoints, at_one

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")


def integrated(problem, times, rtol=1e-12, atol=1e-14):
    """States at some times by scipy's DOP853, from a compiled force."""
    f = AtPoints(lambda t, x: problem.f(t, x, problem.params), (None, 0))
    run = scipy.integrate.solve_ivp(
        lambda t, x: f(t, x[None])[0],
        (0.0, times[-1]),
        problem.example_start(),
        "DOP853",
        times,
        rtol=rtol,
        atol=atol,
    )
    return run.y.T


def test_the_double_pendulum_moves_as_the_reference_does():
    found = integrated(DOUBLE_PENDULUM.problem, [0.5, 1.0, 2.0])
    expected = [
        (0.671171451853, 1.142460862682, -2.030860877526, -3.508742797637),
        (-0.79039200414, -0.49783884560, -3.84266719173, -1.73662203149),
        (-0.16080467763, -1.94519685596, 2.93563211712, 3.67765834440),
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-10)
    energies = DOUBLE_PENDULUM.exact["energy"](found)
    np.testing.assert_allclose(energies, energies[0], rtol=1e-10, atol=1e-9)
    lighter = integrated(DOUBLE_PENDULUM(g=9.8).problem, [1.0, 2.0])
    np.testing.assert_allclose(lighter[:, 0], (-0.78843052627, -0.16380045964), rtol=1e-9)


def test_the_spring_pendulum_moves_as_the_reference_does():
    found = integrated(SPRING_PENDULUM.problem, [0.1, 1.0, 2.0, 4.0])
    expected = [
        (1.02379012986, 0.00455273984, -4.34392959611, 0.08048034782),
        (0.8113220216, 0.4496783598, 2.1606497867, 2.3977797283),
        (-0.2280037086, 0.9726070463, -2.3738894252, 4.0382867663),
        (-1.098412202, 0.055594622, -0.303246982, 0.303108236),
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-8, atol=1e-10)
    energies = SPRING_PENDULUM.exact["energy"](found)
    np.testing.assert_allclose(energies, energies[0], rtol=1e-9)


def test_the_beam_moves_as_the_reference_does():
    problem = BEAM(position=0.0, velocity=0.0, additive=0.0, form="dense").problem
    found = integrated(problem, [1.0, 2.5], rtol=1e-11, atol=1e-13)[:, [0, 4, 9, 19]]
    expected = [
        (0.0443657566, 0.3356427360, 0.5117546299, 1.500762978),
        (-0.00118620502, 0.01250652309, 0.05031868131, -1.95839477),
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-8)
    frequencies = [3.48659657, 21.13353825, 56.60264393, 104.52119943, 160.58197559, 219.75124717, 276.91953691,
                   327.24366366, 366.50940803, 391.45051252]  # fmt: skip
    np.testing.assert_allclose(BEAM.exact["frequencies"](), frequencies, atol=1e-8)


def test_both_forms_of_the_beam_are_one_system():
    """The acceleration of the banded form, once its constraint is solved, is that of the dense one; noise too."""
    dense, banded = BEAM(n=4, form="dense").problem, BEAM(n=4).problem

    def both(t, θ, ω):
        u = banded.motion.settled(t, θ, ω, jnp.zeros(4), None, rounds=1)  # the constraint is linear in u
        states = ((dense, (t, θ, ω, θ[:0], None)), (banded, (t, θ, ω, u, None)))
        return [(problem.acceleration(*state), problem.motion.kicks(*state)) for problem, state in states]

    rng = np.random.default_rng(1)
    for t in (0.4, 4.0):
        (expected, noise), (found, same) = at_one(both, t, *0.5 * rng.standard_normal((2, 4)))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        np.testing.assert_array_equal(noise, same)
    assert BEAM.problem.motion.band.width == 5


def test_the_bushing_moves_as_the_reference_does():
    for torque, expected in {
        "printed": {
            2: (-0.190049990920, -1.105829891308, -1.202279313649, -0.853891467976),
            5: (0.279964742282, 0.120640570600, 0.852437495658, 0.578056262655),
            20: (2.343351376327, 0.802905977739, 0.806661791184, 0.688047975611),
        },
        "conservative": {
            2: (3.627415313013, 6.243191551426, 1.288497543799, 1.200419604370),
            20: (2.623841945166, 3.155319048691, -0.087529462378, -1.774801677938),
        },
    }.items():
        times = 1e-5 * np.pi * np.array(list(expected))
        found = integrated(BUSHING(torque=torque, noise="none").problem, times, rtol=1e-13, atol=1e-24)
        Q, V, _ = BUSHING.exact["scaled"](found, times)
        np.testing.assert_allclose(np.concatenate([Q[:, 1:], V[:, 1:]], axis=1), list(expected.values()), rtol=3e-10)
        assert np.abs(Q[:, 0]).max() < 1e-6


def test_the_slider_crank_moves_as_the_reference_does():
    found = integrated(SLIDER_CRANK.problem, [0.01], rtol=1e-11)[0]
    expected = (-0.5221639691885, 0.2706282471161, 8.319205130e-4, 4.738752653e-5, -3.49773078e-6, -5.66227147e-6)
    np.testing.assert_allclose(found[1:7], expected, rtol=2e-8)
    assert found[0] == pytest.approx(1.5) and np.abs(SLIDER_CRANK.exact["constraints"](0.01, found)).max() < 1e-12


def test_noise_of_the_slider_crank_stays_on_the_constraints():
    problem = SLIDER_CRANK(noise=0.5).problem
    x, v = np.split(np.asarray(problem.example_start()), 2)
    b = at_one(lambda x, v: problem.motion.kicks(0.0, x, v, jnp.zeros(0), None), x, v)
    M, _, G, _ = at_one(lambda x, v: equations(QUADRATIC, x, v), x, v)
    np.testing.assert_allclose(G @ b, 0.0, atol=1e-12 * np.abs(b).max())
    assert float(b[3, 0]) > 0 and np.all(np.linalg.eigvalsh(M) > 0)


def test_two_node_elements_converge_to_the_same_rod():
    """The stretch of the end under a static pull, and the first longitudinal frequency, against a continuous rod."""
    for k, tolerance in ((4, 0.02), (16, 0.001)):
        rod = two_node_rod(k)
        pull = np.zeros(k)
        pull[-1] = 1.0
        K, M = rod.K[2:, 2:], rod.M[2:, 2:]
        assert np.linalg.solve(K, pull)[-1] == pytest.approx(0.30 / (0.2e12 * 6.4e-5), rel=1e-12)
        first = np.sqrt(np.linalg.eigvals(np.linalg.solve(M, K)).real.min())
        assert first == pytest.approx(np.pi / 2 / 0.30 * np.sqrt(0.2e12 / 7870.0), rel=tolerance)
    assert SLIDER_CRANK(elements=3).problem.N == 8
    with pytest.raises(ValueError, match="elements: expected a whole number >= 1"):
        SLIDER_CRANK(elements=0).problem  # noqa: B018


def test_the_chain_is_at_rest_in_its_stationary_law():
    P = OSCILLATOR_CHAIN.exact["stationary_covariance"]()
    np.testing.assert_allclose(P[10:, 10:], 0.5**2 / (2 * 0.3) * np.eye(10), atol=1e-12)
    np.testing.assert_allclose(P[:10, 10:], 0.0, atol=1e-12)


def test_parameters_that_no_model_has_are_named():
    with pytest.raises(ValueError, match="torque, noise: expected 'printed' or 'conservative'"):
        BUSHING(torque="other").problem  # noqa: B018
    with pytest.raises(ValueError, match="form: expected 'banded' or 'dense'"):
        BEAM(form="other").problem  # noqa: B018
    with pytest.raises(ValueError, match="n: expected at least 2 elements, got 1"):
        BEAM(n=1).problem  # noqa: B018
