"""Who a service is: a random number that its directory keeps, made once.

In:   the directory whose lock this service has. Out: the identity, 32 hexadecimal digits.
Elsewhere: what it is for (cluster_lock.py). Paths and names of hosts are no identity: pods, clones and standbys share
them. A copy of the directory has the same one, and is noticed by the number of its life.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from state_machine.clusters.private_files import read_regular, write_private

FILE: Final = "identity"
FORM: Final = re.compile(rb"[0-9a-f]{32}\n")
BYTES_MAX: Final = 1_000


def identity_of(directory: Path) -> str:
    """Blocks on a disk. One that is damaged is made anew: it proves nothing about a service of before."""
    path = directory / FILE
    try:
        found = read_regular(path, BYTES_MAX)
    except FileNotFoundError:
        found = b""
    if FORM.fullmatch(found) is None:
        found = f"{new_number()}\n".encode()
        write_private(path, found)
    return found.decode().strip()


def new_number() -> str:
    return secrets.token_hex(16)
