"""Steps are traced once for all calls that say the same, and anew for those that do not or cannot be told."""

import dataclasses
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import kept_traces, traces
from stodyn.methods.contract import EXPLICIT, Claim, Method
from stodyn.methods.implicit import ThetaEuler
from stodyn.noise import wiener
from stodyn.numerics.printing.fingerprints import says_all
from stodyn.problems import index

RUN = dict(t=(0.0, 1.0), dt=0.25, paths=2, seed=1, collect=st.Moments(at=[1.0]))


@pytest.fixture
def traced(monkeypatch):
    """The methods whose steps are traced."""
    made = []

    def trace(problem, method, dtype, fit):
        made.append(method)
        return original(problem, method, dtype, fit)

    original = traces.trace
    monkeypatch.setattr(traces, "trace", trace)
    kept_traces.forget()
    return made


def last(problem, method, **options):
    return float(sd.simulate(problem, method, **RUN | options)["mean"][-1, 0])


def test_equal_calls_share_a_trace_and_others_have_their_own(traced):
    """Of dx = -rate x dt by Euler's steps, explicit and implicit: (1 - h rate)^4 and (1 + h rate)^-4."""
    rate = [1.0]
    problem = sd.SDE(lambda t, x: -rate[0] * x, None, 1.0)
    for rate[0] in (1.0, 2.0, 1.0):
        np.testing.assert_allclose(last(problem, "EulerMaruyama"), (1 - 0.25 * rate[0]) ** 4, rtol=1e-14)
        np.testing.assert_allclose(last(problem, ThetaEuler(theta=1.0)), (1 + 0.25 * rate[0]) ** -4, rtol=1e-9)
    assert len(traced) == 4
    np.testing.assert_allclose(last(problem, ThetaEuler(theta=0.5)), (0.875 / 1.125) ** 4, rtol=1e-9)
    assert len(traced) == 5


def test_equal_loops_share_a_trace_and_others_have_their_own(traced):
    """x' = u with u = -gain x at every step: (1 - h gain)^4; jitter in common and jitter of one's own differ."""
    gain, late = [1.0], [sd.Jitter(1), sd.Jitter(1)]
    plant = sd.SDE(lambda t, x, p: p["u"] + 0 * x, None, [1.0], params={"u": 0.0}, names=("x",))

    def loop():
        law = sd.Part("law", 0.25, lambda t, own, seen, p: (own, -gain[0] * seen["x"]), sd.true("x"), "u")
        return sd.with_loop(plant, law)

    for gain[0] in (1.0, 2.0, 1.0):
        np.testing.assert_allclose(last(loop(), "EulerMaruyama"), (1 - 0.25 * gain[0]) ** 4, rtol=1e-14)
    assert len(traced) == 2
    for jitters in (late[:1] * 2, late, late[:1] * 2):
        sensors = (sd.Sensor(name, "x", every=0.75, jitter=one) for name, one in zip("ab", jitters, strict=True))
        last(sd.with_loop(plant, *sensors), "EulerMaruyama")
    assert len(traced) == 4


def test_structures_from_matrices_share_a_trace_where_their_matrices_are_equal(traced):
    def beam(stiffness):
        return sd.Mechanical.from_matrices(np.ones(3), 0.1 * np.eye(3), stiffness * np.eye(3), noise=np.ones(3))

    runs = [sd.simulate(beam(k), "StochasticAlpha", **RUN) for k in (4.0, 4.0, 5.0)]
    assert len(traced) == 2
    assert np.array_equal(runs[0]["mean"], runs[1]["mean"]) and not np.array_equal(runs[0]["mean"], runs[2]["mean"])
    other = dataclasses.replace(beam(4.0), force=lambda t, x, v: -0.1 * x**3)
    sd.simulate(other, "StochasticAlpha", **RUN)
    assert len(traced) == 3


def test_parameters_and_starts_of_small_sdes_are_no_part_of_a_trace(traced):
    for rate, start in ((1.0, 1.0), (2.0, 3.0)):
        problem = sd.SDE(lambda t, x, p: -p["rate"] * x, None, start, {"rate": rate})
        np.testing.assert_allclose(last(problem, "EulerMaruyama"), start * (1 - 0.25 * rate) ** 4, rtol=1e-14)
    assert len(traced) == 1
    last(sd.SDE(lambda t, x, p: -p["rate"][0] * x, None, 1.0, {"rate": np.ones(1)}), "EulerMaruyama")
    assert len(traced) == 2


def test_functions_of_other_problems_may_change_too(traced):
    """An oscillator with a stiffness and a mass that are read from outside: each shows, and each has its trace."""
    stiffness, mass = [1.0], [1.0]
    problem = sd.Mechanical(
        lambda t, x, v: -stiffness[0] * x, None, (1.0, 0.0), mass=lambda t, x, v: mass[0] + 0.0 * x * x
    )
    found = {}
    for stiffness[0], mass[0] in ((1.0, 1.0), (4.0, 1.0), (4.0, 4.0), (1.0, 1.0)):
        found.setdefault(stiffness[0] / mass[0], []).append(last(problem, None, dt=1 / 64))
    np.testing.assert_allclose(found[1.0], np.cos(1.0), atol=1e-3)
    np.testing.assert_allclose(found[4.0], np.cos(2.0), atol=1e-3)
    assert len(traced) == 3


def test_a_mass_that_draws_is_refused():
    rng = np.random.default_rng(1)
    problem = sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.0), mass=lambda t, x, v: 1.0 + rng.random() + 0.0 * x)
    with pytest.raises(ValueError, match="mass: traced twice, it gives two different functions"):
        last(problem, None)


@dataclasses.dataclass(frozen=True)
class _OfAUser(Method):
    """Euler's, with a share of the step that its class holds."""

    share = 1.0
    accepts = sd.SDE
    calculus = "ito"
    name = "OfAUser"
    needs = wiener.W
    citation = "here"
    claims = (Claim("strong", 0.5),)

    def step(self, problem, t, x, noise, params):
        return x + self.share * noise.h * problem.f(t, x, params), EXPLICIT


def test_methods_of_users_are_traced_anew(traced, monkeypatch):
    problem = sd.SDE(lambda t, x: -x, None, 1.0)
    for share in (1.0, 0.5):
        monkeypatch.setattr(_OfAUser, "share", share)
        np.testing.assert_allclose(last(problem, _OfAUser()), (1 - 0.25 * share) ** 4, rtol=1e-14)


def test_a_function_with_derivatives_of_its_own_is_not_told_by_its_trace():
    @jax.custom_jvp
    def ruled(x):
        return x * x

    ruled.defjvp(lambda primals, tangents: (ruled(*primals), 0.0 * tangents[0]))
    with jax.enable_x64(True):
        assert says_all(jax.make_jaxpr(lambda x: jnp.diag(jnp.where(x > 0, x, 0.0)))(np.ones(2)))
        assert not says_all(jax.make_jaxpr(lambda x: jax.jit(ruled)(x))(np.ones(2)))


def test_levels_that_say_the_same_share_a_trace(traced):
    """x = t is stopped at its level, which is read from outside."""
    level = [0.3]
    problem = sd.SDE(lambda t, x: 1.0 + 0.0 * x, None, 0.0)
    for level[0] in (0.3, 0.6, 0.3):
        stop = sd.Stop(sd.Level(lambda t: level[0], of=lambda t, x: x[0]))
        np.testing.assert_allclose(last(problem, "EulerMaruyama", stop=stop), level[0], rtol=1e-12)
        np.testing.assert_allclose(last(problem, "EulerMaruyama", stop=sd.Stop(sd.Level(level[0]))), level[0])
    assert len(traced) == 4


@pytest.fixture
def diagnosed(monkeypatch):
    """The times at which the index of an SDAE is found out."""
    made = []

    def diagnose(problem, t):
        made.append(t)
        return original(problem, t)

    original = index.diagnose
    monkeypatch.setattr(index, "diagnose", diagnose)
    kept_traces.forget()
    return made


@pytest.mark.filterwarnings("ignore::stodyn.warnings.StartMoved")
def test_facts_are_found_out_once_for_problems_that_say_the_same(diagnosed):
    """dx = -x dt, 0 = y - slope x, is of index 1, and 0 = x is not."""
    slope, solved = [2.0], [1.0]

    def drift(t, z):
        return jnp.stack([-z[0], solved[0] * z[1] - slope[0] * z[0]])

    def run(start=2.0):
        problem = sd.SDAE(np.diag([1.0, 0.0]), drift, None, (1.0, start))
        return sd.simulate(problem, "RK1W2M", **RUN)["mean"][-1]

    for slope[0] in (2.0, 3.0, 2.0):
        x, y = run(slope[0])
        np.testing.assert_allclose(y, slope[0] * x, rtol=1e-12)
    assert len(diagnosed) == 2
    assert "moved" in str(
        sd.provenance(sd.simulate(sd.SDAE(np.diag([1.0, 0.0]), drift, None, (1.0, 5.0)), "RK1W2M", **RUN))
    )
    assert len(diagnosed) == 3
    solved[0] = 0.0
    with pytest.raises(ValueError, match="cannot be run"):
        run()
    assert len(diagnosed) == 4


def test_the_structure_of_noise_is_that_of_the_functions_as_they_are(traced):
    power = [0]
    problem = sd.SDE(lambda t, x: -x, lambda t, x: x ** power[0], 1.0)
    told = []
    for power[0] in (0, 1, 0):
        told.append("additive" in str(sd.provenance(sd.simulate(problem, "EulerMaruyama", **RUN))["noise"]))
    assert told == [True, False, True]


def test_facts_of_one_start_are_not_those_of_others_that_begin_alike(traced):
    """Listed starts and parameters are known to the digest by their first path alone."""

    def mean(starts, rates):
        problem = sd.SDE(lambda t, x, p: -p["rate"] * x, None, sd.PerPath(starts), {"rate": sd.PerPath(rates)})
        return last(problem, "EulerMaruyama")

    assert mean([1.0, 1.0], [0.0, 0.0]) == 1.0
    assert mean([1.0, 3.0], [0.0, 0.0]) == 2.0
    assert mean([1.0, 3.0], [0.0, 4.0]) == 0.5
    problem = sd.SDE(lambda t, x: -x, None, sd.PerPath([1.0, 1.0]))
    assert kept_traces.recall_facts(problem, {}) is None
    one = sd.SDE(lambda t, x: -x, None, 1.0)
    sd.simulate(one, "EulerMaruyama", **RUN)
    assert not any("start_source" in facts for facts in kept_traces._facts.values())


def test_a_circuit_is_traced_once_and_one_with_another_value_anew(traced):
    circuit = sd.circuits.read("title\nI1 0 a 1m\nR1 a 0 1k\nC1 a 0 1n\nD1 a 0 j\n.model j D(CJO=1n)\n.tran 10n 20n\n")
    ends = [_end_of(one) for one in (circuit, circuit, circuit.valued({"r1.value": 2e3}))]
    assert ends[0] == ends[1] != ends[2]
    assert len(traced) == 2


def _end_of(circuit):
    run = sd.simulate(circuit, t=circuit.span, dt=circuit.step, paths=2, seed=1, collect=st.Moments(at=[20e-9]))
    return float(run["mean"].sel(component="a").squeeze())


def test_the_places_of_sparse_noise_belong_to_what_is_kept():
    """The values are the same each time: only where they stand differs, and whether they are a diagonal."""

    def moved(diffusion):
        problem = sd.SDE(lambda t, x: -x, diffusion, start=np.zeros(3))
        run = sd.simulate(problem, "EulerMaruyama", t=(0.0, 0.5), dt=0.5, paths=8, seed=1, collect=st.Moments(at=[0.5]))
        return np.flatnonzero(run["variance"].values[0]).tolist()

    values = np.array([1.0, 10.0, 0.0])
    assert moved(lambda t, x: sd.sparse([0, 1, 1], [0, 1, 2], jnp.asarray(values), (3, 3))) == [0, 1]
    assert moved(lambda t, x: sd.sparse([2, 1, 1], [0, 1, 2], jnp.asarray(values), (3, 3))) == [1, 2]
    assert moved(lambda t, x: sd.sparse([2, 0, 1], [0, 0, 2], jnp.asarray(values), (3, 3))) == [0, 2]
    assert moved(lambda t, x: sd.diagonal(jnp.asarray(values))) == [0, 1]


def test_values_that_differ_have_different_words():
    sparse = scipy.sparse.csr_array(np.diag([1.0, 2.0]))
    values = [
        None, 0, 0.0, -0.0, False, "0", np.float32(0.0), Fraction(1, 2), 0.5, (), [], {}, (1, 2), (2, 1), [1, 2],
        ("a", "b"), ("ab",), (1.0, 2.0), (1.0, "a"), (1.0, "b"), {"a": 1.0}, {"a": 2.0}, {"b": 1.0}, np.arange(2.0),
        np.arange(2), np.arange(2.0)[None], sparse, 2.0 * sparse, sparse[:, ::-1].copy(), sparse[:1],
        ThetaEuler(theta=0.5), ThetaEuler(theta=0.75),
    ]  # fmt: skip
    assert len({repr(kept_traces._value(value)) for value in values}) == len(values)
    with pytest.raises(kept_traces.NoDigest):
        kept_traces._value(object())


TOLERANT = """an amplifier whose load varies
VDD vdd 0 5
VIN in 0 SIN(1.2 0.1 1meg)
M1 out in 0 0 nn W=10u L=1u
R1 vdd out {gauss(10k,0.1,3)}
C1 out 0 {gauss(1p,0.1,3)}
.model nn NMOS(KP=100u VTO=0.7 LAMBDA=0.05)
.tran 10n 0.2u
"""


def test_members_of_a_family_of_circuits_share_a_trace(traced):
    """Values of parameters are inputs: each has its own answer, with the bits of a run that nothing came before."""
    circuit = sd.circuits.read(TOLERANT)
    run = dict(t=circuit.span, dt=circuit.step, paths=4, seed=1, collect=st.Moments(at=[0.2e-6]))
    members = [
        circuit.at({"gauss(r1.value)": r, "gauss(c1.value)": c}) for r, c in ((0.0, 0.0), (1.5, 0.0), (0.0, -2.0))
    ]
    means = [sd.simulate(member, **run)["mean"].values for member in members]
    assert len(traced) == 1
    assert len({mean.tobytes() for mean in means}) == 3
    for member, mean in zip(members[1:], means[1:], strict=True):  # nothing came before the first
        kept_traces.forget()
        np.testing.assert_array_equal(sd.simulate(member, **run)["mean"].values, mean)
    assert len(traced) == 3
    other = sd.circuits.read(TOLERANT.replace("KP=100u", "KP=120u")).at({"gauss(r1.value)": 0.0})
    assert not np.array_equal(sd.simulate(other, **run)["mean"].values, means[0])
    assert len(traced) == 4


def test_steps_that_take_more_than_their_facts_are_kept_by_their_values(traced, monkeypatch):
    from stodyn.circuits import Circuit

    listed = Circuit.step_facts

    def before_the_step(self):
        vars(self)["asked"] = vars(self).get("asked", 0) + 1
        return listed.fget(self) if vars(self)["asked"] == 1 else None

    monkeypatch.setattr(Circuit, "step_facts", property(before_the_step))
    circuit = sd.circuits.read(TOLERANT)
    run = dict(t=circuit.span, dt=circuit.step, paths=4, seed=1, collect=st.Moments(at=[0.2e-6]))
    for shift in (0.0, 1.5, 0.0, 1.5):
        sd.simulate(circuit.at({"gauss(r1.value)": shift}), **run)
    assert len(traced) == 2
