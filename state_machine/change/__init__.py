"""The report for a change board: what is planned, what was done, what it costs to go back, what was not verified."""
