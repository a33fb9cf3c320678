"""Make this controller known to the active one, while it is not that itself.

In:   who leads, what the log says of the controllers.
Out:  a ControllerRegistration to the leader until the log has it.
Elsewhere: the leader registers itself when it begins to lead (process/controller.py), the record (controller.brokers).
Source: Kafka 3.9 `ControllerRegistrationManager`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from migrator.controller.features import supported_features
from migrator.findings.finding import words_of
from migrator.model.levels import CONTROLLER_REGISTRATION
from migrator.model.values import Listener
from migrator.node.config.properties import NodeConfig, VoterAddress
from migrator.node.leader.active_controller import ActiveController
from migrator.node.quorum.raft_node import RaftNode
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.brokers import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    RegistrationListener,
)

log = structlog.get_logger()

LOOK_S: Final = 0.2
AGAIN_S: Final = 1.0
ANSWER_S: Final = 5.0


def registration_of(config: NodeConfig, incarnation: bytes) -> ControllerRegistrationRequest:
    """What this process tells of itself; the leader registers itself with the same."""
    return ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=incarnation,
        zk_migration_ready=config.migration_enabled,
        listeners=tuple(_registered(listener) for listener in config.advertised),
        features=supported_features(),
    )


def _registered(listener: Listener) -> RegistrationListener:
    return RegistrationListener(listener.name, listener.host or "localhost", listener.port, listener.protocol)


async def stay_registered(
    raft: RaftNode,
    controller: ActiveController,
    request: ControllerRegistrationRequest,
    voters: tuple[VoterAddress, ...],
    security: ClientSecurity = PLAINTEXT,
) -> None:
    """Ask the leader to register this incarnation whenever the log does not have it, for ever."""
    told = ""
    while True:
        known = controller.image.controllers.get(request.controller_id)
        leader = next((voter for voter in voters if voter.id == raft.voter.leader), None)
        has_it = known is not None and known.incarnation == request.incarnation_id
        has_it |= controller.image.metadata_version < CONTROLLER_REGISTRATION  # nobody can, and nobody looks for it
        if has_it or leader is None or leader.id == request.controller_id or not controller.is_current:
            await asyncio.sleep(LOOK_S)
            continue
        problem = await _ask(leader, request, security)
        if problem != told:
            told = problem
            log.info("controller.registers", leader=leader.id, problem=problem)
        await asyncio.sleep(AGAIN_S)


async def _ask(leader: VoterAddress, request: ControllerRegistrationRequest, security: ClientSecurity) -> str:
    """One try; empty when the leader took it."""
    client_id = f"controller-{request.controller_id}-registration"
    connection = BrokerConnection(leader.host, leader.port, client_id, security)
    try:
        answer = await connection.ask(request, 0, ControllerRegistrationResponse, ANSWER_S)
        return "" if not answer.error_code else f"error {answer.error_code} {answer.error_message or ''}".strip()
    except Exception as error:  # whatever the leader answers, each follower reads the same
        return words_of(error)
    finally:
        connection.close()
