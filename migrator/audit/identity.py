"""Which cluster a log belongs to: both sides of an audit must be of the same one.

In:   what ZooKeeper says of itself, and where the log is.
Out:  nothing, or the finding that says why the two cannot be compared.
Source: Kafka 3.9 `meta.properties`, beside the directory of the metadata log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import javaproperties

from migrator.audit.cluster import CLUSTER
from migrator.audit.compare import NOT_A_COPY, AuditReport, ExpectedDifferences, unread_report
from migrator.audit.normalise import PRODUCER_IDS
from migrator.findings.audit import AUDIT_CANNOT_READ

META_PROPERTIES: Final = "meta.properties"


def cluster_of_log(kraft: str) -> str | None:
    """The cluster id of a log directory; None where no meta.properties says one."""
    directory = Path(kraft)
    for each in (directory, directory.absolute().parent):
        try:
            found = javaproperties.loads((each / META_PROPERTIES).read_bytes().decode("latin-1"))
        except (OSError, ValueError):
            continue
        return found.get("cluster.id")
    return None


def refuse_foreign_log(tree: dict[str, Any], kraft: str) -> None:
    """tree: as `describe_tree` gives it. Raises Z2K-5001 when the log is another cluster's."""
    in_zookeeper, in_log = tree["cluster_id"], cluster_of_log(kraft)
    if in_zookeeper and in_log and in_zookeeper != in_log:
        reason = f"it belongs to cluster {in_log}, and ZooKeeper holds cluster {in_zookeeper}"
        raise AUDIT_CANNOT_READ.error(what=kraft, reason=reason)


def follows_the_log(tree: dict[str, Any], rules: ExpectedDifferences) -> bool:
    """Whether `/migration` says how far ZooKeeper has this log: in dual-write, and not of a rehearsal."""
    return bool(tree["dual_write"]) and not rules.producer_id_margin and rules.copied_zxid == NOT_A_COPY


def _is_identified(cluster_id: str | None, kraft: str) -> bool:
    """Whether the log is known to be this cluster's."""
    return bool(cluster_id) and cluster_of_log(kraft) == cluster_id


def refuse_nothing_compared(report: AuditReport, kraft: str) -> AuditReport:
    """Two empty sides are equal whatever they are: such a report only passes when the cluster ids say the same."""
    keys = sum(family.compared for family in report.families if family.family not in (CLUSTER, PRODUCER_IDS))
    if not report.same or keys or _is_identified(report.zk.get("cluster_id"), kraft):
        return report
    reason = "ZooKeeper and the log are both empty, and no cluster id says that they belong together"
    unread = unread_report(AUDIT_CANNOT_READ.error(what=kraft, reason=reason), report.engine, report.seconds)
    unread.zk, unread.kraft = report.zk, report.kraft
    return unread
