"""Tests compute in float64 unless they say otherwise."""

import jax
import pytest


@pytest.fixture
def quick_compiling():
    """For programs that run for milliseconds and take seconds to compile: leave most of XLA's optimisations out."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def quick_compiling_everywhere():
    """The same for all the tests of a file, and for the processes they start."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield
