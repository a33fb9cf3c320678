"""Look for nodes that do not fit a migration that is under way, twice a second, whether this controller leads or not.

In:   the image as far as it is committed, who leads, which releases fetch.
Out:  `findings` (Z2K-2024) for status and metrics, a log line for each change; voters that are never named successors.
Elsewhere: what does not fit (controller/unfit_nodes.py), what the consensus core makes of it (raft/quorum.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from migrator.controller.unfit_nodes import unfit_nodes, unfit_voters
from migrator.findings.finding import Occurrence
from migrator.node.leader.active_controller import ActiveController
from migrator.node.leader.voter_observations import VoterObservations
from migrator.node.quorum.raft_node import RaftNode
from migrator.raft.types import VotersUnfit

log = structlog.get_logger()

LOOK_S: Final = 0.5


class UnfitWatch:
    """Finds unfit nodes, for a controller with the migration enabled."""

    def __init__(self, raft: RaftNode, controller: ActiveController, observed: VoterObservations) -> None:
        self._raft = raft
        self._controller = controller
        self._observed = observed
        self.findings: tuple[Occurrence, ...] = ()

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        voter, image = self._raft.voter, self._controller.image
        releases = self._observed.releases(self._raft.now_ms())
        unfit = unfit_voters(image, releases, frozenset(voter.others))
        if unfit != voter.unfit:
            self._raft.receive(VotersUnfit(unfit))
        self._tell(unfit_nodes(image, releases, leader=voter.leader, node=voter.node_id))

    def _tell(self, found: tuple[Occurrence, ...]) -> None:
        before, now = ({each.text: each.code for each in those} for those in (self.findings, found))
        for text, code in now.items():
            if text not in before:
                log.warning("node.unfit", code=code, says=text)
        for text, code in before.items():
            if text not in now:
                log.info("node.fit_again", code=code, was=text)
        self.findings = found
