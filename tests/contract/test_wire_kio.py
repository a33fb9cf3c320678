"""Our codecs against kio 0.6.2, an independent implementation made from Kafka 3.9's own schemas.

Both directions, for every request and response that we declare, in every version:

    ours to theirs   an arbitrary message of ours; kio reads our bytes, agrees field by field (by name), and writes
                     the same bytes again
    theirs to ours   an arbitrary entity of kio; we read kio's bytes, agree field by field, and write them again

Comparing names matters: two neighbours of one type could change places and the bytes would still round-trip.
kio has no metadata records; for those see tests/unit/wire/test_records.py and the tests with stock controllers.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from migrator.wire.codec import decode, encode
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from migrator.wire.messages.raft import VoteRequest, VoteResponse
from migrator.wire.messages.security import DefaultPrincipalData
from migrator.wire.schema import INT8, INT16, INT32, INT64, UINT16, Message, Part, Slot, declaration_of, slots_of
from tests.unit.wire.arbitrary_messages import (
    BYTES,
    ELEMENTS_MAX,
    TEXTS,
    arbitrary,
    arbitrary_fixed,
    every_version,
    named,
)

MESSAGES_EACH_WAY = 40

# Declared by us, and not in kio 0.6.2. What appears here as missing and is there would fail the test as well.
# Vote 2 is of Kafka 4.0: see tests/unit/wire/test_frames.py and tests/e2e/test_later_voter.py.
MISSING_IN_KIO = {(VoteRequest, 2), (VoteResponse, 2)}

INTEGERS = {"int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64, "uint16": UINT16}
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
KIO_DATA: dict[type[Message], str] = {
    LeaderChangeMessage: "leader_change_message",
    SnapshotHeaderRecord: "snapshot_header_record",
    SnapshotFooterRecord: "snapshot_footer_record",
    KRaftVersionRecord: "k_raft_version_record",
    VotersRecord: "voters_record",
    DefaultPrincipalData: "default_principal_data",
}


def kio_class(message: type[Message], version: int) -> Any:
    """kio's class for a message of ours; None where it has none."""
    declared = declaration_of(message)
    kind: Any
    if message in KIO_DATA:
        name, kind = KIO_DATA[message], EntityType.data
    else:
        assert declared.api_key is not None
        name = api_key_map.get(declared.api_key, "")
        kind = EntityType.request if declared.name.endswith("Request") else EntityType.response
    if kind not in schema_name_map.get(name, {}).get(version, {}):
        return None
    return getattr(load_entity_module(name, version, kind), declared.name)


def declared_messages() -> Iterator[type[Message]]:
    for api in API_KEYS.values():
        yield api.request
        yield api.response
    yield from KIO_DATA


PAIRS = every_version(declared_messages())
compared: dict[tuple[type[Message], int], int] = {}


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_kio_and_we_understand_each_other(pair: tuple[type[Message], int]) -> None:
    message, version = pair
    theirs = kio_class(message, version)
    if theirs is None:
        assert pair in MISSING_IN_KIO
        return
    chance = random.Random(named(pair))
    choice = Restraint(theirs)
    for _ in range(MESSAGES_EACH_WAY):
        ours_to_theirs(arbitrary(chance, message, version, choice), version, theirs)
        theirs_to_ours(any_entity(chance, theirs), message, version)
        compared[pair] = compared.get(pair, 0) + 2


def test_every_declared_message_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    if len(compared) == 0:
        pytest.skip("run together with the comparison above")
    there = [pair for pair in PAIRS if kio_class(*pair) is not None]
    assert sorted(map(named, compared)) == sorted(map(named, there))
    assert {pair for pair in PAIRS if kio_class(*pair) is None} == MISSING_IN_KIO
    assert min(compared.values()) == 2 * MESSAGES_EACH_WAY
    with capsys.disabled():
        messages = len({message for message, _version in compared})
        print(f"\nkio agrees: {messages} classes, {len(compared)} versions, {sum(compared.values())} messages")


# --- the two directions -------------------------------------------------------------------------------------


def ours_to_theirs(message: Message, version: int, theirs: Any) -> None:
    written = encode(message, version)
    entity, size = entity_reader(theirs)(written, 0)
    assert size == len(written)
    agree(message, entity, version, type(message).__name__)
    assert written_by_kio(entity) == written


def theirs_to_ours(entity: Any, message: type[Message], version: int) -> None:
    written = written_by_kio(entity)
    found = decode(message, version, written)
    agree(found, entity, version, message.__name__)
    assert encode(found, version) == written


def written_by_kio(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


# --- do they say the same? ----------------------------------------------------------------------------------


def agree(ours: Part, theirs: Any, version: int, path: str) -> None:
    """Every field by its name; kio has classes of its own for times, ids and error codes."""
    here = {slot.name for slot in slots_of(type(ours)) if slot.field.exists_in(version)}
    for field in dataclasses.fields(theirs):
        (name,) = here.intersection(our_names(field))
        here.remove(name)
        agree_on(getattr(ours, name), getattr(theirs, field.name), version, f"{path}.{name}")
    assert not here, f"{path}: kio has no {here}"


def agree_on(ours: Any, theirs: Any, version: int, path: str) -> None:
    if isinstance(ours, Part):
        agree(ours, theirs, version, path)
    elif isinstance(ours, tuple) and isinstance(theirs, tuple):
        assert len(ours) == len(theirs), path
        for index, (our_element, their_element) in enumerate(zip(ours, theirs, strict=True)):
            agree_on(our_element, their_element, version, f"{path}[{index}]")
    else:
        assert ours == as_we_say_it(theirs, ours), path


def our_names(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """kio spells KRaft its own way, avoids Python's built-in names, and drops the unit where the type says it."""
    name = field.name.replace("k_raft", "kraft").removesuffix("_")
    return (name, f"{name}_ms") if field.metadata.get("kafka_type") in TIMES else (name,)


def as_we_say_it(value: Any, ours: Any) -> Any:
    match value:
        case ErrorCode():
            return value.value
        case uuid.UUID():
            return value.bytes
        case datetime.timedelta():
            return round(value.total_seconds() * 1000)
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case None if isinstance(ours, bytes) and len(ours) == 16:
            return bytes(16)  # kio's way to say the zero id
        case None if isinstance(ours, int):
            return -1  # kio's way to say no time
        case _:
            return value


# --- arbitrary values that kio can hold ---------------------------------------------------------------------


class Restraint:
    """Keeps our arbitrary messages within kio's own classes: known error codes, times that Python can hold."""

    def __init__(self, theirs: Any) -> None:
        self._kinds = dict(kinds_of(theirs))

    def __call__(self, chance: random.Random, slot: Slot) -> Any:
        kind = self._kinds.get(slot.name, "")
        if kind in ("error_code", *TIMES):
            return as_we_say_it(any_value(chance, kind), None)
        return NotImplemented


def kinds_of(theirs: Any) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(theirs):
        yield from ((name, field.metadata.get("kafka_type", "")) for name in our_names(field))
        inner, _is_array, _nullable = opened(field.type)
        if dataclasses.is_dataclass(inner):
            yield from kinds_of(inner)


def opened(hint: Any) -> tuple[Any, bool, bool]:
    """What kio's annotation holds: the type inside, whether it is an array, whether it may be None."""
    nullable = typing.get_origin(hint) in (types.UnionType, typing.Union)
    if nullable:
        (hint,) = (option for option in typing.get_args(hint) if option is not types.NoneType)
    is_array = typing.get_origin(hint) is tuple
    return (typing.get_args(hint)[0] if is_array else hint), is_array, nullable


def any_entity(chance: random.Random, theirs: Any) -> Any:
    return theirs(**{field.name: any_field(chance, field) for field in dataclasses.fields(theirs)})


def any_field(chance: random.Random, field: dataclasses.Field[Any]) -> Any:
    inner, is_array, nullable = opened(field.type)
    if nullable and chance.random() < 0.2:
        return None
    if chance.random() < 0.15 and field.default is not dataclasses.MISSING:
        return field.default

    def one() -> Any:
        if dataclasses.is_dataclass(inner):
            return any_entity(chance, inner)
        return any_value(chance, field.metadata["kafka_type"])

    return tuple(one() for _ in range(chance.randrange(ELEMENTS_MAX))) if is_array else one()


def any_value(chance: random.Random, kind: str) -> Any:
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.uniform(-1e6, 1e6)
        case "string":
            return chance.choice(TEXTS)
        case "bytes" | "records":
            return chance.choice(BYTES)
        case "uuid":
            return uuid.UUID(bytes=chance.randbytes(15) + b"\x01")
        case "error_code":
            return chance.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=chance.randrange(2**31))
        case "datetime_i64":
            return datetime.datetime.fromtimestamp(chance.randrange(2**32), tz=datetime.UTC)
        case _:
            return arbitrary_fixed(chance, INTEGERS[kind])
