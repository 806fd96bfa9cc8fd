"""The defaults of everything public, and what the catalogue says of each method, are those of tests/defaults.json.

They belong to the interface as much as names: a default that changes changes the results of whoever relied on it. Where
that is meant, write down the new ones by `python tests/test_defaults.py`, and a fragment in changes/.
"""

import inspect
import json
import numbers
import sys
from pathlib import Path

from stodyn.methods.catalogue import catalogue, with_base
from stodyn.methods.contract import in_words

HOME = Path(__file__).resolve().parent.parent
STORED = HOME / "tests" / "defaults.json"
sys.path.insert(0, str(HOME / "docs"))


def plain(value):
    """Whether a default is one that JSON keeps: a number, a word, a truth value, or a tuple of them."""
    if isinstance(value, tuple):
        return all(plain(part) for part in value)
    return value is None or isinstance(value, str | numbers.Real)


def defaults_of(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a class of C
        return {}
    found = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return {name: repr(value) for name, value in found.items() if plain(value) and value is not None}


def entry_of(method):
    """What the catalogue says of a method."""
    claims = "; ".join(f"{claim.kind}: {in_words(claim)}" for claim in method.claims)
    calculus, structures = method.calculus or "either", ", ".join(method.structures) or "any"
    takes = f"{method.accepts.__name__}, {calculus}, noise: {structures}"
    return {"spelling": method.spelling, "summary": method.summary, "takes": takes, "claims": claims}


def all_defaults():
    import reference  # of docs/

    found = {}
    for name in reference.addresses():
        value = reference.resolved(name)
        if callable(value):
            found[name] = defaults_of(value)
        if inspect.isclass(value):
            for own, member in inspect.getmembers(value, inspect.isfunction):
                if not own.startswith("_"):
                    found[f"{name}.{own}"] = defaults_of(member)
    for name, method in {**catalogue(), **with_base()}.items():
        found[f"method {name}"] = defaults_of(method) if inspect.isclass(method) else entry_of(method)
    return {name: of for name, of in sorted(found.items()) if of}


def test_defaults_and_claims_are_those_written_down():
    stored, found = json.loads(STORED.read_text()), all_defaults()
    for name in stored.keys() | found.keys():
        assert found.get(name) == stored.get(name), f"{name}: not as in tests/defaults.json"


if __name__ == "__main__":
    rows = (f"{json.dumps(name)}: {json.dumps(of, ensure_ascii=False)}" for name, of in all_defaults().items())
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n")
