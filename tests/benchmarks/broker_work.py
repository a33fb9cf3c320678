"""What full updates cost one controller, without any network: run by the interpreter of the checkout that is measured.

In:   `python broker_work.py PARTITIONS FEW MANY`; the product is imported from where that interpreter has it.
Out:  one line of JSON. Processor seconds of the thread, which a busy machine does not change much; megabytes.
Elsewhere: both builds in turn, and real controllers (brokers.py).

first_update  encode and compare the first full update, after the commit, for FEW and for MANY brokers
fail_over     what the event loop does at a fail-over before any broker was asked what it has
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from immutables import Map

from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.claim import Claim
from migrator.driver.guard import Survey, guard
from migrator.driver.update_requests import full_updates
from migrator.model.image import Image
from migrator.model.values import Broker, Listener, Partition, Topic

OF_A_TOPIC = 10
REPLICAS = 3
CLAIM = Claim(
    node=3000, kraft_epoch=5, zk_epoch=9, epoch_version=1, controller_version=1, migration_version=1, ephemeral=False
)


def an_image(partitions: int, brokers: int) -> Image:
    """Each topic is on three brokers, one after the other."""
    topics = {}
    for number in range(partitions // OF_A_TOPIC):
        hosts = tuple(1 + (number + each) % brokers for each in range(REPLICAS))
        topic_id = (number + 1).to_bytes(16, "big")
        parts = tuple(
            Partition(id=each, replicas=hosts, isr=hosts, leader=hosts[0], leader_epoch=1, partition_epoch=1)
            for each in range(OF_A_TOPIC)
        )
        topics[topic_id] = Topic(f"topic-{number:06d}", topic_id, parts)
    return Image(
        brokers=Map({each: _broker(each) for each in range(1, brokers + 1)}),
        topics=Map(topics),
        topic_ids=Map({topic.name: topic.id for topic in topics.values()}),
    )


def _broker(broker: int) -> Broker:
    values: dict[str, Any] = {
        "id": broker,
        "epoch": 100 + broker,
        "incarnation": broker.to_bytes(16, "big"),
        "listeners": (Listener("PLAINTEXT", "b", 9092),),
        "fenced": False,
        "migrating": True,
    }
    return Broker(**values)


def surveys(image: Image) -> dict[int, Survey]:
    logs: dict[int, dict[str, frozenset[int]]] = {broker: {} for broker in image.brokers}
    whole = frozenset(range(OF_A_TOPIC))
    for topic in image.topics.values():
        for broker in topic.partitions[0].replicas:
            logs[broker][topic.name] = whole
    return {broker: Survey(broker, found, dict(image.topic_ids)) for broker, found in logs.items()}


def spent(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return round(time.thread_time() - began, 3)


def first_update(image: Image, asked: dict[int, Survey]) -> None:
    updates = full_updates(image, CLAIM, set(image.brokers), "PLAINTEXT")
    nothing: Any = {}
    guarded = guard(updates, asked, nothing, nothing, after_fail_over=False)
    assert not guarded.findings, guarded.findings[:1]


def fail_over(image: Image) -> None:
    BrokerUpdates(CLAIM, "PLAINTEXT", image).everything(withheld=image.brokers)


def figures(partitions: int, few: int, many: int) -> Iterator[tuple[str, float]]:
    for brokers in (few, many):
        image = an_image(partitions, brokers)
        asked = surveys(image)
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield f"first_update_{brokers}_s", spent(lambda image=image, asked=asked: first_update(image, asked))  # type: ignore[misc]
        added_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
        yield f"first_update_{brokers}_added_mb", added_kb // 1024
    image = an_image(3 * partitions, few)
    yield "fail_over_loop_s", spent(lambda: fail_over(image))


if __name__ == "__main__":
    print(json.dumps(dict(figures(*map(int, sys.argv[1:])))))
