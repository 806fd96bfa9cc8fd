"""Traces printed as programs for a processor; nothing here knows about dynamics."""
