"""Audits that were kept: read again, and compared with each other."""
