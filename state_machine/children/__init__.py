"""Processes that the service starts: commands of our own command line, and controllers that outlive it."""
