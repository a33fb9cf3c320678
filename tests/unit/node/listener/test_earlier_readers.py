"""Brokers of earlier releases that ask for the log: one that could not read it is given nothing, and goes on."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from migrator.controller.contacts import Contacts
from migrator.model.image import METADATA_VERSION
from migrator.model.values import MigrationState
from migrator.node.listener.controller_apis import Caller, ControllerApis
from migrator.raft.log_view import LogView
from migrator.wire.errors import Error
from migrator.wire.frames import RequestHeader
from migrator.wire.messages.handshake import ApiVersionsRequest
from migrator.wire.messages.replication import (
    EpochEndOffset,
    FetchCurrentLeader,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchResponseSnapshotId,
    FetchSnapshotCurrentLeader,
    FetchSnapshotPartition,
    FetchSnapshotPartitionResult,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
    FetchSnapshotTopicResult,
    FetchTopic,
    FetchTopicResult,
)
from migrator.wire.schema import Message
from tests.support.builders import an_image

READ = FetchResponse(error_code=Error.NONE)
VOTER, BROKER = 3000, 7
REGISTERED = next(iter(an_image().brokers))


def answered(**partition: Any) -> FetchResponse:
    return FetchResponse(responses=(FetchTopicResult(partitions=(FetchPartitionResult(**partition),)),))


ANSWERS: dict[str, Message] = {
    "parted": answered(diverging_epoch=EpochEndOffset(1, 1), current_leader=FetchCurrentLeader(VOTER, 1)),
    "snapshot": answered(snapshot_id=FetchResponseSnapshotId(60, 1)),
    "another leader, for a snapshot": FetchSnapshotResponse(
        topics=(
            FetchSnapshotTopicResult(
                partitions=(
                    FetchSnapshotPartitionResult(
                        error_code=Error.NOT_LEADER_OR_FOLLOWER, current_leader=FetchSnapshotCurrentLeader(VOTER, 1)
                    ),
                )
            ),
        )
    ),
    "another leader": answered(error_code=Error.NOT_LEADER_OR_FOLLOWER, current_leader=FetchCurrentLeader(VOTER, 1)),
}


class Quorum:
    def __init__(self, answer: Message) -> None:
        self.answer = answer

    async def fetch(self, *_: Any) -> Message:
        return self.answer

    fetch_snapshot = fetch


def some_apis(
    level: int | None, migration: MigrationState = MigrationState.PRE_MIGRATION, answer: Message = READ
) -> tuple[ControllerApis, Contacts]:
    contacts = Contacts()
    features = {} if level is None else {METADATA_VERSION: level}
    image = msgspec.structs.replace(an_image(), features=features, migration=migration)
    settings = SimpleNamespace(migration_enabled=True, cluster_id="c")
    controller: Any = SimpleNamespace(image=image, contacts=contacts, settings=settings, allows=lambda *_: True)
    voter = SimpleNamespace(voters={VOTER: None}, leader=VOTER, epoch=2, log=LogView(end=9))
    voter.log.epochs.assign(1, 0)
    raft: Any = SimpleNamespace(voter=voter, now_ms=lambda: 0, leads=lambda _: True)
    quorum: Any = Quorum(answer)
    return ControllerApis(raft, controller, quorum, listener="CONTROLLER"), contacts


def asked(apis: ControllerApis, release: str, request: Message, software: str = "apache-kafka-java") -> Any:
    async def story() -> Message:
        caller = Caller()
        hello = ApiVersionsRequest(client_software_name=software, client_software_version=release)
        await apis.answer(RequestHeader(18, 3, 1, "raft-client", 0), hello, caller)
        return await apis.answer(RequestHeader(1, 13, 2, "raft-client", 0), request, caller)

    return asyncio.run(story())


@pytest.mark.parametrize(("release", "level"), [("3.4.1", 13), ("3.5.2", 13), ("3.6.2", 21), ("3.7.2", 21)])
def test_a_broker_that_cannot_read_the_level_is_told_to_ask_again_and_named(release: str, level: int) -> None:
    apis, contacts = some_apis(level)
    for request in (FetchRequest(replica_id=BROKER), FetchSnapshotRequest(replica_id=BROKER)):
        assert asked(apis, release, request).error_code == Error.BROKER_NOT_AVAILABLE
    found = contacts.too_old[BROKER]
    assert found.code == "Z2K-1053"
    assert f"Broker {BROKER} runs Kafka {release}" in found.text
    assert asked(apis, "3.9.2", FetchRequest(replica_id=BROKER)) is READ
    assert contacts.too_old == {}, "it was upgraded"


@pytest.mark.parametrize("release", ["3.6.0", "3.6.1"])
def test_a_broker_that_refuses_equal_leader_epochs_is_kept_out_and_named(release: str) -> None:
    apis, contacts = some_apis(13)
    assert asked(apis, release, FetchRequest(replica_id=BROKER)).error_code == Error.BROKER_NOT_AVAILABLE
    found = contacts.too_old[BROKER]
    assert found.code == "Z2K-1054"
    assert f"Broker {BROKER} runs Kafka {release}" in found.text
    assert asked(apis, "3.6.2", FetchRequest(replica_id=BROKER)) is READ
    assert contacts.too_old == {}, "it was upgraded"
    in_dual_write, contacts = some_apis(13, MigrationState.MIGRATION)
    assert asked(in_dual_write, release, FetchRequest(replica_id=BROKER)) is READ, "others may have begun it"
    assert contacts.too_old == {}


def fetch_snapshot(replica: int = BROKER) -> FetchSnapshotRequest:
    partition = FetchSnapshotPartition(current_leader_epoch=1)
    return FetchSnapshotRequest(replica_id=replica, topics=(FetchSnapshotTopic(partitions=(partition,)),))


def fetch(offset: int = 320, epoch: int = 1, replica: int = BROKER) -> FetchRequest:
    partition = FetchPartition(fetch_offset=offset, current_leader_epoch=epoch)
    return FetchRequest(replica_id=replica, topics=(FetchTopic(partitions=(partition,)),))


@pytest.mark.parametrize(
    ("replica", "level", "migration", "told"),
    [
        (BROKER, 21, MigrationState.PRE_MIGRATION, False),
        (BROKER, None, MigrationState.NONE, False),  # a leader whose first records are not committed yet
        (BROKER, 21, MigrationState.MIGRATION, True),
        (BROKER, 21, MigrationState.NONE, True),  # a quorum that never migrates
        (VOTER, 21, MigrationState.PRE_MIGRATION, True),
        (REGISTERED, 21, MigrationState.PRE_MIGRATION, False),  # it may register without a restart
    ],
)
@pytest.mark.parametrize("kind", ["parted", "snapshot", "another leader", "another leader, for a snapshot"])
def test_before_the_takeover_no_broker_is_told_what_ends_one_that_follows_an_earlier_quorum(
    replica: int, level: int | None, migration: MigrationState, told: bool, kind: str
) -> None:
    answer = ANSWERS[kind]
    apis, contacts = some_apis(level, migration, answer)
    ask = fetch_snapshot if isinstance(answer, FetchSnapshotResponse) else fetch
    found = asked(apis, "3.9.2", ask(replica=replica))
    assert (found is answer) is told
    assert told or found.error_code == Error.BROKER_NOT_AVAILABLE
    named = not told and kind in ("parted", "snapshot")
    assert [each.code for each in contacts.refused] == (["Z2K-1055"] if named else [])


def test_a_broker_of_an_earlier_quorum_gets_nothing_until_it_is_restarted_however_long_this_log_is() -> None:
    """Nor once it registered."""
    apis, contacts = some_apis(21, answer=ANSWERS["parted"])
    assert asked(apis, "3.9.2", fetch()).error_code == Error.BROKER_NOT_AVAILABLE
    contacts.registered(BROKER, 5, 0, new_incarnation=True)
    assert f"Broker {BROKER} " in contacts.refused[0].text
    apis._quorum.answer = grown = answered(current_leader=FetchCurrentLeader(VOTER, 2))  # type: ignore[attr-defined]
    assert asked(apis, "3.9.2", fetch()).error_code == Error.BROKER_NOT_AVAILABLE
    assert (contacts.why_refused(BROKER) is None, contacts.reading) == (False, set())
    assert asked(apis, "3.9.2", fetch(offset=0)) is grown, "it was restarted"
    assert asked(apis, "3.9.2", fetch(offset=5)) is grown
    assert (contacts.refused, contacts.reading) == ((), {BROKER})


def test_a_short_log_that_fits_is_found_by_the_leader_that_began_this_one() -> None:
    """Brokers that a wrongly formatted quorum had refused were told more of another log than they had read."""
    apis, contacts = some_apis(21, answer=answered())
    read = apis._quorum.answer  # type: ignore[attr-defined]
    assert asked(apis, "3.9.2", fetch(offset=5)) is read, "another one led before"
    contacts.clear([], 0)
    voter: Any = apis._raft.voter
    voter.epoch = 1
    assert asked(apis, "3.9.2", fetch(offset=5)).error_code == Error.BROKER_NOT_AVAILABLE
    assert ([each.code for each in contacts.refused], contacts.reading) == (["Z2K-1055"], set())
    assert asked(apis, "3.9.2", fetch(offset=0)) is read
    assert asked(apis, "3.9.2", fetch(offset=5)) is read


@pytest.mark.parametrize("leads", [True, False])
def test_a_broker_that_knows_of_a_later_epoch_than_the_leader_is_named_and_does_not_read(leads: bool) -> None:
    """It takes no answer; that it has registered and sends heartbeats does not show it. A follower may lag."""
    answer = answered(error_code=Error.UNKNOWN_LEADER_EPOCH, current_leader=FetchCurrentLeader(VOTER, 1))
    apis, contacts = some_apis(21, answer=answer)
    apis._raft.leads = lambda epoch: leads  # type: ignore[method-assign]
    assert asked(apis, "3.9.2", fetch(epoch=4)) is answer
    assert ([each.code for each in contacts.refused], contacts.reading) == (["Z2K-1055"] if leads else [], set())


def test_whom_a_leadership_serves_is_asked_again_by_the_next_one() -> None:
    apis, contacts = some_apis(21, answer=answered())
    asked(apis, "3.9.2", fetch(offset=0))
    assert contacts.reading == {BROKER}
    contacts.clear([BROKER], 0)
    assert contacts.reading == set()
    asked(apis, "3.9.2", fetch(offset=5))
    assert contacts.reading == {BROKER}


def test_a_broker_that_read_this_log_from_its_start_is_told_to_cut_what_was_never_committed() -> None:
    apis, contacts = some_apis(21, answer=answered())
    asked(apis, "3.9.2", fetch(offset=0))
    apis._quorum.answer = ANSWERS["parted"]  # type: ignore[attr-defined]
    assert asked(apis, "3.9.2", fetch(offset=5)) is ANSWERS["parted"]
    assert contacts.refused == ()


def test_every_broker_is_remembered_and_a_hundred_are_named() -> None:
    apis, contacts = some_apis(21, answer=ANSWERS["parted"])
    for broker in range(100, 250):
        assert asked(apis, "3.9.2", fetch(replica=broker)).error_code == Error.BROKER_NOT_AVAILABLE
    assert len(contacts.refused) == 100
    apis._quorum.answer = answered()  # type: ignore[attr-defined]
    assert asked(apis, "3.9.2", fetch(replica=249)).error_code == Error.BROKER_NOT_AVAILABLE


def test_a_refusal_comes_as_late_as_an_answer_without_records() -> None:
    """Kafka asks again after 20 ms."""
    apis, _ = some_apis(21, answer=ANSWERS["parted"])
    began = time.monotonic()
    asked(apis, "3.9.2", msgspec.structs.replace(fetch(), max_wait_ms=60))
    asked(apis, "3.6.2", msgspec.structs.replace(fetch(), max_wait_ms=60))
    assert time.monotonic() - began >= 0.12


def test_a_new_broker_is_told_of_a_later_leader_and_given_a_snapshot() -> None:
    apis, _ = some_apis(21, answer=ANSWERS["another leader"])
    assert asked(apis, "3.9.2", fetch(epoch=0)) is ANSWERS["another leader"]
    apis, _ = some_apis(21, answer=ANSWERS["snapshot"])
    assert asked(apis, "3.9.2", fetch(offset=0)) is ANSWERS["snapshot"]


@pytest.mark.parametrize(
    ("release", "level"), [("3.6.2", 13), ("3.6.2", 14), ("3.8.1", 20), ("3.9.2", 21), ("4.0.0", 21)]
)
def test_a_broker_that_knows_the_level_reads(release: str, level: int) -> None:
    apis, contacts = some_apis(level)
    assert asked(apis, release, FetchRequest(replica_id=BROKER)) is READ
    assert contacts.too_old == {}


def test_ids_that_anybody_may_claim_are_refused_and_not_all_kept() -> None:
    apis, contacts = some_apis(21)
    for broker in range(100, 350):
        assert asked(apis, "3.6.2", FetchRequest(replica_id=broker)).error_code == Error.BROKER_NOT_AVAILABLE
    assert len(contacts.too_old) == 100


def test_before_its_own_log_is_read_a_controller_names_nobody() -> None:
    apis, contacts = some_apis(None)
    assert asked(apis, "3.6.2", FetchRequest(replica_id=BROKER)).error_code == Error.BROKER_NOT_AVAILABLE
    assert asked(apis, "3.9.2", FetchRequest(replica_id=BROKER)) is READ
    assert contacts.too_old == {}


def test_voters_and_those_who_do_not_say_their_release_read() -> None:
    apis, _ = some_apis(21)
    assert asked(apis, "3.4.1", FetchRequest(replica_id=VOTER)) is READ
    assert asked(apis, "3.4.1", FetchRequest(replica_id=-1)) is READ
    assert asked(apis, "1", FetchRequest(replica_id=BROKER), software="another") is READ
