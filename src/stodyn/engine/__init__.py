"""Who runs where."""
