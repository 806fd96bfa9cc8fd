"""What the cells of a notebook show: problems, methods, recommendations, noises and runs as tables."""

import jax

import stodyn as sd


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return -x


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return 0.5 + 0 * x


process = sd.SDE(drift, noise, start=1.0, names=("x",))
gusts = sd.noise.coloured.gauss_markov(sigma=1.0, tau=2.0)
run = sd.simulate(process, t=(0, 1), dt=0.05, paths=100, seed=1, progress=False)
for shown in (process, sd.method("SRA1"), sd.recommend(process), gusts, run):
    page = shown._repr_html_()
    print(type(shown).__name__, len(page), page.count("<table"))
sd.plot.save(sd.plot.band(run), "band.png")
