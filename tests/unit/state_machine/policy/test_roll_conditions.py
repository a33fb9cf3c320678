"""What each kind of roll asks: before any stop, before one node's stop, around a node and of a node that was started.

The table is the record of every condition, by name and in its order. A line that goes away is a rule that goes away.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.model.verdict import Verdict
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence, Holder
from tests.unit.state_machine.policy.test_road_gates import a_canary
from tests.unit.state_machine.policy.test_step_conditions import as_before
from tests.unit.state_machine.roll_fakes import Fakes, judged_by

CASES: Final = (
    *((roll, "", 1) for roll in Roll if roll is not Roll.BEGIN),  # of `engine: stock` alone
    *((roll, "back", 1) for roll in (Roll.JOIN, Roll.KRAFT, Roll.FINAL)),
    (Roll.OURS, "stock", 1),
    (Roll.KRAFT, "", 2),
)
"""Roll; kind of the row of a node that a person sent back; how many nodes of a rack are away together."""


def named(what: str, verdicts: Iterable[Verdict]) -> str:
    """One paragraph; equal verdicts of several nodes once."""
    said = dict.fromkeys(" | ".join(each.name for each in verdict.conditions) for verdict in verdicts)
    return "\n".join(textwrap.fill(f"{what}: {each or 'nothing'}", 116, subsequent_indent="    ") for each in said)


def evidence_of(roll: Roll) -> Evidence:
    """Everything that this roll asks of the cluster holds."""
    road: dict[str, Any] = {"canary": a_canary(sent=100)}
    if roll is Roll.ORIGINAL:
        found = as_before(roll, road=road)
        return replace(found, holder=Holder.ZOOKEEPER_BROKER, holder_id=1, committed_migration=False)
    return as_before(roll, road={**road, "zookeeper": (2,)} if roll in (Roll.OURS, Roll.BACK) else road)


def fakes_of(directory: Path, roll: Roll) -> Fakes:
    by_zookeeper = {"holder": Holder.ZOOKEEPER_BROKER, "holder_id": 1} if roll in (Roll.JOIN, Roll.ORIGINAL) else {}
    directory.mkdir()
    return Fakes(directory, roll, evidence_of(roll), **by_zookeeper)


async def record_of(directory: Path, roll: Roll, kind: str, away: int, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patched:
        noted, fakes = judged_by(patched), fakes_of(directory / "started", roll)
        fakes.begin()
        first, *_ = ids = sorted(fakes.steps())
        for each in ids[:away]:
            fakes.at_step(each, "STARTED", **({"kind": kind} if kind else {}))
        for _ in range(3):
            await fakes.round(0.0)
        *_, look = (each for each in noted.looks if first in each.nodes)
        said = [
            f"{roll}{f', sent back ({kind})' if kind else ''}{', two of a rack' if away > 1 else ''}",
            named("before any stop", [look.cluster]),
            named("around it", [look.around]),
            named("of the node", [look.nodes[first].whole]),
        ]
        if kind or away > 1:
            return "\n".join(said[:1] + said[2:])
        said += [named("in its place for one node", look.of_node.values())] if look.of_node else []
        said.append(f"last: {sorted(look.last)}")
    with monkeypatch.context() as patched:
        noted, fakes = judged_by(patched), fakes_of(directory / "prepared", roll)
        fakes.begin()
        for each in ids:
            fakes.at_step(each, "PREPARED")
        await fakes.until(lambda: bool(noted.before_stop))
        said.append(named("when its stop is ordered", noted.before_stop[:1]))
    return "\n".join(said)


@pytest.mark.parametrize(("roll", "kind", "away"), CASES)
def test_no_condition_of_a_roll_is_lost(
    tmp_path: Path, roll: Roll, kind: str, away: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asyncio.run(record_of(tmp_path, roll, kind, away, monkeypatch))
    title = found.splitlines()[0]
    kept = {each.splitlines()[0]: each for each in RECORD.strip().split("\n\n")}
    assert found == kept.get(title), f"\n{found}"


RECORD: Final = """
join
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | every broker is in
    /brokers/ids | a ZooKeeper-mode broker is controller | no partition is under-replicated or without a leader | no
    partition is under its minimum ISR | no partition is being reassigned | no broker's file has a setting that
    forbids the takeover | no change waits for a restart of a broker | nothing was under-replicated for 60 s |
    canary traffic is within its error budget
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every broker is in /brokers/ids |
    no partition is under-replicated or without a leader | no partition is under its minimum ISR | no partition is
    being reassigned | no broker's file has a setting that forbids the takeover | nothing was under-replicated for
    60 s | canary traffic is within its error budget
of the node: its process runs | its file is as rendered | the metadata log is observed | it is in /brokers/ids | the
    broker registered anew | it registered in ZooKeeper mode | it is unfenced | every directory of its replicas is
    assigned | every directory is online | no partition is under-replicated or without a leader | no partition is
    under its minimum ISR | no partition is being reassigned | nothing was under-replicated for 60 s
last: [1]
when its stop is ordered: no node runs a Kafka without ZooKeeper | the metadata log is observed | every broker is in
    /brokers/ids | a ZooKeeper-mode broker is controller | no partition is under-replicated or without a leader | no
    partition is under its minimum ISR | no partition is being reassigned | no broker's file has a setting that
    forbids the takeover | no change waits for a restart of a broker | nothing was under-replicated for 60 s |
    canary traffic is within its error budget | no restart takes a partition offline | no restart takes a partition
    below its minimum ISR

kraft
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper has every committed change | no SCRAM credential is at stake | no change waits for a restart
    of a broker
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper has every committed change
of the node: its process runs | its file is as rendered | the metadata log is observed | the broker registered anew
    | it registered in KRaft mode | it is unfenced | every directory of its replicas is assigned | every directory
    is online | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | no directory of the broker is stray
last: []
when its stop is ordered: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered
    broker is unfenced | no partition is under-replicated or without a leader | no partition is under its minimum
    ISR | no partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its
    error budget | ZooKeeper has every committed change | no SCRAM credential is at stake | no change waits for a
    restart of a broker | no restart takes a partition offline | no restart takes a partition below its minimum ISR

stock
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change | every
    voter has what is committed | the guard of controller 3000 is proven | the guard of controller 3001 is proven |
    the guard of controller 3002 is proven | no SCRAM credential is at stake
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change | every
    voter has what is committed | the guard of controller 3000 is proven | the guard of controller 3001 is proven |
    the guard of controller 3002 is proven
of the node: its process runs | its file is as rendered | the metadata log is observed | the controller registered
    anew | it registered as ready for the migration | it has what is committed | a controller leads | /controller is
    held by this quorum
last: [3000]
when its stop is ordered: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered
    broker is unfenced | no partition is under-replicated or without a leader | no partition is under its minimum
    ISR | no partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its
    error budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change |
    every voter has what is committed | the guard of controller 3000 is proven | the guard of controller 3001 is
    proven | the guard of controller 3002 is proven | no SCRAM credential is at stake

soak
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change | every
    voter has what is committed | the guard of controller 3000 is proven | the guard of controller 3001 is proven |
    the guard of controller 3002 is proven | no SCRAM credential is at stake | every stock controller wrote a
    snapshot
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change | every
    voter has what is committed | the guard of controller 3000 is proven | the guard of controller 3001 is proven |
    the guard of controller 3002 is proven | every stock controller wrote a snapshot
of the node: its process runs | its file is as rendered | the metadata log is observed | the controller registered
    anew | it registered as ready for the migration | it has what is committed | a controller leads | /controller is
    held by this quorum
last: [3000]
when its stop is ordered: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered
    broker is unfenced | no partition is under-replicated or without a leader | no partition is under its minimum
    ISR | no partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its
    error budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change |
    every voter has what is committed | the guard of controller 3000 is proven | the guard of controller 3001 is
    proven | the guard of controller 3002 is proven | no SCRAM credential is at stake | every stock controller wrote
    a snapshot

final
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | every registered broker is in KRaft mode | every voter has what is committed | no SCRAM credential is
    at stake
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | every registered broker is in KRaft mode | every voter has what is committed
of the node: its process runs | its file is as rendered | the metadata log is observed | the controller registered
    anew | it registered without the migration flag | it has what is committed | a controller leads
last: [3000]
when its stop is ordered: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered
    broker is unfenced | no partition is under-replicated or without a leader | no partition is under its minimum
    ISR | no partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its
    error budget | every registered broker is in KRaft mode | every voter has what is committed | no SCRAM
    credential is at stake

ours
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | canary traffic is within
    its error budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change
    | the guard of controller 3000 is proven | the guard of controller 3001 is proven | the guard of controller 3002
    is proven
around it: nothing
of the node: its process runs | its file is as rendered | the metadata log is observed | a controller of ours
    answers in its place | the controller registered anew | it registered as ready for the migration | it has what
    is committed | a controller leads | /controller is held by this quorum
in its place for one node: the host of the next node answers | no node runs a Kafka without ZooKeeper | the metadata
    log is observed | canary traffic is within its error budget | ZooKeeper answers | /controller is held by this
    quorum | ZooKeeper has every committed change | the guard of controller 3000 is proven | the guard of controller
    3001 is proven | the guard of controller 3002 is proven | a majority of the voters follows without it
last: [3000]
when its stop is ordered: the host of the next node answers | no node runs a Kafka without ZooKeeper | the metadata
    log is observed | canary traffic is within its error budget | ZooKeeper answers | /controller is held by this
    quorum | ZooKeeper has every committed change | the guard of controller 3000 is proven | the guard of controller
    3001 is proven | the guard of controller 3002 is proven | a majority of the voters follows without it

back
before any stop: no node runs a Kafka without ZooKeeper | the metadata log is observed | canary traffic is within
    its error budget | ZooKeeper answers | /controller is held by this quorum | ZooKeeper has every committed change
    | the log says MIGRATION | no feature beside metadata.version is finalized
around it: nothing
of the node: its process runs | its file is as rendered | the metadata log is observed | the broker registered anew
    | it registered in ZooKeeper mode | it is unfenced | every directory of its replicas is assigned | every
    directory is online | it is in the ISR of each of its partitions | so it was for 60 s | not all under-replicated
    partitions are led by it | no directory of the broker is stray
in its place for one node: the host of the next node answers | no node runs a Kafka without ZooKeeper | the metadata
    log is observed | canary traffic is within its error budget | ZooKeeper answers | /controller is held by this
    quorum | ZooKeeper has every committed change | the log says MIGRATION | no feature beside metadata.version is
    finalized | its stop takes no partition offline or below its minimum ISR | so it was for 60 s | every directory
    of the broker is online
last: []
when its stop is ordered: the host of the next node answers | no node runs a Kafka without ZooKeeper | the metadata
    log is observed | canary traffic is within its error budget | ZooKeeper answers | /controller is held by this
    quorum | ZooKeeper has every committed change | the log says MIGRATION | no feature beside metadata.version is
    finalized | its stop takes no partition offline or below its minimum ISR | so it was for 60 s | every directory
    of the broker is online

original
before any stop: the cluster was observed under 10 s ago | a ZooKeeper-mode broker is controller | /migration names
    no committed log | brokers tell how whole the replicas are | clients see every broker | no partition is under-
    replicated or without a leader | nothing was under-replicated for 2 s | canary traffic is within its error
    budget | no change waits for a restart of a broker
around it: nothing
of the node: its process runs | its file is as rendered | it is registered in ZooKeeper | brokers tell how whole the
    replicas are | clients see every broker | no partition is under-replicated or without a leader | nothing was
    under-replicated for 2 s | no directory of the broker is stray
in its place for one node: the host of the next node answers | the cluster was observed under 10 s ago | a
    ZooKeeper-mode broker is controller | /migration names no committed log | brokers tell how whole the replicas
    are | clients see every broker | no partition is under-replicated or without a leader | nothing was under-
    replicated for 2 s | canary traffic is within its error budget | no change waits for a restart of a broker | its
    stop takes no partition offline or below its minimum ISR
last: [1]
when its stop is ordered: the host of the next node answers | the cluster was observed under 10 s ago | a ZooKeeper-
    mode broker is controller | /migration names no committed log | brokers tell how whole the replicas are |
    clients see every broker | no partition is under-replicated or without a leader | nothing was under-replicated
    for 2 s | canary traffic is within its error budget | no change waits for a restart of a broker | its stop takes
    no partition offline or below its minimum ISR

join, sent back (back)
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every broker is in /brokers/ids |
    no partition is under-replicated or without a leader | no partition is under its minimum ISR | no partition is
    being reassigned | no broker's file has a setting that forbids the takeover | nothing was under-replicated for
    60 s | canary traffic is within its error budget
of the node: its process runs | its file is as rendered | the metadata log is observed | it is in /brokers/ids | no
    partition is under-replicated or without a leader | no partition is under its minimum ISR | no partition is
    being reassigned | nothing was under-replicated for 60 s

kraft, sent back (back)
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper has every committed change
of the node: its process runs | its file is as rendered | the metadata log is observed | the broker registered anew
    | it registered in ZooKeeper mode | it is unfenced | every directory of its replicas is assigned | every
    directory is online | no partition is under-replicated or without a leader | no partition is under its minimum
    ISR | no partition is being reassigned | nothing was under-replicated for 60 s | no directory of the broker is
    stray

final, sent back (back)
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | every registered broker is in KRaft mode | every voter has what is committed
of the node: its process runs | its file is as rendered | the metadata log is observed | the controller registered
    anew | it registered as ready for the migration | it has what is committed | a controller leads

ours, sent back (stock)
around it: nothing
of the node: its process runs | its file is as rendered | the metadata log is observed | the controller registered
    anew | it registered as ready for the migration | it has what is committed | a controller leads | /controller is
    held by this quorum

kraft, two of a rack
around it: no node runs a Kafka without ZooKeeper | the metadata log is observed | every registered broker is
    unfenced | no partition is under-replicated or without a leader | no partition is under its minimum ISR | no
    partition is being reassigned | nothing was under-replicated for 60 s | canary traffic is within its error
    budget | ZooKeeper has every committed change
of the node: its process runs | its file is as rendered | the metadata log is observed | the broker registered anew
    | it registered in KRaft mode | it is unfenced | every directory of its replicas is assigned | every directory
    is online | it is in the ISR of each of its partitions | so it was for 60 s | not all under-replicated
    partitions are led by it | no directory of the broker is stray
"""
