"""A gyro at rest: which noises does it have?

An hour of readings of a gyro that does not move holds its white noise, its flicker and
the walk of its bias. The Allan deviation shows each where it is largest. The fit uses the
exact covariance of the points, so its intervals cover; the deviations of the fitted terms
add up to the curve.

Domain: tolerances
"""

import numpy as np

import stodyn as sd

HOURS = 1.0  # small: 0.02
EVERY = 0.02
ARW = np.deg2rad(0.3) / 60  # 0.3 deg/sqrt(h) in rad/sqrt(s)

gyro = sd.noise.gyro(
    arw=ARW, bias_instability="10 deg/h", rate_random_walk=2e-6, every=EVERY
)
rate = gyro.sample(round(3600 * HOURS / EVERY), seed=1)[0, :, 0]
curve = sd.analysis.allan(rate, EVERY, taus=3)
fit = curve.fit("NBK")

ax = sd.plot.allan(curve, fit)
ax.set_title("an hour of a gyro at rest")
sd.plot.save(ax, "gyro_at_rest.png")
print(fit)
N = fit["N"]
print(
    f"truth: angle random walk in 1e-5 rad/sqrt(s) is {1e5 * ARW:.4f}, "
    f"ours {1e5 * N.value:.4f} ± {1e5 * (N.high - N.low) / 4:.4f}"
)
