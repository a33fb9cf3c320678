"""Texts of Kafka's password encoder: read with the right secret, refused with every other, told without a value.

`kafka_passwords.json` was written by Kafka 3.9.2's own class (tests/support/PasswordCoder.java); the laboratory asks it
again, in both directions (tests/e2e/test_password_vectors.py).
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.zk import paths
from migrator.zk.ciphers import Damaged, UnknownAlgorithm
from migrator.zk.passwords import (
    EncoderSettings,
    clear_config,
    encoded_config,
    reasons_to_wait,
    why_not_kept,
    why_not_usable,
)
from migrator.zk.znodes import config_data, parse_config
from tests.support.passwords import CLEAR, KEY, SECRET, an_encoder, encoded

VECTORS = json.loads(Path(__file__).with_name("kafka_passwords.json").read_text())
PATH = paths.broker_config("1")
OF_DESEDE = encoded(cipher="DESede/CBC/PKCS5Padding", key_length=192)
CIPHERS = [
    ("AES/CBC/PKCS5Padding", 256),
    ("AES/GCM/NoPadding", 128),
    ("AES/CFB/PKCS5Padding", 128),
    ("AES/OFB/NoPadding", 192),
    ("AES/CTR/NoPadding", 128),
    ("DESede/CBC/PKCS5Padding", 192),
    ("DES/CBC/ISO10126Padding", 64),
]


def with_part(text: str, name: str, value: str | None) -> str:
    """The text with one part changed, or without it."""
    pairs = [pair for pair in text.split(",") if not pair.startswith(f"{name}:")]
    return ",".join([*pairs, *([] if value is None else [f"{name}:{value}"])])


@pytest.mark.parametrize("vector", VECTORS["texts"], ids=lambda vector: f"{vector['cipher']} {vector['factory']}")
def test_what_kafka_wrote_is_read(vector: dict[str, Any]) -> None:
    encoder = an_encoder(VECTORS["secret"])
    assert encoder.decode(vector["text"]).clear == vector["clear"]


@settings(max_examples=25, deadline=None)
@given(st.text(), st.sampled_from(CIPHERS), st.integers())
def test_every_value_comes_back_from_its_text(clear: str, cipher: tuple[str, int], seed: int) -> None:
    encoder = an_encoder(seed=seed, cipher=cipher[0], key_length=cipher[1])
    text = encoder.encode(clear)
    if "CTR" in cipher[0] or "NoPadding" in cipher[0].replace("GCM/NoPadding", ""):
        clear = "".join(sign for sign in clear if ord(sign) >= 32 or sign in "\t\r\n")
        text = encoder.encode(clear)
    assert an_encoder(cipher="AES/CBC/PKCS5Padding").decode(text).clear == clear  # the text says how it was written


def test_two_texts_of_one_value_differ() -> None:
    encoder = an_encoder()
    assert encoder.encode(CLEAR) != encoder.encode(CLEAR)


@pytest.mark.parametrize("cipher", [cipher for cipher, _ in CIPHERS if "CTR" not in cipher and "OFB" not in cipher])
def test_a_wrong_secret_never_gives_a_value(cipher: str) -> None:
    bits = dict(CIPHERS)[cipher]
    text = encoded(cipher=cipher, key_length=bits)
    for number in range(20):
        with pytest.raises(Damaged, match="under another secret") as raised:
            an_encoder(f"wrong {number}").decode(text)
        assert CLEAR not in str(raised.value)


def test_a_cipher_that_cannot_tell_a_wrong_key_gives_no_value_with_control_signs() -> None:
    text = encoded("a longer value, as of a key store", cipher="AES/CTR/NoPadding")
    for number in range(20):
        with pytest.raises(Damaged):
            an_encoder(f"wrong {number}").decode(text)


def test_a_text_of_the_old_secret_is_read_and_said_to_be_one() -> None:
    text = encoded(secret="the old secret")
    decoded = an_encoder(old_secret="the old secret").decode(text)
    assert (decoded.clear, decoded.by_old_secret) == (CLEAR, True)
    assert not an_encoder(old_secret="the old secret").decode(encoded()).by_old_secret


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("keyLength", "many", "keyLength is not a number"),
        ("keyLength", "136", "no keys of 136 bits"),
        ("keyLength", "0", "no bytes"),
        ("iterations", str(2**31 - 1), "iterations is not a number up to"),
        ("iterations", "0", "no bytes"),
        ("salt", "***", "salt is not base64"),
        ("salt", None, "no salt"),
        ("encryptedPassword", None, "no encryptedPassword"),
        ("encryptedPassword", base64.b64encode(b"x" * 15).decode(), "whole blocks"),
        ("encryptedPassword", "", "under another secret"),
        ("initializationVector", "", "one block long"),
        ("initializationVector", None, "no initializationVector"),
        ("passwordLength", "6", "under another secret"),
        ("cipherAlgorithm", None, "no cipherAlgorithm"),
        ("cipherAlgorithm", "what's this?", "no name of an algorithm"),
    ],
)
def test_a_damaged_text_is_told_without_its_parts(name: str, value: str | None, says: str) -> None:
    with pytest.raises(Damaged, match=says):
        an_encoder().decode(with_part(encoded(), name, value))


@pytest.mark.parametrize("text", ["", CLEAR, "a:b", "listener,of:something", ":", ",,,", "keyLength:128,..."])
def test_what_is_no_text_of_an_encoder_is_not_taken_for_a_password(text: str) -> None:
    with pytest.raises(Damaged, match="not a text of Kafka's password encoder") as raised:
        an_encoder().decode(text)
    assert CLEAR not in str(raised.value)


@pytest.mark.parametrize("size", [0, 11, 13])
def test_a_tag_or_vector_that_no_gcm_has_is_damage(size: int) -> None:
    text = encoded(cipher="AES/GCM/NoPadding")
    with pytest.raises(Damaged, match="AES/GCM"):
        an_encoder().decode(with_part(text, "authenticationTagLength", str(size)))
    cut = with_part(text, "encryptedPassword", base64.b64encode(bytes(size)).decode())
    with pytest.raises(Damaged):
        an_encoder().decode(cut)


@pytest.mark.parametrize(
    "cipher",
    ["AES", "AES/ECB/PKCS5Padding", "AES/GCM/PKCS5Padding", "AES/CTR/PKCS5Padding", "AES/CFB16/NoPadding", "RC4/CBC/x",
     "DES/GCM/NoPadding", "AES/CBC/PKCS5Padding/more", "ChaCha20-Poly1305", "", "AES//"],
)  # fmt: skip
def test_a_cipher_that_is_not_known_is_told_by_its_name(cipher: str) -> None:
    assert (why_not_usable(EncoderSettings(SECRET, cipher=cipher)) or ("",))[0] == "password.encoder.cipher.algorithm"
    if cipher:
        with pytest.raises(UnknownAlgorithm, match=cipher):
            an_encoder().decode(with_part(encoded(), "cipherAlgorithm", cipher))


@pytest.mark.parametrize(
    ("given_", "key"),
    [
        ({"cipher": "AES/CBC/NoPadding"}, "password.encoder.cipher.algorithm"),
        ({"key_factory": "PBEWithMD5AndDES"}, "password.encoder.keyfactory.algorithm"),
        ({"key_factory": "PBKDF2WithHmacMD5"}, "password.encoder.keyfactory.algorithm"),
        ({"key_length": 100}, "password.encoder.key.length"),
        ({"cipher": "DESede/CBC/PKCS5Padding"}, "password.encoder.key.length"),
        ({"cipher": "DESede/CTR/NoPadding", "key_length": 192}, "password.encoder.cipher.algorithm"),
    ],
)
def test_settings_with_which_nothing_could_be_written_are_refused_by_their_key(
    given_: dict[str, Any], key: str
) -> None:
    assert (why_not_usable(EncoderSettings(SECRET, **given_)) or ("",))[0] == key


# --- configurations ---------------------------------------------------------------------------------------


def test_a_configuration_goes_into_zookeeper_encrypted_and_comes_back() -> None:
    values = {KEY: CLEAR, "log.cleaner.threads": "2"}
    kept = encoded_config(PATH, values, an_encoder())
    assert kept["log.cleaner.threads"] == "2"
    assert CLEAR not in str(kept)
    assert clear_config(PATH, kept, an_encoder()) == (values, [])


def test_a_password_that_stays_is_not_encoded_again_and_two_places_never_share_a_text() -> None:
    encoder = an_encoder()
    first = encoded_config(PATH, {KEY: CLEAR, "log.cleaner.threads": "1"}, encoder)
    again = encoded_config(PATH, {KEY: CLEAR, "log.cleaner.threads": "2"}, encoder)
    assert again[KEY] == first[KEY]
    assert encoded_config(PATH, {KEY: "another"}, encoder)[KEY] != first[KEY]
    elsewhere = encoded_config(paths.broker_config("2"), {KEY: CLEAR}, encoder)
    assert elsewhere[KEY] != first[KEY], "who reads ZooKeeper must not see which passwords are the same"


@pytest.mark.parametrize(
    ("clear", "cipher", "code"),
    [
        (CLEAR, "AES/CBC/PKCS5Padding", None),
        ("line\none", "AES/CTR/NoPadding", None),
        ("bell\x07", "AES/CTR/NoPadding", "Z2K-1070"),  # a cipher that does not tell a wrong secret, and no clean text
        ("x" * 32_768, "AES/CBC/PKCS5Padding", "Z2K-1070"),
    ],
)
def test_a_password_whose_text_would_not_give_it_back_is_found_before_it_is_written(
    clear: str, cipher: str, code: str | None
) -> None:
    found = why_not_kept(PATH, {KEY: clear}, an_encoder(cipher=cipher))
    assert (found and found.code) == code
    assert found is None or clear not in found.text


@pytest.mark.parametrize(
    ("text", "encoder", "code"),
    [
        (encoded(), None, "Z2K-1010"),
        (encoded(), an_encoder("another"), "Z2K-1070"),
        (CLEAR, an_encoder(), "Z2K-1070"),
        (encoded("x" * 32_768), an_encoder(), "Z2K-1070"),
        (with_part(encoded(), "cipherAlgorithm", "Twofish/CBC/PKCS5Padding"), an_encoder(), "Z2K-1071"),
        (
            with_part(
                encoded(cipher="DESede/CBC/PKCS5Padding", key_length=192), "cipherAlgorithm", "DESede/CTR/NoPadding"
            ),
            an_encoder(),
            "Z2K-1071",
        ),
        (with_part(encoded(), "keyFactoryAlgorithm", "PBKDF2WithHmacSM3"), an_encoder(), "Z2K-1071"),
    ],
)
def test_a_password_that_cannot_be_decoded_is_told_by_znode_and_key(text: str, encoder: Any, code: str) -> None:
    clear, (found,) = clear_config(PATH, {KEY: text, "log.cleaner.threads": "2"}, encoder)
    assert clear == {"log.cleaner.threads": "2"}
    assert (found.code, found.values["path"], found.values["key"]) == (code, PATH, KEY)
    assert CLEAR not in json.dumps(found.as_json())
    assert SECRET not in json.dumps(found.as_json())


def test_what_may_be_garbled_and_what_a_broker_could_not_read_later_is_told() -> None:
    gcm = "AES/GCM/NoPadding"
    assert reasons_to_wait(PATH, {KEY: encoded(), "a": "b"}, an_encoder()) == []
    assert reasons_to_wait(PATH, {KEY: encoded(cipher=gcm)}, an_encoder(cipher=gcm)) == []
    (found,) = reasons_to_wait(PATH, {KEY: encoded(cipher=gcm)}, an_encoder())
    assert (found.code, found.values["brokers"], found.values["controllers"]) == (
        "Z2K-1073", gcm, "AES/CBC/PKCS5Padding",
    )  # fmt: skip
    ctr = "AES/CTR/NoPadding"
    (found,) = reasons_to_wait(PATH, {KEY: encoded("x" * 23, cipher=ctr)}, an_encoder())
    assert (found.code, found.values["algorithm"]) == ("Z2K-1074", ctr)
    assert reasons_to_wait(PATH, {KEY: encoded("x" * 24, cipher=ctr)}, an_encoder()) == []
    (found,) = reasons_to_wait(PATH, {KEY: encoded(secret="old")}, an_encoder(old_secret="old"))
    assert found.code == "Z2K-1072"
    assert reasons_to_wait(PATH, {KEY: "damaged"}, an_encoder()) == []  # told elsewhere


def test_a_text_may_be_longer_than_a_record_holds_when_what_is_in_it_is_not() -> None:
    clear = "c" * 32_000
    data = config_data({KEY: encoded(clear)})
    assert clear_config(PATH, parse_config(PATH, data), an_encoder())[0] == {KEY: clear}


def test_nothing_shows_a_secret_or_a_value() -> None:
    encoder = an_encoder(old_secret="an old one")
    shown = f"{encoder!r} {encoder.settings!r} {encoder.decode(encoded())!r}"
    assert not [each for each in (SECRET, "an old one", CLEAR) if each in shown]
