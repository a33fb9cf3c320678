"""The audit of a copy: ahead while the gate is closed, and whole under the claim.

In:   a `Copy` (driver.copy), and for the second one the claim.
Out:  an `AuditReport` (audit.compare) of what would be committed against ZooKeeper, read by a session of its own.
Elsewhere: how it is compared, and what need not be parsed again (audit.verified_cache); what follows
from it (copying.py). `ahead` and `under` block: on a thread.
"""

from __future__ import annotations

import asyncio

from migrator.audit.compare import AuditReport
from migrator.audit.passwords import PasswordReader
from migrator.audit.verified_cache import VerifiedCache
from migrator.driver.claim import Claim, still_ours
from migrator.driver.copy import Copy, producer_id_margin
from migrator.driver.touched import touched
from migrator.findings.finding import FindingError
from migrator.node.config.properties import NodeConfig
from migrator.node.zookeeper.claims import read_claim
from migrator.zk.pipeline import ReadLimits
from migrator.zk.session import ZkSession


class CopyAudit:
    """Audits the copies of one driver; opens its session when it is first needed."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._verified = VerifiedCache(PasswordReader.of(config.passwords))
        self._session: ZkSession | None = None

    def ahead(self, copy: Copy, limits: ReadLimits) -> None:
        """What differs now was on its way; the audit that decides comes after the claim, and reads everything again."""
        if self._session is None:
            self._session = self._open()
        self._verified.audit(self._session, copy.by_topic(), copy.rest, _margin(copy), limits)

    def under(self, claim: Claim, copy: Copy) -> AuditReport:
        """Audit the copy once our epoch stands in ZooKeeper. Raises Z2K-2051 when the claim has ended since, Z2K-2003
        when it was changed.
        """
        session = self._session
        assert session is not None
        session.sync()
        observed = read_claim(session)
        if not still_ours(observed, claim):
            found = touched(observed, claim, (), claim.kraft_epoch, may_abort=True, fresh_copy=False).finding
            assert found is not None, "nobody is a successor of a quorum without voters"
            raise FindingError(found)
        return self._verified.audit(session, copy.by_topic(), copy.rest, _margin(copy))

    async def close(self) -> None:
        if self._session is not None:
            await asyncio.to_thread(self._session.close)

    def _open(self) -> ZkSession:
        assert self._config.zookeeper_connect is not None
        timeout = self._config.zookeeper_session_timeout_ms
        tls = self._config.zookeeper_tls
        return ZkSession(self._config.zookeeper_connect, session_timeout_ms=timeout, tls=tls).start()


def _margin(copy: Copy) -> int:
    return producer_id_margin(len(copy.tree.brokers))
