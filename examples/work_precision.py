"""Which method is worth its cost? Error against time for six methods

The equation is dx = (1 - x) dt + x/2 dW on (0, 1). All methods follow the same Brownian
paths. The first picture shows how far their paths are from the true ones at the end,
against the processor time of a path: lower left is better. Where only a mean is wanted,
the second picture counts: it shows the error of E x², in which the methods rank
differently. Hollow points are within their sampling error. You can make the same pictures
for your own problem. This one is linear, so the error of E x² is known without sampling.

Domain: choosing a method
"""

import stodyn as sd
from stodyn.analysis import linear

PATHS = 20_000
STEPS = [4, 8, 16, 32, 64, 128]  # small: [4, 8]
METHODS = ["EulerMaruyama", "Heun", "Milstein", "RK4", "PlatenWeak2", "SRIW1"]  # small: ["EulerMaruyama"]


def square(t, x):
    return x[0] ** 2


process = sd.SDE(lambda t, x: 1 - x, lambda t, x: x / 2, start=1.0)
dt = [1 / n for n in STEPS]
paths = sd.compare(process, METHODS, t=(0, 1), dt=dt, paths=PATHS, seed=1)
sd.plot.save(sd.plot.comparison(paths), "work_precision.png")
means = sd.compare(process, METHODS, square, t=(0, 1), dt=dt, paths=PATHS, seed=1)
sd.plot.save(sd.plot.comparison(means), "work_precision_2.png")
print(paths["error"].to_pandas().to_string(float_format="{:.1e}".format))


def mean_square(moments):
    return moments.mean[..., 0] ** 2 + moments.covariance[..., 0, 0]


of_steps = mean_square(
    linear.step_map(process, "EulerMaruyama", 1 / 8).moments([1.0], [[0.0]], 8)
)[-1]
of_equation = mean_square(linear.exact_moments(process, 1.0, [1.0], [[0.0]]))
euler = means.sel(integrator="EulerMaruyama", dt=1 / 8)
ours, error = float(euler["error"]), float(euler["error_stderr"])
exact = abs(of_steps - of_equation)
print(
    f"truth: error of E x² by EulerMaruyama at dt = 1/8 is {exact:.4f}, "
    f"ours {ours:.4f} ± "
    f"{error:.4f}"
)
