"""`python -m api` is the command line, for where the console script is not on the path."""

from api.cli import main

main()
