"""Whose a host, a file and a lock are: what is confirmed from the second side before anything is done."""
