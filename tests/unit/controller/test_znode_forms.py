"""What ZooKeeper cannot hold is refused at request time: whatever is accepted has a legal path and finite JSON."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.protocol.paths import _prefix_root
from msgspec.structs import replace as changed

from migrator.controller.authorizer import Asker, AuthorizerRules, TokenRules
from migrator.controller.decision import Situation
from migrator.controller.quotas import OF_IPS, OF_USERS_AND_CLIENTS
from migrator.controller.requests import decide
from migrator.driver.mirror import Shape, plan
from migrator.findings.zookeeper import ODD_HOST
from migrator.model.names import host_problem, is_znode_name
from migrator.model.values import MigrationState
from migrator.wire.codec import UnencodableError
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import BrokerRegistrationRequest, RegistrationFeature, RegistrationListener
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterConfigsResource,
    ClientQuotaOp,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.security import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreatableRenewers,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    ScramCredentialUpsertion,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from migrator.zk.acl_znodes import parse_acls, parse_token
from migrator.zk.entity_znodes import entity_of, parse_entity
from migrator.zk.multi import Create, SetData
from tests.support.builders import a_claim, a_topic, an_id, an_image
from tests.support.situations import CLUSTER, a_situation, replayed

ALICE = Asker("User:alice", "10.0.0.1")
TOKENS = TokenRules("a key", max_lifetime_ms=10_000, renew_lifetime_ms=1_000)


def a_cluster(migration: MigrationState = MigrationState.MIGRATION) -> Situation:
    image = an_image(a_topic("orders"), migration=migration)
    situation = a_situation(image, authorizer=AuthorizerRules(frozenset({"User:alice"})), tokens=TOKENS)
    return replace(situation, asker=ALICE, wall_ms=1_700_000_000_000)


def quotas(names: dict[str, str | None], key: str = "request_percentage", value: float = 1.0) -> Message:
    entity = tuple(ClientQuotaEntity(type_, name) for type_, name in names.items())
    return AlterClientQuotasRequest((AlterClientQuotasEntry(entity, (ClientQuotaOp(key, value, False),)),))


def scram(user: str) -> Message:
    return AlterUserScramCredentialsRequest((), (ScramCredentialUpsertion(user, 1, 4096, b"salt", b"x" * 32),))


def acl(name: str, principal: str = "User:bob", host: str = "*") -> Message:
    return CreateAclsRequest((AclCreation(2, name, 3, principal, host, 3, 3),))


def token(owner_type: str, owner: str, renewer: str = "bob") -> Message:
    return CreateDelegationTokenRequest(owner_type, owner, (CreatableRenewers("User", renewer),))


def topic(name: str, **configs: str) -> Message:
    values = tuple(CreatableTopicConfig(key, value) for key, value in configs.items())
    return CreateTopicsRequest((CreatableTopic(name, 1, 1, (), values),))


def config(type_: int, resource: str, key: str, value: str) -> Message:
    change = IncrementalAlterableConfig(key, 0, value)
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(type_, resource, (change,)),))


def old_config(type_: int, resource: str, key: str, value: str) -> Message:
    return AlterConfigsRequest((AlterConfigsResource(type_, resource, (AlterableConfig(key, value),)),))


def registration(*hosts: str) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=9,
        cluster_id=CLUSTER,
        incarnation_id=an_id("run-9"),
        listeners=tuple(RegistrationListener(f"L{at}", host, 9092, 0) for at, host in enumerate(hosts)),
        features=(RegistrationFeature("metadata.version", 21, 21),),
        log_dirs=(an_id("dir-9"),),
    )


def answered(situation: Situation, request: Message) -> tuple[Sequence[tuple[Message, int]], set[int]]:
    """The records, and every error code of the answer."""
    decision = decide(situation, request, 3, writes_allowed=True)
    parts = [decision.reply]
    for name in ("topics", "responses", "results", "entries"):
        parts += getattr(decision.reply, name, ())
    return decision.records, {each.error_code for each in parts if hasattr(each, "error_code")}


# --- the table --------------------------------------------------------------------------------------------

REFUSED = [
    *((quotas({type_: name}), Error.INVALID_REQUEST) for type_ in ("user", "client-id") for name in (".", "..")),
    (quotas({"user": "alice", "client-id": ".."}), Error.INVALID_REQUEST),
    (quotas({"user": ".", "client-id": None}), Error.INVALID_REQUEST),
    *(
        (quotas({"user": "alice"}, key, value), Error.INVALID_REQUEST)
        for key in ("request_percentage", "controller_mutation_rate", "producer_byte_rate", "consumer_byte_rate")
        for value in (math.inf, -math.inf, math.nan, 0.0, -0.0, -1.0)
    ),
    (quotas({"user": "alice"}, "producer_byte_rate", 1000.0000001), Error.INVALID_REQUEST),
    (quotas({"ip": "10.0.0.1"}, "connection_creation_rate", math.inf), Error.INVALID_REQUEST),
    (scram("."), Error.UNACCEPTABLE_CREDENTIAL),
    (scram(".."), Error.UNACCEPTABLE_CREDENTIAL),
    *(
        (acl(name), Error.INVALID_REQUEST)
        for name in (".", "..", "a/b", "/", "a\0b", "\x7f", "\x9f", "\uffff", "\ufffd", "\ue000", "a \U0001f600")
    ),
    (token("", "carol"), Error.INVALID_PRINCIPAL_TYPE),
    *((topic(name), Error.INVALID_TOPIC_EXCEPTION) for name in (".", "..", "", "a/b", "ö", "a\0", "a" * 250)),
    (config(4, "../1", "log.cleaner.threads", "1"), Error.INVALID_REQUEST),
    (old_config(4, ".", "log.cleaner.threads", "1"), Error.INVALID_REQUEST),
    (config(4, "\u0661", "log.cleaner.threads", "1"), Error.INVALID_REQUEST),
]

ODD_HOSTS = ["kafka-0..svc", ".svc", "a" * 64 + ".svc", "ö" * 60, "", "a b", "a\0b", "a\nb", "\u00a0", "a." * 200 + "b"]
HOSTS = ["kafka_0", "kafka-0.svc.", "10.0.0.1", "::1", "fe80::1%eth0", "0:0:0:0:0:0:0:1", "bücher.example", "a" * 63]


@pytest.mark.parametrize(("request_", "error"), REFUSED)
def test_what_zookeeper_cannot_hold_is_refused(request_: Message, error: Error) -> None:
    records, errors = answered(a_cluster(), request_)
    assert error in errors
    assert not records


@pytest.mark.parametrize("request_", [quotas({"user": "."}), quotas({"user": "a"}, value=math.inf), scram("..")])
def test_a_cluster_without_zookeeper_takes_what_stock_takes(request_: Message) -> None:
    records, errors = answered(a_cluster(MigrationState.NONE), request_)
    assert errors == {Error.NONE}
    assert records


def test_quotas_of_a_name_that_has_no_znode_can_still_be_removed() -> None:
    situation = a_cluster(MigrationState.NONE)
    records, _ = answered(situation, quotas({"user": ".."}))
    image = changed(replayed(situation.image, records).after, migration=MigrationState.MIGRATION)
    entry = AlterClientQuotasEntry(
        (ClientQuotaEntity("user", ".."),), (ClientQuotaOp("request_percentage", 0.0, True),)
    )
    records, errors = answered(replace(situation, image=image), AlterClientQuotasRequest((entry,)))
    assert errors == {Error.NONE}
    delta = replayed(image, records)
    assert not delta.after.quotas
    assert not plan(delta, a_claim(), delta.after.position, Shape()).multis, "it never was in ZooKeeper"


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_a_host_that_is_no_name_is_not_registered_and_said_by_name(host: str) -> None:
    situation = a_cluster()
    records, errors = answered(situation, registration("kafka-0", host))
    assert (errors, list(records)) == ({Error.INVALID_REGISTRATION}, [])
    found = situation.contacts.odd_hosts[9]
    assert (found.code, found.values["listener"]) == (ODD_HOST.code, "L1")
    assert answered(situation, registration("kafka-0"))[1] == {Error.NONE}
    assert not situation.contacts.odd_hosts, "the corrected broker is not named any more"


@pytest.mark.parametrize("host", HOSTS)
def test_hosts_that_a_name_server_may_know_are_registered(host: str) -> None:
    assert answered(a_cluster(), registration(host))[1] == {Error.NONE}


# --- whatever is accepted ---------------------------------------------------------------------------------

ODD_NAMES = (
    *(".", "..", "", "/", "a/b", "a/../b", "\0", "\x7f", "\ufffd", "\ue000", "\U0001f600", "<default>", "clients", "*"),
    *("orders", "1", "01", "kafka-cluster", "a" * 300, "%2E", "%", "a b", '"', "\\", "\u2028"),
)
hostile = st.one_of(st.sampled_from(ODD_NAMES), st.text(max_size=12))
numbers = st.one_of(
    st.sampled_from([math.inf, -math.inf, math.nan, 5e-324, 1e-7, 2.0**63, 2.0**31, 2.0**31 - 1, 1e308, 0.1, 1.5]),
    st.floats(width=64),
)
quota_keys = st.sampled_from(tuple(OF_USERS_AND_CLIENTS | OF_IPS))
topic_keys = st.sampled_from(["retention.ms", "cleanup.policy", "leader.replication.throttled.replicas"])
requests: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        quotas,
        st.dictionaries(st.sampled_from(["user", "client-id", "ip"]), st.none() | hostile, min_size=1, max_size=2),
        quota_keys,
        numbers,
    ),
    st.builds(scram, hostile),
    st.builds(acl, hostile, st.builds("{}:{}".format, hostile, hostile), hostile),
    st.builds(token, hostile, hostile, hostile),
    st.builds(topic, hostile),
    st.builds(config, st.sampled_from([2, 4]), hostile, topic_keys | hostile, hostile),
    st.builds(old_config, st.sampled_from([2, 4]), hostile, topic_keys | hostile, hostile),
)


def assert_java_takes(path: str) -> None:
    """ZooKeeper's own rule, word for word (`PathUtils.validatePath`), over the UTF-16 units that Java sees."""
    raw = path.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    assert units[0] == ord("/"), path
    assert units[-1] != ord("/"), path
    for unit in units:
        assert unit != 0, path
        assert not 0 < unit <= 0x1F, path
        assert not 0x7F <= unit <= 0x9F, path
        assert not 0xD800 <= unit <= 0xF8FF, path
        assert not 0xFFF0 <= unit <= 0xFFFF, path
    assert not {"", ".", ".."}.intersection(path.split("/")[1:]), path


def refuse_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def read_again(path: str, data: bytes) -> None:
    """By the reader that a SYNCING or a rollback uses: it raises for what it cannot read."""
    if path.startswith(("/config/users/", "/config/clients/", "/config/ips/")) and data:
        parse_entity(path, entity_of(path), data)
    elif path.startswith("/kafka-acl/"):
        parse_acls(path, data)
    elif path.startswith("/delegation_token/tokens/"):
        parse_token(path, data)


@settings(max_examples=600, deadline=None)
@given(request_=requests)
def test_whatever_is_accepted_has_a_legal_path_and_finite_json(request_: Message) -> None:
    situation = a_cluster()
    records, _ = answered(situation, request_)
    try:
        for record, version in records:
            encode_record(record, version)
    except UnencodableError:
        return  # answered with UNKNOWN_SERVER_ERROR, as stock does
    delta = replayed(situation.image, records)
    planned = plan(delta, a_claim(), delta.after.position, Shape())
    assert not records or planned.writes, "accepted, and without a form in ZooKeeper"
    for operation in (each for multi in planned.multis for each in multi.operations):
        assert _prefix_root("/chroot", operation.path) == f"/chroot{operation.path}"
        assert_java_takes(operation.path)
        if isinstance(operation, Create | SetData) and (operation.data or b"").startswith(b"{"):
            assert operation.data is not None
            json.loads(operation.data, parse_constant=refuse_constant)
            read_again(operation.path, operation.data)


@settings(max_examples=400, deadline=None)
@given(host=st.one_of(st.sampled_from(ODD_HOSTS + HOSTS), st.text(max_size=80), st.from_regex(r"[a-z.ö]{1,80}")))
def test_a_host_that_is_accepted_only_fails_as_connections_fail(host: str) -> None:
    if host_problem(host) is None:
        with suppress(OSError):
            socket.getaddrinfo(host, 9092, flags=socket.AI_NUMERICHOST)


@given(name=st.text(max_size=5))
def test_a_name_is_a_znodes_exactly_when_zookeeper_takes_its_path(name: str) -> None:
    try:
        assert "/" not in name
        assert_java_takes(f"/acl/{name}")
    except AssertionError:
        assert not is_znode_name(name)
    else:
        assert is_znode_name(name)
