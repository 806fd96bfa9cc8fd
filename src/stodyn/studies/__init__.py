"""The papers' experiments, one file each: run it, set the paper's numbers beside ours, draw its figures.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""
