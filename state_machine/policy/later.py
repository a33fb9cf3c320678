"""Conditions about Kafka without ZooKeeper, 4.0 and later, before the migration is COMPLETED.

In:   `LaterObserved`. Out: a `Condition` each, findings, words.
Elsewhere: how a release is known (migrator/model/later_kafka.py), what was observed of it
(state_machine/evidence/later_seen.py), the gates that ask (gates.py, gates_forward.py, gates_back.py).
Rules: before such a controller leads, Kafka 3.9 in its place mends everything, so steps forward wait for that. A
snapshot that it wrote, also as a follower, has no migration: then 3.9 needs an empty directory.
While it leads, or where the log as it is read has lost the migration, nothing leads back. Tried with 4.0.0: the other
voters keep the migration, and one of them that leads afterwards brings ZooKeeper up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.findings.driver import UNFIT_NODE
from migrator.findings.finding import Occurrence
from migrator.findings.road import LATER_KAFKA, LATER_KAFKA_LEADS
from migrator.model.later_kafka import LaterNode
from migrator.model.verdict import Condition

FORGOTTEN: Final = "a Kafka without ZooKeeper led the metadata log, and its snapshot has no migration any more"


@dataclass(frozen=True, slots=True)
class LaterObserved:
    """nodes: that run such a release now. leader: of them, the one that leads.

    forgotten: the log, as the present leader has it, was in MIGRATION and is not any more.
    led_since: when one was first found to lead, in seconds since 1970; None: never.
    told: what controllers of ours say of unfit nodes, in words; the only source before the service reads the log.
    """

    nodes: tuple[LaterNode, ...] = ()
    leader: LaterNode | None = None
    forgotten: bool = False
    told: tuple[str, ...] = ()
    led_since: float | None = None

    @property
    def has_ended_dual_write(self) -> bool:
        return self.leader is not None or self.forgotten

    @property
    def why_ended(self) -> str:
        """Empty while dual-write has not ended by it."""
        leads = "" if self.leader is None else f"{self.leader.said}, and it leads"
        return "; ".join(filter(None, (leads, FORGOTTEN if self.forgotten else "")))

    def node(self, node: int, *, is_voter: bool) -> LaterNode | None:
        return next((each for each in self.nodes if (each.id, each.is_voter) == (node, is_voter)), None)


NO_LATER: Final = LaterObserved()


def no_later_kafka(later: LaterObserved) -> Condition:
    """No node runs a Kafka without ZooKeeper. Each step forward, restart, and way back by restarts needs it."""
    waiting = [each.said for each in later.nodes if each != later.leader]
    said = "; ".join(filter(None, (later.why_ended, *waiting))) or "; ".join(later.told)
    codes = [LATER_KAFKA.code] if later.nodes else []
    codes += [LATER_KAFKA_LEADS.code] if later.has_ended_dual_write else []
    codes += [UNFIT_NODE.code] if later.told and not codes else []
    page = LATER_KAFKA_LEADS if later.has_ended_dual_write else UNFIT_NODE
    to_be_put_back = later.nodes and not later.has_ended_dual_write
    advice = "put Kafka 3.9 back" if to_be_put_back else f"see the runbook of {page.code}"
    shown = f"{said}: {advice}" if said else "none is known"
    return Condition("no node runs a Kafka without ZooKeeper", not said, shown, tuple(codes))


def dual_write_goes_on(later: LaterObserved) -> Condition:
    """Dual-write goes on, which a rollback by our driver needs. A follower that does not fit is not in its way."""
    ended = later.why_ended
    codes = (LATER_KAFKA_LEADS.code,) if ended else ()
    return Condition("no Kafka without ZooKeeper has ended dual-write", not ended, ended or "none has", codes)


def later_findings(later: LaterObserved) -> list[Occurrence]:
    found = [
        LATER_KAFKA.found(node=each.name.capitalize(), lowest=each.lowest, highest=each.highest) for each in later.nodes
    ]
    return [*found, *([LATER_KAFKA_LEADS.found(reason=later.why_ended)] if later.has_ended_dual_write else [])]
