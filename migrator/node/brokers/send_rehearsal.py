"""How long the first full update would take, tried ahead on a part of the tree.

In:   the tree, the brokers, what each of them said it has.
Out:  the time without controller that encoding, comparing and sending will add, in milliseconds.
Elsewhere: the same in earnest, after the commit (driver.updating_brokers); what the gate makes of it (driver.gate).
Why: this time grows with brokers too, and comes after the commit, when an overrun costs a new format of the quorum and
a restart of every broker (Z2K-2052).
Rules: an even sample of at most `SAMPLE_PARTITIONS`, for all brokers that there are; a million partitions are not
encoded at each look. Processor time is measured, so that a busy machine does not close the gate for good.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from immutables import Map
from msgspec.structs import replace

from migrator.driver.claim import Claim
from migrator.driver.guard import Survey, guard
from migrator.driver.tree import Tree
from migrator.driver.update_requests import full_updates
from migrator.model.image import Image
from migrator.model.values import Topic

SAMPLE_PARTITIONS: Final = 5_000
BYTES_PER_MS: Final = 100_000
"""To all brokers together: what is left of 1 Gbit/s. Nobody measures the network here; a faster one takes less."""

_NOBODYS: Final = Claim(
    node=0, kraft_epoch=0, zk_epoch=0, epoch_version=0, controller_version=0, migration_version=0, ephemeral=True
)


@dataclass(frozen=True, slots=True)
class SendEstimate:
    """Milliseconds and bytes of the whole, for all brokers."""

    work_ms: int = 0
    sent_bytes: int = 0

    @property
    def total_ms(self) -> int:
        return self.work_ms + self.sent_bytes // BYTES_PER_MS


def rehearse_send(tree: Tree, image: Image, surveys: Mapping[int, Survey], listener: str) -> SendEstimate:
    """Estimate the first full send by making a part of it. Runs on a thread.

    image: its brokers are those that will be updated; topics come from the tree.
    """
    topics = [reading.topic for reading in tree.topics.values()]
    partitions = sum(len(topic.partitions) for topic in topics)
    sample = _sample(topics, partitions)
    sampled = sum(len(topic.partitions) for topic in sample)
    if not sampled:
        return SendEstimate()
    part = replace(
        image,
        topics=Map({topic.id: topic for topic in sample}),
        topic_ids=Map({topic.name: topic.id for topic in sample}),
    )
    asked = {broker: _of_topics(survey, part.topic_ids) for broker, survey in surveys.items()}
    began = time.thread_time()
    updates = full_updates(part, _NOBODYS, image.brokers, listener)
    guard(updates, asked, {}, (), after_fail_over=False)
    scale = partitions / sampled
    work_ms = 1000 * (time.thread_time() - began) * scale
    return SendEstimate(round(work_ms), round(sum(len(update.shared) for update in updates) * scale))


def _sample(topics: list[Topic], partitions: int) -> list[Topic]:
    """Every n-th topic, and of a topic as many partitions as there is room for."""
    if partitions <= SAMPLE_PARTITIONS:
        return topics
    step = min(max(1, partitions // SAMPLE_PARTITIONS), max(1, len(topics) // 2))
    room, found = SAMPLE_PARTITIONS, []
    for topic in islice(topics, 0, None, step):
        if room <= 0:
            break
        found.append(replace(topic, partitions=topic.partitions[:room]))
        room -= len(topic.partitions)
    return found


def _of_topics(survey: Survey, names: Collection[str]) -> Survey:
    return Survey(
        survey.broker,
        {name: survey.logs[name] for name in names if name in survey.logs},
        {name: survey.topics[name] for name in names if name in survey.topics},
    )
