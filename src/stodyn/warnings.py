"""The warnings that stodyn gives, one class each, to be filtered by those who know why: `warnings.simplefilter`."""

from stodyn import listing

__dir__ = listing.names_of(__name__)


# --- Steps that are too long -----------------------------------------------------------------------------------------


class UnstableSteps(UserWarning):
    """Warns of steps so long that the method grows where the equations decay."""


class StiffWarning(UserWarning):
    """Warns of a system that is too stiff for the explicit noise terms of a high-order method."""


class JumpsInTime(UserWarning):
    """Warns of a drift or force that jumps where a step ends, or at a time by which a user takes derivatives."""


class StopsNotResolved(UserWarning):
    """Warns of steps that are too long for the stops of a structure."""


class EnergyNotKept(UserWarning):
    """Warns of steps that give or take the energy of bodies that move without stops."""


class WallsNotResolved(UserWarning):
    """Warns of steps that are too long for the walls of a problem."""


class NoiseNotDelivered(UserWarning):
    """Warns of steps that are too long for the filter of coloured noise."""


class ResponseNotDelivered(UserWarning):
    """Warns of steps that are too long for what noise drives."""


class SpectrumFolded(UserWarning):
    """Warns of samples that are too far apart to have the spectrum to which a noise was fitted."""


class Unresolved(UserWarning):
    """Warns of a cycle whose steps are too long for its noise."""


# --- Noise and order -------------------------------------------------------------------------------------------------


class SpectrumNotMet(UserWarning):
    """Warns that no filter of an allowed order meets the samples of a spectrum to the tolerance."""


class DoesNotFit(UserWarning):
    """Warns of terms that do not explain an Allan variance."""


class CoarseReadings(UserWarning):
    """Warns of readings that are rounded more coarsely than their noise, whose rounding is no noise of its own."""


class ResolutionWarning(UserWarning):
    """Warns of iterated integrals that are too coarse for the order of the method that uses them."""


class CovarianceError(UserWarning):
    """Warns of noise that leaves an error of order h in the covariance, where another method or table does better."""


class NoBridge(UserWarning):
    """Warns of a level whose crossings are detected only at the ends of steps."""


class Drifting(UserWarning):
    """Warns of a method without support for constraints, which steps the accelerations that they allow."""


# --- What a result does not say --------------------------------------------------------------------------------------


class Unbelievable(UserWarning):
    """Warns of a mean that is not finite, or so large that the steps must have been unstable."""


class Unmet(UserWarning):
    """Warns of a level that was meant to stop paths but that no path has reached."""


class Censored(UserWarning):
    """Warns of paths that had not reached the level when the run ended: the mean passage time is not fully known."""


class HeavyTailed(UserWarning):
    """Warns of a standard error that is itself poorly known, because rare large values dominate it."""


class NotReached(UserWarning):
    """Warns of a run that ended before its numbers were known to the tolerance."""


class OneValue(UserWarning):
    """Warns of a quantity that had one value on every path: no standard error accounts for rare other values."""


class Untrusted(UserWarning):
    """Warns of an estimate whose checks have failed; its attribute `reasons` says which."""


class Chaotic(UserWarning):
    """Warns of derivatives of paths that scatter far more than what they are derivatives of."""


class Skewed(UserWarning):
    """Warns of single runs that scatter so much that an estimate from a few is too low more often than not."""


class MissedWays(UserWarning):
    """Warns of signs that the runs have missed some ways to a rare event."""


# --- Fits to data ----------------------------------------------------------------------------------------------------


class NotIdentified(UserWarning):
    """Warns of parameters that a record does not determine."""


class NotGaussian(UserWarning):
    """Warns of a filter that takes a law for a normal one, where a grid contradicts it."""


class Multimodal(UserWarning):
    """Warns of another maximum of a likelihood that comes close to the highest."""


class StepTooLong(UserWarning):
    """Warns of a fit by the law of a method whose steps are too long for the likelihood of the equations."""


# --- What was given --------------------------------------------------------------------------------------------------


class AnotherOrder(UserWarning):
    """Warns of a function whose arguments have names that belong to other places."""


class NeverArrives(UserWarning):
    """Warns of a sensor or a part of a loop whose first reading or output would come after the end of the run."""


class StartMoved(UserWarning):
    """Warns of a start that did not satisfy the constraints, and was moved onto them."""


class NegativeMatrix(UserWarning):
    """Warns of a random stiffness or damping that is negative on some paths, which then grow without bound."""


class Overdamped(UserWarning):
    """Warns of a damping ratio above 1, as one stated in percent would be."""


class NominalValues(UserWarning):
    """Warns of a run in which random values of a netlist have their nominal values on all paths."""


class SinglePrecisionConstant(UserWarning):
    """Warns of a computation in float64 with numbers that were rounded to float32 before it began."""


# --- How it is computed ----------------------------------------------------------------------------------------------


class BlockHalved(UserWarning):
    """Warns that a block did not fit into the device's memory."""


class PrinterFault(UserWarning):
    """Warns of an error of the printer of programs: another way computes the same numbers, more slowly."""
