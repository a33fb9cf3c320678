"""The leader that copied died before the first broker update: its successor looks for what others changed since."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from migrator.control_api.states import State
from migrator.driver.copy import copied, make_copy, nobody_is_updated, takeover_mark, transaction_batches
from migrator.driver.machine import Happened
from migrator.driver.tree import Tree
from migrator.model.draft import Draft
from migrator.model.image import CommittedCopy, Image, Position, committed_copy
from migrator.model.values import ConfigKey, ConfigType, Mark, MigrationState, ScramCredential, ScramKey, ScramMechanism
from migrator.node.log.log_replay import LogReplay, read_ahead
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.records.builders import config_record
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.records import encode_record
from migrator.zk import paths
from tests.support.builders import a_topic, an_image
from tests.support.driver_acts import done, reconcile_acts, update_acts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree
from tests.unit.node.driver.test_driver_acts import a_driver, story
from tests.unit.node.driver.test_spoiled_trees import IMAGE, MENDED, a_successor, spoiled, topic_with

NOT_YET: Final = takeover_mark(5, 1.0, updating=False)
UPDATING: Final = takeover_mark(5, 1.0, updating=True)

QUOTA: Final = b'{"version":1,"config":{"request_percentage":"75.0"}}'
CONFIG: Final = b'{"version":1,"config":{"retention.ms":"2000"}}'
ACLS: Final = b'{"version":1,"acls":[{"principal":"User:b","permissionType":"Allow","operation":"Read","host":"*"}]}'
BY_OTHERS: Final[dict[str, dict[str, bytes | None]]] = {
    "ACLs of a resource that had some": {"/kafka-acl/Topic/orders": ACLS},
    "ACLs of another resource": {"/kafka-acl/Group/g": ACLS},
    "ACLs taken away": {"/kafka-acl/Topic/orders": None},
    "a topic's configuration": {paths.topic_config("orders"): CONFIG},
    "the first configuration of a topic": {paths.topic_config("payments"): CONFIG},
    "a broker's configuration": {paths.broker_config("1"): b'{"version":1,"config":{"log.cleaner.threads":"4"}}'},
    "a quota": {"/config/users/alice": QUOTA},
    "a quota of somebody else": {"/config/users/bob": QUOTA},
    "a credential and the quota beside it": {"/config/users/alice": None},
    "a topic": {**topic_with("foreign", a_topic("foreign", 2))},
    "a topic deleted": {paths.topic("payments"): None},
    "what nobody can read": {paths.topic("foreign"): b"\xff"},
}


def before_an_update(mark: str = NOT_YET, **changes: Any) -> tuple[Any, FakeEnsemble]:
    """A successor in SYNCING. changes: of the image since the copy."""
    driver, ensemble = a_successor()
    was = msgspec.structs.replace(IMAGE, marks=IMAGE.marks.set(Mark.TAKEOVER, mark))
    before = an_image(migration=MigrationState.PRE_MIGRATION)
    driver.parts.controller.image = driver.parts.controller.newest = msgspec.structs.replace(was, **changes)
    driver.parts.controller.copied = CommittedCopy(before, was)
    return driver, ensemble


@pytest.mark.parametrize("changed", BY_OTHERS.values(), ids=BY_OTHERS.keys())
def test_what_others_changed_since_the_copy_ends_in_an_early_rollback_and_is_left_as_it_is(
    changed: dict[str, bytes | None],
) -> None:
    async def told() -> None:
        driver, ensemble = before_an_update()
        spoiled(ensemble, changed)
        before = ensemble.tree()
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.MUST_ROLL_BACK
        assert driver.now.finding is not None
        assert driver.now.finding.code in ("Z2K-2013", "Z2K-1001")
        assert ensemble.tree() == before

    story(told)


@pytest.mark.parametrize(
    "name", [name for name in MENDED if name.startswith(("a broker's", "ACLs", "a user", "a token"))]
)
def test_once_a_broker_may_have_an_update_the_log_is_the_truth(name: str) -> None:
    async def told() -> None:
        driver, ensemble = before_an_update(UPDATING)
        spoiled(ensemble, MENDED[name])
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED

    story(told)


def test_what_this_quorum_changed_since_the_copy_is_written_and_no_reason_to_leave() -> None:
    async def told() -> None:
        retention = ConfigKey(ConfigType.TOPIC, "orders")
        draft = Draft(IMAGE)
        draft.put_config(retention, {"retention.ms": "9"}.items())
        draft.put_topic(a_topic("made-since", 2))
        now = draft.finish(IMAGE.position).after
        driver, ensemble = before_an_update(configs=now.configs, topics=now.topics, topic_ids=now.topic_ids)
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert b'"9"' in (ensemble.nodes[paths.topic_config("orders")].data or b"")
        assert paths.topic("made-since") in ensemble.nodes

    story(told)


def test_what_the_leader_before_wrote_already_is_no_reason_to_leave() -> None:
    """It died within its own reconcile: a part of what the log says now is in ZooKeeper."""

    async def told() -> None:
        key = ConfigKey(ConfigType.TOPIC, "orders")
        draft = Draft(IMAGE)
        draft.put_config(key, {"retention.ms": "2000"}.items())
        draft.put_topic(a_topic("half", 2))
        now = draft.finish(IMAGE.position).after
        driver, ensemble = before_an_update(configs=now.configs, topics=now.topics, topic_ids=now.topic_ids)
        half = topic_with("half", a_topic("half", 2))
        del half[paths.state("half", 1)]
        spoiled(ensemble, {paths.topic_config("orders"): CONFIG, **half})
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert paths.state("half", 1) in ensemble.nodes

    story(told)


def test_a_credential_that_the_format_tool_put_into_the_log_is_written_into_zookeeper() -> None:
    async def told() -> None:
        tool = {ScramKey("tool", ScramMechanism.SHA_256): ScramCredential(b"salt", b"stored", b"server", 4096)}
        driver, ensemble = before_an_update()
        known = driver.parts.controller.copied
        with_tool = {each: known.after.scram.set(*next(iter(tool.items()))) for each in ("scram",)}
        before = an_image(scram=tool, migration=MigrationState.PRE_MIGRATION)
        after = msgspec.structs.replace(known.after, **with_tool)
        driver.parts.controller.copied = CommittedCopy(before, after)
        driver.parts.controller.image = driver.parts.controller.newest = after
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert "/config/users/tool" in ensemble.nodes

    story(told)


# --- what was copied, from the log ------------------------------------------------------------------------


def a_log(marks: str = NOT_YET) -> tuple[Tree, Image, list[bytes]]:
    """Batches of a log with a takeover that was committed, and a change after it; and the image before the copy."""
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    tree = read_tree(ensemble.session())
    begin = LogReplay(an_image(migration=MigrationState.PRE_MIGRATION), 0)
    later = config_record(ConfigKey(ConfigType.TOPIC, "t000000"), "retention.ms", "77")
    values = [
        [encode_record(NoOpRecord(mark=Mark.TAKEOVER, mark_text=marks), 0)],
        [encode_record(later, 0)],
    ]
    batches = [each for _, each in transaction_batches(make_copy(tree), 7)]
    first, last = (build_batch(base_offset=0, leader_epoch=0, timestamp_ms=1, values=each) for each in values)
    return tree, begin.image, [first, *batches, last]


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_a_voter_knows_from_its_log_what_was_copied_whatever_came_in_the_same_piece(*, in_one_piece: bool) -> None:
    tree, before, batches = a_log()
    pieces = [b"".join(batches)] if in_one_piece else batches
    found = read_ahead(pieces, LogReplay(before)).replay
    assert found.copied is not None
    assert found.copied.before.migration is MigrationState.PRE_MIGRATION
    wanted = copied(make_copy(tree), before, Position(0, 0)).after
    assert found.copied.after.topics == wanted.topics
    assert found.copied.after.configs == wanted.configs
    assert found.image.configs != wanted.configs


def test_what_was_copied_is_forgotten_once_dual_write_is_entered() -> None:
    _, before, batches = a_log()
    replay = LogReplay(before)
    for each in batches:
        replay.apply(each)
    assert replay.copied is not None
    over = encode_record(NoOpRecord(mark=Mark.TAKEOVER, mark_text=""), 0)
    replay.apply(build_batch(base_offset=99, leader_epoch=0, timestamp_ms=1, values=[over]))
    assert replay.copied is None


def test_a_leader_notes_its_own_copy_and_keeps_it_while_the_takeover_is_under_way() -> None:
    before = an_image(migration=MigrationState.PRE_MIGRATION, marks={Mark.TAKEOVER: NOT_YET})
    after = msgspec.structs.replace(IMAGE, marks=before.marks)
    known = committed_copy(None, before, after)
    assert known == CommittedCopy(before, after)
    assert committed_copy(known, after, after) is known
    assert committed_copy(known, after, IMAGE) is None


# --- whether a broker has an update ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "proven"),
    [
        (NOT_YET, True),
        (UPDATING, False),
        (None, False),
        ('{"epoch": 5, "at": 1.0}', False),
        ("aborted", False),
        ("3", False),
    ],
)
def test_only_a_mark_that_says_so_proves_that_no_broker_has_an_update(text: str | None, *, proven: bool) -> None:
    assert nobody_is_updated(text) is proven


@pytest.mark.parametrize(("text", "written"), [(NOT_YET, 1), (UPDATING, 0), (None, 0)])
def test_the_log_says_that_brokers_are_updated_before_the_first_one_is(text: str | None, written: int) -> None:
    async def told() -> None:
        marks: list[tuple[str, str]] = []

        async def mark(which: str, said: str) -> None:
            marks.append((which, said))

        driver = a_driver(State.UPDATING_BROKERS, epoch=5)
        image = replace_marks(driver.parts.controller.image, text)
        driver.parts.controller.image = driver.parts.controller.newest = image
        driver.parts.controller.mark = mark
        await update_acts(driver)._note_updating()
        assert len(marks) == written
        assert all(which is Mark.TAKEOVER and not nobody_is_updated(said) for which, said in marks)

    story(told)


def replace_marks(image: Image, text: str | None) -> Image:
    return image if text is None else msgspec.structs.replace(image, marks=image.marks.set(Mark.TAKEOVER, text))
