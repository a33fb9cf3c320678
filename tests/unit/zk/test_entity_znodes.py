"""Users, clients and addresses: names, quotas and credentials go into znodes and come back, and nothing else does."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.model.values import QuotaEntity, ScramCredential, ScramMechanism
from migrator.zk.entity_znodes import (
    desanitise,
    double_text,
    entity_data,
    entity_of,
    entity_path,
    limit_text,
    parse_entity,
    parse_scram,
    sanitise,
    scram_text,
    user_path,
)
from migrator.zk.znodes import config_data
from tests.support.arbitrary_images import quotas, scram_credentials

USER = QuotaEntity((("user", "alice"),))
PATH = "/config/users/alice"
SECRET = "c2VjcmV0"


def reason_of(path: str, entity: QuotaEntity, data: bytes) -> str:
    with pytest.raises(FindingError) as raised:
        parse_entity(path, entity, data)
    assert raised.value.code == "Z2K-1001"
    assert raised.value.occurrence.values["path"] == path
    return str(raised.value)


@given(st.text(min_size=1))
def test_a_name_is_written_as_java_encodes_forms_and_read_again(name: str) -> None:
    """The slow twin: form encoding with Kafka's two corrections, and the one sign where Python differs from Java."""
    try:
        encoded = quote_plus(name, safe="*").replace("~", "%7E").replace("*", "%2A").replace("+", "%20")
    except UnicodeEncodeError:
        return  # half of a sign: Java would write a question mark
    assert sanitise(name) == encoded
    assert desanitise("/p", encoded) == name


@pytest.mark.parametrize("text", ["a+b", "a%2a", "a%2", "%FF", "a b", "", "<default>", "%61", "ü"])
def test_a_name_that_kafka_would_write_otherwise_is_refused(text: str) -> None:
    with pytest.raises(FindingError) as raised:
        desanitise("/config/users/x", text)
    assert raised.value.code == "Z2K-1001"


@given(quotas())
def test_every_entity_has_its_place_and_its_quotas_come_back(drawn: tuple[QuotaEntity, dict[str, float]]) -> None:
    entity, limits = drawn
    path = entity_path(entity)
    assert path is not None
    assert entity_of(path) == entity
    assert parse_entity(path, entity, entity_data(limits, {})) == (limits, {})


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ((("user", "a@b"), ("client-id", None)), "/config/users/a%40b/clients/<default>"),
        ((("user", None),), "/config/users/<default>"),
        ((("user", "<default>"),), "/config/users/%3Cdefault%3E"),
        ((("client-id", "x y"),), "/config/clients/x%20y"),
        ((("ip", "::1"),), "/config/ips/%3A%3A1"),
        ((("client-id", "x"), ("ip", "y")), None),
        ((("group", "x"),), None),
    ],
)
def test_where_kafka_keeps_an_entity(entity: tuple[tuple[str, str | None], ...], path: str | None) -> None:
    assert entity_path(QuotaEntity(entity)) == path
    assert user_path("<default>") == "/config/users/%3Cdefault%3E"


@given(scram_credentials, scram_credentials)
def test_credentials_and_quotas_share_a_znode(one: ScramCredential, other: ScramCredential) -> None:
    kept = {ScramMechanism.SHA_256: one, ScramMechanism.SHA_512: other}
    data = entity_data({"request_percentage": 12.5}, kept)
    assert parse_entity(PATH, USER, data) == ({"request_percentage": 12.5}, kept)


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        (USER, {"other_rate": "1"}),
        (USER, {"connection_creation_rate": "1"}),
        (QuotaEntity((("ip", "::1"),)), {"producer_byte_rate": "1"}),
        (USER, {"producer_byte_rate": "many"}),
        (USER, {"producer_byte_rate": "1.5"}),
        (USER, {"producer_byte_rate": ""}),
        (USER, {"producer_byte_rate": "1E3"}),
        (USER, {"producer_byte_rate": "1000.0"}),
        (USER, {"producer_byte_rate": str(2**63)}),
        (USER, {"request_percentage": "\u0661\u0660"}),
        (QuotaEntity((("ip", "::1"),)), {"connection_creation_rate": str(2**31)}),
        (USER, {"request_percentage": "NaN"}),
        (USER, {"request_percentage": "1e999"}),
        (USER, {"SCRAM-SHA-256": SECRET}),
        (USER, {"SCRAM-SHA-256": f"salt={SECRET},stored_key={SECRET},server_key={SECRET}"}),
        (USER, {"SCRAM-SHA-256": f"salt={SECRET},stored_key={SECRET},server_key={SECRET}!,iterations=1"}),
        (USER, {"SCRAM-SHA-256": f"salt={SECRET},stored_key={SECRET},server_key={SECRET},iterations=x"}),
        (USER, {"SCRAM-SHA-256": f"salt={SECRET},stored_key={SECRET},server_key={SECRET},iterations=1,x=y"}),
        (QuotaEntity((("user", None),)), {"SCRAM-SHA-256": scram_text(ScramCredential(b"a", b"b", b"c", 1))}),
        (QuotaEntity((("client-id", "x"),)), {"SCRAM-SHA-256": scram_text(ScramCredential(b"a", b"b", b"c", 1))}),
    ],
    ids=str,
)
def test_what_kafka_does_not_write_is_named_without_a_secret(entity: QuotaEntity, values: dict[str, str]) -> None:
    assert SECRET not in reason_of(PATH, entity, config_data(values))


def test_an_entity_without_data_has_nothing() -> None:
    """A user of whom only a client has a quota has a znode without data."""
    for data in (None, b"", b'{"version":1,"config":{}}'):
        assert parse_entity(PATH, USER, data) == ({}, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (10.0, "10.0"), (0.001, "0.001"), (0.0001, "1.0E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"), (1.5, "1.5"), (100.25, "100.25"), (-2.5, "-2.5"), (1e300, "1.0E300"),
    ],
)  # fmt: skip
def test_a_double_is_written_as_java_prints_it(value: float, text: str) -> None:
    assert double_text(value) == text
    assert limit_text("request_percentage", value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_is_the_same_double(value: float) -> None:
    assert float(double_text(value)) == value


def test_rates_are_whole_numbers_as_large_as_kafkas_types() -> None:
    assert limit_text("producer_byte_rate", 1024.0) == "1024"
    assert limit_text("producer_byte_rate", float(2**63)) == str(2**63 - 1)
    assert limit_text("connection_creation_rate", 5.0) == "5"
    assert parse_entity(PATH, USER, config_data({"producer_byte_rate": str(2**63 - 1)}))[0] == {
        "producer_byte_rate": float(2**63)
    }


def test_a_credential_is_read_in_any_order() -> None:
    kept = parse_scram(PATH, "SCRAM-SHA-256", "iterations=4096,server_key=Yw==,salt=YQ==,stored_key=Yg==")
    assert kept == ScramCredential(b"a", b"b", b"c", 4096)
    assert scram_text(kept) == "salt=YQ==,stored_key=Yg==,server_key=Yw==,iterations=4096"
