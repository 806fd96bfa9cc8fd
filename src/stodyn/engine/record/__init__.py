"""What is known of a run without running it again: its identity, and its finished blocks on disk."""
