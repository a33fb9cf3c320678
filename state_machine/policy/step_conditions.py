"""What has to hold of the cluster in each step of the road: one list for its gate, each stop and each start.

In:   `Evidence`, and which rolling restart. Out: the conditions of the list that count at that moment.
Elsewhere: what else a gate asks (gates_forward.py), what is asked of the node that was started, and the ways back,
which ask less on purpose (rolling/ways_back.py), that a node counts as whole with the list only (migrator.fleet.roll).
Rules: a condition about the cluster is added to a list here, and to nothing else: then it closes the gate, stops no
further node, and lets no node count as whole. What does not count at one of the three stands here with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from migrator.model.verdict import Condition
from state_machine.policy.conditions import (
    a_broker_is_controller,
    canary_is_well,
    claim_is_ours,
    every_broker_is_present,
    every_broker_is_ready,
    every_registration_is_kraft,
    fleet_evidence_of,
    guards_are_proven,
    log_is_observed,
    no_credential_is_at_stake,
    no_file_forbids_the_takeover,
    nothing_waits_for_restart,
    replicas_are_settled,
    replicas_are_whole,
    snapshots_are_written,
    voters_follow,
    zookeeper_follows,
)
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.fleet_names import controllers_take_tiers
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.later import no_later_kafka

Asked: TypeAlias = Callable[[Evidence], tuple[Condition, ...]]


class When(StrEnum):
    GATE = "in the gate of the step"
    STOP = "before each stop"
    WHOLE = "until a node that was started counts as whole"


@dataclass(frozen=True, slots=True)
class Need:
    """Some conditions of one list. never: when they do not count, and why."""

    asked: Asked
    never: Mapping[When, str]


def _need(asked: Asked, never: Mapping[When, str] | None = None) -> Need:
    return Need(asked, never or {})


def zookeeper_answers(evidence: Evidence) -> Condition:
    return Condition("ZooKeeper answers", evidence.holder is not Holder.UNKNOWN, f"/controller: {evidence.holder}")


def some_broker_is_held(evidence: Evidence) -> Condition:
    """Stock copies as soon as every broker of ZooKeeper has registered, and those with the flag do so by themselves."""
    road = fleet_evidence_of(evidence)
    files, live = road.files, road.zookeeper_ids
    held = [] if files is None else [each for each in live if each in files.unjoined]
    said = f"the files of brokers {held} have no migration flag" if held else _why_none_is_held(live, files is not None)
    return Condition("a broker is left that does not register by itself", bool(held), said)


def _why_none_is_held(live: tuple[int, ...], read: bool) -> str:
    if not read:
        return "the service has read no file yet"
    return f"each of brokers {list(live)} has the migration flag, or its file is not read: stock would copy at once"


_LATER: Final = _need(lambda evidence: (no_later_kafka(evidence.later),))
_LOG: Final = _need(lambda evidence: (log_is_observed(fleet_evidence_of(evidence)),))
_READY: Final = _need(lambda evidence: (every_broker_is_ready(fleet_evidence_of(evidence)),))
_REPLICAS: Final = _need(lambda evidence: replicas_are_whole(fleet_evidence_of(evidence)))
_SETTLED: Final = _need(lambda evidence: (replicas_are_settled(fleet_evidence_of(evidence)),))
_CANARY: Final = _need(lambda evidence: canary_is_well(fleet_evidence_of(evidence)))
_FOLLOWS: Final = _need(lambda evidence: (zookeeper_follows(fleet_evidence_of(evidence)),))
_RESTARTS: Final = _need(
    lambda evidence: (nothing_waits_for_restart(fleet_evidence_of(evidence)),),
    {When.WHOLE: "brokers are compared anew once the node is whole, for the next stop"},
)
_ANSWERS: Final = _need(lambda evidence: (zookeeper_answers(evidence),))
"""With the flag on, a stock controller does not start while ZooKeeper is away."""
_CLAIM: Final = _need(lambda evidence: (claim_is_ours(evidence),))
_VOTERS: Final = _need(lambda evidence: (voters_follow(fleet_evidence_of(evidence)),))
_GUARDS: Final = _need(lambda evidence: guards_are_proven(fleet_evidence_of(evidence)))
_KRAFT: Final = _need(lambda evidence: (every_registration_is_kraft(fleet_evidence_of(evidence)),))
_PRESENT: Final = _need(lambda evidence: (every_broker_is_present(evidence),))
_FILES: Final = _need(lambda evidence: (no_file_forbids_the_takeover(fleet_evidence_of(evidence)),))
_TIERS: Final = _need(
    lambda evidence: controllers_take_tiers(fleet_evidence_of(evidence)),
    {When.WHOLE: "it is about files that were read before, and not about the node"},
)
_SCRAM: Final = _need(
    lambda evidence: (no_credential_is_at_stake(fleet_evidence_of(evidence)),),
    {When.WHOLE: "it is about the next start on this log, and the node that counts has started"},
)
_ELECTED: Final = _need(
    lambda evidence: (a_broker_is_controller(evidence),),
    {When.WHOLE: "the takeover may have begun as soon as the last broker was there"},
)
_SNAPSHOTS: Final = _need(
    lambda evidence: (snapshots_are_written(fleet_evidence_of(evidence)),),
    {When.GATE: "the soak itself is when stock writes them; each restart of it begins from one"},
)

_UNJOINED: Final = _need(
    lambda evidence: (some_broker_is_held(evidence),),
    {When.WHOLE: "it is about the first start of stock, and this one has started"},
)

_UNDER_STOCK: Final = (
    *(_LATER, _LOG, _READY, _REPLICAS, _SETTLED, _CANARY),
    *(_ANSWERS, _CLAIM, _FOLLOWS, _VOTERS, _GUARDS, _TIERS, _SCRAM),
)
LISTS: Final[Mapping[Roll, tuple[Need, ...]]] = {
    Roll.BEGIN: (_LATER, _ANSWERS, _GUARDS, _TIERS, _UNJOINED),
    Roll.JOIN: (_LATER, _LOG, _PRESENT, _ELECTED, _REPLICAS, _FILES, _TIERS, _RESTARTS, _SETTLED, _CANARY),
    Roll.KRAFT: (_LATER, _LOG, _READY, _REPLICAS, _SETTLED, _CANARY, _FOLLOWS, _TIERS, _SCRAM, _RESTARTS),
    Roll.STOCK: _UNDER_STOCK,
    Roll.SOAK: (*_UNDER_STOCK, _SNAPSHOTS),
    Roll.FINAL: (_LATER, _LOG, _READY, _REPLICAS, _SETTLED, _CANARY, _KRAFT, _VOTERS, _TIERS, _SCRAM),
}
"""Steps forward. Their gates: BROKERS_JOINING, ROLLING_BROKERS, REPLACING_CONTROLLERS, SOAK, FINALIZING."""


def conditions_of(evidence: Evidence, roll: Roll, when: When) -> tuple[Condition, ...]:
    return tuple(each for need in LISTS[roll] if when not in need.never for each in need.asked(evidence))
