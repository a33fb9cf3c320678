"""Requests in flight: a short simulation for every condition; `--requests` runs the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.model.image import Image
from migrator.model.values import NO_LEADER, MigrationState
from migrator.wire.batch import build_batch
from migrator.wire.messages.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from migrator.wire.messages.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.sim.acknowledged import Acknowledged
from tests.sim.cluster import ClusterLog
from tests.sim.invariants import Violation
from tests.sim.mutants import REQUEST_MUTANTS, Mutant
from tests.sim.requests import run_requests_seed
from tests.support.builders import an_id

SEEDS: Final = 30
ROOT: Final = Path(__file__).parents[2]
TOPIC: Final = an_id("orders")
KEY: Final = (TOPIC, 0)


def simulated(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose hashes are fixed: only there a seed is the same run each time."""
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def test_nothing_acknowledged_is_lost_whatever_is_asked_at_once() -> None:
    """Seeds 3 and 8 are the named examples of docs/simulation.md."""
    done = simulated("run", "--requests", "--seeds", str(SEEDS), "--processes", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_is_a_run() -> None:
    first, second = run_requests_seed(1), run_requests_seed(1)
    assert (first.counts, first.virtual_ms, first.steps) == (second.counts, second.virtual_ms, second.steps)


@pytest.mark.parametrize("mutant", REQUEST_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_deliberate_bug_is_found(mutant: Mutant) -> None:
    """Or the simulator is a toy. A process has hashes of its own here, so the noted seed may be dull."""
    with mutant.at_work():
        assert any(run_requests_seed(seed).rule.startswith("safety") for seed in (mutant.first_seed, *range(100)))


# --- each rule alone ----------------------------------------------------------------------------------------


def a_log(*batches: Sequence[Message]) -> ClusterLog:
    log = ClusterLog()
    for batch in batches:
        values = [encode_record(record, 0) for record in batch]
        log.committed(build_batch(base_offset=log.end, leader_epoch=1, timestamp_ms=1, values=values))
    return log


def brokers(*ids: int) -> list[Message]:
    return [
        RegisterBrokerRecord(broker_id=each, broker_epoch=offset, incarnation_id=an_id(f"run {each}"), fenced=False)
        for offset, each in enumerate(ids)
    ]


def made(**changes: Any) -> PartitionRecord:
    fields: dict[str, Any] = {"topic_id": TOPIC, "partition_id": 0, "replicas": (1, 2, 3), "isr": (1, 2), "leader": 1}
    return PartitionRecord(**{**fields, "leader_epoch": 0, "partition_epoch": 0, **changes})


def change(**changes: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(**{"topic_id": TOPIC, "partition_id": 0, **changes})


def fenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker - 1, fenced=1)


BEGIN: Final = (*brokers(1, 2, 3), TopicRecord("orders", TOPIC), made())


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        (change(leader=3), "a leader outside of its ISR"),
        (change(isr=(3,), leader=3), "a leader that was not in sync before"),
        (change(isr=(1, 2, 9)), "an ISR with somebody who has no replica"),
        (change(isr=(1, 2, 2)), "an ISR with somebody who has no replica"),
        (made(), "a partition that exists is made again"),
        (made(partition_id=1, replicas=(1, 4), isr=(1, 4)), "a broker that is fenced or unknown joins an ISR or leads"),
        (change(isr=(1, 2, 3)), "a replica joins an ISR that no leader proposed for that state"),
        (fenced(2), "a broker is fenced and leads on, or stays in an ISR with others"),
        (
            RegisterBrokerRecord(broker_id=4, broker_epoch=3, incarnation_id=an_id("run 4")),
            "a broker's epoch is not the offset of its registration",
        ),
    ],
)
def test_a_record_that_must_not_be_is_named(record: Message, rule: str) -> None:
    with pytest.raises(Violation) as found:
        a_log(BEGIN, [record])
    assert found.value.rule == f"safety: {rule}"


@pytest.mark.parametrize(
    "records",
    [
        [change(leader=2)],
        [change(isr=(1,), leader=1)],
        [change(isr=(1,), leader=1), fenced(2)],
        [change(isr=(2,), leader=2), fenced(1)],
        [change(isr=(1,), leader=1), change(leader=NO_LEADER), fenced(1)],
        [made(partition_id=1)],
    ],
)
def test_what_may_be_is_not_named(records: list[Message]) -> None:
    assert a_log(BEGIN, records).end == len(BEGIN) + len(records)


def test_a_replica_joins_as_its_leader_proposed_for_that_very_state() -> None:
    log = a_log(BEGIN)
    log.proposes(KEY, 0, 0, (1, 2, 3))
    assert log.partitions[KEY].isr == (1, 2)
    committed(log, change(isr=(1, 2, 3)))
    committed(log, change(isr=(1, 2), leader=1))
    with pytest.raises(Violation, match="no leader proposed"):
        committed(log, change(isr=(1, 2, 3)))


def test_who_left_the_isr_as_its_leader_was_told_does_not_lead() -> None:
    """The answer comes after the record that breaks it, too."""
    log = a_log(BEGIN, [change(isr=(1,), leader=1)])
    log.left_means_left.acknowledged(log, KEY, (1,), 1)
    log.proposes(KEY, 1, 1, (1, 2))
    committed(log, change(isr=(1, 2)))
    committed(log, change(leader=2))
    late = a_log(BEGIN, [change(leader=2)])
    with pytest.raises(Violation, match="as its leader was told"):
        late.left_means_left.acknowledged(late, KEY, (1,), 0)


def committed(log: ClusterLog, record: Message) -> None:
    values = [encode_record(record, 0)]
    log.committed(build_batch(base_offset=log.end, leader_epoch=1, timestamp_ms=1, values=values))


def test_an_image_that_differs_from_the_log_is_named() -> None:
    log = a_log(BEGIN)
    log.shown(1, log.end, log.image)
    with pytest.raises(Violation, match="different images"):
        log.shown(1, log.end, Image(migration=MigrationState.MIGRATION))


def test_what_was_refused_must_not_be_committed() -> None:
    log = a_log(BEGIN)
    log.refused.add("1000007")
    check: Callable[..., None] = log._said
    check(log.settings, "1000008", 9)
    with pytest.raises(Violation, match="1000007"):
        check(log.settings, "1000007", 9)


@pytest.mark.parametrize(("known_end", "refused"), [(4, True), (3, False)], ids=["it had shown that", "it had not"])
def test_a_leader_may_say_what_it_has_shown_and_nothing_older(known_end: int, refused: bool) -> None:
    """Broker 1 is fenced at offset 3. A leader that was deposed before that may still say that it is not."""
    log = a_log(brokers(1, 2, 3), [fenced(1)])
    request, reply = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0), BrokerHeartbeatResponse(is_fenced=False)
    told = Acknowledged(log)
    if refused:
        with pytest.raises(Violation, match="broker 1 is fenced: False"):
            told.answered(request, reply, asked_end=4, known_end=known_end)
    else:
        told.answered(request, reply, asked_end=4, known_end=known_end)
