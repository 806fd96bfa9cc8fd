"""Methods for DAEs with random parameters: Radau's orders are measured in tests/methods/test_radau.py."""

from stodyn.problems.random_dae import RandomDAE

CASES: dict = {RandomDAE: {}}
PROPERTIES: dict = {}
