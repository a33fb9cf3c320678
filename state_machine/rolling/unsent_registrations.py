"""A stock controller that follows the log and never registers: only another restart makes it send its registration.

In:   what the log says of the controller that is under way.
Out:  whether to start it again: after `UNSENT_S`, once in each roll.
Elsewhere: the stop and the start (acts.py, migrator/fleet/roll.py).
Source: Kafka 3.9 `ControllerRegistrationManager`: a request that finds no leader within five seconds is given up, and
counts as one that is under way ever after (KAFKA-20247).
"""

from __future__ import annotations

from typing import Final

from migrator.fleet.roll import RollStep
from state_machine.clusters.log_observer import LogObservation, LogVoter
from state_machine.rows.tables import JournalRow
from state_machine.times.stretches import UNOBSERVED_S

UNSENT_S: Final = 30.0
"""A controller that has everything and knows a leader registers within two seconds."""
FOLLOWS_MS: Final = 10_000
STARTED_AGAIN: Final = "started again, as it never sent its registration (KAFKA-20247)"
"""In the journal, so that another life of the service does not do it once more."""


def is_unsent(row: JournalRow, observed: LogObservation) -> bool:
    """It runs in its quorum, has what is committed, and what is registered is the process of before. It does not lead,
    and every voter follows: its stop takes no majority away.
    """
    if row.step != RollStep.STARTED or not observed.known or observed.leader in (None, row.node_id):
        return False
    if observed.voter(row.node_id) is None or not all(_follows(each, observed) for each in observed.voters):
        return False
    controller = observed.controller(row.node_id)
    return controller is None or controller.incarnation == row.incarnation


def _follows(voter: LogVoter, observed: LogObservation) -> bool:
    """Each record makes a voter look behind for a moment."""
    if voter.id == observed.leader:
        return True
    caught_up = voter.lag == 0 or (voter.caught_up_ms_ago is not None and voter.caught_up_ms_ago < FOLLOWS_MS)
    return caught_up and voter.fetched_ms_ago is not None and voter.fetched_ms_ago < FOLLOWS_MS


class UnsentRegistrations:
    """The unsent registrations of one migration. Times are steady seconds."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[float, float]] = {}

    def is_due(self, row: JournalRow, observed: LogObservation, now: float) -> bool:
        """Whether it has been one for so long, and was not started again for it before."""
        key = row.roll, row.node_id
        if not is_unsent(row, observed):
            self._seen.pop(key, None)
            return False
        since, last = self._seen.get(key, (now, now))
        since = now if now - last > UNOBSERVED_S else since  # what was in between is not known
        self._seen[key] = since, now
        return now - since >= UNSENT_S and STARTED_AGAIN not in row.detail


def before_its_second_stop(row: JournalRow) -> dict[str, str]:
    """Columns. When it began and what held then stay those of its first stop, and so does its deadline."""
    return {"detail": f"{row.detail}; {STARTED_AGAIN}"}
