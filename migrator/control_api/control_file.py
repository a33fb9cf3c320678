"""Where a controller's control port listens and with which token: a file beside its metadata log."""

from __future__ import annotations

from typing import Final

import msgspec

CONTROL_FILE: Final = "zk2kraft-control.json"
CONTROL_FILE_MAX_BYTES: Final = 16_384


class ControlFile(msgspec.Struct, frozen=True):
    """Written by the controller at its start, readable by this user only."""

    url: str
    token: str
    pid: int
