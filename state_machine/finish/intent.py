"""That the finalize was begun, in a znode of its own, before the first controller starts without the migration flag.

In:   the connect string and what to say. Out: the text that stands. Also deleting it, once the finalize was given up.
Elsewhere: when (acts_after_dual_write.py), who refuses because of it (node/tools/without_controllers.py).
Why: `POST_MIGRATION` may be committed while the service is dead. Who then goes back must find a sign in ZooKeeper.
"""

from __future__ import annotations

from typing import Any

import msgspec

from migrator.findings.road import FINALIZE_INTENT_STANDS
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi
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


def delete_intent(connect: str, cluster: str) -> None:
    """Blocks. Of this cluster, and as it was read; one that is gone is no error.

    Raises Z2K-2001 or Z2K-2002; Z2K-4211 when the znode says something else.
    """
    with ZkSession(connect) as session:
        found = session.get(paths.FINALIZE_INTENT)
        if found is None:
            return
        text = (found.data or b"").decode(errors="replace")
        try:
            intent = msgspec.json.decode(found.data or b"", type=FinalizeIntent)
        except msgspec.DecodeError:
            raise FINALIZE_INTENT_STANDS.error(path=paths.FINALIZE_INTENT, text=text) from None
        if intent.cluster != cluster:
            raise FINALIZE_INTENT_STANDS.error(path=paths.FINALIZE_INTENT, text=text)
        outcome: Any = session.apply(Multi((Delete(paths.FINALIZE_INTENT, found.version),)))
        if not outcome.applied:
            raise ZOOKEEPER_LOST.error(path=paths.FINALIZE_INTENT, reason=str(outcome.error))
