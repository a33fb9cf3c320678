"""What others leave in ZooKeeper after a takeover: odd znodes of every family, and gaps where something has to be.

In:   a kazoo client at Kafka's root, the name and id of a topic that exists.
Out:  acts, each in words. They run while ours are in dual-write; the claim itself (`/controller`, `/controller_epoch`,
      `/migration`) is left alone, for touching it is a fence and no poison.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

NO_JSON: Final = b"{this is no JSON"
NESTED: Final = b"[" * 2_000
NO_TEXT: Final = b"\xff\xfe\xed\xa0"
HUGE: Final = b'{"version":1,"config":{"retention.ms":"' + b"9" * 900_000 + b'"}}'


@dataclass(frozen=True, slots=True)
class Planted:
    what: str
    act: Callable[[], None]


class Gardener:
    """Plants in one tree."""

    def __init__(self, zk: KazooClient, topic: str) -> None:
        self._zk = zk
        self._topic = topic

    def plants(self) -> Iterator[Planted]:
        yield from map(self._put_one, self._odd())
        yield from (Planted(f"{path} deleted", partial(self.gone, path)) for path in self._missing())

    def _put_one(self, odd: tuple[str, str, bytes]) -> Planted:
        what, path, data = odd
        return Planted(what, lambda: self.put(path, data))

    def put(self, path: str, data: bytes) -> None:
        """Create or overwrite, whatever is there."""
        try:
            self._zk.create(path, data, makepath=True)
        except NodeExistsError:
            self._zk.set(path, data)

    def gone(self, path: str) -> None:
        with suppress(NoNodeError):
            self._zk.delete(path, recursive=True)

    def weed(self) -> None:
        """Take away what Kafka's own brokers do not start beside, whoever leads: registrations that cannot be read
        ("Failed to parse ZooKeeper registration"), a broker's configuration under no number (NumberFormatException).
        """
        for path in ("/brokers/ids/77", "/brokers/ids/78", "/brokers/ids/zero", "/config/brokers/zero"):
            self.gone(path)

    def _topic_id(self) -> str:
        data, _ = self._zk.get(f"/brokers/topics/{self._topic}")
        return str(json.loads(data)["topic_id"])

    def _odd(self) -> Iterator[tuple[str, str, bytes]]:
        topics = "/brokers/topics"
        yield "a topic without id", f"{topics}/no-id", _json(version=3, partitions={"0": [0]})
        yield "a topic that is no JSON", f"{topics}/no-json", NO_JSON
        yield "a topic that is no text", f"{topics}/no-text", NO_TEXT
        yield "a topic nested too deeply", f"{topics}/nested", NESTED
        yield "a topic with an odd id", f"{topics}/odd-id", _topic("!!!!", {"0": [0]})
        yield "a topic with the id of another", f"{topics}/twin", _topic(self._topic_id(), {"0": [0]})
        yield (
            "a topic with odd partitions",
            f"{topics}/odd-parts",
            _topic("AAAAAAAAAAAAAAAAAAAAAQ", {"7": [0], "x": [99]}),
        )
        yield "a topic of version 99", f"{topics}/later", _json(version=99, partitions={}, topic_id=None)
        yield "our topic overwritten", f"{topics}/{self._topic}", NO_JSON
        yield "our topic's state overwritten", f"{topics}/{self._topic}/partitions/0/state", NO_JSON
        yield "a partition that nobody assigned", f"{topics}/{self._topic}/partitions/99/state", _json(leader=0)
        yield "something below a partition", f"{topics}/{self._topic}/partitions/0/state/below", b""
        yield (
            "an unknown key in a topic's configuration",
            f"/config/topics/{self._topic}",
            _config(**{"no.such.key": "1"}),
        )
        yield "a topic's configuration that is no JSON", f"/config/topics/{self._topic}", NO_JSON
        yield "a configuration without its topic", "/config/topics/ghost", NO_JSON
        yield "a configuration of 900 KB", "/config/topics/huge", HUGE
        yield "a broker's configuration that is no JSON", "/config/brokers/0", NO_JSON
        yield "a broker's configuration of version 9", "/config/brokers/1", _json(version=9, config={})
        yield "a broker that is no number", "/config/brokers/zero", _config()
        yield "a user that is no JSON", "/config/users/bob", NO_JSON
        yield "a user whose name cannot be decoded", "/config/users/%zz", _config(producer_byte_rate="1")
        yield "a quota that is no number", "/config/users/eve", _config(producer_byte_rate="NaN")
        yield "a client with an odd quota", "/config/clients/app", _config(request_percentage="Infinity")
        yield "an address that is none", "/config/ips/300.1.1.1", _config(connection_creation_rate="1")
        yield "a kind of configuration that nobody knows", "/config/planets/mars", _config()
        yield "a notification that is no JSON", "/config/changes/config_change_oddity", NO_JSON
        yield "ACLs that are no JSON", "/kafka-acl/Topic/odd", NO_JSON
        yield "ACLs of a kind that nobody knows", "/kafka-acl/Planet/mars", _json(version=1, acls=[])
        yield "extended ACLs that are no text", "/kafka-acl-extended/prefixed/Topic/odd", NO_TEXT
        yield "a token that is no JSON", "/delegation_token/tokens/odd", NO_JSON
        yield "producer ids that are no JSON", "/latest_producer_id_block", NO_JSON
        yield (
            "producer ids far ahead",
            "/latest_producer_id_block",
            _json(version=1, broker=0, block_start=str(2**62), block_end=str(2**62 + 999)),
        )
        yield "a broker that is no JSON", "/brokers/ids/77", NO_JSON
        yield "a broker that is no number among the living", "/brokers/ids/zero", b""
        yield (
            "a broker with odd endpoints",
            "/brokers/ids/78",
            _json(version=5, endpoints=["://", "x"], host=None, port=-1),
        )
        yield "features that are no JSON", "/feature", NO_JSON
        yield "an order to delete our topic", f"/admin/delete_topics/{self._topic}", b""
        yield "an order to delete what does not exist", "/admin/delete_topics/ghost", b""
        yield "an order to move that is no JSON", "/admin/reassign_partitions", NO_JSON
        yield "an order to move our topic", "/admin/reassign_partitions", _move(self._topic)
        yield "an order to elect that is no JSON", "/admin/preferred_replica_election", NO_JSON
        yield "a notification of an ISR that is no JSON", "/isr_change_notification/isr_change_odd", NO_JSON
        yield "a log directory event that is no JSON", "/log_dir_event_notification/log_dir_event_odd", NO_JSON

    def _missing(self) -> tuple[str, ...]:
        return (
            "/latest_producer_id_block",
            "/config/changes",
            "/config/clients",
            "/config/ips",
            "/config/users",
            f"/config/topics/{self._topic}",
            f"/brokers/topics/{self._topic}/partitions/1/state",
            f"/brokers/topics/{self._topic}/partitions/2",
            "/admin/delete_topics",
            "/isr_change_notification",
            "/brokers/seqid",
            "/kafka-acl-changes",
            "/kafka-acl/Topic",
            "/delegation_token",
            "/feature",
        )


def _json(**values: Any) -> bytes:
    return json.dumps(values).encode()


def _config(**values: str) -> bytes:
    return _json(version=1, config=values)


def _topic(topic_id: str, partitions: dict[str, list[int]]) -> bytes:
    return _json(version=3, topic_id=topic_id, partitions=partitions, adding_replicas={}, removing_replicas={})


def _move(topic: str) -> bytes:
    return _json(version=1, partitions=[{"topic": topic, "partition": 0, "replicas": [99]}])
