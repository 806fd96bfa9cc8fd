"""Arguments are taken up to the bounds that their errors name, the bounds included where they say so; not beyond."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured as co
from stodyn.noise.distribution import Density, Normal, Truncated
from stodyn.noise.rejection import Rejection

TINY = 1e-12
NUMBER = sd.SDE(lambda t, x: -x, lambda t, x: 0.1, 1.0)
OSCILLATOR = sd.Mechanical(lambda t, x, v: -x, lambda t, x, v: 0.1, (0.1, 0.2))
M, K = np.diag([1.0, 2.0]), np.diag([1.0, 8.0])
WIND = dict(wind=10.0, sigma=5.0)
GRID = dict(t=(0.0, 4.0), dt=0.25)


def collected(statistic):
    """A run of 16 steps that collects it."""
    return sd.prepare(NUMBER, "EulerMaruyama", paths=2, collect=statistic, **GRID)


def structure(**options):
    return sd.Mechanical.from_matrices(M, options.pop("C", None), K, **options)


def damper(exponent=1.0, smooth=0.0):
    return sd.elements.PowerDamper(at=0, c=1.0, exponent=exponent, smooth=smooth)


def channels(count):
    return sd.SDE(lambda t, x: -x, lambda t, x: jnp.ones((1, count)), [1.0], structure="scalar")


def sampled(count):
    f = np.arange(1.0, 1.0 + count)
    return co.fitted(f, 1.0 / f**2)


def stepped(dt):
    return sd.prepare(NUMBER, "EulerMaruyama", t=(0, 1), dt=dt, paths=1)


def bouc_wen(**changed):
    return sd.elements.BoucWen(**({"at": 0, "stiffness": 1.0, "alpha": 0.5} | changed))


# argument -> (what takes it, values that are taken, values that are not)
BOUNDS = {
    "rho of an α method": (lambda v: sd.method("StochasticAlpha")(rho=v), (0, 0.5, 1), (-TINY, 1 + TINY)),
    "rho of HHT": (lambda v: sd.method("HHT")(rho=v), (0.5, 1), (0.5 - TINY, 1 + TINY)),
    "rho of WBZ": (lambda v: sd.method("WBZ")(rho=v), (0, 1), (-TINY, 1 + TINY)),
    "theta": (lambda v: sd.method("ThetaEuler")(theta=v), (TINY, 1), (0, 1 + TINY)),
    "theta of Milstein": (lambda v: sd.method("ImplicitMilstein")(theta=v), (TINY, 1), (0, 1 + TINY)),
    "tol of Dyadic": (lambda v: sd.method("Dyadic")(tol=v), (TINY,), (0.0, np.inf)),
    "alpha of BoucWen": (lambda v: bouc_wen(alpha=v), (0, 1), (-TINY, 1 + TINY)),
    "gamma of BoucWen": (lambda v: bouc_wen(gamma=v, beta=0.5), (-0.5 + TINY, 0.5), (-0.5, 0.5 + TINY)),
    "n of BoucWen": (lambda v: bouc_wen(n=v), (1, 2), (1 - TINY, np.inf)),
    "stiffness of BoucWen": (lambda v: bouc_wen(stiffness=v), (TINY,), (0.0, np.inf)),
    "gap on both sides": (lambda v: sd.elements.Gap(at=0, stiffness=1.0, gap=v, both=True), (0.0,), (-TINY, np.inf)),
    "gap on one side": (lambda v: sd.elements.Gap(at=0, stiffness=1.0, gap=v), (-1.0, 0.0), (np.inf,)),
    "smooth of a damper": (lambda v: damper(smooth=v), (0.0,), (-TINY,)),
    "exponent of a damper": (lambda v: damper(exponent=v), (1.0,), (1 - TINY,)),
    "place of an element": (lambda v: sd.with_elements(OSCILLATOR, bouc_wen(at=v)), (0,), (1, -1)),
    "restitution": (sd.Restitution, (0, 1), (-TINY, 1 + TINY)),
    "walls": (lambda v: sd.with_walls(NUMBER, {"x": (1.0 - TINY, v)}), (1.0,), (1.0 - TINY, 0.0)),
    "component of a level": (lambda v: st.Passage(sd.Level(0.5, of=v)).prepared(NUMBER, np.arange(3.0)), (0,), (1, -1)),
    "channels of a scalar": (channels, (1,), (2,)),
    "periods": (lambda v: sd.Hamiltonian(lambda t, q, p: q * p, start=(0.1, 0.2), periodic=v), (TINY,), (0.0, np.inf)),
    "modes": (lambda v: structure(C=0 * M, modes=v), (1, 2), (0, 3)),
    "damping": (lambda v: structure(damping=("rayleigh", (1.0, v), (2.0, 0.1))), (0.0,), (-TINY,)),
    "damping of modes": (lambda v: structure(damping=("modal", v)), (0.0,), (-TINY, [0.1, -TINY])),
    "rise and end": (lambda v: co.envelopes.jennings(2.0, v, 1.0), (2.0,), (2.0 - TINY,)),
    "fading and rising": (lambda v: co.envelopes.shinozuka_sato(1.0, v), (1.0 + 1e-6,), (1.0,)),
    "a band": (lambda v: co.flicker(1.0, (1.0, v)), (1.1,), (1.0,)),
    "a height": (lambda v: co.turbulence_scales(v, **WIND), (10.0,), (10.0 - 1e-9,)),
    "a correlation time": (lambda v: co.gauss_markov(1.0, v), (TINY,), (0.0, np.inf)),
    "a pole": (lambda v: co.through(([1.0], [1.0, v])), (1e-6,), (0.0, -1.0)),
    "zeros of a filter": (lambda v: co.through((np.ones(v), [1.0, 2.0, 1.0])), (1, 2), (3,)),
    "samples of a spectrum": (sampled, (4,), (3,)),
    "a first frequency": (lambda v: co.fitted([v, 1.0, 2.0, 3.0], [1.0, 0.5, 0.2, 0.1]), (0.0,), (-TINY,)),
    "a truncated law": (lambda v: Truncated(Normal(0.0, 1.0), 0.0, v), (1e-6,), (0.0, -1.0)),
    "ends of a density": (lambda v: Density(lambda x: np.ones_like(x), 0.0, v), (1.0,), (0.0, -1.0)),
    "a box": (lambda v: Rejection(lambda x: x[:, 0], [0.0], [v], 1.0), (TINY,), (0.0,)),
    "a bound of a density": (lambda v: Rejection(lambda x: x[:, 0], [0.0], [1.0], v), (TINY,), (0.0, np.inf)),
    "normals of a start": (lambda v: sd.from_normals(lambda z: z[0], v), (1,), (0, True)),
    "a scale of a start": (lambda v: dataclasses.replace(NUMBER, start=Normal(0.0, v)), (TINY,), (0.0,)),
    "level of until": (lambda v: sd.until(error=1e-3, level=v), (0.5, 1 - TINY), (0.5 - TINY, 1.0)),
    "error of until": (lambda v: sd.until(error=v), (TINY,), (0.0, np.inf, True)),
    "seconds of until": (lambda v: sd.until(error=1e-3, seconds=v), (TINY,), (0.0,)),
    "most of until": (lambda v: sd.until(error=1e-3, most=v), (1,), (0,)),
    "edges of a histogram": (lambda v: st.Histogram(np.arange(float(v))), (2,), (1,)),
    "widths of a histogram": (lambda v: st.Histogram([0.0, 1.0, v]), (1.0 + TINY,), (1.0,)),
    "confidence": (lambda v: collected(st.Spectrum(segment=8, confidence=v)), (TINY, 1 - TINY), (0.0, 1.0)),
    "segment": (lambda v: collected(st.Spectrum(segment=v)), (8, 16), (7, 18)),
    "lags": (lambda v: collected(st.Autocorrelation(lags=v)), (1, 15), (0, 18)),
    "every": (lambda v: collected(st.Moments(every=v)), (1, 16), (17,)),
    "times of saves": (lambda v: collected(st.Moments(at=[v])), (0.0, 4.0), (-0.25, 4.25)),
    "seed": (lambda v: sd.simulate(NUMBER, "EulerMaruyama", t=(0, 0.1), dt=0.1, paths=1, seed=v), (0,), (-1, True)),
    "dt": (stepped, (1.0, [0.5, 0.5]), (0.0, [1.0, 0.0])),
    "quantile levels": (lambda v: st.Surrogate(quantiles=(v,)), (TINY, 1 - TINY), (0.0, 1.0)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_is_where_its_error_says(name):
    make, taken, refused = BOUNDS[name]
    for value in taken:
        make(value)
    for value in refused:
        with pytest.raises(ValueError):
            make(value)
