"""Where a controller's control port listens and with which token: a file beside its metadata log."""

from __future__ import annotations

import re
from typing import Final

import msgspec

CONTROL_FILE: Final = "zk2kraft-control.json"
CONTROL_FILE_MAX_BYTES: Final = 16_384
TOKEN: Final = re.compile(r"[\x21-\x7e]{16,256}")
"""Of a control port for other hosts: what a header can hold as it is."""
NO_TOKEN: Final = "it holds no token: 16 to 256 letters, digits or signs of ASCII in one line"


class ControlFile(msgspec.Struct, frozen=True):
    """Written by the controller at its start, readable by this user only."""

    url: str
    token: str
    pid: int
