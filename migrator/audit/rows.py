"""One key as one side tells it: the row that both engines compare.

In:   facts (normalise.py) with the place they were read from.
Out:  `SideRow`, and its facts as one text that is equal exactly when the facts are.
Elsewhere: who makes rows (zk_source.py, log_fold.py), who compares them (compare.py, compare.py).
A subject is what is read again as a whole when something of it differs: a topic with its partitions and its
configuration, the configuration of one broker, the cluster as a whole, the producer ids, the znode of a user, a
resource's ACLs or a token, the access list of a znode.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from migrator.audit.cluster import CLUSTER, CLUSTER_KEYS
from migrator.audit.normalise import BROKER_CONFIGS, ORDERS, PRODUCER_IDS, RESOURCES, Facts
from migrator.audit.security_facts import SCRAM, SECURITY_FAMILIES, TOKENS

CLUSTER_SUBJECT: Final = "cluster"
TOPIC_SUBJECT: Final = "topic/"
BROKER_SUBJECT: Final = "broker/"
PRODUCER_IDS_SUBJECT: Final = "producer ids"
ORDER_SUBJECT: Final = "order "
"""Before the path of an order."""

ZNODE_SUBJECT: Final = "znode "
"""Before the path of a znode of quotas, credentials, ACLs or a token."""

LIST_SUBJECT: Final = "list "
"""Before the path of a znode whose access list counts."""

HOLD_SECRETS: Final = frozenset({*RESOURCES, SCRAM, TOKENS})
"""Families whose facts hold secret fingerprints, and no secrets, outside of the reader."""

UNKNOWN_TOPIC_SUBJECT: Final = "unknown topic/"
"""For records about an id that no TopicRecord gave: they are folded too, and stop there with a finding."""

WHOLE_SIDE: Final = ""
"""The family of a row that tells why a part of a side could not be read; its `problem` says what and why."""

_TEXT: Final = msgspec.json.Encoder(order="sorted")


class SideRow(msgspec.Struct, frozen=True):
    """version: when that side last changed the key: mzxid in ZooKeeper, offset in the log.

    facts: None when they could not be read; then `problem` says why.
    """

    family: str
    key: str
    subject: str
    facts: Facts | None
    version: int = -1
    problem: str = ""


def topic_subject(name: str) -> str:
    return TOPIC_SUBJECT + name


def subject_of(family: str, key: str) -> str:
    """The subject of a key that is not below a topic, or is named as its topic."""
    if family == CLUSTER:
        return CLUSTER_SUBJECT if key in CLUSTER_KEYS else LIST_SUBJECT + key
    if family == PRODUCER_IDS:
        return PRODUCER_IDS_SUBJECT
    if family == ORDERS:
        return ORDER_SUBJECT + key
    if family in SECURITY_FAMILIES:
        return ZNODE_SUBJECT + key
    return (BROKER_SUBJECT if family == BROKER_CONFIGS else TOPIC_SUBJECT) + key


def not_read(what: str, reason: str) -> SideRow:
    """A part of a side could not be read at all."""
    return SideRow(WHOLE_SIDE, what, "", None, problem=reason)


def facts_text(facts: Any) -> str:
    return _TEXT.encode(facts).decode()


def facts_of_text(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
