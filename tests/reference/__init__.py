"""Pages of docs/reference, made from the code that they describe: `python -m tests.reference --save`."""
