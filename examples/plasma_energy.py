"""The mean energy of particles under Lenard-Bernstein collisions, to a given error.

python plasma_energy.py [ERROR [TIME]]

In a field with separatrices, paths at different steps soon decouple, so that multilevel sampling gains little here, as
the printed route says: the gain is an interval that includes the bias of the step.
"""

import sys

import jax.numpy as jnp

import stodyn as sd
from stodyn.models.lenard_bernstein import initial_energy, lenard_bernstein
from stodyn.statistics import functional

ν = 0.01
plasma = lenard_bernstein(nu=ν)


def energy(t, x, c):
    return 0.5 * x[1] ** 2 + c["E0"] / (4 * jnp.pi) * jnp.sin(4 * jnp.pi * x[0])


def main(error: float = 0.1, T: float = 100.0) -> tuple[float, float]:
    found = sd.estimate(plasma, energy, t=(0, T), error=error, seed=1)
    square = sd.estimate(plasma, functional.TimeAverage(lambda t, x, c: x[1] ** 2), t=(0, T), error=error, seed=2)
    balance = initial_energy(a=0.5, v0=4.0, width=0.5) + ν * T * (1.0 - float(square.value))
    print(f"estimate {float(found.value):.3f} ± {float(found.error):.3f}   {found.attrs['route']}")
    print(f"truth    {balance:.3f} ± {ν * T * float(square.error):.3f}   by the balance dE H/dt = ν (1 - E v²)")
    print(f"{found.attrs['path_steps']:.2g} path-steps; {found.attrs['why']}")
    sd.plot.save(sd.plot.levels(found, balance), "plasma_energy.png")
    return float(found.value), balance


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
