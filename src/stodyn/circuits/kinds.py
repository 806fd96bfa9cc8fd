"""The elements and the types of models that there are: what the files of elements/ hold."""

from __future__ import annotations

from stodyn import listing
from stodyn.circuits import elements
from stodyn.circuits.element import ElementType

TYPES = listing.values(elements, ElementType)
MODELS = {name: model for kind in TYPES.values() for name, model in kind.models.items()}
