"""That the finalize was begun, in a znode of its own, before the first controller starts without the migration flag.

In:   the connect string and what to say. Out: the text that stands.
Elsewhere: when (road_acts.py), who refuses because of it (node/tools/without_controllers.py).
Why: `POST_MIGRATION` may be committed while the service is dead. Who then goes back must find a sign in ZooKeeper.
"""

from __future__ import annotations

from typing import Any

import msgspec

from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.zk import paths
from migrator.zk.multi import Create, Multi
from migrator.zk.session import ZkSession

CONNECT_S = 5.0


class FinalizeIntent(msgspec.Struct, frozen=True):
    """at: seconds since 1970. who: asked for it. approved_by: agreed. digest: of what was agreed to."""

    migration: str
    cluster: str
    at: float
    who: str
    approved_by: str
    digest: str


def write_intent(connect: str, intent: FinalizeIntent) -> str:
    """Blocks. One that stands already stays as it is. Raises Z2K-2001 or Z2K-2002."""
    with ZkSession(connect) as session:
        found = session.get(paths.FINALIZE_INTENT)
        if found is not None:
            return found.data.decode(errors="replace") if found.data else ""
        data = msgspec.json.encode(intent)
        outcome: Any = session.apply(Multi((Create(paths.FINALIZE_INTENT, data),)))
        if not outcome.applied:
            raise ZOOKEEPER_LOST.error(path=paths.FINALIZE_INTENT, reason=str(outcome.error))
        session.sync()
        return data.decode()
