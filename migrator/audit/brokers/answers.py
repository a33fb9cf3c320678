"""Answers of a broker as facts: families, keys and fields of the two other sides, where a broker tells them.

In:   decoded answers. Out: facts by key.
Elsewhere: who asks (node/brokers/what_they_say.py), what ZooKeeper and the log say (audit/normalise.py and
audit/security_facts.py).
Rules: a broker hides values that are secret; such a field is `HIDDEN`, and only that it is there can be compared. Of
credentials it tells mechanism and iterations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from migrator.audit.fingerprints import HIDDEN
from migrator.audit.normalise import Facts
from migrator.audit.security_facts import change_of
from migrator.model.topic_configs import ConfigSource
from migrator.wire.messages.configs import DescribeConfigsResult, DescribedQuotas
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.security import (
    DescribeAclsResource,
    DescribedDelegationToken,
    DescribeUserScramCredentialsResult,
)
from migrator.wire.messages.topics import MetadataResponsePartition

LOGS: Final = "logs"
"""The family of what a broker has on its disks: a key is a partition."""

ITERATIONS: Final = " iterations"
ALL_BROKERS: Final = ""


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """What one broker said. kraft: it is in KRaft mode.

    facts:    by family and key; a family that it is no side of, or has none of, is not in it.
    problems: by family, why it was not read.
    """

    broker: int
    kraft: bool
    facts: dict[str, dict[str, Facts]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def partition_facts(partition: MetadataResponsePartition) -> Facts:
    return {
        "replicas": list(partition.replica_nodes),
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr_nodes),
    }


def acl_facts(resources: Iterable[DescribeAclsResource]) -> dict[str, Facts]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for resource in resources:
        for each in resource.acls:
            record = AccessControlEntryRecord(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                pattern_type=resource.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
            change = change_of(record)
            found[change.path].update(change.facts or {})
    return {path: dict(facts) for path, facts in found.items()}


def quota_facts(entries: Iterable[DescribedQuotas]) -> dict[str, Facts]:
    found: dict[str, Facts] = defaultdict(dict)
    for entry in entries:
        for each in entry.values:
            change = change_of(ClientQuotaRecord(entity=tuple(entry.entity), key=each.key, value=each.value))
            found[change.path] |= change.facts or {}
    return dict(found)


def scram_facts(users: Iterable[DescribeUserScramCredentialsResult]) -> dict[str, Facts]:
    """Tell mechanisms and iterations; of a user that has none there is no key."""
    found: dict[str, Facts] = defaultdict(dict)
    for user in users:
        for each in user.credential_infos:
            record = UserScramCredentialRecord(name=user.user, mechanism=each.mechanism, iterations=each.iterations)
            change = change_of(record)
            told = {name: value for name, value in (change.facts or {}).items() if name.endswith(ITERATIONS)}
            found[change.path] |= told
    return dict(found)


def token_facts(tokens: Iterable[DescribedDelegationToken]) -> dict[str, Facts]:
    """Tell all of a token but its HMAC, which is what a client logs in with."""
    found = {}
    for each in tokens:
        record = DelegationTokenRecord(
            owner=f"{each.principal_type}:{each.principal_name}",
            requester=f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
            issue_timestamp=each.issue_timestamp,
            max_timestamp=each.max_timestamp,
            expiration_timestamp=each.expiry_timestamp,
            token_id=each.token_id,
        )
        change = change_of(record)
        found[change.path] = change.facts or {}
    return found


def topic_config_facts(result: DescribeConfigsResult) -> Facts:
    """What was set for this topic."""
    return {
        each.name: HIDDEN if each.is_sensitive else each.value
        for each in result.configs
        if each.config_source == ConfigSource.DYNAMIC_TOPIC
    }


def broker_config_facts(broker: int, result: DescribeConfigsResult) -> dict[str, Facts]:
    """What was set in the cluster for this broker, and for all of them."""
    sources: dict[int, str] = {
        ConfigSource.DYNAMIC_BROKER: str(broker),
        ConfigSource.DYNAMIC_DEFAULT_BROKER: ALL_BROKERS,
    }
    found: dict[str, Facts] = {}
    for each in result.configs:
        for synonym in each.synonyms:
            whose = sources.get(synonym.source)
            if whose is not None:
                found.setdefault(whose, {})[synonym.name] = HIDDEN if each.is_sensitive else synonym.value
    return found
