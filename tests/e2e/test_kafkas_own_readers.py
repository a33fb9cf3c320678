"""What Kafka's own readers refuse is read neither by an audit nor by the copy, and what they read is read as they do.

Each text of tests/support/znode_texts.py goes to Kafka 3.9's classes and to both of ours. Where ours refuse a text that
Kafka reads, `REASONS` has to say why. Nothing allows an audit to read what Kafka does not.
Elsewhere: some of these texts without Java (tests/unit/audit/test_strict_texts.py, tests/unit/zk/test_znodes.py);
passwords by every algorithm (test_password_vectors.py). Registrations of brokers are not here: they go with their
broker's session, and only their listeners are read.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from migrator.audit import normalise, security_facts
from migrator.audit.cluster import cluster_id_facts, controller_epoch_facts
from migrator.audit.passwords import PasswordReader, Secrets
from migrator.driver.tree import StateReader, TopicHead, read_head
from migrator.findings.content import MALFORMED_ZNODE
from migrator.findings.finding import FindingError
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk import acl_znodes, entity_znodes, znodes
from migrator.zk.bulk_read import Znode
from migrator.zk.ciphers import Damaged, UnknownAlgorithm
from migrator.zk.passwords import EncoderSettings, PasswordEncoder
from tests.support.znode_reader import Refused, ask_readers
from tests.support.znode_texts import LAYOUTS, as_text, texts

pytestmark = pytest.mark.lab

Read = Callable[[bytes], Any]

USER, ADDRESS, ACL = "/config/users/a", "/config/ips/10.0.0.1", "/kafka-acl/Topic/t"
TOKEN = "/delegation_token/tokens/abc"
SHOWN: Final = 20
"""Of the texts about which a test fails."""


class Answer(NamedTuple):
    kind: str
    data: bytes
    kafka: Any


@pytest.fixture(scope="module")
def answers(kafka_artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """Every text with what Kafka says of it."""
    asked = texts()
    directory: Path = tmp_path_factory.mktemp("readers")
    with Laboratory(directory / "lab", kafka_artifacts) as laboratory:
        told = ask_readers(laboratory, asked)
    return [
        Answer(kind, data, each if isinstance(each, Refused) else _as_compared(kind, each))
        for (kind, data), each in zip(asked, told, strict=True)
    ]


def _as_compared(kind: str, value: Any) -> Any:
    """A value of Kafka's, without what only Kafka says."""
    match kind:
        case "user" | "address":
            return {**value, "quotas": {key: _double(each) for key, each in value["quotas"].items()}}
        case "ACLs":
            return sorted(value)
        case "producer ids":
            return value[1:]
        case "features":
            return value[1] if value[0] else {}
        case _:
            return value


def _double(text: str) -> str:
    """Two doubles are the same if their texts are: of one that is not a number, too."""
    return repr(float(text.replace("Infinity", "inf")))


# --- the audit --------------------------------------------------------------------------------------------

PERMISSIONS = {word: code for code, word in security_facts._PERMISSIONS.items()} | {"0": 0}
OPERATIONS = {word: code for code, word in security_facts._OPERATIONS.items()} | {"0": 0}
PASSWORDS = PasswordReader(Secrets(("secret",)))


def _audited_topic(data: bytes) -> Any:
    facts, partitions = normalise.zk_topic("/brokers/topics/t", data)
    lists = {str(key): [each["replicas"], each["adding"], each["removing"]] for key, each in partitions.items()}
    return {"id": facts["id"], "partitions": lists}


def _audited_state(data: bytes) -> Any:
    facts = normalise.zk_state("/s", data, 0)
    at_once = normalise.state_at_once(data)
    epoch, _ = at_once or normalise._decoded_state(data)
    return [facts["leader"], facts["leader_epoch"], facts["isr"], facts["recovery"], epoch]


def _audited_entity(path: str) -> Read:
    def read(data: bytes) -> Any:
        found = security_facts.zk_facts(path, data)
        scram: dict[str, dict[str, Any]] = {}
        for key, part in found[security_facts.SCRAM].items():
            scram.setdefault(key.split(" ")[0], {})[key.split(" ")[1]] = part
        keys = ("salt", "stored_key", "server_key", "iterations")
        return {
            "quotas": {key: repr(float(each)) for key, each in found[security_facts.QUOTAS].items()},
            "scram": {name: [parts[key] for key in keys] for name, parts in scram.items()},
        }

    return read


def _audited_acls(data: bytes) -> Any:
    told = map(json.loads, security_facts.zk_facts(ACL, data)[security_facts.ACLS])
    return sorted([PERMISSIONS[allowed], OPERATIONS[what], who, where] for allowed, what, who, where in told)


def _audited_token(data: bytes) -> Any:
    return list(security_facts.zk_facts(TOKEN, data)[security_facts.TOKENS].values())


def _audited_block(data: bytes) -> Any:
    facts = normalise.zk_producer_ids("/latest_producer_id_block", data)
    return [facts[normalise.NEXT_ID], facts[normalise.BLOCK_SIZE]]


AUDIT: Final[dict[str, Read]] = {
    "topic": _audited_topic,
    "state": _audited_state,
    "configuration": lambda data: normalise.zk_config("/config/topics/t", data),
    "user": _audited_entity(USER),
    "address": _audited_entity(ADDRESS),
    "ACLs": _audited_acls,
    "token": _audited_token,
    "producer ids": _audited_block,
    "cluster id": lambda data: cluster_id_facts("/cluster/id", data)["id"],
    "controller epoch": lambda data: controller_epoch_facts("/controller_epoch", data)["epoch"],
    "password": lambda data: PASSWORDS.clear("/", "a key", data.decode()),
}


# --- the copy ---------------------------------------------------------------------------------------------

ENCODER = PasswordEncoder(EncoderSettings("secret"), os.urandom)


def _copied_topic(data: bytes) -> Any:
    head = read_head("t", Znode(data, 0, 1, 1, 0))
    lists = {
        str(key): [list(replicas), list(head.adding.get(key, ())), list(head.removing.get(key, ()))]
        for key, replicas in head.replicas.items()
    }
    return {"id": znodes.topic_id_text(head.topic_id), "partitions": lists}


def _copied_state(data: bytes) -> Any:
    head, problems = TopicHead("t", 1, bytes(16), {0: (1,)}, {}, {}), []  # type: ignore[var-annotated]
    found = StateReader().read(head, iter([Znode(data, 0, 1, 1, 0)]), {}, -1, problems)
    if problems:
        raise FindingError(problems[0])
    (each,) = found.topic.partitions
    epoch = znodes.parse(znodes.StateZnode, "/s", data).controller_epoch
    return [each.leader, each.leader_epoch, list(each.isr), int(each.recovery), epoch]


def _copied_entity(path: str) -> Read:
    def read(data: bytes) -> Any:
        limits, credentials = entity_znodes.parse_entity(path, entity_znodes.entity_of(path), data)
        texts_of = {
            entity_znodes.SCRAM_NAMES[name]: entity_znodes.scram_text(each) for name, each in credentials.items()
        }
        return {
            "quotas": {key: repr(each) for key, each in limits.items()},
            "scram": {name: _credential(text) for name, text in texts_of.items()},
        }

    return read


def _credential(text: str) -> list[Any]:
    *keys, iterations = (part.split("=", 1)[1] for part in text.split(","))
    return [*keys, int(iterations)]


def _copied_acls(data: bytes) -> Any:
    found = acl_znodes.parse_acls(ACL, data)
    return sorted([int(each.permission), int(each.operation), each.principal, each.host] for each in found)


def _copied_token(data: bytes) -> Any:
    found = acl_znodes.parse_token(TOKEN, data)
    times = (found.issued_ms, found.max_ms, found.expires_ms)
    return [found.id, found.owner, found.requester, sorted(found.renewers), *times]


def _copied_block(data: bytes) -> Any:
    found = znodes.parse_producer_ids("/latest_producer_id_block", data)
    assert found is not None
    return [int(found.block_end) + 1, int(found.block_end) + 1 - int(found.block_start)]


def _copied_controller(data: bytes) -> Any:
    found = znodes.parse(znodes.ControllerZnode, "/controller", data)
    return [found.brokerid, found.kraft_epoch]


def _copied_password(data: bytes) -> Any:
    try:
        return ENCODER.decode(data.decode()).clear
    except (Damaged, UnknownAlgorithm) as error:
        raise MALFORMED_ZNODE.error(path="/", reason=str(error)) from error


COPY: Final[dict[str, Read]] = {
    "topic": _copied_topic,
    "state": _copied_state,
    "configuration": lambda data: znodes.parse_config("/config/topics/t", data),
    "user": _copied_entity(USER),
    "address": _copied_entity(ADDRESS),
    "ACLs": _copied_acls,
    "token": _copied_token,
    "producer ids": _copied_block,
    "cluster id": lambda data: znodes.parse(znodes.ClusterIdZnode, "/cluster/id", data).id,
    "controller": _copied_controller,
    "controller epoch": lambda data: znodes.parse_controller_epoch("/controller_epoch", data),
    "migration": lambda data: list(msgspec.structs.astuple(znodes.parse_migration("/migration", data)))[:4],
    "features": lambda data: znodes.parse_features("/feature", data).finalized,
    "ordered moves": lambda data: [
        [each.topic, each.partition, each.replicas] for each in znodes.parse_ordered_moves("/o", data)
    ],
    "password": _copied_password,
}


# --- the comparison ---------------------------------------------------------------------------------------


def judged(answers: Iterable[Answer], readers: dict[str, Read]) -> dict[str, list[tuple[Answer, Any]]]:
    """What ours say beside Kafka: "same", "laxer", "stricter" or "another value". Whatever ends a process is raised."""
    found: dict[str, list[tuple[Answer, Any]]] = {"same": [], "laxer": [], "stricter": [], "another value": []}
    for answer in answers:
        if answer.kind not in readers:
            continue
        ours: Any
        try:
            ours = readers[answer.kind](answer.data)
        except FindingError as error:
            ours = error
        ours_refuses, kafka_refuses = isinstance(ours, FindingError), isinstance(answer.kafka, Refused)
        if ours_refuses or kafka_refuses:
            outcome = "same" if ours_refuses and kafka_refuses else "stricter" if ours_refuses else "laxer"
        else:
            outcome = "same" if ours == answer.kafka else "another value"
        found[outcome].append((answer, ours))
    return found


def shown(found: list[tuple[Answer, Any]]) -> str:
    lines = (f"{each.kind} {each.data[:300]!r}: ours {ours}, Kafka {each.kafka}" for each, ours in found[:SHOWN])
    return "\n".join([f"{len(found)} texts", *lines])


class _Twice(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise _Twice
    return dict(pairs)


def _document(data: bytes) -> Any:
    return json.loads(data.decode())


def _is_utf8(data: bytes) -> bool:
    try:
        return "\x00" not in data.decode() and not data.startswith(b"\xef\xbb\xbf")
    except UnicodeDecodeError:
        return False


def _goes_on(data: bytes) -> bool:
    text = data.decode().lstrip()
    return bool(text) and bool(text[json.JSONDecoder().raw_decode(text)[1] :].strip(" \t\r\n"))


def _has_a_key_twice(data: bytes) -> bool:
    try:
        json.loads(data.decode().strip() or "null", object_pairs_hook=_pairs)
    except _Twice:
        return True
    return False


def _has_half_a_sign(data: bytes) -> bool:
    return bool(data.strip()) and bool(re.search(r"[\ud800-\udfff]", json.dumps(_document(data), ensure_ascii=False)))


def _moves_nobody(data: bytes) -> bool:
    document = _document(data)
    moved = {key for name in ("adding_replicas", "removing_replicas") for key in document.get(name, {})}
    canonical = all(re.fullmatch(r"-?[1-9][0-9]*|0", key) for key in document["partitions"])
    return not canonical or bool(moved - document["partitions"].keys())


def _holds_nothing(data: bytes) -> bool:
    document = _document(data) if data.strip() else None
    return not isinstance(document, dict) or not isinstance(document.get("config"), dict)


EVERY: Final = tuple(AUDIT)
ENTITIES: Final = ("configuration", "user", "address")
REASONS: Final[dict[str, tuple[tuple[str, ...], Callable[[bytes], bool]]]] = {
    "bytes that are not UTF-8 alone: two programs read two texts": (EVERY, lambda data: not _is_utf8(data)),
    "nested deeper than any Kafka writes, and than our decoder goes": (
        EVERY,
        lambda data: data.count(b"[") > 490 or data.count(b"{") > 490,
    ),
    "something behind the first value, where Kafka stops reading: it was written by hand": (EVERY, _goes_on),
    "half a sign of two (\\ud800), which no record holds": (EVERY, _has_half_a_sign),
    "a key that stands twice, first with a value of another kind": (EVERY, _has_a_key_twice),
    "no object, or no configuration in it, which Kafka takes for an empty one in silence": (ENTITIES, _holds_nothing),
    "no partitions, which Kafka takes for a topic without any": (
        ("topic",),
        lambda data: "partitions" not in _document(data),
    ),
    "partition ids in a form that no Kafka writes, or moves of partitions that there are not": (
        ("topic",),
        _moves_nobody,
    ),
    "a controller epoch that no controller had": (("state",), lambda data: _document(data)["controller_epoch"] < 1),
    "a recovery state of which Kafka takes the last byte": (
        ("state",),
        lambda data: _document(data).get("leader_recovery_state") not in (0, 1),
    ),
    "escapes that no Kafka writes: Java reads U+FFFD in their place, so that two names are one": (
        ("token",),
        lambda data: bool(re.search(r"%[^0-9A-F]|%[0-9A-F][^0-9A-F]|%[89A-F]", data.decode())),
    ),
    "a form of a password that no encoder writes: signs, no padding, no or another name of the key factory": (
        ("password",),
        lambda data: True,
    ),
}
"""Why an audit does not read what Kafka reads, and of which kinds. Each names the znode, and somebody can repair it."""


def reason_of(answer: Answer) -> str | None:
    for reason, (kinds, holds) in REASONS.items():
        if answer.kind in kinds and (answer.kind == "password") == (kinds == ("password",)) and holds(answer.data):
            return reason
    return None


def test_an_audit_reads_nothing_that_kafka_refuses_and_the_rest_as_kafka_does(answers: list[Answer]) -> None:
    found = judged(answers, AUDIT)
    assert not found["laxer"], shown(found["laxer"])
    assert not found["another value"], shown(found["another value"])
    reasons = Counter(reason_of(answer) for answer, _ in found["stricter"])
    unexplained = [(answer, ours) for answer, ours in found["stricter"] if reason_of(answer) is None]
    assert not unexplained, shown(unexplained)
    assert reasons.keys() == REASONS.keys(), "a reason that no text needs"


def test_the_copy_reads_nothing_that_kafka_refuses_and_the_rest_as_kafka_does(answers: list[Answer]) -> None:
    """It may refuse more: it copies what Kafka writes, and nothing else."""
    found = judged(answers, COPY)
    laxer = [(answer, ours) for answer, ours in found["laxer"] if (answer.kind, answer.data) != ("ordered moves", b"")]
    assert not laxer, shown(laxer)  # an order that is empty is none: Kafka ignores what it cannot read there
    other = [(answer, ours) for answer, ours in found["another value"] if answer.kind != "features"]
    assert not other, shown(other)  # of a level, Kafka takes the last 16 bits; whatever it is, the feature blocks


@pytest.mark.parametrize("readers", [AUDIT, COPY], ids=["audit", "copy"])
def test_what_any_kafka_writes_is_read(answers: list[Answer], readers: dict[str, Read]) -> None:
    """Each layout of each release, but for topics that have no id yet: those the copy refuses by another finding."""
    written = {(kind, as_text(each)) for kind, layouts in LAYOUTS.items() for each in layouts}
    found = [answer for answer in answers if (answer.kind, answer.data) in written and answer.kind in readers]
    outcomes = judged(found, readers)
    refused = [each.data for each, _ in outcomes.pop("stricter")]
    assert all(b'"partitions"' in each and b"topic_id" not in each for each in refused)
    assert len(outcomes["same"]) + len(refused) == len(found) >= 10


def test_there_are_some_hundred_texts_of_each_kind(answers: list[Answer]) -> None:
    counts = Counter(each.kind for each in answers)
    few = {kind for kind, count in counts.items() if count < 300}
    assert few == {"controller epoch", "password"}, counts  # no JSON: nothing to change but its signs
    assert counts.keys() == AUDIT.keys() | COPY.keys()
    assert counts.total() > 15_000
