"""BLAS on one thread for a while, and as before afterwards."""

import threading

import pytest
import threadpoolctl

from stodyn.numerics.one_thread import blas_on_one_thread


def threads_of_blas():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads():
    with threadpoolctl.threadpool_limits(2, "blas"):
        yield


@blas_on_one_thread
def outer(inner):
    return threads_of_blas(), inner() if inner else None


def test_threads_are_one_inside_and_as_before_afterwards():
    assert set(threads_of_blas()) == {2}
    once, twice = outer(lambda: outer(None)[0])
    assert set(once) == set(twice) == {1}
    assert set(threads_of_blas()) == {2}


def test_an_error_restores_them():
    with pytest.raises(ZeroDivisionError):
        outer(lambda: 1 / 0)
    assert set(threads_of_blas()) == {2}


def test_of_calls_that_overlap_in_two_threads_none_leaves_its_setting_behind():
    entered, may_leave = threading.Event(), threading.Event()

    def waiting():
        entered.set()
        may_leave.wait(10)

    other = threading.Thread(target=outer, args=(waiting,))

    def starting():
        other.start()
        entered.wait(10)
        return threads_of_blas()

    assert set(outer(starting)[1]) == {1}
    may_leave.set()
    other.join()
    assert set(threads_of_blas()) == {2}
