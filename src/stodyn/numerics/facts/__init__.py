"""What is proved about the numbers of a trace: which are known, what they depend on, and to which degree."""
