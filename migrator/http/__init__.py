"""Limits of an HTTP port that hold before anybody has shown a token."""
