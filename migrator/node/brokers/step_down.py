"""Wait until a ZooKeeper-mode controller that was displaced has ended what it was about and stepped down.

In:   the broker that was controller, when `/controller` names another one.
Out:  nothing, once it says that it is not controller. Raises Z2K-2060 when it does not in time.
Elsewhere: displacing it and the claim that follows (claiming.py, driver.claim).
A ZooKeeper-mode controller does one thing after the other, and takes AllocateProducerIds into that row. The one asked
here names a broker that ZooKeeper does not know: as long as the controller rules it is refused without a block.
Source: Kafka 3.9 `KafkaController.processAllocateProducerIds`, `maybeResign`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from migrator.findings.driver import NOT_STEPPED_DOWN
from migrator.findings.finding import words_of
from migrator.model.values import Broker
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse

LOOK_S: Final = 0.005
NOT_CONTROLLER: Final = 41


async def wait_stepped_down(
    broker: Broker, listener: str, node_id: int, security: ClientSecurity = PLAINTEXT, *, limit_s: float
) -> None:
    """node_id: of this controller; no broker has it.   limit_s: for what the old controller was asked before."""
    endpoint = broker.listener(listener)
    assert endpoint is not None, f"the gate wants every broker to listen on {listener}"
    connection = BrokerConnection(endpoint.host, endpoint.port, str(node_id), security)
    deadline = time.monotonic() + limit_s
    request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=-1)
    answered = fault = ""  # The last question is cut short by the limit: what was answered before it is told too.
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                answer = await connection.ask(request, 0, AllocateProducerIdsResponse, left_s)
            except OSError as error:
                fault = words_of(error)
            else:
                if answer.error_code == NOT_CONTROLLER:
                    return
                answered, fault = f"it answers with error {answer.error_code}", ""
            await asyncio.sleep(LOOK_S)
    finally:
        connection.close()
    reason = "; then: ".join(filter(None, (answered, fault))) or "it was not asked"
    raise NOT_STEPPED_DOWN.error(broker=broker.id, limit_ms=int(limit_s * 1000), reason=reason)
