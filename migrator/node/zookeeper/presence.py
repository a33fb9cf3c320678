"""That a controller of ours runs and leads, in ZooKeeper: an ephemeral znode beside the claim, which has no owner.

In:   the driver's session, of which each new one needs the znode again.
Out:  `/cluster/zk2kraft-<node id>`, from the commit of the copy until the session ends.
Elsewhere: the claim (claiming.py), who asks for it (who_runs.py).
Why: `/controller` names a node and not whether it lives, as it has to outlive the session. The znode names the claim
it stands by: the session of a killed process outlives it, and a stock controller may lead by the same id meanwhile.
Limits: a controller that lost its session, or may not create the znode, is not seen. Those that only follow show
nothing: the end of their leader's session takes longer than their election.
"""

from __future__ import annotations

import os
import socket

import msgspec
import structlog

from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi
from migrator.zk.session import ZkSession

log = structlog.get_logger()


class Presence(msgspec.Struct):
    """What the znode says of the process. kraft_epoch: of the claim that it stands by."""

    node: int
    host: str
    pid: int
    kraft_epoch: int = -1


class Shown:
    """The presence znode of one driver."""

    def __init__(self, session: ZkSession, node: int) -> None:
        self._session = session
        self._path = paths.presence(node)
        self._node = node
        self._shown_by = (0, -1)

    def show(self, kraft_epoch: int) -> None:
        """Create the znode once for each session and claim; that of the session before, if it did not end yet, is
        replaced. Runs on a thread. kraft_epoch: of the claim.

        Raises Z2K-2002 when ZooKeeper does not answer.
        """
        shown_by = (self._session.session_id, kraft_epoch)
        if self._shown_by == shown_by:
            return
        found = self._session.get(self._path)
        before = () if found is None else (Delete(self._path, found.version),)
        data = msgspec.json.encode(Presence(self._node, socket.gethostname(), os.getpid(), kraft_epoch))
        outcome = self._session.apply(Multi((*before, Create(self._path, data, ephemeral=True))))
        if not outcome.applied:
            log.warning("presence.not_shown", path=self._path, error=outcome.error)
        self._shown_by = shown_by
