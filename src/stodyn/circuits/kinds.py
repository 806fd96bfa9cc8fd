"""All elements and all types of models, collected from the files of elements/."""

from __future__ import annotations

from stodyn import listing
from stodyn.circuits import elements
from stodyn.circuits.element import ElementType

TYPES = listing.values(elements, ElementType)
MODELS = {name: model for kind in TYPES.values() for name, model in kind.models.items()}
