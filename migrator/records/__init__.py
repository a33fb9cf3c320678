"""Metadata records made of the model's values: the one way from a value to its record.

| module | its one sentence |
| --- | --- |
| `builders.py` | One builder per kind of record, for decisions, snapshots and the copy alike. |
"""
