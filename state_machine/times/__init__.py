"""Times that a wall clock cannot confuse: the order of rows, and what was observed without a gap."""
