"""What is answered when nothing may be done, and requests that brokers pass on for their clients."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from migrator.controller.features import FORWARDABLE
from migrator.controller.refusals import is_refusable, refuse
from migrator.controller.requests import (
    BEFORE_MIGRATION,
    EnvelopeRefused,
    api_name,
    decide,
    open_envelope,
    says_not_controller,
    wrap_envelope,
)
from migrator.model.values import MigrationState
from migrator.wire.codec import decode, encode
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS, decode_response, encode_request
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerRegistrationRequest,
    EnvelopeRequest,
)
from migrator.wire.messages.handshake import ApiVersionsRequest
from migrator.wire.messages.security import DefaultPrincipalData
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
)
from migrator.wire.principal import encode_principal
from migrator.wire.schema import Message, declaration_of
from tests.support.builders import a_topic, an_image
from tests.support.situations import a_situation
from tests.unit.wire.arbitrary_messages import arbitrary

REFUSABLE = [api for api in API_KEYS.values() if is_refusable(api.request)]
DESCRIBE_QUORUM = 55
"""Forwardable, and answered by the quorum itself."""


def with_content(request: type[Message], version: int) -> Message:
    """A request that asks for something in each list that its version has: the fullest of a bounded number of draws."""
    chance = Random(version)
    draws: list[Message] = [arbitrary(chance, request, version) for _ in range(100)]
    return max(draws, key=_filled_lists)


def _filled_lists(message: Message) -> int:
    return sum(isinstance(value := getattr(message, name), tuple) and bool(value) for name in message.__struct_fields__)


def everywhere(message: Any, name: str) -> list[Any]:
    """Every value of a field in a message and its parts."""
    if isinstance(message, (tuple, list)):
        return [found for each in message for found in everywhere(each, name)]
    if not hasattr(message, "__struct_fields__"):
        return []
    own = [getattr(message, name)] if name in message.__struct_fields__ else []
    return own + [found for each in message.__struct_fields__ for found in everywhere(getattr(message, each), name)]


@pytest.mark.parametrize("api", REFUSABLE, ids=lambda api: api.name)
def test_a_refusal_says_its_error_in_every_version_and_loses_nothing(api: Any) -> None:
    """Brokers look for NOT_CONTROLLER where the errors of that answer stand; it must be there."""
    for version in range(api.declared.lowest, api.declared.highest + 1):
        request = with_content(api.request, version)
        for words in ("why", None):
            answer = refuse(request, Error.NOT_CONTROLLER, words)
            assert type(answer) is api.response
            again = decode(api.response, version, encode(answer, version))
            assert Error.NOT_CONTROLLER in everywhere(again, "error_code")
        if api.key in FORWARDABLE:
            assert says_not_controller(refuse(request, Error.NOT_CONTROLLER))
        assert not says_not_controller(refuse(request, Error.INVALID_REQUEST))


@pytest.mark.parametrize("api", REFUSABLE, ids=lambda api: api.name)
def test_before_the_migration_only_registrations_and_heartbeats_are_answered(api: Any) -> None:
    """The ZooKeeper controller still rules; everything else is NOT_CONTROLLER."""
    request = with_content(api.request, api.declared.highest)
    image = an_image(migration=MigrationState.PRE_MIGRATION)
    decision = decide(a_situation(image), request, api.declared.highest, writes_allowed=False)
    if api.request in BEFORE_MIGRATION:
        assert Error.NOT_CONTROLLER not in everywhere(decision.reply, "error_code")
    else:
        assert Error.NOT_CONTROLLER in everywhere(decision.reply, "error_code")
        assert decision.records == ()


@pytest.mark.parametrize("api", REFUSABLE, ids=lambda api: api.name)
def test_while_the_cluster_goes_back_nothing_is_decided_any_more(api: Any) -> None:
    """Both sides were compared; an election by a heartbeat would be in the log alone."""
    if api.request is ControllerRegistrationRequest:
        return
    request = with_content(api.request, api.declared.highest)
    decision = decide(a_situation(an_image()), request, api.declared.highest, writes_allowed=False)
    assert decision.records == ()


def test_a_broker_that_wants_to_leave_while_the_cluster_goes_back_is_heard_and_waits() -> None:
    image = an_image(a_topic("orders", 3), brokers=[1, 2, 3])
    situation = a_situation(image)
    leaving = BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, current_metadata_offset=500, want_shut_down=True)
    decision = decide(situation, leaving, 1, writes_allowed=False)
    assert decision.records == ()
    assert decision.reply == BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert situation.contacts.age_ms(1, situation.now_ms) == 0


@pytest.mark.parametrize("key", sorted(FORWARDABLE - {DESCRIBE_QUORUM}), ids=api_name)
def test_every_request_of_a_client_gets_an_answer_of_its_own_kind(key: int) -> None:
    """What is not built says so inside its own answer, so that no broker loses the request from its list."""
    api = API_KEYS[key]
    request = with_content(api.request, api.declared.highest)
    decision = decide(a_situation(an_image()), request, api.declared.highest, writes_allowed=True)
    assert type(decision.reply) is api.response
    assert decode(api.response, api.declared.highest, encode(decision.reply, api.declared.highest)) is not None


def test_names_of_requests_are_known_and_foreign_ones_are_numbered() -> None:
    assert (api_name(19), api_name(999)) == ("CreateTopics", "request 999")


# --- Envelope ---------------------------------------------------------------------------------------------

PRINCIPAL = encode_principal(DefaultPrincipalData("User", "alice", False))
CREATE = CreateTopicsRequest((CreatableTopic("orders", 1, 1),))


def an_envelope(request: Message = CREATE, version: int = 7, **changes: Any) -> EnvelopeRequest:
    frame = encode_request(request, version, correlation_id=77, client_id="a client")
    fields = {"request_data": frame[4:], "request_principal": PRINCIPAL, "client_host_address": b"\x7f\x00\x00\x01"}
    return EnvelopeRequest(**{**fields, **changes})


@pytest.mark.parametrize("address", [bytes(4), bytes(16)])
def test_an_envelope_gives_the_request_that_the_client_sent(address: bytes) -> None:
    opened = open_envelope(an_envelope(client_host_address=address))
    assert (opened.version, opened.correlation_id, opened.request) == (7, 77, CREATE)
    assert opened.asker.principal == "User:alice"


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (bytes([127, 0, 0, 1]), "127.0.0.1"),
        (bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7]), "10.0.0.7"),
        (bytes(15) + b"\x01", "0:0:0:0:0:0:0:1"),
        (b"\xfe\x80" + bytes(13) + b"\x0a", "fe80:0:0:0:0:0:0:a"),
    ],
)
def test_hosts_are_written_as_acls_name_them(address: bytes, host: str) -> None:
    assert open_envelope(an_envelope(client_host_address=address)).asker.host == host


def test_an_envelope_is_checked_in_the_order_of_stock() -> None:
    """Everything is wrong; each fault mended brings the next one to light."""

    def refused(**changes: Any) -> Error:
        with pytest.raises(EnvelopeRefused) as caught:
            open_envelope(an_envelope(**changes))
        assert caught.value.response().error_code == caught.value.error
        assert caught.value.response().response_data is None
        return caught.value.error

    whole = an_envelope().request_data
    not_forwardable = encode_request(ApiVersionsRequest(), 3, correlation_id=1, client_id="c")[4:]
    wrong = {"client_host_address": b"\x7f", "request_data": b"\x00"}
    assert refused(request_principal=None, **wrong) is Error.PRINCIPAL_DESERIALIZATION_FAILURE
    assert refused(request_principal=b"\x00\x07alice", **wrong) is Error.PRINCIPAL_DESERIALIZATION_FAILURE
    assert refused(**wrong) is Error.INVALID_REQUEST
    assert refused(request_data=b"\x00") is Error.UNSUPPORTED_VERSION
    assert refused(request_data=b"\x03\xe7" + whole[2:]) is Error.UNSUPPORTED_VERSION  # no such request
    assert refused(request_data=whole[:2] + b"\x00\x63" + whole[4:]) is Error.UNSUPPORTED_VERSION  # no such version
    assert refused(request_data=not_forwardable) is Error.INVALID_REQUEST
    assert refused(request_data=whole[:-1]) is Error.UNSUPPORTED_VERSION  # cut short


def test_the_answer_for_the_client_is_encrypted_as_the_client_will_read_it() -> None:
    reply = refuse(CREATE, Error.INVALID_REQUEST, "why")
    fingerprinted = wrap_envelope(reply, 7, 77)
    assert fingerprinted.error_code == Error.NONE
    assert fingerprinted.response_data is not None
    assert decode_response(CreateTopicsResponse, 7, fingerprinted.response_data) == (77, reply)


@pytest.mark.parametrize("request_", [CREATE, DeleteTopicsRequest(topic_names=("orders",))])
def test_a_client_never_hears_that_a_controller_is_not_the_controller(request_: Message) -> None:
    """The broker does, and asks again."""
    version = 5 if isinstance(request_, DeleteTopicsRequest) else declaration_of(request_).highest
    fingerprinted = wrap_envelope(refuse(request_, Error.NOT_CONTROLLER), version, 77)
    assert (fingerprinted.error_code, fingerprinted.response_data) == (Error.NOT_CONTROLLER, None)
