"""Blocks of producer ids: each is handed out once, for ever.

In:   AllocateProducerIds. Out: one ProducerIds record and the block.
Source: Kafka 3.9 `ProducerIdControlManager`.
"""

from __future__ import annotations

from migrator.controller.decision import Decision, Situation
from migrator.records.builders import producer_ids_record
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK = 1_000
LAST_ID = 2**63 - 1


def allocate_producer_ids(situation: Situation, request: AllocateProducerIdsRequest) -> Decision:
    broker = situation.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision(AllocateProducerIdsResponse(error_code=Error.STALE_BROKER_EPOCH))
    first = max(situation.image.next_producer_id, 0)
    if first > LAST_ID - BLOCK:
        return Decision(AllocateProducerIdsResponse(error_code=Error.UNKNOWN_SERVER_ERROR))
    record = producer_ids_record(first + BLOCK, broker=request.broker_id, broker_epoch=request.broker_epoch)
    return Decision(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK), ((record, 0),))
