"""The faces: command line, REST, pages. They show state and record wishes; `main.py` alone puts rooms together."""
