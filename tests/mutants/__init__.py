"""Hand-made faults in lines on which data depends, and the tests that must find each: `python -m tests.mutants`."""
