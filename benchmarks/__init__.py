"""Side by side in one run: what we built, and what it is to be compared with."""
