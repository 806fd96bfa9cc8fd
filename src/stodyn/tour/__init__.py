"""A first look: one system from each field, one file each; a question, an answer beside the truth, and a picture."""
