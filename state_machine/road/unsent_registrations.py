"""A stock controller that follows the log and never registers: only another restart makes it send its registration.

In:   what the log says of the controller that is under way.
Out:  whether to start it again: after `UNSENT_S`, once for each roll and node in one life of the service.
Elsewhere: the stop and the start (roller.py, migrator/fleet/roll.py).
Source: Kafka 3.9 `ControllerRegistrationManager`: a request that finds no leader within five seconds is given up, and
counts as one that is under way ever after (KAFKA-20247).
"""

from __future__ import annotations

from typing import Final

from migrator.fleet.roll import RollStep
from state_machine.clusters.log_observer import LogObservation
from state_machine.tables import RoadNode

UNSENT_S: Final = 30.0
"""A controller that has everything and knows a leader registers within two seconds."""
FOLLOWS_MS: Final = 10_000


def is_unsent(row: RoadNode, observed: LogObservation) -> bool:
    """It runs in its quorum, has what is committed, and what is registered is the process of before."""
    if row.step != RollStep.STARTED or not observed.known or observed.leader is None:
        return False
    voter, controller = observed.voter(row.node_id), observed.controller(row.node_id)
    if voter is None or voter.lag != 0 or (voter.fetched_ms_ago or 0) > FOLLOWS_MS:
        return False
    return controller is None or controller.incarnation == row.incarnation


class UnsentRegistrations:
    """Of one migration. Times are steady seconds."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], float] = {}
        self._started_again: set[tuple[str, int]] = set()

    def is_due(self, row: RoadNode, observed: LogObservation, now: float) -> bool:
        """Whether it has been one for so long, and was not started again for it before."""
        key = row.roll, row.node_id
        if not is_unsent(row, observed):
            self._since.pop(key, None)
            return False
        return now - self._since.setdefault(key, now) >= UNSENT_S and key not in self._started_again

    def note(self, row: RoadNode) -> None:
        """It is started again now."""
        self._started_again.add((row.roll, row.node_id))
