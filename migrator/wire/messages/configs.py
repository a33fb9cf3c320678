"""Configuration, quotas, features and log directories, as administrators ask for and change them.

In:   `schema`.
Out:  DescribeConfigs (32), AlterConfigs (33), DescribeLogDirs (35), IncrementalAlterConfigs (44),
      DescribeClientQuotas (48), AlterClientQuotas (49), UpdateFeatures (57).
Elsewhere: which keys and values are legal (controller), which of them matter to a migration (audit).
Source: Kafka 3.9 message schemas, KIP-339, KIP-546, KIP-584; checked by tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    ClientQuotaEntity,
    ConfigIsReadOnly,
    ConfigIsSensitive,
    ConfigName,
    ConfigResourceName,
    ConfigResourceType,
    ConfigValue,
    ErrorCode,
    ErrorMessage,
    PartitionIndex,
    ThrottleTimeMs,
    TimeoutMs,
    TopicName,
    ValidateOnly,
)
from migrator.wire.schema import ARRAY, BOOL, FLOAT64, INT8, INT16, INT32, INT64, STRING, Field, Message, Part

# --- DescribeConfigs ----------------------------------------------------------------------------------------


class DescribeConfigsResource(Part):
    """Whose configuration is asked for."""

    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""
    configuration_keys: Annotated[
        Sequence[str] | None, Field(ARRAY(STRING), "which keys; None: all", nullable=True)
    ] = ()


class DescribeConfigsRequest(Message, api_key=32, versions=(0, 4), flexible_since=4):
    """Ask for effective configuration."""

    resources: Annotated[Sequence[DescribeConfigsResource], Field(ARRAY(DescribeConfigsResource), "of whom")] = ()
    include_synonyms: Annotated[bool, Field(BOOL, "also the values that were overridden", since=1)] = False
    include_documentation: Annotated[bool, Field(BOOL, "also what each key is for", since=3)] = False


class DescribeConfigsSynonym(Part):
    """A value that the effective one overrides, or is."""

    name: Annotated[str, Field(STRING, "the key where it was set", since=1)] = ""
    value: Annotated[str | None, Field(STRING, "None: a secret", since=1, nullable=True)] = ""
    source: Annotated[int, Field(INT8, "1 topic, 2-4 dynamic, 4 static file, 5 default", since=1)] = 0


class DescribeConfigsResourceResult(Part):
    """One key of one resource."""

    name: ConfigName = ""
    value: ConfigValue = ""
    read_only: ConfigIsReadOnly = False
    is_default: Annotated[bool, Field(BOOL, "true: nobody set it", until=0)] = False
    config_source: Annotated[
        int, Field(INT8, "1 topic, 2 broker, 3 all brokers, 4 static file, 5 default", since=1, droppable=True)
    ] = -1
    is_sensitive: ConfigIsSensitive = False
    synonyms: Annotated[
        Sequence[DescribeConfigsSynonym],
        Field(ARRAY(DescribeConfigsSynonym), "where else it was set, strongest first", since=1, droppable=True),
    ] = ()
    config_type: Annotated[int, Field(INT8, "type of the value; 0: unknown", since=3, droppable=True)] = 0
    documentation: Annotated[
        str | None, Field(STRING, "what the key is for", since=3, nullable=True, droppable=True)
    ] = ""


class DescribeConfigsResult(Part):
    """The configuration of one resource."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""
    configs: Annotated[
        Sequence[DescribeConfigsResourceResult], Field(ARRAY(DescribeConfigsResourceResult), "by key")
    ] = ()


class DescribeConfigsResponse(Message, api_key=32, versions=(0, 4), flexible_since=4):
    """An answer for each resource."""

    throttle_time_ms: ThrottleTimeMs = 0
    results: Annotated[Sequence[DescribeConfigsResult], Field(ARRAY(DescribeConfigsResult), "by resource")] = ()


# --- AlterConfigs: replace everything -----------------------------------------------------------------------


class AlterableConfig(Part):
    """A key and its new value."""

    name: ConfigName = ""
    value: ConfigValue = ""


class AlterConfigsResource(Part):
    """All that one resource shall be configured to; keys left out go back to their default."""

    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""
    configs: Annotated[Sequence[AlterableConfig], Field(ARRAY(AlterableConfig), "by key")] = ()


class AlterConfigsRequest(Message, api_key=33, versions=(0, 2), flexible_since=2):
    """Replace configuration as a whole."""

    resources: Annotated[Sequence[AlterConfigsResource], Field(ARRAY(AlterConfigsResource), "of whom")] = ()
    validate_only: ValidateOnly = False


class AlterConfigsResourceResponse(Part):
    """Changed, or why not."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""


class AlterConfigsResponse(Message, api_key=33, versions=(0, 2), flexible_since=2):
    """An answer for each resource."""

    throttle_time_ms: ThrottleTimeMs = 0
    responses: Annotated[
        Sequence[AlterConfigsResourceResponse], Field(ARRAY(AlterConfigsResourceResponse), "by resource")
    ] = ()


# --- IncrementalAlterConfigs: change some keys --------------------------------------------------------------


class IncrementalAlterableConfig(Part):
    """A key and what to do with it."""

    name: ConfigName = ""
    config_operation: Annotated[int, Field(INT8, "0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT (2 and 3: lists)")] = 0
    value: ConfigValue = ""


class IncrementalAlterConfigsResource(Part):
    """What to change for one resource."""

    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""
    configs: Annotated[Sequence[IncrementalAlterableConfig], Field(ARRAY(IncrementalAlterableConfig), "by key")] = ()


class IncrementalAlterConfigsRequest(Message, api_key=44, versions=(0, 1), flexible_since=1):
    """Change single keys and leave the others alone."""

    resources: Annotated[
        Sequence[IncrementalAlterConfigsResource], Field(ARRAY(IncrementalAlterConfigsResource), "of whom")
    ] = ()
    validate_only: ValidateOnly = False


class IncrementalAlterConfigsResourceResponse(Part):
    """Changed, or why not."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    resource_type: ConfigResourceType = 0
    resource_name: ConfigResourceName = ""


class IncrementalAlterConfigsResponse(Message, api_key=44, versions=(0, 1), flexible_since=1):
    """An answer for each resource."""

    throttle_time_ms: ThrottleTimeMs = 0
    responses: Annotated[
        Sequence[IncrementalAlterConfigsResourceResponse],
        Field(ARRAY(IncrementalAlterConfigsResourceResponse), "by resource"),
    ] = ()


# --- DescribeClientQuotas -----------------------------------------------------------------------------------


class QuotaFilter(Part):
    """Entities that have a part of this type."""

    entity_type: Annotated[str, Field(STRING, "user, client-id or ip")] = ""
    match_type: Annotated[int, Field(INT8, "0: this name, 1: the default, 2: any name")] = 0
    match: Annotated[str | None, Field(STRING, "the name; None where none is meant", nullable=True)] = ""


class DescribeClientQuotasRequest(Message, api_key=48, versions=(0, 1), flexible_since=1):
    """Ask for client quotas. Without a filter, for all."""

    components: Annotated[Sequence[QuotaFilter], Field(ARRAY(QuotaFilter), "all have to match")] = ()
    strict: Annotated[bool, Field(BOOL, "true: no entity that has a part of another type")] = False


class QuotaValue(Part):
    """One quota."""

    key: Annotated[str, Field(STRING, "such as producer_byte_rate")] = ""
    value: Annotated[float, Field(FLOAT64, "the limit")] = 0.0


class DescribedQuotas(Part):
    """The quotas of one entity."""

    entity: Annotated[Sequence[ClientQuotaEntity], Field(ARRAY(ClientQuotaEntity), "whom the quotas are for")] = ()
    values: Annotated[Sequence[QuotaValue], Field(ARRAY(QuotaValue), "by key")] = ()


class DescribeClientQuotasResponse(Message, api_key=48, versions=(0, 1), flexible_since=1):
    """Quotas by entity, or why there is no answer."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    entries: Annotated[
        Sequence[DescribedQuotas] | None, Field(ARRAY(DescribedQuotas), "by entity; None: an error", nullable=True)
    ] = ()


# --- AlterClientQuotas --------------------------------------------------------------------------------------


class ClientQuotaOp(Part):
    """A quota key to set or remove."""

    key: Annotated[str, Field(STRING, "such as producer_byte_rate")] = ""
    value: Annotated[float, Field(FLOAT64, "the limit; of no meaning where removed")] = 0.0
    remove: Annotated[bool, Field(BOOL, "true: remove the quota")] = False


class AlterClientQuotasEntry(Part):
    """What to change for one entity."""

    entity: Annotated[Sequence[ClientQuotaEntity], Field(ARRAY(ClientQuotaEntity), "whom the quotas are for")] = ()
    ops: Annotated[Sequence[ClientQuotaOp], Field(ARRAY(ClientQuotaOp), "what to change")] = ()


class AlterClientQuotasRequest(Message, api_key=49, versions=(0, 1), flexible_since=1):
    """Change client quotas."""

    entries: Annotated[Sequence[AlterClientQuotasEntry], Field(ARRAY(AlterClientQuotasEntry), "by entity")] = ()
    validate_only: ValidateOnly = False


class AlterClientQuotasEntryResult(Part):
    """Changed, or why not."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    entity: Annotated[Sequence[ClientQuotaEntity], Field(ARRAY(ClientQuotaEntity), "as in the request")] = ()


class AlterClientQuotasResponse(Message, api_key=49, versions=(0, 1), flexible_since=1):
    """An answer for each entity."""

    throttle_time_ms: ThrottleTimeMs = 0
    entries: Annotated[
        Sequence[AlterClientQuotasEntryResult], Field(ARRAY(AlterClientQuotasEntryResult), "by entity")
    ] = ()


# --- UpdateFeatures -----------------------------------------------------------------------------------------


class FeatureUpdateKey(Part):
    """A feature and the level it shall have (R-778-04: how a downgrade is asked for)."""

    feature: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    max_version_level: Annotated[int, Field(INT16, "the new level; below 1: end the feature")] = 0
    allow_downgrade: Annotated[bool, Field(BOOL, "true: a lower level is meant", until=0)] = False
    upgrade_type: Annotated[int, Field(INT8, "1 upgrade only, 2 safe downgrade, 3 unsafe downgrade", since=1)] = 1


class UpdateFeaturesRequest(Message, api_key=57, versions=(0, 1), flexible_since=0):
    """Change the levels that the cluster runs at."""

    timeout_ms: TimeoutMs = 60000
    feature_updates: Annotated[Sequence[FeatureUpdateKey], Field(ARRAY(FeatureUpdateKey), "by feature")] = ()
    validate_only: Annotated[bool, Field(BOOL, "check everything and change nothing", since=1)] = False


class UpdatableFeatureResult(Part):
    """Changed, or why not."""

    feature: Annotated[str, Field(STRING, "as in the request")] = ""
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


class UpdateFeaturesResponse(Message, api_key=57, versions=(0, 1), flexible_since=0):
    """An answer for each feature."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    results: Annotated[Sequence[UpdatableFeatureResult], Field(ARRAY(UpdatableFeatureResult), "by feature")] = ()


# --- DescribeLogDirs ----------------------------------------------------------------------------------------


class DescribableLogDirTopic(Part):
    """Partitions of one topic that are asked about."""

    topic: TopicName = ""
    partitions: Annotated[Sequence[int], Field(ARRAY(INT32), "partition numbers")] = ()


class DescribeLogDirsRequest(Message, api_key=35, versions=(0, 4), flexible_since=2):
    """Ask a broker what lies where on its disks."""

    topics: Annotated[
        Sequence[DescribableLogDirTopic] | None,
        Field(ARRAY(DescribableLogDirTopic), "None: everything", nullable=True),
    ] = ()


class DescribeLogDirsPartition(Part):
    """A replica in the directory."""

    partition_index: PartitionIndex = 0
    partition_size: Annotated[int, Field(INT64, "bytes of its segments")] = 0
    offset_lag: Annotated[int, Field(INT64, "records behind the high watermark, or behind the current replica")] = 0
    is_future_key: Annotated[bool, Field(BOOL, "true: it will replace the replica in another directory")] = False


class DescribeLogDirsTopic(Part):
    """One topic's replicas in the directory."""

    name: TopicName = ""
    partitions: Annotated[
        Sequence[DescribeLogDirsPartition], Field(ARRAY(DescribeLogDirsPartition), "by partition")
    ] = ()


class DescribeLogDirsResult(Part):
    """One log directory."""

    error_code: ErrorCode = 0
    log_dir: Annotated[str, Field(STRING, "its path on the broker")] = ""
    topics: Annotated[Sequence[DescribeLogDirsTopic], Field(ARRAY(DescribeLogDirsTopic), "what lies in it")] = ()
    total_bytes: Annotated[int, Field(INT64, "size of its volume; -1: unknown", since=4, droppable=True)] = -1
    usable_bytes: Annotated[int, Field(INT64, "free bytes of its volume; -1: unknown", since=4, droppable=True)] = -1


class DescribeLogDirsResponse(Message, api_key=35, versions=(0, 4), flexible_since=2):
    """The broker's log directories."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: Annotated[int, Field(INT16, "error of the whole request", since=3, droppable=True)] = 0
    results: Annotated[Sequence[DescribeLogDirsResult], Field(ARRAY(DescribeLogDirsResult), "by directory")] = ()
