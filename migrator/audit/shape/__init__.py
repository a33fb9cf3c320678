"""A cluster in figures, beside what an audit compares."""
