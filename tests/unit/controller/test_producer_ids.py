"""Blocks of producer ids: no id is ever handed out twice."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.controller.decision import Situation
from migrator.controller.producer_ids import BLOCK, LAST_ID, allocate_producer_ids
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.support.builders import an_image
from tests.support.situations import a_situation, after


def allocate(
    situation: Situation, broker: int, epoch: int | None = None
) -> tuple[AllocateProducerIdsResponse, Situation]:
    decision = allocate_producer_ids(
        situation, AllocateProducerIdsRequest(broker, 100 + broker if epoch is None else epoch)
    )
    assert isinstance(decision.reply, AllocateProducerIdsResponse)
    return decision.reply, after(situation, decision)


@given(brokers=st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=20), start=st.none() | st.integers(0, 10**9))
def test_blocks_follow_each_other_from_where_zookeeper_stopped(brokers: list[int], start: int | None) -> None:
    """F-29: whoever asks, in whatever order, before and after a fail-over."""
    situation = a_situation(an_image(next_producer_id=start))
    expected = start or 0
    for broker in brokers:
        reply, situation = allocate(situation, broker)
        assert (reply.producer_id_start, reply.producer_id_len) == (expected, BLOCK)
        expected += BLOCK
        assert situation.image.next_producer_id == expected
        situation = a_situation(situation.image)  # another controller goes on from the log alone


@pytest.mark.parametrize(("broker", "epoch"), [(1, 100), (9, 109)])
def test_only_registered_brokers_get_blocks(broker: int, epoch: int) -> None:
    situation = a_situation(an_image(next_producer_id=5000))
    reply, later = allocate(situation, broker, epoch)
    assert reply.error_code == Error.STALE_BROKER_EPOCH
    assert later.image.next_producer_id == 5000


def test_ids_end_with_an_error_and_do_not_begin_anew() -> None:
    image = msgspec.structs.replace(an_image(), next_producer_id=LAST_ID - BLOCK)
    reply, later = allocate(a_situation(image), 1)
    assert (reply.error_code, reply.producer_id_start) == (Error.NONE, LAST_ID - BLOCK)
    reply, last = allocate(later, 1)
    assert reply.error_code == Error.UNKNOWN_SERVER_ERROR
    assert last.image == later.image
