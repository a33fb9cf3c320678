"""BEGIN: Kafka's own controllers are formatted and started for the first time (`engine: stock`).

In:   a `Round`, a `NodeTask`. Out: as the methods of `RollKind`.
Elsewhere: when the quorum counts as formed (policy/stock_gates.py), the file (migrator.fleet.render), stock in the
place of ours (stock.py).
Rules: a directory is formatted only where it holds nothing: a log in it belongs to another migration. What is formatted
already, for this cluster and node, stays. A controller alone leads nothing, so one counts as started when its process
runs with its file; that all of them follow is asked of the quorum.
Source: Kafka 3.9 `MetaPropertiesEnsemble`, `BootstrapDirectory`; its tool writes the same two files.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.findings.fleet import FILE_ABSENT
from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction, Performed, ProcessState
from migrator.fleet.files import Present, read_present
from migrator.fleet.properties_file import Document, names_in, parse_properties
from migrator.fleet.render import DEFAULT_LOG_DIR, FileKind
from migrator.fleet.roll import RollStep
from migrator.model.verdict import Verdict
from migrator.node.config.formatting import bootstrap_checkpoint, level_of
from migrator.node.log.storage import BOOTSTRAP, LOG_NAME, META_PROPERTIES
from state_machine.nodes.fleet import FleetNode
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.kind import performed
from state_machine.rolling.node_conditions import own_process
from state_machine.rolling.round import NodeSeen, NodeTask, Round
from state_machine.rolling.stock import StockControllers
from state_machine.rows.tables import JournalRow

LEADING_DASH: Final = "A"
"""In the place of a dash, which Kafka avoids at the begin of an id."""


class BeginRoll(StockControllers):
    roll = Roll.BEGIN

    def last(self, round: Round) -> frozenset[int]:
        return frozenset()

    def is_gone(self, round: Round, node: FleetNode) -> bool:
        """No log counts a controller that never ran."""
        return True

    def registers_never(self, round: Round, row: JournalRow, seen: NodeSeen) -> bool:
        return False

    def whole(self, round: Round, row: JournalRow, seen: NodeSeen, *, beside: bool) -> Verdict:
        return Verdict(own_process(seen.process, seen.rendered))

    def found(self, task: NodeTask, present: Present | None) -> dict[str, Any] | None:
        """One that runs with this file already: somebody started it by hand, or another life of the service did."""
        node = task.node
        if present is None:
            return None
        rendered = task.round.fleet.render(node, present, FileKind.STOCK)
        runs = node.actuator.status().state is ProcessState.RUNNING
        if runs and rendered.checksum == present.checksum:
            return {
                "step": RollStep.WHOLE,
                "kind": str(FileKind.STOCK),
                "rendered_from": present.checksum,
                "checksum": present.checksum,
                "incarnation": "",
                "detail": "it ran already with this file and was not restarted",
            }
        cluster_id = task.round.snapshot.migration.cluster_id
        for directory in _directories(rendered.document):
            _own(node, directory, cluster_id)
            _refuse_log(node, directory)
        return None

    def write(self, task: NodeTask) -> dict[str, Any]:
        written = performed(self.write_rendered(task))
        if written:
            return written
        present = read_present(task.node.actuator, task.node.path)
        assert present is not None, "it was just written and read back"
        for directory in _directories(present.document):
            answer = self._format(task, directory)
            if isinstance(answer, Instruction):
                return performed(answer)
        return {}

    def _format(self, task: NodeTask, directory: str) -> Performed | None:
        """Bootstrap first, identity last, as Kafka's tool does. None: it was formatted before."""
        node, cluster_id = task.node, task.round.snapshot.migration.cluster_id
        if cluster_id is None:
            raise STEP_FAILED.error(act="write", node=node.name, reason="the id of the cluster is not known yet")
        if _own(node, directory, cluster_id):
            return None
        release = task.round.fleet.inventory.cluster.quorum.metadata_version
        first = node.actuator.write(f"{directory}/{BOOTSTRAP}", bootstrap_checkpoint(level_of(release)))
        if isinstance(first, Instruction):
            return first
        lines = ("#", f"cluster.id={cluster_id}", "version=1", f"directory.id={_id(cluster_id, node.id, directory)}")
        content = "\n".join((*lines, f"node.id={node.id}", "")).encode()
        return node.actuator.write(f"{directory}/{META_PROPERTIES}", content)


def _directories(document: Document) -> tuple[str, ...]:
    """Of the metadata log, and any other that the file names."""
    logs = names_in(document.value("log.dirs") or document.value("log.dir") or DEFAULT_LOG_DIR)
    return tuple(dict.fromkeys((document.value("metadata.log.dir") or logs[0], *logs)))


def _read(node: FleetNode, path: str) -> bytes | None:
    """None where there is no such file. Raises what else a host can answer, and Z2K-4204 where it cannot read."""
    try:
        content = node.actuator.read(path)
    except FindingError as error:
        if error.code == FILE_ABSENT.code:
            return None
        raise
    if content is None:
        raise STEP_FAILED.error(act="read", node=node.name, reason=f"{path} cannot be read by its actuator")
    return content


def _own(node: FleetNode, directory: str, cluster_id: str | None) -> bool:
    """Whether it is formatted, for this cluster and node. Raises Z2K-4204 where it is for others."""
    content = _read(node, f"{directory}/{META_PROPERTIES}")
    if content is None:
        return False
    meta = parse_properties(content, META_PROPERTIES)
    found = meta.value("cluster.id"), meta.value("node.id")
    if found != (cluster_id, str(node.id)):
        reason = f"{directory} is formatted for cluster {found[0]}, node {found[1]}: empty it"
        raise STEP_FAILED.error(act="prepare", node=node.name, reason=reason)
    return True


def _refuse_log(node: FleetNode, directory: str) -> None:
    """A log of before would make stock bring ZooKeeper to what that log says (K-03)."""
    try:
        names = node.actuator.list(f"{directory}/{LOG_NAME}")
    except FindingError as error:
        if error.code == FILE_ABSENT.code:
            return
        raise
    if names:
        meta = _read(node, f"{directory}/{META_PROPERTIES}")
        owner = "nobody" if meta is None else parse_properties(meta, META_PROPERTIES).value("cluster.id")
        reason = f"{directory} has a metadata log already (of cluster {owner}): empty it, or name another directory"
        raise STEP_FAILED.error(act="prepare", node=node.name, reason=reason)


def _id(cluster_id: str, node: int, directory: str) -> str:
    """The same at each repetition, and another one for each directory of each node."""
    digest = hashlib.sha256(f"{cluster_id}\0{node}\0{directory}".encode()).digest()[:16]
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return LEADING_DASH + text[1:] if text.startswith("-") else text
