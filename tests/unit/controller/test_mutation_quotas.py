"""Who creates and deletes too many partitions is told to wait, and by newer requests nothing more is done."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.controller.authorizer import Asker
from migrator.controller.decision import Situation
from migrator.controller.mutation_quotas import (
    BUCKETS_MAX,
    MUTATION_RATE,
    WAIT_MS_MAX,
    MutationBuckets,
    Throttled,
    quota_for,
)
from migrator.controller.requests import decide, open_envelope
from migrator.model.image import Image
from migrator.model.values import QuotaEntity
from migrator.wire.errors import Error
from migrator.wire.frames import encode_request
from migrator.wire.messages.brokers import EnvelopeRequest
from migrator.wire.messages.security import DefaultPrincipalData
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from migrator.wire.principal import encode_principal
from tests.support.builders import a_topic, an_image
from tests.support.situations import a_situation, after

APP = Asker("User:alice", "10.0.0.1", client_id="app")
Parts = dict[str, str | None]


def an_entity(**parts: str | None) -> QuotaEntity:
    return QuotaEntity.of((name.replace("_", "-"), value) for name, value in parts.items())


def with_rates(*rates: tuple[QuotaEntity, float]) -> Image:
    return an_image(a_topic("orders", 4), quotas={entity: {MUTATION_RATE: rate} for entity, rate in rates})


def a_cluster(rate: float = 2.0, asker: Asker | None = APP) -> Situation:
    """11 windows of a second: a burst of 22 partitions at a rate of 2."""
    return replace(a_situation(with_rates((an_entity(user="alice"), rate))), asker=asker)


def create(situation: Situation, version: int, *sizes: int, prefix: str = "t") -> tuple[list[int], int, Situation]:
    """Codes per topic, the wait, the situation after it."""
    topics = tuple(CreatableTopic(f"{prefix}{at}", size, 1) for at, size in enumerate(sizes))
    decision = decide(situation, CreateTopicsRequest(topics), version, writes_allowed=True)
    assert isinstance(decision.reply, CreateTopicsResponse)
    codes = [each.error_code for each in decision.reply.topics]
    return codes, decision.reply.throttle_time_ms, after(situation, decision)


def grow(situation: Situation, version: int, count: int) -> tuple[list[int], int]:
    request = CreatePartitionsRequest((CreatePartitionsTopic("orders", count, None),))
    reply = decide(situation, request, version, writes_allowed=True).reply
    assert isinstance(reply, CreatePartitionsResponse)
    return [each.error_code for each in reply.results], reply.throttle_time_ms


def delete(situation: Situation, version: int) -> tuple[list[int], int]:
    request = DeleteTopicsRequest((DeleteTopicState("orders"),), topic_names=())
    reply = decide(situation, request, version, writes_allowed=True).reply
    assert isinstance(reply, DeleteTopicsResponse)
    return [each.error_code for each in reply.responses], reply.throttle_time_ms


def test_what_overdraws_the_burst_is_done_and_the_next_topic_is_refused() -> None:
    codes, wait_ms, situation = create(a_cluster(), 6, 20, 6, 1)
    assert codes == [Error.NONE, Error.NONE, Error.THROTTLING_QUOTA_EXCEEDED]
    assert wait_ms == 2_000, "4 partitions too many, 2 a second"
    assert situation.image.topic("t2") is None
    later = replace(situation, now_ms=situation.now_ms + 1_999)
    assert create(later, 7, 1, prefix="u")[:2] == ([Error.THROTTLING_QUOTA_EXCEEDED], 1)
    later = replace(situation, now_ms=situation.now_ms + 2_000)
    assert create(later, 7, 1, prefix="u")[:2] == ([Error.NONE], 0)


def test_an_older_request_is_carried_out_and_told_to_wait() -> None:
    codes, wait_ms, _ = create(a_cluster(), 5, 20, 6, 1)
    assert (codes, wait_ms) == ([Error.NONE] * 3, 2_500)


@pytest.mark.parametrize(("version", "strict"), [(2, False), (3, True)])
def test_partitions_that_are_added_count(version: int, strict: bool) -> None:
    _, _, situation = create(a_cluster(), 7, 24)
    codes, wait_ms = grow(situation, version, 6)
    assert codes == [Error.THROTTLING_QUOTA_EXCEEDED if strict else Error.NONE]
    assert wait_ms == (1_000 if strict else 2_000)


@pytest.mark.parametrize(("version", "strict"), [(4, False), (5, True), (6, True)])
def test_partitions_that_are_deleted_count(version: int, strict: bool) -> None:
    _, _, situation = create(a_cluster(), 7, 24)
    codes, wait_ms = delete(situation, version)
    assert codes == [Error.THROTTLING_QUOTA_EXCEEDED if strict else Error.NONE]
    assert wait_ms == (1_000 if strict else 3_000)


def test_a_trial_counts_as_with_stock_and_a_refused_topic_does_not() -> None:
    situation = a_cluster()
    bad = CreateTopicsRequest((CreatableTopic("bad name", 100, 1),))
    decide(situation, bad, 7, writes_allowed=True)
    trial = CreateTopicsRequest((CreatableTopic("trial", 24, 1),), 60_000, validate_only=True)
    assert not decide(situation, trial, 7, writes_allowed=True).records
    assert create(situation, 7, 1)[0] == [Error.THROTTLING_QUOTA_EXCEEDED]


@pytest.mark.parametrize("asker", [None, Asker("User:bob", "10.0.0.1", client_id="app")])
def test_who_has_no_quota_never_waits(asker: Asker | None) -> None:
    situation = a_cluster(asker=asker)
    assert create(situation, 7, 1_000, 1_000)[:2] == ([Error.NONE, Error.NONE], 0)
    assert len(situation.buckets) == 0


NEAREST_FIRST: list[Parts] = [
    {"user": "alice", "client_id": "app"},
    {"user": "alice", "client_id": None},
    {"user": "alice"},
    {"user": None, "client_id": "app"},
    {"user": None, "client_id": None},
    {"user": None},
    {"client_id": "app"},
    {"client_id": None},
]


def is_throttled(image: Image, asker: Asker, buckets: MutationBuckets) -> int:
    """How long one more partition has to wait; 0 when it has not."""
    quota = quota_for(image, asker, buckets, 0, strict=True)
    with suppress(Throttled):
        quota.take(0)
    return quota.throttle_ms


@pytest.mark.parametrize("nearest", range(len(NEAREST_FIRST)))
def test_the_nearest_quota_counts(nearest: int) -> None:
    rates = [(an_entity(**parts), 1.0 + at) for at, parts in enumerate(NEAREST_FIRST) if at >= nearest]
    image, buckets = with_rates(*rates), MutationBuckets(10)
    quota_for(image, APP, buckets, 0, strict=True).take(11 * (1 + nearest))
    assert is_throttled(image, APP, buckets) == 1_000, "a second's worth too much"


def test_a_default_is_everybodys_own_and_a_users_quota_is_for_all_clients_together() -> None:
    bob, other = replace(APP, principal="User:bob"), replace(APP, client_id="other")
    for parts, hits_bob, hits_other in (
        ({"user": None}, False, True),
        ({"user": "alice"}, False, True),
        ({"client_id": None}, True, False),
        ({"user": None, "client_id": None}, False, False),
    ):
        image, buckets = with_rates((an_entity(**parts), 1.0)), MutationBuckets(10)
        quota_for(image, APP, buckets, 0, strict=True).take(11)
        assert (is_throttled(image, bob, buckets) > 0, is_throttled(image, other, buckets) > 0) == (
            hits_bob,
            hits_other,
        )


def test_the_client_inside_an_envelope_is_who_is_counted() -> None:
    inner = encode_request(CreateTopicsRequest(), 7, correlation_id=1, client_id="an app")[4:]
    principal = encode_principal(DefaultPrincipalData("User", "alice", False))
    opened = open_envelope(EnvelopeRequest(inner, principal, bytes(4)))
    assert (opened.asker.principal, opened.asker.client_id) == ("User:alice", "an app")


@pytest.mark.parametrize("rate", [5e-324, 1e308, 0.0, -1.0])
def test_odd_rates_end_in_a_wait_that_can_be_told(rate: float) -> None:
    image, buckets = with_rates((an_entity(user="alice"), rate)), MutationBuckets()
    quota = quota_for(image, APP, buckets, 0, strict=False)
    quota.take(10_000)
    assert 0 <= quota.throttle_ms <= WAIT_MS_MAX


def test_client_ids_that_anybody_makes_up_are_forgotten_again() -> None:
    image, buckets = with_rates((an_entity(client_id=None), 1.0)), MutationBuckets()
    for number in range(2 * BUCKETS_MAX):
        quota_for(image, replace(APP, client_id=f"c{number}"), buckets, number, strict=True)
    assert len(buckets) <= BUCKETS_MAX


@given(
    steps=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 40), st.booleans()), max_size=30),
    rate=st.floats(0.1, 50),
)
def test_the_bucket_is_kafkas(steps: list[tuple[int, int, bool]], rate: float) -> None:
    """Its twin counts as `TokenBucket` does: from a time long ago, with the burst as its limit."""
    image, buckets = with_rates((an_entity(user="alice"), rate)), MutationBuckets()
    now, tokens, burst = 1_000_000, 11 * rate, 11 * rate
    for passed, permits, strict in steps:
        now += passed
        tokens = min(burst, tokens + rate * passed / 1000)
        quota = quota_for(image, APP, buckets, now, strict=strict)
        if strict and tokens < 0:
            with pytest.raises(Throttled):
                quota.take(permits)
            assert quota.throttle_ms == round(-tokens / rate * 1000)
            continue
        quota.take(permits)
        tokens = min(burst, tokens - permits)
        assert quota.throttle_ms == (round(-tokens / rate * 1000) if not strict and tokens < 0 else 0)
