"""Kafka's own encoder decodes what ours wrote, and ours and the audit's what Kafka's wrote, with every algorithm."""

from __future__ import annotations

import os

import pytest

from migrator.audit.passwords import PasswordReader, Secrets
from migrator.lab.servers.laboratory import Laboratory
from migrator.model.values import PASSWORD_SUFFIXES, is_password
from migrator.zk.ciphers import Damaged
from migrator.zk.passwords import EncoderSettings, PasswordEncoder, why_not_usable
from tests.support.password_coder import Task, ask_kafka, keys_of_brokers

pytestmark = pytest.mark.lab

SECRET = "the brokers' secret: ä€𝄞"
LONG = "-----BEGIN-----\nAAAA\n" * 300
VALUES = ("test-password", "x", "sixteen letters!", 'umlaut ä, clef 𝄞 \\ and "quotes"', LONG)
CIPHERS = (
    *(("AES/CBC/PKCS5Padding", bits) for bits in (128, 192, 256)),
    *(("AES/GCM/NoPadding", bits) for bits in (128, 256)),
    *((f"AES/{mode}/PKCS5Padding", 128) for mode in ("CFB", "CFB8", "CFB128", "OFB", "OFB128")),
    *((f"AES/{mode}/NoPadding", 128) for mode in ("CTR", "CFB", "CFB8", "OFB")),
    ("AES/CBC/ISO10126Padding", 128),
    ("aes/cbc/pkcs5padding", 128),
    ("DES/CBC/PKCS5Padding", 64),
    ("DESede/CBC/PKCS5Padding", 192),
    ("DESede/CFB64/PKCS5Padding", 192),
    ("Blowfish/CBC/PKCS5Padding", 128),
)
FACTORIES = tuple(f"PBKDF2WithHmac{name}" for name in ("SHA1", "SHA224", "SHA256", "SHA384", "SHA512"))


def every_setting() -> list[EncoderSettings]:
    by_cipher = [EncoderSettings(SECRET, cipher=cipher, key_length=bits) for cipher, bits in CIPHERS]
    by_factory = [EncoderSettings(SECRET, key_factory=name, iterations=1_024) for name in FACTORIES]
    return [*by_cipher, *by_factory]


def test_kafka_and_ours_read_each_other_with_every_algorithm(laboratory: Laboratory) -> None:
    wanted = [(settings, value) for settings in every_setting() for value in VALUES]
    assert [why_not_usable(settings) for settings, _ in wanted] == [None] * len(wanted)
    theirs = ask_kafka(laboratory, [Task("encode", settings, value) for settings, value in wanted])
    for (settings, value), text in zip(wanted, theirs, strict=True):
        assert not text.startswith("refused"), (settings, text)
        assert PasswordEncoder(settings, os.urandom).decode(text).clear == value, settings
        assert PasswordReader(Secrets((settings.secret,))).clear("/", "a key", text) == value, settings
        wrong = PasswordEncoder(EncoderSettings("another secret"), os.urandom)
        if settings.cipher.endswith(("PKCS5Padding", "GCM/NoPadding")) and len(value) > 1:
            with pytest.raises(Damaged, match="under another secret"):
                wrong.decode(text)
    ours = [PasswordEncoder(settings, os.urandom).encode(value) for settings, value in wanted]
    read = ask_kafka(
        laboratory, [Task("decode", settings, text) for (settings, _), text in zip(wanted, ours, strict=True)]
    )
    assert read == [value for _, value in wanted]


def test_ours_knows_every_key_that_kafka_encrypts(laboratory: Laboratory) -> None:
    found = keys_of_brokers(laboratory)
    assert {name: is_password(name) for name in found} == found
    assert {name for name, encrypted in found.items() if encrypted} >= set(PASSWORD_SUFFIXES)


def test_a_broker_reads_no_gcm_unless_it_is_set_to_it_and_then_nothing_else(laboratory: Laboratory) -> None:
    """Why the gate wants both sides to have the same kind of cipher (Z2K-1073)."""
    cbc, gcm = EncoderSettings(SECRET), EncoderSettings(SECRET, cipher="AES/GCM/NoPadding")
    of_cbc, of_gcm = (PasswordEncoder(each, os.urandom).encode("a value") for each in (cbc, gcm))
    tasks = [(cbc, of_cbc), (cbc, of_gcm), (gcm, of_cbc), (gcm, of_gcm)]
    answers = ask_kafka(laboratory, [Task("decode", settings, text) for settings, text in tasks])
    assert [each if each == "a value" else each.partition(" ")[0] for each in answers] == [
        "a value", "refused", "refused", "a value",
    ]  # fmt: skip
