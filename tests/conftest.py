"""Tests compute in float64 unless they say otherwise."""

import contextlib
import sys

import jax
import pytest


@contextlib.contextmanager
def without_most_optimisations():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def quick_compiling():
    """For programs that run for milliseconds and take seconds to compile: leave most of XLA's optimisations out."""
    with without_most_optimisations():
        yield


@pytest.fixture(scope="module")
def quick_compiling_everywhere():
    """The same for all the tests of a file, and for the processes they start."""
    with without_most_optimisations(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        yield


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def figures_closed():
    """Pictures a test has drawn do not stay open for the next ones."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
