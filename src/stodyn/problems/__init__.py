"""What is solved: frozen records of functions and numbers."""
