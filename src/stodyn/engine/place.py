"""Where blocks run: ways to map a function over the blocks of a run, with the results in the order of the blocks.

place.threads(n)        one process, n threads: the default
place.processes(n)      n processes of this machine
place.dask(client)      the workers of a Dask cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.engine.places.threads import Threads
from stodyn.hints import Integer

if TYPE_CHECKING:
    from stodyn.engine.places.dask import Dask
    from stodyn.engine.places.processes import Processes

__all__ = ["dask", "processes", "threads"]
__dir__ = listing.names_of(__name__)


@checks_arguments
def threads(count: Integer | None = None) -> Threads:
    """Run blocks in threads of this process, which is the default.

    Parameters
    ----------
    count : int, optional
        How many; by default one per core.

    Returns
    -------
    Threads
        For `place=` of simulate and similar functions.
    """
    return Threads(count)


@checks_arguments
def processes(count: Integer | None = None) -> Processes:
    """Run blocks in processes of this machine: for functions that hold Python's lock.

    They start when they are first needed, which takes some seconds, and are used by later runs too;
    `with place.processes(2) as there:` ends them. Functions, lambdas and closures travel by cloudpickle; a script needs
    no `if __name__ == "__main__"`.

    Parameters
    ----------
    count : int, optional
        How many; by default one per core.

    Returns
    -------
    Processes
        For `place=` of simulate and similar functions.
    """
    from stodyn.engine.places.processes import Processes

    return Processes(count)


@checks_arguments
def dask(client: Any) -> Dask:
    """Run blocks on the workers of a Dask cluster; needs the extra `cluster`.

    Workers must have the same versions and the same kind of processor, since the result has the same bits as anywhere
    else; others are refused by name. Workers may die, leave and join.

    Parameters
    ----------
    client : distributed.Client, cluster or str
        A client, a cluster such as LocalCluster(), or the address of a scheduler.

    Returns
    -------
    Dask
        For `place=` of simulate and similar functions.
    """
    from stodyn.engine.places.dask import Dask

    return Dask(client)
