from stodyn.problems import contract
from stodyn.problems.calculus import to_ito, to_stratonovich
from stodyn.problems.minimal import in_minimal_coordinates
from stodyn.problems.tangents import with_tangents
from stodyn.warnings import NoiseNotDelivered, ResponseNotDelivered

__all__ = [
    "NoiseNotDelivered",
    "ResponseNotDelivered",
    "contract",
    "in_minimal_coordinates",
    "to_ito",
    "to_stratonovich",
    "with_tangents",
]
