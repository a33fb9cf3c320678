"""The laboratory as a command.

In:   what the command line read. Out: an exit code.
"""

from __future__ import annotations

from typing import Any


def demo(*, full: bool = False, **options: Any) -> int:
    """A whole migration on this machine; `migrator.lab.demo.run.Options` names the options. full: to the end."""
    from migrator.lab.demo.full import run_full
    from migrator.lab.demo.run import Options, run_demo

    return run_demo(Options(**options), run_full if full else None)
