"""What this controller says it can do, and what it writes, or refuses, when it begins to lead a log."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from migrator.controller.decision import Record
from migrator.controller.features import (
    CONTROLLER_APIS,
    FORWARDABLE,
    KRAFT_VERSION,
    LOWEST_LEVEL,
    activation_records,
    activation_refusal,
    api_versions,
    describe_cluster,
    supported_features,
    unknown_api_versions,
)
from migrator.model import levels
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, METADATA_VERSION, Image
from migrator.model.values import Controller, Listener, MigrationState
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.brokers import DescribeClusterRequest
from migrator.wire.messages.handshake import FinalizedFeatureKey
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    ZkMigrationStateRecord,
)
from tests.support.builders import an_id, an_image

BOOTSTRAP: list[Record] = [(FeatureLevelRecord(name=METADATA_VERSION, feature_level=21), 0)]


# --- ApiVersions ------------------------------------------------------------------------------------------


def test_every_advertised_request_can_be_read_and_every_forwardable_one_is_advertised() -> None:
    """One that is missing here disappears from every broker."""
    answer = api_versions(an_image(), 4, migration_enabled=True)
    ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert ranges == {key: (API_KEYS[key].declared.lowest, API_KEYS[key].declared.highest) for key in CONTROLLER_APIS}
    assert ranges.keys() >= FORWARDABLE


def test_a_voter_of_kafka_4_finds_every_version_that_it_speaks() -> None:
    """As its own schemas give them; it asks with the highest that both sides know (KIP-853, KIP-996)."""
    answer = api_versions(an_image(), 4, migration_enabled=False)
    ranges = {API_KEYS[each.api_key].name: (each.min_version, each.max_version) for each in answer.api_keys}
    later = {
        "Fetch": (4, 17), "Vote": (0, 2), "BeginQuorumEpoch": (0, 1), "EndQuorumEpoch": (0, 1),
        "DescribeQuorum": (0, 2), "FetchSnapshot": (0, 1), "ApiVersions": (0, 4), "ControllerRegistration": (0, 0),
        "AddRaftVoter": (0, 0), "RemoveRaftVoter": (0, 0), "UpdateRaftVoter": (0, 0),
    }  # fmt: skip
    for name, (lowest, highest) in later.items():
        assert ranges[name][0] <= lowest, name
        assert ranges[name][1] == highest, name


def test_versions_tell_supported_and_finalized_features_with_their_epoch() -> None:
    """R-778-07."""
    image = an_image(offset=77)
    answer = api_versions(image, 4, migration_enabled=True)
    assert {each.name: (each.min_version, each.max_version) for each in answer.supported_features} == {
        METADATA_VERSION: (LOWEST_LEVEL, levels.LATEST),
        KRAFT_VERSION: (0, 1),
    }
    assert answer.finalized_features == (FinalizedFeatureKey(METADATA_VERSION, 21, 21),)
    assert (answer.finalized_features_epoch, answer.zk_migration_ready) == (77, True)
    registered = {each.name: (each.min_supported_version, each.max_supported_version) for each in supported_features()}
    assert registered == {METADATA_VERSION: (LOWEST_LEVEL, levels.LATEST), KRAFT_VERSION: (0, 1)}


def test_old_readers_are_not_shown_a_range_that_begins_at_zero() -> None:
    names = [each.name for each in api_versions(an_image(), 3, migration_enabled=False).supported_features]
    assert names == [METADATA_VERSION]


def test_a_version_from_the_future_is_answered_with_the_ranges_to_choose_from() -> None:
    answer = unknown_api_versions()
    assert answer.error_code == Error.UNSUPPORTED_VERSION
    assert [each.api_key for each in answer.api_keys] == list(CONTROLLER_APIS)


# --- DescribeCluster --------------------------------------------------------------------------------------


def a_quorum(*controllers: tuple[int, str]) -> Image:
    draft = Draft(an_image())
    for node, listener in controllers:
        draft.put_controller(Controller(node, an_id(str(node)), True, (Listener(listener, f"c{node}", 9093),)))
    return draft.finish(an_image().position).after


def describe(image: Image, version: int = 1, leader: int = 3000, **asked: Any) -> Any:
    request = DescribeClusterRequest(**{"endpoint_type": 2, **asked})
    return describe_cluster(image, request, version, cluster_id="c", leader=leader, listener="CONTROLLER")


def test_controllers_are_described_where_they_listen_and_the_active_one_is_named() -> None:
    image = a_quorum((3001, "CONTROLLER"), (3000, "CONTROLLER"), (3002, "OTHER"))
    answer = describe(image)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [
        (3000, "c3000", 9093),
        (3001, "c3001", 9093),
    ]
    assert (answer.error_code, answer.controller_id, answer.cluster_id) == (Error.NONE, 3000, "c")
    assert describe(image, leader=3002).controller_id == -1


@pytest.mark.parametrize(("level", "error"), [(14, Error.UNSUPPORTED_VERSION), (15, Error.NONE)])
def test_controllers_are_described_from_the_level_on_where_they_register(level: int, error: Error) -> None:
    draft = Draft(a_quorum((3000, "CONTROLLER")))
    draft.set_feature("metadata.version", level)
    answer = describe(draft.finish(an_image().position).after)
    assert (answer.error_code, len(answer.brokers)) == (error, 0 if error else 1)


@pytest.mark.parametrize(
    ("version", "endpoint_type", "error"),
    [
        (0, 1, Error.INVALID_REQUEST),
        (1, 1, Error.MISMATCHED_ENDPOINT_TYPE),
        (1, 3, Error.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_who_asks_a_controller_for_brokers_is_told_so(version: int, endpoint_type: int, error: Error) -> None:
    answer = describe(a_quorum(), version, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers) == (error, ())
    assert answer.error_message


# --- activation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("empty", "state", "enabled", "level", "refused"),
    [
        (True, MigrationState.NONE, True, 21, None),
        (True, MigrationState.NONE, True, 13, None),
        (True, MigrationState.NONE, True, 12, "does not support migrations"),  # F-11
        (True, MigrationState.NONE, False, 21, None),
        (True, MigrationState.NONE, False, 7, "this controller serves 3.4-IV0 (8) to 3.9-IV0 (21)"),
        (False, MigrationState.NONE, True, 21, "has no migration"),  # F-04
        (False, MigrationState.NONE, False, 21, None),
        (False, MigrationState.PRE_MIGRATION, True, 21, None),
        (False, MigrationState.PRE_MIGRATION, False, 21, None),
        (False, MigrationState.MIGRATION, True, 21, None),
        (False, MigrationState.MIGRATION, False, 21, "zk2kraft.finalize.approval"),  # F-48: stock would finalize
        (False, MigrationState.POST_MIGRATION, True, 21, None),
        (False, MigrationState.POST_MIGRATION, False, 21, None),
    ],
)
def test_a_controller_leads_only_a_log_that_fits_its_file(
    empty: bool, state: MigrationState, enabled: bool, level: int, refused: str | None
) -> None:
    image = EMPTY if empty else an_image(migration=state)
    found = activation_refusal(image, log_is_empty=empty, migration_enabled=enabled, bootstrap_level=level)
    assert (found is None) == (refused is None)
    if found is not None:
        assert found.code == "Z2K-3004"
        assert (refused or "") in found.text


@pytest.mark.parametrize("state", [MigrationState.NONE, MigrationState.POST_MIGRATION])
@pytest.mark.parametrize(
    ("feature", "level", "reason"),
    [
        (METADATA_VERSION, 22, "metadata.version 4.0-IV0 (22)"),
        (METADATA_VERSION, 7, "metadata.version 3.3-IV3 (7)"),
        ("transaction.version", 2, "finalizes transaction.version"),
        ("transaction.version", 0, None),
    ],
)
def test_a_cluster_that_expects_more_than_we_serve_is_left_to_stock(
    state: MigrationState, feature: str, level: int, reason: str | None
) -> None:
    image = an_image(migration=state)
    image = replace(image, features=image.features.set(feature, level))
    found = activation_refusal(image, log_is_empty=False, migration_enabled=False, bootstrap_level=21)
    assert (found is None) == (reason is None)
    assert found is None or (found.code == "Z2K-3004" and reason and reason in found.text)


@pytest.mark.parametrize(("enabled", "state"), [(True, MigrationState.PRE_MIGRATION), (False, MigrationState.NONE)])
def test_an_empty_log_begins_with_its_bootstrap_and_whether_a_migration_is_to_come(
    enabled: bool, state: MigrationState
) -> None:
    """R-778-02, R-866-08: in one transaction, the level first."""
    records = activation_records(BOOTSTRAP, log_is_empty=True, transaction_open=False, migration_enabled=enabled)
    assert records == [
        (BeginTransactionRecord(name="Bootstrap records"), 0),
        *BOOTSTRAP,
        (ZkMigrationStateRecord(zk_migration_state=state), 0),
        (EndTransactionRecord(), 0),
    ]


def test_a_transaction_that_a_crash_left_open_is_aborted_first() -> None:
    """Half a copy never counts."""
    records = activation_records(BOOTSTRAP, log_is_empty=False, transaction_open=True, migration_enabled=True)
    assert records == [(AbortTransactionRecord(reason="Controller failover"), 0)]
    again = activation_records(BOOTSTRAP, log_is_empty=True, transaction_open=True, migration_enabled=True)
    assert isinstance(again[0][0], AbortTransactionRecord)
    assert isinstance(again[-1][0], EndTransactionRecord)


def test_a_log_that_has_begun_needs_nothing_more() -> None:
    assert activation_records(BOOTSTRAP, log_is_empty=False, transaction_open=False, migration_enabled=True) == []
