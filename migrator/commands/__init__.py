"""Commands that an operator names, run within bounds; and who may have written what is run."""
