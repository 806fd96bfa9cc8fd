"""Old public names work for two minor versions, with a warning that names the new word; then they are errors."""

import numpy as np
import pytest

import stodyn
from stodyn import deprecation
from stodyn.analysis import integrator, linear, structures

STEP = linear.StepMap("a step", np.array([[0.5, 1.0]]), np.array([[2.0]]), np.eye(1, 2), np.eye(1, 2), 0.0, True)


@pytest.mark.parametrize("version", ["0.3.0", "0.4.7"])
def test_an_old_name_warns_for_two_minor_versions(version, monkeypatch):
    monkeypatch.setattr(stodyn, "__version__", version)
    with pytest.warns(
        DeprecationWarning, match=r"old: write new, .* since stodyn 0\.3; .* goes in version 0\.5"
    ) as seen:
        deprecation.answer("old", "new", "0.3")
    assert seen[0].filename == __file__


@pytest.mark.parametrize("version", ["0.5.0", "1.0.0"])
def test_an_old_name_is_an_error_from_the_third_on_and_still_names_the_new_word(version, monkeypatch):
    monkeypatch.setattr(stodyn, "__version__", version)
    with pytest.raises(AttributeError, match=r"old: write new, .*; the old name is gone"):
        deprecation.answer("old", "new", "0.3")


def test_a_step_as_a_linear_map_answers_its_old_names():
    with pytest.warns(DeprecationWarning, match="LinearStep: write StepMap"):
        assert integrator.LinearStep is linear.StepMap
    with pytest.warns(DeprecationWarning, match=r"radius: write spectral_radius\(\)"):
        assert STEP.radius == 0.5
    with pytest.warns(DeprecationWarning, match=r"write step\.M, step\.c, step\.G, step\.R"):
        M, c, G, R = STEP
    assert (M, c, G, R) == (STEP.M, STEP.c, STEP.G, STEP.R)
    with pytest.raises(AttributeError, match="has no attribute 'LinearSteps'"):
        integrator.LinearSteps  # noqa: B018


def test_a_recorded_acceleration_answers_its_old_name():
    with pytest.warns(DeprecationWarning, match="Record: write Accelerogram"):
        assert structures.Record is structures.Accelerogram
    assert stodyn.Record is not structures.Accelerogram
