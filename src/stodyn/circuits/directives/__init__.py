"""The directives of netlists: one file for each kind, found by listing this folder."""
