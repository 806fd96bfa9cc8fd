"""The papers' experiments, one file each: run it, set the paper's numbers beside ours, draw its figures."""
