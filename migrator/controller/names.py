"""What a topic may be named.

Source: Kafka 3.9 `Topic.validate`.
"""

from __future__ import annotations

import re
from typing import Final

NAME_MAX: Final = 249


def refuse_name(name: str) -> str | None:
    """Why a topic may not have this name; None when it may."""
    if not name or name in (".", "..") or len(name) > NAME_MAX or not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        return f"Topic name is invalid: {name!r}"
    return None
