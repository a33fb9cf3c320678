"""A broker in ZooKeeper that does not follow us is named, once it is clear that it does not merely start."""

from __future__ import annotations

import pytest

from migrator.driver.not_following import SETTLED_MS, NotFollowing
from migrator.model.image import Image
from tests.support.builders import a_broker, an_image

FOLLOWING = an_image(brokers=[1, 2, 3])


@pytest.mark.parametrize(
    ("image", "known"),
    [
        (an_image(brokers=[1, 2]), "not registered"),
        (an_image(brokers=[1, 2, a_broker(3, fenced=True)]), "registered and fenced"),
    ],
)
def test_a_broker_that_does_not_follow_is_named_after_a_while(image: Image, known: str) -> None:
    foreign = NotFollowing()
    assert foreign.look({1, 2, 3}, image, 1_000) is None
    assert foreign.look({1, 2, 3}, image, 999 + SETTLED_MS) is None
    found = foreign.look({1, 2, 3}, image, 1_000 + SETTLED_MS)
    assert found is not None
    assert (found.code, found.values["broker"]) == ("Z2K-2040", 3)
    assert known in found.text


def test_who_follows_in_between_begins_anew() -> None:
    foreign, alone = NotFollowing(), an_image(brokers=[1])
    foreign.look({1, 2}, alone, 0)
    assert foreign.look({1, 2}, FOLLOWING, SETTLED_MS // 2) is None
    assert foreign.look({1, 2}, alone, SETTLED_MS) is None


def test_a_broker_that_left_zookeeper_is_nobodys_stranger() -> None:
    """It is fenced, or follows in KRaft mode."""
    foreign = NotFollowing()
    for now_ms in range(0, 4 * SETTLED_MS, SETTLED_MS):
        assert foreign.look({1}, an_image(brokers=[1, a_broker(2, fenced=True)]), now_ms) is None
