"""What the next file of a stopped node is rendered from: its present file, or the kept one where that was cut.

In:   a node, its present file, and what the journal says of the file before and of the one that was to be written.
Out:  the file to render from. Raises Z2K-7052 when the present one is neither of the two and no cut one.
Elsewhere: what a cut file is (migrator.fleet.ruins), the same on the way back to a previous file (previous_file.py).
Rules: only a kept file with the checksum of the journal counts. A file that somebody edited is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable

from migrator.findings.finding import FindingError
from migrator.findings.fleet import FILE_ABSENT, FILE_IS_NEITHER
from migrator.fleet.files import Present, predecessor_path, read_present
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.ruins import is_ruin
from state_machine.nodes.fleet import FleetNode


def whole_file(
    node: FleetNode, present: Present, before: str, wanted: str, rendered: Callable[[Present], bytes]
) -> Present:
    """Blocks on the host. before, wanted: checksums of the journal. rendered: the next file, made from the one before.

    `present` itself where it is the file before. Raises Z2K-7052, and what the host refuses.
    """
    if present.checksum == before:
        return present
    kept = kept_file(node, before)
    if kept is not None and is_ruin(present.content, kept.content, rendered(kept)):
        return kept
    keys = "an unknown place: it is not kept" if kept is None else _differing(present, kept)
    raise FILE_IS_NEITHER.error(path=node.path, before=before, wanted=wanted, found=present.checksum, keys=keys)


def kept_file(node: FleetNode, checksum: str) -> Present | None:
    """The file that lies beside the present one. None: nobody kept it, or it is another one by now."""
    path = predecessor_path(node.path, checksum)
    try:
        found = read_present(node.actuator, path) if checksum else None
    except FindingError as error:
        if error.code != FILE_ABSENT.code:
            raise
        return None
    return None if found is None or found.checksum != checksum else Present(node.path, found.content)


def _differing(present: Present, kept: Present) -> str:
    """Keys only: values may be secrets."""
    try:
        one, other = parse_properties(present.content, present.path).values, kept.document.values
    except FindingError as error:
        return f"its form ({error.code})"
    keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
    return ", ".join(keys) or "comments or the order of its lines"
