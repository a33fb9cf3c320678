"""Rolling restarts: the loop, its journal, and one module per kind of roll. Kinds are named in `table.py` alone."""
