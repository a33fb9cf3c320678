"""The faces: command line, REST, pages. They show state and record operations.

`app.py` and `cli.py` alone put packages together.
"""
