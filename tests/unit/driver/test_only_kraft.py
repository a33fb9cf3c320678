"""What a rollback loses, in words, and how a running controller follows it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from migrator.driver import only_kraft as followed
from migrator.driver.only_kraft import OnlyKraft, only_kraft
from migrator.model.draft import Draft
from migrator.model.image import Image
from migrator.model.values import ConfigKey, ConfigType
from tests.support.builders import a_topic, an_image

METRICS = ConfigKey(ConfigType.CLIENT_METRICS, "m")
TOPIC = ConfigKey(ConfigType.TOPIC, "orders")


def test_what_has_a_form_in_zookeeper_is_not_lost() -> None:
    keys = [ConfigKey(ConfigType.GROUP, "g"), TOPIC, ConfigKey(ConfigType.BROKER, "1"), METRICS]
    assert only_kraft(keys) == ("configuration of client-metrics m", "configuration of group g")


def test_the_first_ones_are_named_and_the_others_are_counted() -> None:
    keys = [ConfigKey(ConfigType.CLIENT_METRICS, name) for name in "cab"]
    assert only_kraft(keys, 2) == (
        "configuration of client-metrics a",
        "configuration of client-metrics b",
        "and 1 more configurations of clients or groups",
    )
    assert len(only_kraft(keys, None)) == 3


def committed(follows: OnlyKraft, image: Image, key: ConfigKey, value: str | None) -> Image:
    draft = Draft(image)
    draft.set_config(key, "interval.ms" if key is METRICS else "retention.ms", value)
    delta = draft.finish(image.position)
    follows.published(delta)
    return delta.after


def test_commits_that_touch_no_such_configuration_cost_no_look_at_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def counted(keys: Iterable[ConfigKey]) -> tuple[str, ...]:
        looks.append(1)
        return only_kraft(keys)

    monkeypatch.setattr(followed, "only_kraft", counted)
    follows, image = OnlyKraft(), an_image(a_topic("orders"))
    assert follows.of(image) == ()
    image = committed(follows, image, TOPIC, "1000")
    assert (follows.of(image), len(looks)) == ((), 1)
    image = committed(follows, image, METRICS, "1000")
    assert follows.of(image) == ("configuration of client-metrics m",)
    image = committed(follows, image, TOPIC, "2000")
    assert (follows.of(image), len(looks)) == (("configuration of client-metrics m",), 2)
    assert follows.of(committed(follows, image, METRICS, None)) == ()


def test_an_image_that_no_commit_led_to_is_looked_at() -> None:
    """As after a leadership, when another image is there."""
    follows = OnlyKraft()
    assert follows.of(an_image(a_topic("orders"))) == ()
    other = committed(OnlyKraft(), an_image(a_topic("orders")), METRICS, "1000")
    assert follows.of(other) == ("configuration of client-metrics m",)
