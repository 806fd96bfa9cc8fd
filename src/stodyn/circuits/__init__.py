"""Circuits: SPICE netlists as stochastic differential-algebraic equations, with the noise of their elements."""

from pathlib import Path

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.circuits.circuit import Circuit, read
from stodyn.circuits.direct_current import Curves, Transfer
from stodyn.circuits.harmonics import Harmonics
from stodyn.circuits.scattering import Scattering, TwoPortNoise
from stodyn.circuits.small_signal import Response, SmallSignal, Spectrum
from stodyn.circuits.text import NetlistError

__all__ = [
    "Circuit",
    "Curves",
    "Harmonics",
    "NetlistError",
    "Response",
    "Scattering",
    "SmallSignal",
    "Spectrum",
    "Transfer",
    "TwoPortNoise",
    "examples",
    "read",
]
__dir__ = listing.names_of(__name__)


class _Examples(dict[str, Path]):
    """Name -> file, with an error for other names that lists similar ones."""

    def __missing__(self, name: str) -> Path:
        try:
            return listing.find(name, self, "examples")
        except ValueError as error:
            raise KeyError(str(error)) from None


@checks_arguments
def examples() -> dict[str, Path]:
    """Return the netlists that come with the library.

    Returns
    -------
    dict
        Name of each netlist -> path of its file, which `read` takes.
    """
    return _Examples((path.stem, path) for path in sorted((Path(__file__).parent / "examples").glob("*.cir")))
