"""Questions about methods and problems."""
