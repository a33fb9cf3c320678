"""ZooKeeper after COMPLETED: whether it is still reachable, since when it is not, from when its data may be deleted.

In:   the observation of a round. Out: a `ZooKeeperEndDocument`, and words about it.
Elsewhere: observing (clusters/observe.py), how often (reconcile.py), who keeps it (acts_after_dual_write.py).
Rules: the service stops no ZooKeeper, and after the finalize it deletes no znode. "Unreachable" is what this service
observes from its host with its login. One answer begins the time anew. Time in which the service did not run is
unknown: it does not count, so that it moves the day of the deletion; the rest of the row stays.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from state_machine.clusters.observe import Observation
from state_machine.rows.documents import ZooKeeperEndDocument

UNOBSERVED_S: Final = 300.0
"""From one observation to the next. In COMPLETED one is made each minute, and takes seconds where nothing answers."""


def observed_end(before: ZooKeeperEndDocument | None, look: Observation, kept_days: float) -> ZooKeeperEndDocument:
    """What is known after this observation. One that tells nothing leaves everything as it was."""
    at, found = look.zookeeper_at, look.zookeeper
    if at is None or found.reachable is None:
        known = before or ZooKeeperEndDocument(look.at, None, kept_days, problem=found.problem)
        return msgspec.structs.replace(known, kept_days=kept_days)
    if found.is_empty:
        return ZooKeeperEndDocument(at, False, kept_days, empty=True)
    if found.reachable:
        return ZooKeeperEndDocument(at, True, kept_days)
    if before is None or before.unreachable_since is None or at < before.at:
        return ZooKeeperEndDocument(at, False, kept_days, found.problem, unreachable_since=at)
    passed = at - before.at
    missed = passed if passed > UNOBSERVED_S else 0.0
    return msgspec.structs.replace(
        before, at=at, kept_days=kept_days, problem=found.problem, unobserved_s=before.unobserved_s + missed
    )


def end_text(found: ZooKeeperEndDocument | None, connect: str) -> str:
    """The line of status, page and report. It changes only when what it says does."""
    if found is None or found.reachable is None:
        why = "" if found is None or not found.problem else f" ({found.problem})"
        return f"ZooKeeper at {connect}: whether it is still reachable is not known yet{why}"
    if found.empty:
        return f"ZooKeeper at {connect} has nothing of this cluster any more"
    days = f"{found.kept_days:g} days"
    if found.unreachable_since is None or found.may_delete_from is None:
        return (
            f"ZooKeeper at {connect} is still reachable: make it unreachable for brokers and stop it; keep its data "
            f"for {days} from then on"
        )
    said = f"ZooKeeper at {connect} is unreachable since {_utc(found.unreachable_since)}"
    missed = f", and {found.unobserved_s / 3600:.1f} h that were not observed" if found.unobserved_s else ""
    return f"{said}; its data may be deleted from {_utc(found.may_delete_from)} on ({days}{missed})"


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
