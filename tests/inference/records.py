"""Records and problems that several tests of this folder share."""

import jax.numpy as jnp
import numpy as np

import stodyn as sd

K = np.arange(1, 26)
TIMES = 0.2 * K + 0.05 * np.sin(K)
VALUES = np.sin(1.3 * K) + 0.5 * np.cos(0.7 * K**2)


def ornstein_uhlenbeck(**params):
    """dx = -a (x - mu) dt + s dW."""
    return sd.SDE(
        lambda t, x, p: -p["a"] * (x - p["mu"]), lambda t, x, p: p["s"], start=0.0,
        params={"a": 0.8, "mu": 0.5, "s": 1.1, "r": 0.3} | params,
    )  # fmt: skip


def oscillator(start=(0.0, 0.0), **params):
    """x'' + 2 ζ ω x' + ω² x = q ξ."""
    return sd.SDE(
        lambda t, x, p: jnp.array([x[1], -(p["ω"] ** 2) * x[0] - 2 * p["ζ"] * p["ω"] * x[1]]),
        lambda t, x, p: jnp.array([[0.0], [p["q"]]]),
        start=start if callable(start) else np.array(start),
        params={"ω": 2.0, "ζ": 0.1, "q": 0.7, "r": 0.2} | params,
        names=["x", "v"],
    )


def sensor(name="y", of="x", noise="r", **options):
    return sd.Sensor(name, of=of, noise=None if noise is None else sd.per_sample(noise), **options)


NILE = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958,
    1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020,
    1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040,
    759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], float)  # fmt: skip
