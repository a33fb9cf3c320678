"""Whether a voter has what is committed, as every condition that asks it means it.

In:   what the leader says of a voter. Out: one answer, the same for a gate, before a stop and after a start.
Elsewhere: who says it (clusters/log_observer.py), the conditions (policy/conditions.py, rolling/node_conditions.py,
rollback/stops.py, rolling/ours.py).
Why:  a record is committed once a majority has it, and the slowest voter gets it some milliseconds later. A service
that looks whenever something was committed sees that voter one record behind in every look.
Source: Kafka 3.9 `LeaderState.ReplicaState.updateFollowerState` (lastCaughtUpTimestamp), KIP-836.
"""

from __future__ import annotations

from typing import Final, Protocol

CAUGHT_UP_MS: Final = 2_000
"""As long as a follower waits for its leader before it elects another one (controller.quorum.fetch.timeout.ms)."""


class FollowingVoter(Protocol):
    """lag: committed records that the leader does not know it to have; None: it never fetched.

    caught_up_ms_ago: when it last had all that the leader had; None: never, or nobody said.
    """

    @property
    def lag(self) -> int | None: ...

    @property
    def caught_up_ms_ago(self) -> int | None: ...


def has_what_is_committed(voter: FollowingVoter) -> bool:
    """It lacks nothing, or it had all of the log within CAUGHT_UP_MS: its fetch of what is newer is under way."""
    if voter.lag is None:
        return False
    return voter.lag == 0 or (voter.caught_up_ms_ago is not None and voter.caught_up_ms_ago <= CAUGHT_UP_MS)
