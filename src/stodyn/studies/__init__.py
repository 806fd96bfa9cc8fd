"""The papers' experiments, one file each: it runs the experiment, sets the paper's numbers beside ours and draws its
figures.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""
