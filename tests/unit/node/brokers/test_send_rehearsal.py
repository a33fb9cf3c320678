"""The rehearsal of the first full update: what brokers and partitions will cost within the time without controller."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.driver.guard import Survey, guard
from migrator.driver.tree import Tree
from migrator.driver.update_requests import full_updates
from migrator.node.brokers import send_rehearsal
from migrator.node.brokers.send_rehearsal import SAMPLE_PARTITIONS, SendEstimate, rehearse_send
from migrator.node.zookeeper.tree_reader import read_tree
from tests.support.builders import a_broker, a_claim, an_image
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree


def a_tree(topics: int, partitions: int) -> Tree:
    ensemble = FakeEnsemble()
    SeededTree(topics=topics, partitions=partitions).plant(ensemble)
    return read_tree(ensemble.session())


def rehearsed(tree: Tree, brokers: int) -> SendEstimate:
    image = an_image(brokers=tuple(a_broker(each) for each in range(1, brokers + 1)))
    ids = {name: reading.topic.id for name, reading in tree.topics.items()}
    logs = {name: frozenset(range(len(reading.topic.partitions))) for name, reading in tree.topics.items()}
    surveys = {each: Survey(each, logs if each <= 3 else {}, ids) for each in range(1, brokers + 1)}
    return rehearse_send(tree, image, surveys, "PLAINTEXT")


@pytest.mark.parametrize(("topics", "partitions"), [(1, 1), (40, 25), (700, 10), (3, 2_500), (1, 7_000)])
def test_the_predicted_bytes_are_near_those_that_leave(topics: int, partitions: int) -> None:
    tree = a_tree(topics, partitions)
    brokers = tuple(a_broker(each) for each in range(1, 6))
    image = an_image(*(reading.topic for reading in tree.topics.values()), brokers=brokers)
    leaving = sum(len(update.body) for update in full_updates(image, a_claim(), image.brokers, "PLAINTEXT"))
    assert rehearsed(tree, 5).sent_bytes == pytest.approx(leaving, rel=0.1)


def test_every_broker_counts() -> None:
    tree = a_tree(20, 10)
    few, many = rehearsed(tree, 3), rehearsed(tree, 30)
    assert many.sent_bytes > 5 * few.sent_bytes


def test_no_more_than_a_sample_is_encoded_and_every_survey_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def counted(updates: Any, *others: Any, **named: Any) -> Any:
        seen.append((updates, *others))
        return guard(updates, *others, **named)

    monkeypatch.setattr(send_rehearsal, "guard", counted)
    estimate = rehearsed(a_tree(700, 10), 4)
    ((updates, surveys, *_),) = seen
    assert max(update.partitions for update in updates) <= SAMPLE_PARTITIONS
    assert surveys.keys() == {1, 2, 3, 4}
    assert estimate.total_ms == estimate.work_ms + estimate.sent_bytes // send_rehearsal.BYTES_PER_MS


def test_an_empty_tree_takes_no_time() -> None:
    assert rehearsed(a_tree(0, 0), 3) == SendEstimate()
