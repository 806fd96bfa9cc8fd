"""The mean energy of plasma particles, to an error you name

Particles move in a wave with Lenard-Bernstein collisions and start as a beam on a Maxwell
distribution. sd.estimate takes the error that you want and chooses the method, the steps
and the number of paths; its error includes the bias of the step. In a field with
separatrices, paths with different steps soon diverge from each other, so multilevel
sampling gains little, as the printed route says. The pictures show its levels and their
cost. The check is the balance dE[H]/dt = ν (1 - E v²), from another run.

Domain: particles and plasma
"""

import jax.numpy as jnp

import stodyn as sd
from stodyn.models.lenard_bernstein import initial_energy, lenard_bernstein
from stodyn.statistics import functional

ERROR = 0.1  # small: 0.1
END = 100.0  # small: 10.0
ν = 0.01
plasma = lenard_bernstein(nu=ν)


def energy(t, x, c):
    return 0.5 * x[1] ** 2 + c["E0"] / (4 * jnp.pi) * jnp.sin(4 * jnp.pi * x[0])


def square(t, x, c):
    return x[1] ** 2


found = sd.estimate(plasma, energy, t=(0, END), error=ERROR, seed=1)
average = sd.estimate(
    plasma, functional.TimeAverage(square), t=(0, END), error=ERROR, seed=2
)
balance = initial_energy(a=0.5, v0=4.0, width=0.5) + ν * END * (
    1.0 - float(average.value)
)
sd.plot.save(sd.plot.levels(found, balance), "plasma_energy.png")
print(
    f"{found.attrs['route']}; {found.attrs['path_steps']:.2g} path-steps; "
    f"{found.attrs['why']}"
)
# errors of estimates are half-widths of 95 % intervals: two standard errors
error = 0.5 * float(found.error) + 0.5 * ν * END * float(average.error)
print(
    f"truth: mean energy by its balance is {balance:.3f}, "
    f"ours {float(found.value):.3f} ± "
    f"{error:.3f}"
)
