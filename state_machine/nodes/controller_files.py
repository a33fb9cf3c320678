"""Two inventories name a file for each controller: the migration's, with which ours run, and the fleet's, for stock.

In:   a snapshot, a controller of the fleet, its file as its host has it. Out: Z2K-7057 where the two differ.
Elsewhere: when it is asked (file_watch.py), what closes because of it (policy/fleet_names.py).
Rules: values are compared, not paths: a container has other paths, and of a controller elsewhere the service has a
copy. Once stock has the file, the migration's is compared with what is kept of before. Values are in no message.
Why: with two files, a rollback puts back a file that ours do not use, and stock starts beside the retired log with the
other one, which has no key of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.fleet import CONTROLLER_FILES_DIFFER
from migrator.fleet.files import predecessor_path, read_present
from migrator.fleet.properties_file import Document, parse_properties
from state_machine.nodes.fleet import FleetNode
from state_machine.policy.fleet_evidence import CONTROLLERS
from state_machine.rows.store import Snapshot

KEYS_SHOWN: Final = 5


def differing_files(snapshot: Snapshot, node: FleetNode, present: Document) -> tuple[Occurrence, ...]:
    """() for a broker, and where both are the same. Blocks on disk and host. present: as its host has it now."""
    entry = next((each for each in snapshot.inventory.controllers if each.node_id == node.id), None)
    if node.role != CONTROLLERS or entry is None or not snapshot.phase_row.compares_inventories:
        return ()
    found = {"node": node.name, "path": node.path, "other": entry.properties}
    try:
        ours = parse_properties(Path(entry.properties).read_bytes(), entry.properties)
    except (FindingError, OSError) as error:
        return (CONTROLLER_FILES_DIFFER.found(**found, keys=f"the second one cannot be read: {words_of(error)}"),)
    if ours.values == present.values:
        return ()
    theirs = _of_before(snapshot, node) or present
    keys = sorted(key for key in {*ours.values, *theirs.values} if ours.value(key) != theirs.value(key))
    if not keys:
        return ()
    more = [f"and {len(keys) - KEYS_SHOWN} more"] if len(keys) > KEYS_SHOWN else []
    return (CONTROLLER_FILES_DIFFER.found(**found, keys=", ".join((*keys[:KEYS_SHOWN], *more))),)


def _of_before(snapshot: Snapshot, node: FleetNode) -> Document | None:
    """What stock's file was rendered from; None where stock has none yet, or where nobody can read it."""
    row = next((each for each in snapshot.stock_rows if each.node_id == node.id), None)
    if row is None or not row.rendered_from:
        return None
    try:
        kept = read_present(node.actuator, predecessor_path(node.path, row.rendered_from))
        return None if kept is None or kept.checksum != row.rendered_from else kept.document
    except FindingError:
        return None
