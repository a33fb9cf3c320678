"""Fewer connections to a host: many files in one command, and many commands on one connection."""
