"""Rows: what the service keeps in its database, and the one module that writes each kind."""
