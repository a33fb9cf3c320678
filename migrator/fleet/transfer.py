"""Proof of bytes that cross a wire: whoever receives them compares their SHA-256 with the one that was sent along.

In:   a template; what its `read` or `list` printed. Out: the content, or why it is no proof.
Elsewhere: running the commands (exec_actuator.py), what they look like (docker/actuators/).
Rules: a lost connection is the end of input for a shell behind ssh, and an exit code of 0 for some clients. So
`write` gets `{size}` and `{checksum}` (SHA-256) and compares before it replaces the file. Its exit code 65 says that
the file is as it was. `read` and `list` get `{trailer}`, a word: their last line is this word and the checksum of what
stands before that line. A template without these values works as before, and Z2K-7043 names it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from migrator.fleet.templates import Template, uses

TRAILER: Final = "zk2kraft-sha256"
TRAILER_BYTES: Final = len(f"\n{TRAILER} \n") + 64
NOT_WHOLE: Final = 65
"""`EX_DATAERR` of sysexits.h: how a `write` says that other bytes arrived than were sent, and nothing changed."""
PROOFS: Final = {"read": "trailer", "list": "trailer", "write": "checksum"}
"""Which value an act has to use."""


def is_proven(template: Template, act: str) -> bool:
    """Whether this act's command compares checksums."""
    return act in PROOFS and uses(template.acts[act], PROOFS[act])


def unproven(template: Template) -> tuple[str, ...]:
    """Acts whose bytes nobody compares."""
    return tuple(act for act in PROOFS if not is_proven(template, act))


def content_of(printed: bytes) -> bytes | str:
    """What stands before the last line, when that line has its checksum; else what is wrong, without any content."""
    content, trailer = printed[:-TRAILER_BYTES], printed[-TRAILER_BYTES:]
    begin = f"\n{TRAILER} ".encode()
    if not (trailer.startswith(begin) and trailer.endswith(b"\n")):
        return f"the last line, with the checksum, is missing after {len(printed)} bytes"
    if trailer[len(begin) : -1].decode(errors="replace") != hashlib.sha256(content).hexdigest():
        return f"the {len(content)} bytes that arrived have another checksum than the host's"
    return content
