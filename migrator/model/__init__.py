"""Cluster metadata as frozen values, and what changed between two of them.

`values.py` says what a cluster is made of, `image.py` holds it all at one offset, `draft.py` makes the next image
from the one before, and `diff.py` names every key in which two images differ. Nothing of ours is imported here.
"""
