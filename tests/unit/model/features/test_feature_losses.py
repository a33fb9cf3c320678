"""What a log of a lower metadata.version could not say (R-778-04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from migrator.model import levels
from migrator.model.draft import Draft
from migrator.model.features.losses import ELR, KEYS_MAX, KINDS, LOSES_NOTHING, losses
from migrator.model.image import Image, Position
from migrator.model.values import (
    ZERO_ID,
    Controller,
    DelegationToken,
    MigrationState,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image

Change = Callable[[Draft], None]


def an_empty(change: Change = lambda draft: None) -> Image:
    """A log after the migration, without controllers and directories, and one thing more."""
    topic = a_topic(partitions=[a_partition(replicas=(1,), directories=())])
    broker = a_broker(1, migrating=False, log_dirs=())
    draft = Draft(an_image(topic, brokers=[broker], migration=MigrationState.NONE))
    change(draft)
    return draft.finish(Position(1, 1001)).after


def a_kept(directory: bytes) -> Change:
    partition = a_partition(replicas=(1, 2), directories=(ZERO_ID, directory))
    return lambda draft: draft.put_topic(a_topic(partitions=[partition], name="kept"))


CREDENTIAL: Final = ScramCredential(b"salt", b"stored", b"server", 4096)
LOSSY: Final[dict[str, tuple[Change, str]]] = {
    "directories of replicas": (a_kept(an_id("disk")), "kept-0"),
    "log directories of brokers": (lambda draft: draft.put_broker(a_broker(2, migrating=False)), "broker 2"),
    "registrations of controllers": (
        lambda draft: draft.put_controller(Controller(3000, an_id("run"), zk_migration_ready=True)),
        "controller 3000",
    ),
    "delegation tokens": (
        lambda draft: draft.put_token(DelegationToken("t-1", "User:a", "User:a", (), 1, 2, 2)),
        "t-1",
    ),
    "SCRAM credentials": (
        lambda draft: draft.put_scram(ScramKey("alice", ScramMechanism.SHA_512), CREDENTIAL),
        "alice SCRAM-SHA-512",
    ),
    "state of the migration": (
        lambda draft: draft.set_migration(MigrationState.POST_MIGRATION),
        "POST_MIGRATION",
    ),
    "brokers in migration mode": (lambda draft: draft.put_broker(a_broker(2, log_dirs=())), "broker 2"),
    "brokers in controlled shutdown": (
        lambda draft: draft.put_broker(replace(a_broker(2, migrating=False, log_dirs=()), in_controlled_shutdown=True)),
        "broker 2",
    ),
    "other finalized features": (lambda draft: draft.set_feature("group.version", 1), "group.version"),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.kind)
def test_a_kind_is_lost_below_its_first_level_and_not_at_it(kind: object) -> None:
    """R-778-04: by key, with the record that has it."""
    assert kind in KINDS
    row = next(each for each in KINDS if each is kind)
    change, key = LOSSY[row.kind]
    image = an_empty(change)
    (lost,) = losses(image, row.first_level - 1)
    assert (lost.kind, lost.record, lost.field, lost.count, lost.keys) == (row.kind, row.record, row.field, 1, (key,))
    assert losses(image, row.first_level) == ()


def test_eligible_leader_replicas_are_lost_below_every_level_of_kafka_3_9() -> None:
    """R-778-04, KIP-966: an image does not have them, so whoever read the log names them."""
    (lost,) = losses(an_empty(), levels.LATEST, ["orders-1", "orders-0"])
    assert (lost.kind, lost.keys) == (ELR.kind, ("orders-0", "orders-1"))
    assert losses(an_empty(), ELR.first_level, ["orders-0"]) == ()


def test_a_log_without_any_of_it_loses_nothing_at_any_level() -> None:
    """R-778-04: also replicas whose directory nobody knows lose nothing."""
    for image in (an_empty(), an_empty(a_kept(ZERO_ID))):
        assert [losses(image, level) for level in levels.LEVELS] == [()] * len(levels.LEVELS)


def test_the_first_keys_are_named_and_all_are_counted() -> None:
    def many(draft: Draft) -> None:
        for number in range(KEYS_MAX + 5):
            draft.put_token(DelegationToken(f"t-{number:04d}", "User:a", "User:a", (), 1, 2, 2))

    (lost,) = losses(an_empty(many), levels.TOKENS - 1)
    assert (lost.count, len(lost.keys), lost.keys[0]) == (KEYS_MAX + 5, KEYS_MAX, "t-0000")


def test_every_level_that_changed_records_is_in_one_of_the_two_tables() -> None:
    """R-778-04: what a controller refuses to cross (`levels.CHANGES_RECORDS`) and what would be lost are one fact. A
    log below 3.3-IV0 cannot be finalized, so that its features are beside them.
    """
    lossy = {each.first_level for each in KINDS} - {levels.FEATURE_RECORDS}
    assert lossy | set(LOSES_NOTHING) == levels.CHANGES_RECORDS
    assert not lossy & set(LOSES_NOTHING)
    assert list(KINDS) == sorted(KINDS, key=lambda each: -each.first_level)
    assert ELR.first_level > levels.LATEST
