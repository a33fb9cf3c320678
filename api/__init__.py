"""The faces: command line, REST, pages. They show state and record operations; `main.py` alone puts rooms together."""
