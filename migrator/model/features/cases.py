"""The cases of metadata.version: how a node, and a cluster, stands to the finalized level, and what is then to be done.

In:   nothing.
Out:  `CASES`, one row for each case, printed into docs/feature-levels.md.
Elsewhere: which case holds (matrix.py).
Rules: R-778-01. A to C are the cases of KIP-778 without a level (software too old, IBP too old, supported and not
initialised); D to G say more of its case "initialised", where the level is the effective version.
Source: KIP-778: the flag is examined and initialised in KRaft mode only, and ignored in ZooKeeper mode; the leader
writes the first level from its own formatted directory. Kafka 3.9 `ClusterControlManager.registerBroker` (a broker that
sends no range is registered with 1 to 1), `processRegistrationFeature`, `FeatureControlManager.reasonNotSupported` and
`replay`, `KafkaConfig.validateValues` (no migration flag below 3.4-IV0), `KafkaServer` (a broker in ZooKeeper mode
registers its inter.broker.protocol.version as both ends).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Case(StrEnum):
    """The letters are a contract: JSON, REST and the page have them."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"
    E = "E"
    F = "F"
    G = "G"


class CaseRow(msgspec.Struct, frozen=True):
    """One row of the table. holds: of a node. effective: the version that counts. remedy: what an operator does.

    stands_in_the_way: of this migration, or of a change of the level.
    """

    case: Case
    holds: str
    effective: str
    remedy: str
    stands_in_the_way: bool = False


_NO_LEVEL: Final = "none"
_LEVEL: Final = "the level in the log"

CASES: Final = {
    row.case: row
    for row in (
        CaseRow(
            Case.A,
            "The software is before Kafka 3.3 and does not know metadata.version.",
            _NO_LEVEL,
            "Install Kafka 3.6.2 to 3.9 on this node.",
            stands_in_the_way=True,
        ),
        CaseRow(
            Case.B,
            "The broker runs in ZooKeeper mode, and its inter.broker.protocol.version is below 3.6-IV1.",
            _NO_LEVEL,
            "Raise inter.broker.protocol.version on every broker, to 3.6 or later, and restart them. zk2kraft migrates "
            "from 3.6-IV1 on; below 3.4-IV0 a broker does not start with the migration flag.",
            stands_in_the_way=True,
        ),
        CaseRow(
            Case.C,
            "The software supports metadata.version, and the log has no level yet: ZooKeeper mode, before a quorum.",
            _NO_LEVEL,
            "None needed. The first elected controller writes the level that its directory was formatted with; it has "
            "to equal the brokers' inter.broker.protocol.version.",
        ),
        CaseRow(
            Case.D,
            "The log has a level, and the node supports it and none above it.",
            _LEVEL,
            "None needed.",
        ),
        CaseRow(
            Case.E,
            "The log has a level that the node does not support.",
            _LEVEL,
            "The node cannot register, and stops when it reads the level. Install software whose range has the level; "
            "in ZooKeeper mode set inter.broker.protocol.version to it.",
            stands_in_the_way=True,
        ),
        CaseRow(
            Case.F,
            "The log has a level, and the node supports a higher one.",
            _LEVEL,
            "None needed. Nothing raises the level by itself. After COMPLETED, `zk2kraft finalize-version` does, once "
            "every node supports a higher level.",
        ),
        CaseRow(
            Case.G,
            "The log has a level, and what the node supports is not known, or is of a process that is not alive.",
            _LEVEL,
            "If nobody is restarting the node, start it (in ZooKeeper mode with its file for the migration), so that "
            "it registers. If it is gone for good, remove its registration with `kafka-cluster.sh unregister`.",
            stands_in_the_way=True,
        ),
    )
}
"""By case, in their order."""

PRECEDENCE: Final = (Case.A, Case.B, Case.E, Case.G, Case.C, Case.D, Case.F)
"""A cluster has the first of these that one of its nodes has: a raise is possible (F) only if all nodes support it."""
