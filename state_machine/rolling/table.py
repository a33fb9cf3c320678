"""Which kind a roll is: the one place where the kinds are named, beside their facts (policy/rolls.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from migrator.model.verdict import Verdict
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence
from state_machine.rolling.back import BackRoll
from state_machine.rolling.begin import BeginRoll
from state_machine.rolling.final import FinalRoll
from state_machine.rolling.join import JoinRoll
from state_machine.rolling.kind import RollKind
from state_machine.rolling.kraft import KraftRoll
from state_machine.rolling.original import OriginalRoll
from state_machine.rolling.ours import OursRoll
from state_machine.rolling.soak import SoakRoll
from state_machine.rolling.stock import StockRoll

_ALL: Final = (BeginRoll, JoinRoll, KraftRoll, StockRoll, SoakRoll, FinalRoll, OursRoll, BackRoll, OriginalRoll)
KINDS: Final[Mapping[Roll, RollKind]] = {each.roll: each() for each in _ALL}
assert KINDS.keys() == set(Roll)


def cluster_ready(evidence: Evidence, roll: Roll) -> Verdict:
    """What has to hold before any node of this roll is stopped."""
    return KINDS[roll].may_stop(evidence)


def around_of(evidence: Evidence, roll: Roll) -> Verdict:
    """What has to hold of the cluster until a node of a way forward counts as whole."""
    return KINDS[roll].around(evidence)
