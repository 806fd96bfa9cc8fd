"""A first look: one system from each field, one file each; a question, an answer beside the truth, and a picture.

Private: names in here may change in any version; the public ones are those of `stodyn`.
"""
