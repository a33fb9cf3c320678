"""Runbooks as pages: those of this very release, from its checkout or its package.

In:   a finding's code, or a phase.
Out:  the text of its page; None when there is none.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

CODE: Final = re.compile(r"\bZ2K-\d{4}\b")
CHECKOUT: Final = Path(__file__).resolve().parents[2] / "runbooks"
PACKAGE: Final = "zk2kraft_runbooks"


@cache
def runbook(name: str) -> str | None:
    """name: a finding's code."""
    if not CODE.fullmatch(name):
        return None
    try:
        place = CHECKOUT if CHECKOUT.is_dir() else files(PACKAGE)
        return (place / f"{name}.md").read_text()
    except (OSError, ModuleNotFoundError):
        return None


def linked(text: object) -> Markup:
    """The text as it is, with a link to its runbook from every finding's code that has one."""

    def link(found: re.Match[str]) -> str:
        code = found.group()
        return code if runbook(code) is None else f'<a href="/runbooks/{code}">{code}</a>'

    return Markup(CODE.sub(link, str(escape(text))))
