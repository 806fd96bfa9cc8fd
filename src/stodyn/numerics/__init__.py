"""Mathematics that knows nothing of dynamics."""
