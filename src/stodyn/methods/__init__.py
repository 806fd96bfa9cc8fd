"""One step of it: every method is one value in one file."""
