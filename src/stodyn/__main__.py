"""`python -m stodyn` is the command `stodyn`."""

from stodyn.cli import main

main()
