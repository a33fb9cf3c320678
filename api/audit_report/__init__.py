"""The report of one audit as a page of its own, to print or to keep."""
