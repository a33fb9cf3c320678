"""FINALIZING given up before any controller was started without the migration flag: back to SOAK.

In:   a snapshot; a controller that is stopped. Out: which controllers were stopped, and which may have been started
      without the flag; columns of the journal; what is forgotten with the step to SOAK.
Elsewhere: when that is possible (policy/finalize_gates.py), the acts (rolling/final.py), the step (work/operations.py).
Rules: a controller that was stopped is put back first: its kept file, to the byte, and a start with it. From the moment
its file without the flag was complete, its start may have been ordered, and nothing leads back. The intent in
ZooKeeper is deleted in SOAK, after the step, for as long as it stands: until then a rollback stays closed.
"""

from __future__ import annotations

import posixpath
from typing import Any, Final

import msgspec
from sqlalchemy import delete
from sqlalchemy.orm import Session

from migrator.findings.finding import FindingError
from migrator.findings.fleet import FILE_ABSENT
from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction
from migrator.fleet.files import checksum_of, predecessor_path, read_present, write_file
from migrator.fleet.guard import finalize_token
from migrator.fleet.render import FileKind
from migrator.fleet.roll import UNTOUCHED, RollStep
from migrator.zk import paths
from state_machine.nodes.fleet import FleetNode
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase, Trigger
from state_machine.rows.documents import INTENT, IntentDocument, document
from state_machine.rows.store import Snapshot, reached
from state_machine.rows.tables import JournalRow, ObservationRow

WITHDRAWN: Final = b"withdrawn: the finalize of this plan was given up\n"
"""In place of a token, so that the guard of the host allows no file without the flag any more."""


def is_put_back(row: JournalRow) -> bool:
    """This controller of the finalize is on its way back to its kept file, or there."""
    return row.roll == Roll.FINAL and row.kind == FileKind.BACK


def stopped(snapshot: Snapshot) -> tuple[int, ...]:
    """Controllers that were stopped for the finalize, and that do not run again with their kept file."""
    rows = [row for row in snapshot.nodes_of(Roll.FINAL) if not _may_be_started(row)]
    return tuple(row.node_id for row in rows if _is_touched(row) and row.step != RollStep.BACK)


def started(snapshot: Snapshot) -> tuple[int, ...]:
    """Controllers that may have been started without the flag, by the journal."""
    return tuple(row.node_id for row in snapshot.nodes_of(Roll.FINAL) if _may_be_started(row))


def _may_be_started(row: JournalRow) -> bool:
    return not is_put_back(row) and reached(row) in (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE)


def _is_touched(row: JournalRow) -> bool:
    return row.began_at is not None or reached(row) not in UNTOUCHED


def is_requested(snapshot: Snapshot) -> bool:
    """Somebody gives the finalize up. Whatever is still to be done for that, no controller is stopped any more."""
    return snapshot.phase is Phase.FINALIZING and any(each.name == Trigger.ABORT for each in snapshot.operations)


def to_put_back(snapshot: Snapshot) -> JournalRow | None:
    """The controller that was stopped, before anything is done about it."""
    if not is_requested(snapshot):
        return None
    waiting = set(stopped(snapshot))
    rows = snapshot.nodes_of(Roll.FINAL)
    return next((row for row in rows if row.node_id in waiting and not is_put_back(row)), None)


def write_kept(node: FleetNode, row: JournalRow, plan: str) -> dict[str, Any]:
    """The file with the flag, to the byte, and no token any more. plan: of the token. Blocks on the host.

    Whatever stands there now is kept beside it. Raises Z2K-4204 when the kept file is lost.
    """
    present = read_present(node.actuator, node.path)
    if present is None:
        raise STEP_FAILED.error(act="write", node=node.name, reason=f"{node.path} cannot be read by its actuator")
    told = _withdraw(node, present.content, plan)
    detail = "put back: the file with the migration flag"
    if present.checksum == row.rendered_from:
        return {"checksum": present.checksum, "detail": detail, **_instructed(told)}
    path = predecessor_path(node.path, row.rendered_from)
    kept = read_present(node.actuator, path)
    if kept is None or kept.checksum != row.rendered_from:
        raise STEP_FAILED.error(act="write", node=node.name, reason=f"{path} is not the file that was kept")
    written = write_file(node.actuator, node.id, node.path, kept.content, present)
    told += [written.text] if isinstance(written, Instruction) else []
    return {"checksum": checksum_of(kept.content), "detail": detail, **_instructed(told)}


def _instructed(told: list[str]) -> dict[str, Any]:
    return {"instruction": " Then: ".join(told)} if told else {}


def _withdraw(node: FleetNode, content: bytes, plan: str) -> list[str]:
    """Overwrite a token that was written; one that was not stays absent."""
    if node.node.guard is None or not plan:
        return []
    path, _ = finalize_token(plan, node.id, content, posixpath.dirname(node.path))
    try:
        found = node.actuator.read(path)
    except FindingError as error:
        if error.code != FILE_ABSENT.code:
            raise
        return []
    if found == WITHDRAWN:
        return []
    answer = node.actuator.write(path, WITHDRAWN)
    return [answer.text] if isinstance(answer, Instruction) else []


def what_was_done(snapshot: Snapshot) -> str:
    """What the history says of a finalize that was ended."""
    back = [row.node_id for row in snapshot.nodes_of(Roll.FINAL) if is_put_back(row)]
    done = (
        f"controllers {back} were stopped, and run again with their kept file" if back else "no controller was stopped"
    )
    return f"the finalize is given up before any start without the migration flag; {done}"


def forget(session: Session, migration_id: int, at: float, *, snapshot: Snapshot, who: str) -> None:
    """Delete the journal of the finalize, which the next one begins anew, and note that its intent has to be deleted.

    It is called in the transaction of the step to SOAK.
    """
    of_it = (JournalRow.migration_id == migration_id, JournalRow.roll == Roll.FINAL)
    session.execute(delete(JournalRow).where(*of_it))
    before = document(snapshot, INTENT, IntentDocument)
    text = "" if before is None else before.text
    left = IntentDocument(at=at, path=paths.FINALIZE_INTENT, text=text, who=who, withdrawn=True)
    row = ObservationRow(migration_id=migration_id, kind=INTENT, at=at, document=msgspec.to_builtins(left))
    session.merge(row)


def standing_intent(snapshot: Snapshot) -> str:
    """The text of an intent that was given up and still stands in ZooKeeper; empty when there is none."""
    found = document(snapshot, INTENT, IntentDocument)
    if found is None or not found.withdrawn or snapshot.observation is None:
        return ""
    return snapshot.observation.zookeeper.intent
