"""What is an option worth? A call by simulation and by Black and Scholes

A share price follows dS = r S dt + σ S dW. A call pays max(S - K, 0) after a year, and
its price is the discounted mean of that. `sd.estimate` is asked for the prices at nine
strikes at once, each to half a cent: it chooses the method, the steps and the points, and
its error includes the bias of the steps. The picture shows prices and errors.

Domain: life and finance
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import stodyn as sd

ERROR = 0.005  # small: 0.1
S0, RATE, VOLATILITY, T = 100.0, 0.03, 0.2, 1.0
STRIKES = np.linspace(80, 120, 9)

share = sd.SDE(lambda t, s: RATE * s, lambda t, s: VOLATILITY * s, S0, names=("price",))
found = sd.estimate(
    share,
    lambda t, s: jnp.exp(-RATE * T) * jnp.maximum(s[0] - STRIKES, 0.0),
    t=(0, T),
    error=ERROR,
    seed=1,
)
print(f"route: {found.attrs['route']}, {found.attrs['path_steps']:.1e} path-steps")

d1 = (np.log(S0 / STRIKES) + (RATE + VOLATILITY**2 / 2) * T) / (VOLATILITY * np.sqrt(T))
exact = S0 * norm.cdf(d1) - STRIKES * np.exp(-RATE * T) * norm.cdf(
    d1 - VOLATILITY * np.sqrt(T)
)
ours, errors = found["value"].values, found["error"].values

_, (upper, lower) = plt.subplots(
    2, 1, figsize=(6, 4.5), layout="constrained", sharex=True
)
upper.plot(STRIKES, exact, "k", lw=1, label="Black and Scholes")
upper.plot(STRIKES, ours, "C0o", ms=4, label="estimate")
upper.set_ylabel("price of the call [$]")
upper.legend(frameon=False)
lower.axhline(0, color="k", lw=1)
lower.errorbar(STRIKES, 100 * (ours - exact), 100 * errors, fmt="C0o", ms=4, capsize=2)
lower.set(xlabel="strike", ylabel="difference and its\n95 % interval [cents]")
sd.plot.save(upper, "option.png")
for k in (0, 4, 8):
    print(
        f"truth: price of the call at {STRIKES[k]:.0f} is {exact[k]:.5f}, "
        f"ours {ours[k]:.5f} ± {errors[k] / 2:.5f}"
    )
