"""Raises of other features in COMPLETED: one decision each, approved for itself, kept from taking what topics have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.findings.content import MIN_ISR_IN_FILES_ALONE
from migrator.findings.finding import FindingError
from migrator.findings.road import NOT_A_RAISE, VERSION_NOT_RAISED
from migrator.model.at_a_stop import MinIsr
from migrator.model.features.raises import ELIGIBLE, FEATURES, KRAFT, Raise
from migrator.model.image import METADATA_VERSION
from state_machine.clusters.log_observer import LogController, SupportedRange, VoterLevels
from state_machine.policy.phases import Phase
from state_machine.policy.raises import raise_of, raises_of
from state_machine.rows.documents import FILES, FilesDocument
from state_machine.rows.tables import Operation
from state_machine.work.agreement import agreement
from tests.unit.state_machine.finish.test_version_raise import NEW, Completed
from tests.unit.state_machine.world import NODE

GROUP = "group.version=1"
IN_FILES = MinIsr(value=2, brokers=((0, 2), (1, 2), (2, 2)), rests=True)


class OnKafka44(Completed):
    """Every node runs 4.4, metadata.version is raised, and brokers' files alone have min.insync.replicas=2."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.log.levels = {NODE: VoterLevels(7, 33, finalized=33)}
        self.observe(
            metadata_version=33,
            min_isr=IN_FILES,
            supported=tuple(
                SupportedRange(row.name, 0, row.highest, nodes)
                for row in FEATURES.values()
                for nodes in ("brokers 0, 1, 2", f"controller {NODE}")
            ),
        )

    def observe(self, **fields: Any) -> None:
        self.log.observed = msgspec.structs.replace(self.log.observed, **fields)

    def read_files(self, **fields: Any) -> None:
        document = msgspec.to_builtins(FilesDocument(self.clock(), **fields))
        self.store.record_document(self.id, FILES, document, at=self.clock())

    async def approve_raise(self, feature: str, who: str = "Bo") -> Operation:
        digest = agreement(self.snapshot, Phase.COMPLETED, raise_of(feature)).digest
        return await self.run_operation("APPROVE", who=who, to=Phase.COMPLETED, feature=feature, digest=digest)

    async def raise_feature(self, feature: str) -> Operation:
        return await self.run_operation("RAISE_VERSION", who="Ada", feature=feature)


@pytest.fixture
def world(tmp_path: Path) -> OnKafka44:
    return OnKafka44(tmp_path)


def test_a_feature_is_raised_once_another_person_approved_this_one(world: OnKafka44) -> None:
    async def story() -> tuple[str, str]:
        await world.to_completed()
        assert "there is no approval yet" in (await world.raise_feature(GROUP)).answer
        approved = await world.approve_raise("transaction.version=2")
        assert "approved the raise of transaction.version to 2" in approved.answer
        other = (await world.raise_feature(GROUP)).answer
        assert (await world.approve_raise(GROUP)).state == "succeeded"
        raised = await world.raise_feature(GROUP)
        assert raised.state == "succeeded", raised.answer
        await world.turn(4)
        return other, (await world.raise_feature(GROUP)).answer

    other, again = asyncio.run(story())
    assert "Bo approved transaction.version=2, and not this" in other
    assert world.log.raised == [GROUP]
    assert "Ada raised group.version from 0 to 1" in world.events[-1].reason
    assert "group.version is below 1: it is 1" in again


@pytest.mark.parametrize("spoil", ["a broker lacks it", "no voter", "the voter is silent", "a person's own"])
def test_a_feature_waits_for_every_registration_and_for_another_person(world: OnKafka44, spoil: str) -> None:
    expected = {
        "a broker lacks it": "not supported by broker 2 (0 to 0)",
        "no voter": "controllers [7] are registered and are no voters",
        "the voter is silent": f"voter {NODE}: it is away",
        "a person's own": "Ada requested it and approved it",
    }[spoil]

    async def story() -> str:
        await world.to_completed()
        match spoil:
            case "a broker lacks it":
                world.observe(
                    supported=(*world.log.observed.supported, SupportedRange("group.version", 0, 0, "broker 2"))
                )
            case "no voter":
                stranger = LogController(7, "x", zk_migration_ready=False, levels=NEW)
                world.observe(controllers=(*world.log.observed.controllers, stranger))
            case "the voter is silent":
                world.log.levels = {NODE: "it is away"}
        await world.turn(5)
        await world.approve_raise(GROUP, who="Ada")
        return (await world.raise_feature(GROUP)).answer

    assert expected in asyncio.run(story())
    assert world.log.raised == []


@pytest.mark.parametrize(
    ("min_isr", "controllers", "refused"),
    [
        (IN_FILES, ((NODE, 1),), "brokers [0, 1, 2] have 2, and 1 would count (controllers' files)"),
        (IN_FILES, (), f"files of [{NODE}] were not read"),
        (MinIsr(value=2, brokers=((0, 2), (1, 2)), rests=True), ((NODE, 2),), "what brokers [2] have is not known"),
        (
            MinIsr(value=3, brokers=((0, 3), (1, 2), (2, 2)), of_all=2, rests=True),
            (),
            "brokers [0] have 3, and 2 would count (set for all brokers)",
        ),
        (IN_FILES, ((NODE, 2),), None),
        (MinIsr(value=2, brokers=((0, 2), (1, 2), (2, 2)), of_all=2, rests=True), ((NODE, 1),), None),
    ],
)
def test_eligible_leader_replicas_wait_until_every_topic_keeps_its_minimum(
    world: OnKafka44, min_isr: MinIsr, controllers: tuple[tuple[int, int], ...], refused: str | None
) -> None:
    """Z2K-1068: without that, acks=all is taken by one replica."""
    wanted = f"{ELIGIBLE}=1"

    async def story() -> Operation:
        await world.to_completed()
        world.observe(min_isr=min_isr)
        await world.turn(2)
        world.read_files(min_isr_of_controllers=controllers)
        await world.approve_raise(wanted)
        world.read_files(min_isr_of_controllers=controllers)
        return await world.raise_feature(wanted)

    raised = asyncio.run(story())
    if refused is None:
        assert raised.state == "succeeded", raised.answer
        assert world.log.raised == [wanted]
        return
    assert raised.state == "refused"
    assert refused in raised.answer
    assert world.log.raised == []
    assert raised.verdict is not None
    failed = [each for each in raised.verdict["conditions"] if MIN_ISR_IN_FILES_ALONE.code in each["codes"]]
    assert [each["status"] for each in failed] == ["False"]


def test_an_approval_ends_when_the_minimum_of_a_broker_changes(world: OnKafka44) -> None:
    wanted = f"{ELIGIBLE}=1"

    async def story() -> str:
        await world.to_completed()
        kept = MinIsr(value=2, brokers=((0, 2), (1, 2), (2, 2)), of_all=2, rests=True)
        world.observe(min_isr=kept)
        await world.turn(2)
        assert (await world.approve_raise(wanted)).state == "succeeded"
        world.observe(min_isr=MinIsr(value=3, brokers=((0, 3), (1, 3), (2, 3)), of_all=3, rests=True))
        await world.turn(2)
        return (await world.raise_feature(wanted)).answer

    assert "the plan or the evidence changed after Bo approved" in asyncio.run(story())


def test_voters_become_records_only_where_the_software_does_it_and_files_are_known(world: OnKafka44) -> None:
    """Kafka 4.0 answers that kraft.version was raised, and changes nothing."""
    wanted = f"{KRAFT}=1"

    async def story() -> tuple[str, str, Operation]:
        await world.to_completed()
        unread = (await world.raise_feature(wanted)).answer
        world.log.levels = {NODE: VoterLevels(7, 25, finalized=25)}
        await world.turn(5)
        old = (await world.raise_feature(wanted)).answer
        world.log.levels = {NODE: VoterLevels(7, 33, finalized=33)}
        await world.turn(5)
        world.read_files(with_voters=(f"controller {NODE}",))
        said = agreement(world.snapshot, Phase.COMPLETED, raise_of(wanted)).says
        assert "this cannot be undone" in said
        assert any(f"controller.quorum.voters of controller {NODE} says no more who votes" in each for each in said)
        await world.approve_raise(wanted)
        world.read_files(with_voters=(f"controller {NODE}",))
        return unread, old, await world.raise_feature(wanted)

    unread, old, raised = asyncio.run(story())
    assert "the service has not read all files" in unread
    assert f"voters [{NODE}] would answer that it was raised, and change nothing" in old
    assert raised.state == "succeeded", raised.answer


def test_a_controller_that_refuses_a_feature_is_quoted(world: OnKafka44, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_machine.finish.version_raise.SHOWN_S", 0.1)
    world.log.refuses = "controller 3000 answers error 95: it depends on metadata.version level 23"

    async def story() -> str:
        await world.to_completed()
        await world.approve_raise(GROUP)
        return (await world.raise_feature(GROUP)).answer

    said = asyncio.run(story())
    assert said.startswith(f"{VERSION_NOT_RAISED.code} group.version was not raised to 1; the voters say 0")
    assert "depends on metadata.version level 23" in said


@pytest.mark.parametrize(
    "text", ["group.version", "group.version=x", "group.version=2", "no.such.version=1", "metadata.version=21"]
)
def test_what_is_no_raise_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(FindingError) as raised:
        raise_of(text)
    assert raised.value.code == NOT_A_RAISE.code == "Z2K-4250"


def test_a_release_stands_for_one_decision_per_feature() -> None:
    assert [each.text for each in raises_of("4.4.0")] == [
        "metadata.version=33",
        "group.version=1",
        "transaction.version=2",
        "share.version=2",
        "streams.version=1",
        "eligible.leader.replicas.version=1",
        "kraft.version=1",
    ]
    assert [each.text for each in raises_of("4.0")] == [
        "metadata.version=25",
        "group.version=1",
        "transaction.version=2",
        "kraft.version=1",
    ]
    assert raises_of("4.1")[0] == Raise(METADATA_VERSION, 27)
    for unknown in ("3.9", "5.0", "newest"):
        with pytest.raises(FindingError, match=NOT_A_RAISE.code):
            raises_of(unknown)
