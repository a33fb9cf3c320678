"""Before a full send leaves: what a broker has and the bytes do not name is found, whatever left it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.removals import Removals
from migrator.driver import guard
from migrator.driver.guard import Deleted, Survey, check_full_send, left_over, logs_by_topic, strays, without_ids
from migrator.driver.update_requests import (
    LEADER_AND_ISR,
    UPDATE_METADATA,
    VERSIONS,
    BrokerUpdate,
    UpdateKind,
    full_updates,
)
from migrator.findings.finding import Occurrence
from migrator.model.diff import diff
from migrator.model.image import Image
from migrator.wire.codec import decode, decode_each, encode
from migrator.wire.messages.control import LeaderAndIsrRequest, UpdateMetadataRequest
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import Message
from tests.support.arbitrary_images import BROKERS, images
from tests.support.builders import a_claim, a_partition, a_topic, an_id, an_image

IMAGE = an_image(a_topic("orders", 3), a_topic("payments", 2))


def the_send(image: Image = IMAGE) -> list[BrokerUpdate]:
    return full_updates(image, a_claim(), set(image.brokers), "PLAINTEXT")


def what_brokers_have(image: Image = IMAGE) -> dict[int, Survey]:
    """As brokers would answer that have exactly what the image says."""
    topics = {topic.name: topic.id for topic in image.topics.values()}
    return {
        broker: Survey(
            broker,
            logs_by_topic((topic.name, [each.id]) for topic, each in image.partitions() if broker in each.replicas),
            topics,
        )
        for broker in image.brokers
    }


def altered(updates: list[BrokerUpdate], broker: int, api_key: int, change: Callable[[Any], Any]) -> list[BrokerUpdate]:
    """The FULL request of this kind for this broker, decoded, changed, and encoded again."""
    kinds: dict[int, type[Message]] = {LEADER_AND_ISR: LeaderAndIsrRequest, UPDATE_METADATA: UpdateMetadataRequest}
    found = []
    for update in updates:
        if (update.broker, update.api_key, update.kind) == (broker, api_key, UpdateKind.FULL):
            request = change(decode(kinds[api_key], VERSIONS[api_key], update.body))
            found.append(replace(update, shared=encode(request, VERSIONS[api_key])))
        else:
            found.append(update)
    assert found != updates
    return found


def each_topic(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply to each topic of a request; None leaves it out."""

    def changed(request: Any) -> Any:
        topics = [done for each in request.topic_states if (done := change(each)) is not None]
        return msgspec.structs.replace(request, topic_states=tuple(topics))

    return changed


def without_partition(topic: str, partition: int) -> Callable[[Any], Any]:
    def change(each: Any) -> Any:
        if each.topic_name != topic:
            return each
        left = tuple(state for state in each.partition_states if state.partition_index != partition)
        return msgspec.structs.replace(each, partition_states=left)

    return each_topic(change)


def without_topic(topic: str) -> Callable[[Any], Any]:
    return each_topic(lambda each: None if each.topic_name == topic else each)


def with_another_id(topic: str) -> Callable[[Any], Any]:
    return each_topic(
        lambda each: msgspec.structs.replace(each, topic_id=an_id("other")) if each.topic_name == topic else each
    )


def updated(found: list[Occurrence]) -> list[tuple[int, str, str]]:
    assert {each.code for each in found} <= {"Z2K-2010"}
    return [(each.values["broker"], each.values["what"], each.values["reason"]) for each in found]


def test_a_send_that_names_everything_may_leave() -> None:
    assert check_full_send(the_send(), what_brokers_have()) == []


@pytest.mark.parametrize(
    ("api_key", "change", "what", "reason"),
    [
        (LEADER_AND_ISR, without_partition("orders", 1), "the log of orders-1", "FULL LeaderAndIsr does not name it"),
        (LEADER_AND_ISR, with_another_id("orders"), "the logs of orders", "the broker has them under another topic id"),
        (UPDATE_METADATA, without_topic("payments"), "topic payments", "FULL UpdateMetadata does not name it"),
        (UPDATE_METADATA, with_another_id("orders"), "topic orders", "FULL UpdateMetadata gives it another id"),
    ],
)
def test_one_thing_missing_or_changed_in_the_bytes_for_one_broker_is_found(
    api_key: int, change: Callable[[Any], Any], what: str, reason: str
) -> None:
    """F-31: the encoded bytes are asked, so an error of the image, the planner or the encoder is found alike."""
    updates = altered(the_send(), 2, api_key, change)
    assert updated(check_full_send(updates, what_brokers_have())) == [(2, what, reason)]


def test_a_whole_topic_missing_is_found_for_each_of_its_logs() -> None:
    updates = altered(the_send(), 3, LEADER_AND_ISR, without_topic("orders"))
    found = updated(check_full_send(updates, what_brokers_have()))
    assert [what for _, what, _ in found] == [f"the log of orders-{each}" for each in range(3)]


def test_a_log_that_only_the_broker_has_is_found() -> None:
    surveys = what_brokers_have()
    surveys[1] = replace(surveys[1], logs={**surveys[1].logs, "forgotten": frozenset({0})})
    assert updated(check_full_send(the_send(), surveys)) == [
        (1, "the log of forgotten-0", "FULL LeaderAndIsr does not name it")
    ]


def test_after_a_fail_over_logs_of_a_topic_that_its_broker_was_not_told_of_are_no_obstacle() -> None:
    """The leader that died had sent LeaderAndIsr for a new topic and not yet UpdateMetadata."""
    surveys = what_brokers_have()
    del surveys[1].topics["orders"]  # type: ignore[attr-defined]
    assert updated(check_full_send(the_send(), surveys, after_fail_over=True)) == []
    surveys[1] = replace(surveys[1], topics={**surveys[1].topics, "orders": ZERO_UUID})
    assert len(check_full_send(the_send(), surveys, after_fail_over=True)) == 1


@pytest.mark.parametrize("topics", [{}, {"orders": ZERO_UUID}])
def test_a_log_whose_topic_id_the_broker_does_not_know_is_found(topics: dict[str, bytes]) -> None:
    known = {name: topic_id for name, topic_id in IMAGE.topic_ids.items() if name != "orders"}
    surveys = what_brokers_have()
    surveys[1] = replace(surveys[1], topics={**known, **topics})
    assert updated(check_full_send(the_send(), surveys)) == [
        (1, "the logs of orders", "the broker knows no topic id for them")
    ]


def test_a_broker_that_was_not_asked_gets_nothing() -> None:
    surveys = what_brokers_have()
    del surveys[2]
    found = updated(check_full_send(the_send(), surveys))
    assert {(broker, what) for broker, what, _ in found} == {(2, "everything")}


def test_a_request_that_only_adds_needs_no_survey() -> None:
    adding = [replace(update, kind=UpdateKind.INCREMENTAL) for update in the_send(an_image())]
    assert len(adding) == 9
    assert check_full_send(adding, {}) == check_full_send(adding, what_brokers_have()) == []


@pytest.mark.parametrize("deleted", [{}, {"orders": (an_id("orders"),)}])
def test_a_deletion_in_the_log_explains_what_is_left_out(deleted: Deleted) -> None:
    surveys = what_brokers_have()
    after = an_image(a_topic("payments", 2))
    assert bool(check_full_send(the_send(after), surveys, deleted)) is not bool(deleted)


def test_a_replica_that_the_log_took_away_explains_its_log_on_that_broker_alone() -> None:
    """The leader that died had not told the broker yet; moving the log aside is what it would have heard."""
    surveys = what_brokers_have()
    after = an_image(
        a_topic("orders", [a_partition(0, (2, 3)), a_partition(1), a_partition(2)]), a_topic("payments", 2)
    )
    assert check_full_send(the_send(after), surveys, {}, {(1, "orders", 0)}) == []
    for other in ((2, "orders", 0), (1, "orders", 1), (1, "payments", 0)):
        assert len(check_full_send(the_send(after), surveys, {}, {other})) == 1


def test_a_topic_deleted_and_created_again_since_the_survey_may_have_another_id() -> None:
    """F-28: the broker drops the old log because it is told so."""
    surveys = what_brokers_have()
    after = an_image(a_topic("orders", 3, an_id("orders again")), a_topic("payments", 2))
    assert check_full_send(the_send(after), surveys, {"orders": (an_id("orders"),)}) == []
    assert {what for _, what, _ in updated(check_full_send(the_send(after), surveys))} == {
        "the logs of orders",
        "topic orders",
    }


# --- a name that was deleted and made again -----------------------------------------------------------------

AGAIN = an_image(a_topic("orders", 3, an_id("orders again")), a_topic("payments", 2))


def what_the_log_took_away(*, noted: bool) -> Deleted:
    """As a log says it in which orders was deleted and made again. noted: with its id, as this release does."""
    removals = Removals()
    if noted:
        removals.note(diff(IMAGE, AGAIN))
    else:
        removals.take(NoOpRecord(mark="removed-topics", mark_text='["orders"]'))
    return removals.topics


@pytest.mark.parametrize(
    ("api_key", "change", "what", "noted"),
    [
        (LEADER_AND_ISR, without_partition("orders", 1), ["the log of orders-1"], True),
        (LEADER_AND_ISR, without_topic("orders"), [f"the log of orders-{each}" for each in range(3)], True),
        (UPDATE_METADATA, without_topic("orders"), ["topic orders"], True),
        (UPDATE_METADATA, with_another_id("orders"), ["topic orders"], True),
        (LEADER_AND_ISR, without_partition("orders", 1), ["the log of orders-1"], False),
        (LEADER_AND_ISR, without_topic("orders"), [f"the log of orders-{each}" for each in range(3)], False),
    ],
)
def test_a_topic_whose_name_was_once_deleted_is_protected_like_any_other(
    api_key: int, change: Callable[[Any], Any], what: list[str], *, noted: bool
) -> None:
    """F-31: streams applications and tests delete a name and make it again every day.

    Where a snapshot of an earlier release did not note the id, the logs are protected as long as the bytes have the
    topic's id.
    """
    updates = altered(the_send(AGAIN), 2, api_key, change)
    found = updated(check_full_send(updates, what_brokers_have(AGAIN), what_the_log_took_away(noted=noted)))
    assert [(broker, each) for broker, each, _ in found] == [(2, each) for each in what]


def test_a_broker_that_still_has_the_topic_that_went_may_lose_it() -> None:
    """It was away, or has not heard yet; both say their ids or none."""
    deleted = what_the_log_took_away(noted=True)
    assert check_full_send(the_send(AGAIN), what_brokers_have(), deleted) == []
    surveys = {broker: replace(survey, topics={}) for broker, survey in what_brokers_have().items()}
    narrow = an_image(a_topic("orders", [a_partition(0, (2, 3))], an_id("orders again")), a_topic("payments", 2))
    assert check_full_send(the_send(narrow), surveys, deleted, after_fail_over=True) == []


def test_a_broker_that_does_not_know_ids_keeps_the_logs_that_its_topic_of_today_has() -> None:
    """It has just started. That it hosts the partition says the other request that leaves for it."""
    surveys = {broker: replace(survey, topics={}) for broker, survey in what_brokers_have(AGAIN).items()}
    updates = altered(the_send(AGAIN), 2, LEADER_AND_ISR, without_partition("orders", 1))
    deleted = what_the_log_took_away(noted=True)
    assert updated(check_full_send(updates, surveys, deleted, after_fail_over=True)) == [
        (2, "the log of orders-1", "FULL LeaderAndIsr does not name it")
    ]


def test_logs_of_a_topic_that_went_are_dropped_by_a_broker_that_is_healed_whichever_id_it_has_heard_since() -> None:
    """What is left over gets StopReplica, which deletes it.

    A broker that was away learns the id of today's topic and still has the logs of the one before (K-20).
    """
    before, today = an_id("payments before"), an_id("payments")
    deleted = {"payments": (before,)}
    image = an_image(a_topic("orders", 3), a_topic("payments", [a_partition(0, (2, 3))]))
    survey = what_brokers_have()[1]
    for known, dropped in ((ZERO_UUID, True), (before, True), (today, True), (an_id("another"), False)):
        other = replace(survey, topics={**survey.topics, "payments": known})
        assert left_over(other, image, deleted, ()) == ([("payments", 0), ("payments", 1)] if dropped else [])


# --- many brokers -----------------------------------------------------------------------------------------


def test_what_all_brokers_are_sent_alike_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 partitions and 100 brokers would take 16 s without a controller."""
    decoded: list[type] = []

    def counted(message: Any, *others: Any) -> None:
        decoded.append(message)
        decode_each(message, *others)

    monkeypatch.setattr(guard, "decode_each", counted)
    assert check_full_send(the_send(), what_brokers_have()) == []
    assert decoded.count(UpdateMetadataRequest) == 1
    assert decoded.count(LeaderAndIsrRequest) == 3


def test_each_broker_is_compared_with_the_bytes_that_leave_for_it() -> None:
    """Also where the others share theirs, and whoever comes first."""
    for broker in (1, 2, 3):
        updates = altered(the_send(), broker, UPDATE_METADATA, without_topic("payments"))
        found = updated(check_full_send(updates, what_brokers_have()))
        assert found == [(broker, "topic payments", "FULL UpdateMetadata does not name it")]


def test_of_two_full_updates_that_differ_for_one_broker_both_are_compared() -> None:
    whole = the_send()
    spoiled = altered(whole, 2, UPDATE_METADATA, without_topic("payments"))
    for updates in ([*whole[:4], *spoiled[4:]], [*spoiled[:4], *whole[4:]]):
        assert updated(check_full_send(updates, what_brokers_have())) == [
            (2, "topic payments", "FULL UpdateMetadata does not name it")
        ]


@settings(max_examples=60, deadline=None)
@given(image=images(), data=st.data())
def test_whatever_single_partition_is_left_out_is_found_and_nothing_else(image: Image, data: st.DataObject) -> None:
    surveys = what_brokers_have(image)
    assert check_full_send(the_send(image), surveys) == []
    hosted = [
        (broker, topic, partition)
        for broker in set(image.brokers) & set(BROKERS)
        for topic, partitions in surveys[broker].logs.items()
        for partition in partitions
    ]
    if hosted:
        broker, topic, partition = data.draw(st.sampled_from(sorted(hosted)))
        updates = altered(the_send(image), broker, LEADER_AND_ISR, without_partition(topic, partition))
        assert [(each, what) for each, what, _ in updated(check_full_send(updates, surveys))] == [
            (broker, f"the log of {topic}-{partition}")
        ]


def test_a_broker_that_knows_no_ids_yet_or_another_one_is_found_before_the_claim() -> None:
    topics = {topic.name: topic for topic in IMAGE.topics.values()}
    survey = what_brokers_have()[1]
    assert without_ids(survey, topics) == []
    survey = replace(survey, topics={"orders": ZERO_UUID, "payments": an_id("another")})
    assert updated(without_ids(survey, topics)) == [
        (1, "the logs of orders", "the broker knows no topic id for them"),
        (1, "the logs of payments", "the broker has them under another topic id"),
    ]


def test_what_a_broker_has_beyond_its_assignments_is_found_before_the_claim() -> None:
    topics = {topic.name: topic for topic in IMAGE.topics.values()}
    survey = what_brokers_have()[1]
    assert strays(survey, topics, {}, ()) == []
    more = logs_by_topic([*survey.logs.items(), ("orders", [7]), ("gone", [0])])
    survey = replace(survey, logs=more, topics={**survey.topics, "gone": an_id("gone")})
    assert [what for _, what, _ in updated(strays(survey, topics, {}, ()))] == [
        "the log of gone-0",
        "the log of orders-7",
        "topic gone",
    ]
    assert strays(survey, topics, {"gone": (an_id("gone"),)}, {(1, "orders", 7)}) == []
    assert [what for _, what, _ in updated(strays(survey, topics, {"gone": (an_id("before"),)}, ()))][0::2] == [
        "the log of gone-0",
        "topic gone",
    ]
