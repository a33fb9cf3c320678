"""REST under `/api/v1`: shows rows and records operations."""
