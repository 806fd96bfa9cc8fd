from stodyn.methods import contract
from stodyn.methods.stiff import StiffRungeKutta
from stodyn.methods.stiff_table import StiffTable
from stodyn.methods.variational import discrete, from_discrete
from stodyn.numerics.newton import newton

__all__ = ["StiffRungeKutta", "StiffTable", "contract", "discrete", "from_discrete", "newton"]
