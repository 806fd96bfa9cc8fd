"""When did the Nile change? A level that wanders, from a hundred readings

The annual flow of the Nile at Aswan, 1871 to 1970, is read as a level that wanders as
Brownian motion, plus noise (J. Durbin & S. J. Koopman, Time Series Analysis by State
Space Methods). Nothing is known of the level at the start. The picture shows the level
given the whole record, also between the years, and the innovations: the flow fell by a
quarter about 1899.

Domain: records
"""

import numpy as np

import stodyn as sd

AT = np.linspace(1871, 1970, 400)  # small: [1871.0, 1970.0]
FLOW = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994,
    1020, 960, 1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100,
    774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456,
    824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796,
    1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812,
    742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923,
    975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
]  # fmt: skip

level = sd.SDE(
    lambda t, x: 0.0 * x, lambda t, x, p: p["wander"], start=0.0,
    params={"wander": 1469.1**0.5, "noise": 15099**0.5}, names=["level"],
)  # fmt: skip
gauge = sd.Sensor("flow", of="level", noise=sd.per_sample("noise"))
options = {
    "data": (np.arange(1871.0, 1971.0), FLOW), "sensors": gauge, "t0": 1871.0,
    "initial": "diffuse",
}  # fmt: skip
now = sd.filtered(level, **options)
later = sd.smoothed(level, at=AT, **options)

# The dense law of the differences: they do not know the level either.
k = np.arange(99)
covariance = (1469.1 + 2 * 15099) * np.eye(99) - 15099 * (abs(k[:, None] - k) == 1)
steps = np.diff(FLOW)
exact = -0.5 * (
    steps @ np.linalg.solve(covariance, steps)
    + np.linalg.slogdet(2 * np.pi * covariance)[1]
)
print(f"truth: log-likelihood is {exact:.9f}, ours {float(now.loglik):.9f} ± 1e-8")
sd.plot.save(sd.plot.filtered(later, "level"), "nile.png")
