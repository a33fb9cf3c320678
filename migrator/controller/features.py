"""What this controller can do and what the cluster runs at; the first records of a log.

In:   the image, the bootstrap records of the formatted directory.
Out:  ApiVersions and DescribeCluster answers, and what a new leader writes first.
Source: Kafka 3.9 `ActivationRecordsGenerator`, `ApiVersionManager`, `QuorumFeatures` (R-778-01, R-778-02, R-778-07).
Unlike stock, a log in MIGRATION is never finalized because a flag is missing: see `activation_refusal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from migrator.controller.decision import Record
from migrator.findings.finding import Occurrence
from migrator.findings.quorum import CANNOT_ACTIVATE
from migrator.model import levels
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.later_kafka import registered_later
from migrator.model.values import Listener, MigrationState
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.brokers import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    RegistrationFeature,
)
from migrator.wire.messages.handshake import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    ZkMigrationStateRecord,
)

LOWEST_LEVEL: Final = 1
KRAFT_VERSION: Final = "kraft.version"
KRAFT_VERSIONS: Final = (0, 1)

CONTROLLER_APIS: Final = (
    1, 7, 17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 50, 51, 52, 53, 54, 55, 56,
    57, 58, 59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82,
)  # fmt: skip
"""What a stock controller advertises. A forwardable one that is missing here would disappear from every broker."""

FORWARDABLE: Final = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81})
"""Requests of clients that brokers pass on in an Envelope."""


def api_versions(image: Image, version: int, *, migration_enabled: bool) -> ApiVersionsResponse:
    """Ranges that start at 0 are shown from version 4 on only: older readers refuse them."""
    supported = [SupportedFeatureKey(METADATA_VERSION, LOWEST_LEVEL, levels.LATEST)]
    if version >= 4:
        supported.append(SupportedFeatureKey(KRAFT_VERSION, *KRAFT_VERSIONS))
    return ApiVersionsResponse(
        api_keys=_api_keys(),
        supported_features=tuple(supported),
        finalized_features_epoch=image.position.offset,
        finalized_features=tuple(
            FinalizedFeatureKey(name, level, level) for name, level in sorted(image.features.items()) if level
        ),
        zk_migration_ready=migration_enabled,
    )


def unknown_api_versions() -> ApiVersionsResponse:
    """The answer to a version from the future: error 35 at version 0, and the ranges to choose from."""
    return ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=_api_keys())


def _api_keys() -> tuple[ApiVersion, ...]:
    return tuple(
        ApiVersion(key, API_KEYS[key].declared.lowest, API_KEYS[key].declared.highest) for key in CONTROLLER_APIS
    )


def supported_features() -> tuple[RegistrationFeature, ...]:
    """What this controller registers as its range."""
    return (
        RegistrationFeature(KRAFT_VERSION, *KRAFT_VERSIONS),
        RegistrationFeature(METADATA_VERSION, LOWEST_LEVEL, levels.LATEST),
    )


def describe_cluster(
    image: Image, request: DescribeClusterRequest, version: int, *, cluster_id: str, leader: int, listener: str
) -> DescribeClusterResponse:
    """The controllers and which of them is active; brokers are not described here."""
    if image.metadata_version < levels.CONTROLLER_REGISTRATION:
        words = "Direct-to-controller communication is not supported with the current MetadataVersion."
        return DescribeClusterResponse(error_code=Error.UNSUPPORTED_VERSION, error_message=words)
    if version == 0:
        return DescribeClusterResponse(error_code=Error.INVALID_REQUEST, error_message="Version 0 means brokers.")
    if request.endpoint_type not in (1, 2):
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=Error.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    if request.endpoint_type == 1:
        message = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        return DescribeClusterResponse(error_code=Error.MISMATCHED_ENDPOINT_TYPE, error_message=message)
    nodes = []
    for controller in sorted(image.controllers.values(), key=lambda each: each.id):
        found = _named(controller.listeners, listener)
        if found is not None:
            nodes.append(DescribeClusterBroker(controller.id, found.host, found.port))
    known = leader if leader in [node.broker_id for node in nodes] else -1
    return DescribeClusterResponse(endpoint_type=2, cluster_id=cluster_id, controller_id=known, brokers=tuple(nodes))


def _named(listeners: Sequence[Listener], name: str) -> Listener | None:
    return next((each for each in listeners if each.name == name), None)


# --- activation -------------------------------------------------------------------------------------------


def activation_refusal(
    image: Image, *, log_is_empty: bool, migration_enabled: bool, bootstrap_level: int
) -> Occurrence | None:
    """Why this node may not lead this log as it is configured; None when it may.

    log_is_empty: it holds no data record yet (control records do not count).
    A log whose migration is over, and without the flag one that knows none, is led and served like any KRaft cluster.
    Stock finalizes the migration when a node without the flag becomes active (F-48). Here that needs an approval.
    """
    if log_is_empty:
        if migration_enabled and bootstrap_level < levels.TRANSACTIONS:
            reason = f"the bootstrap metadata.version {bootstrap_level} does not support migrations (3.6-IV1 does)"
            return CANNOT_ACTIVATE.found(reason=reason)
        return None if migration_enabled else _beyond_us({METADATA_VERSION: bootstrap_level})
    match image.migration:
        case MigrationState.NONE if migration_enabled:
            return CANNOT_ACTIVATE.found(reason=_why_no_migration(image))
        case MigrationState.MIGRATION if not migration_enabled:
            reason = "the log is in MIGRATION and zookeeper.metadata.migration.enable is off; finalizing is an act of "
            return CANNOT_ACTIVATE.found(reason=reason + "its own (zk2kraft.finalize.approval)")
        case MigrationState.NONE | MigrationState.POST_MIGRATION:
            # NONE is also what is left of a log that a Kafka without ZooKeeper led: its snapshots forget the state
            return _beyond_us({METADATA_VERSION: image.metadata_version, **image.features})
        case _:
            return None


def _why_no_migration(image: Image) -> str:
    """The flag is on and the log has no state of a migration. A controller without the flag takes no broker that
    migrates, so that one which is registered shows that there was a migration.
    """
    led = "a Kafka without ZooKeeper (4.0 or later) led the log, and its snapshot has no migration"
    later = [each.name for each in registered_later(image)]
    if later:
        return f"{led}: {', '.join(later)}"
    migrating = sorted(each.id for each in image.brokers.values() if each.migrating)
    if migrating:
        return f"the log has no migration, and brokers {migrating} are registered for one: {led}"
    never = "it was begun without zookeeper.metadata.migration.enable and can never be migrated to"
    return f"the log has no migration: {never}, or {led}"


def _beyond_us(finalized: Mapping[str, int]) -> Occurrence | None:
    """A level of metadata.version or another feature by which brokers expect more than this controller does."""
    level = finalized[METADATA_VERSION]
    if not levels.MIGRATION <= level <= levels.LATEST:
        reason = f"the log is at metadata.version {levels.level_name(level)}, and this controller serves "
        reason += f"{levels.level_name(levels.MIGRATION)} to {levels.level_name(levels.LATEST)}"
        return CANNOT_ACTIVATE.found(reason=reason)
    others = sorted(name for name, value in finalized.items() if name != METADATA_VERSION and value > 0)
    if others:
        reason = f"the log finalizes {', '.join(others)}, which this controller does not serve"
        return CANNOT_ACTIVATE.found(reason=reason)
    return None


def activation_records(
    bootstrap: Sequence[Record], *, log_is_empty: bool, transaction_open: bool, migration_enabled: bool
) -> list[Record]:
    """What a new leader writes before anything else (facts in `ActivationRecordsGenerator`)."""
    records: list[Record] = []
    if transaction_open:
        records.append((AbortTransactionRecord(reason="Controller failover"), 0))
    if not log_is_empty:
        return records
    state = MigrationState.PRE_MIGRATION if migration_enabled else MigrationState.NONE
    return [
        *records,
        (BeginTransactionRecord(name="Bootstrap records"), 0),
        *bootstrap,
        (ZkMigrationStateRecord(zk_migration_state=state), 0),
        (EndTransactionRecord(), 0),
    ]
