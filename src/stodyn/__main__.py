"""`python -m stodyn` is the command `stodyn`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder, which the command does not search either: it may hold files of others

from stodyn.cli import main

main()
