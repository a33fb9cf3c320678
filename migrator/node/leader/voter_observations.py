"""Which software the other voters run, as far as this node can tell from their fetches.

In:   the name that a connection's ApiVersions gave, with each fetch of a voter that came over it.
Out:  the voters that are not ours: stock ones, and those of which nothing was heard lately; which of them have the
migration enabled, by asking them.
Elsewhere: what follows from it (driver.gate before a takeover, rollback.py before a rollback).
Rules: a registration in the log may be of a process that is gone; only a fetch says who runs now. Of a voter that did
not fetch from this leader yet, its registration tells: it is in the log and in every snapshot, whoever wrote that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from migrator.controller.incarnations import registered_by_others
from migrator.model.later_kafka import is_release
from migrator.model.values import Controller
from migrator.node.config.properties import VoterAddress
from migrator.node.leader.pending_appends import LeadershipLost
from migrator.node.quorum.peers import API_VERSIONS_VERSION, OUR_SOFTWARE
from migrator.node.quorum.raft_node import RaftNode
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse

HEARD_MS: Final = 3_000
"""A follower fetches at least every half second."""

SPREAD_LOOK_S: Final = 0.02
ASK_VOTER_S: Final = 2.0


class VoterObservations:
    """Fed by the listeners of one node, read by its driver; all on the loop's thread."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, int]] = {}
        self._releases: dict[int, str] = {}

    def fetched(self, replica: int, software: str, now_ms: int, release: str = "") -> None:
        """release: of that software, as it names itself; empty when it does not say."""
        self._seen[replica] = software, now_ms
        self._releases[replica] = release

    def releases(self, now_ms: int) -> dict[int, str]:
        """The release of each voter that fetched lately: ours, or Kafka's where it says a number."""
        return {
            voter: self._releases[voter]
            for voter, (software, at_ms) in self._seen.items()
            if now_ms - at_ms <= HEARD_MS and (software == OUR_SOFTWARE or is_release(self._releases[voter]))
        }

    def foreign(self, others: Iterable[int], now_ms: int) -> tuple[str, ...]:
        """Every voter that is not known to run our software now, with what is known of it."""
        return tuple(found for voter in sorted(others) if (found := self._not_ours(voter, now_ms)) is not None)

    def stock(self, others: Iterable[int]) -> list[int]:
        """Voters whose last fetch came from other software, however long ago."""
        return [voter for voter in sorted(others) if self._seen.get(voter, (OUR_SOFTWARE, 0))[0] != OUR_SOFTWARE]

    def is_unheard(self, voter: int) -> bool:
        """Whether it never fetched from this node in the life of this process."""
        return voter not in self._seen

    def _not_ours(self, voter: int, now_ms: int) -> str | None:
        software, at_ms = self._seen.get(voter, ("", 0))
        if not software:
            return f"{voter} (did not fetch from this node yet)"
        if now_ms - at_ms > HEARD_MS:
            return f"{voter} (silent for {(now_ms - at_ms) // 1000} s)"
        return None if software == OUR_SOFTWARE else f"{voter} ({software})"


class QuorumView:
    """What the driver of one node sees of the other voters."""

    def __init__(
        self,
        raft: RaftNode,
        observed: VoterObservations,
        voters: Iterable[VoterAddress] = (),
        security: ClientSecurity = PLAINTEXT,
        controllers: Callable[[], Mapping[int, Controller]] = dict,
    ) -> None:
        """voters, security: where and how the others are asked. controllers: as the log has them now."""
        self._raft = raft
        self._seen = observed
        self._accepted = [voter for voter in voters if voter.id != raft.voter.node_id]
        self._security = security
        self._controllers = controllers
        self._others = [voter for voter in raft.voter.voters if voter != raft.voter.node_id]

    def foreign_voters(self) -> tuple[str, ...]:
        return self._seen.foreign(self._others, self._raft.now_ms())

    def stock_voters(self) -> list[int]:
        """Voters that run Kafka's software: by their last fetch, or, not heard of yet, by their registration."""
        unheard = [voter for voter in self._others if self._seen.is_unheard(voter)]
        return sorted({*self._seen.stock(self._others), *registered_by_others(self._controllers(), unheard)})

    async def migration_enabled(self) -> dict[int, bool]:
        """What each other voter that answers says now: whether it runs with the migration enabled."""
        answers = await asyncio.gather(*(self._is_enabled(voter) for voter in self._accepted))
        return {voter: enabled for voter, enabled in answers if enabled is not None}

    async def _is_enabled(self, voter: VoterAddress) -> tuple[int, bool | None]:
        connection = BrokerConnection(voter.host, voter.port, f"controller-{self._raft.voter.node_id}", self._security)
        request = ApiVersionsRequest(client_software_name=OUR_SOFTWARE, client_software_version="1")
        try:
            answer = await connection.ask(request, API_VERSIONS_VERSION, ApiVersionsResponse, ASK_VOTER_S)
            return voter.id, None if answer.error_code else answer.zk_migration_ready
        except (OSError, TimeoutError, EOFError):
            return voter.id, None
        finally:
            connection.close()

    async def known_to_all(self, timeout_s: float, wait_because: Callable[[str], None]) -> None:
        """Wait until every voter has fetched twice past what is committed now: with the first it has the records,
        with the second it was told that they are committed. Voters that are down do not hold this up for longer.
        Raises LeadershipLost when this node leads no more.
        """
        deadline = self._raft.now_ms() + int(timeout_s * 1000)
        for _ in range(2):
            end = self._raft.voter.log.end
            since_ms = self._raft.now_ms()
            while behind := self._behind(end, since_ms):
                if self._raft.now_ms() >= deadline:
                    return
                wait_because(f"voters {behind} have to hear that this log is rolled back")
                await asyncio.sleep(SPREAD_LOOK_S)

    def _behind(self, end: int, since_ms: int) -> list[int]:
        described = self._raft.voter.describe(self._raft.now_ms())
        if described.error:
            raise LeadershipLost
        return [
            each.replica
            for each in described.voters
            if each.replica in self._others and (each.end < end or each.last_fetch_ms <= since_ms)
        ]
