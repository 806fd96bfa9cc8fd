"""The names a user types: found when they are first used, complete, each with a docstring."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stodyn as sd
from stodyn import analysis, listing, models, noise, statistics
from stodyn.engine.record.identity import software

ROOM = Path(sd.__file__).parent


@pytest.mark.parametrize("package", [sd, analysis, models, noise, statistics], ids=lambda package: package.__name__)
def test_every_listed_name_opens_and_says_what_it_is(package):
    assert dir(package) == package.__all__
    for name in package.__all__:
        value = getattr(package, name)
        assert inspect.getdoc(value), name
        assert not inspect.ismodule(value) or value.__name__.endswith(name)


def public_modules(module, known):
    """Yield a public module and the public modules inside it, each once."""
    if module not in known:
        known.add(module)
        yield module
        for name in dir(module):
            if inspect.ismodule(value := getattr(module, name, None)):
                yield from public_modules(value, known)


CONTRACTS = (sd.methods.contract, sd.problems.contract, sd.statistics.contract)
MODULES = [module for start in (sd, *CONTRACTS) for module in public_modules(start, set())]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_shows_what_a_public_module_is_for_and_none_of_its_imports(module):
    """A name is one of __all__; elsewhere it belongs to a function, a class or a model of the module itself."""
    names = dir(module)
    assert names == sorted(names)
    assert names
    for name in names:
        value = getattr(module, name)
        if not hasattr(module, "__all__"):
            own = value if inspect.isfunction(value) or inspect.isclass(value) else type(value)
            assert own.__module__ == module.__name__ or isinstance(value, sd.models.catalogue.Model), name


@pytest.mark.parametrize("name", [name for name in analysis.__all__ if inspect.ismodule(getattr(analysis, name))])
def test_a_public_analysis_is_one_module_however_it_is_imported(name):
    """It lives in a room of analysis/, and its address stays that of the door."""
    assert importlib.import_module(f"stodyn.analysis.{name}") is getattr(analysis, name)


def test_warnings_have_one_home_and_a_line_each():
    """Whoever filters one finds it in `sd.warnings`; the modules that give it import it from there."""
    pattern = re.compile(r"^class \w+\((User|Runtime)?Warning\):", re.MULTILINE)
    assert {path.name for path in ROOM.rglob("*.py") if pattern.search(path.read_text())} == {"warnings.py"}
    for name in dir(sd.warnings):
        value = getattr(sd.warnings, name)
        assert issubclass(value, UserWarning), name
        assert re.fullmatch(r"Warns (of|that) .*\.", value.__doc__), name


def test_few_enough_names_to_read():
    assert len(dir(sd)) <= 75


def test_every_model_is_listed():
    assert set(models.__all__) == {m.__name__.rpartition(".")[2] for m in listing.modules(models)}


def test_an_unknown_name_is_told_with_those_near_it():
    with pytest.raises(AttributeError, match=r"'stodyn' has no attribute 'simulat'. Near it: simulate"):
        sd.simulat  # noqa: B018
    with pytest.raises(AttributeError, match=r"'exactly_filtered'. It is called ExactNoise\(method\), .* now"):
        sd.exactly_filtered  # noqa: B018


def test_importing_loads_nothing_that_is_not_used():
    """`import stodyn` alone loads neither JAX nor SciPy; its first names no part of SciPy, no LLVM, no pictures."""
    heavy = ("scipy.sparse", "scipy.linalg", "scipy.special", "scipy.stats", "scipy.signal", "llvmlite", "rich",
             "matplotlib", "sympy", "stodyn.circuits")  # fmt: skip
    code = (
        "import sys, stodyn as sd; loaded = {'jax', 'scipy', 'xarray'} & set(sys.modules); sd.SDE; sd.simulate; "
        f"sd.statistics.Moments; print(loaded, set({heavy}) & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "set() set()"
    code = "import sys, stodyn as sd; sd.circuits.read; print({'scipy.stats', 'xarray'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "set()"


def test_modules_that_are_not_listed_open_too():
    code = "import stodyn; print(stodyn.methods.explicit.Heun, stodyn.engine.grid.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "Heun stodyn.engine.grid"
    with pytest.raises(AttributeError, match=r"module 'stodyn.methods' has no attribute 'explicitly'"):
        sd.methods.explicitly  # noqa: B018


def test_the_version_has_one_home():
    """The wheel reads it from the package; a citation says the same."""
    assert f"version: {sd.__version__}\n" in (ROOM.parents[1] / "CITATION.cff").read_text()
    assert 'dynamic = ["version"]' in (ROOM.parents[1] / "pyproject.toml").read_text()
    assert software()["stodyn"] == sd.__version__


def test_the_types_are_shipped():
    assert (ROOM / "py.typed").exists()
    assert (ROOM / "__init__.pyi").exists()
