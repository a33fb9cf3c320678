"""Whether a template or a config provider has yet to fill in a value: `{{ ... }}`, `{% ... %}`, `${...}`.

In:   a text. Out: whether it has one.
Rules: the inventory holds values. A path with a template in it is a path that no host has.
"""

from __future__ import annotations

import re
from typing import Final

_UNFILLED: Final = re.compile(r"\{\{|\{%|\$\{")


def is_unfilled(value: str) -> bool:
    """Whether something has yet to fill in a part of it."""
    return _UNFILLED.search(value) is not None
