"""The log of an audit has to have all that ZooKeeper has: wait until it does, for a moment.

In:   the position that `/migration` told, and a reading of the log that can be made again.
Out:  a reading that has this position; or Z2K-5001, and the audit is incomplete.
Elsewhere: what the log said meanwhile (log_states.py), where `/migration` is read (zk_source.py).
Rule: a directory whose controller was killed, or follows slowly, lacks what the others committed since, and it may hold
records of its own that were never committed. Compared with ZooKeeper it would show differences that no cluster has.
Two logs that have the same offset with the same epoch have the same records up to there, and the epoch in `/migration`
is the one of the record at its offset.
Source: KIP-595, log matching; Kafka 3.9 `KRaftMigrationDriver`, `ZkMigrationLeadershipState`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError
from migrator.model.image import Position

BEHIND_MAX_S: Final = 20.0
"""A controller that is started again has caught up by then; one that is down would be waited for in vain."""
LOOK_AGAIN_S: Final = 0.25

Reading = TypeVar("Reading")


def read_up_to(wanted: Position, read: Callable[[], tuple[Reading, Position]], source: str) -> Reading:
    """read:  gives what it read and the position of the last record in it. A reading may take longer than the wait:
           the last one that counts is one that began in time.
    source: for the finding, a directory or addresses.

    Raises Z2K-5001: at once when the first reading is not possible; a later one may meet a controller that is just
    starting and cuts off what was never committed, and is made again.
    """
    give_up_at = time.monotonic() + BEHIND_MAX_S
    behind = False
    while True:
        in_time = time.monotonic() < give_up_at
        try:
            reading, end = read()
        except FindingError as error:
            if not behind or not in_time or error.code != AUDIT_CANNOT_READ.code:
                raise
        else:
            if end >= wanted:
                return reading
            if not in_time:
                raise _behind(source, end, wanted)
            behind = True
        time.sleep(LOOK_AGAIN_S)


def _behind(source: str, end: Position, wanted: Position) -> FindingError:
    reason = (
        f"it ends at offset {end.offset} of epoch {end.epoch}, and ZooKeeper already has offset {wanted.offset} of "
        f"epoch {wanted.epoch}"
    )
    return AUDIT_CANNOT_READ.error(what=source, reason=reason)
