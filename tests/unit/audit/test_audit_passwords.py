"""The audit reads passwords by itself: a decoder that garbles them in the copy does not garble them here as well.

The vectors were written by Kafka's own class; see tests/unit/zk/test_passwords.py.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import migrator.audit
from migrator.audit.compare import ExpectedDifferences
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.kept_reading import KEPT, KeptFacts, KeptReading
from migrator.audit.normalise import BROKER_CONFIGS
from migrator.audit.passwords import PasswordReader, Secrets, clear_facts
from migrator.audit.quick import compare_sides, facts_of, facts_of_values
from migrator.audit.spark.sources import Others, _rows_of_part, zookeeper_rows
from migrator.audit.subjects import ZkRow, judge_subject
from migrator.audit.verified_cache import VerifiedCache
from migrator.driver.copy import Copy, make_copy, producer_id_margin
from migrator.findings.finding import FindingError
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.records import decode_record
from migrator.zk import ciphers, passwords
from migrator.zk.bulk_read import Znode
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.passwords import CLEAR, KEY, SECRET, an_encoder, encoded
from tests.support.seeded_tree import SeededTree, config_json
from tests.support.source_trees import tree_of
from tests.unit.audit.test_false_passes import spark_rows
from tests.unit.zk.test_passwords import CIPHERS, OF_DESEDE, VECTORS, with_part

PATH = "/config/brokers/1"
READER = PasswordReader(Secrets((SECRET,)))
RULES = ExpectedDifferences(producer_id_margin=4_000)


# --- F10: a decoder that garbles, on one side only ---------------------------------------------------------


def garbled_when_decrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    good = ciphers.CipherName.decrypt

    def bad(self: ciphers.CipherName, *parts: Any) -> bytes | None:
        clear = good(self, *parts)
        return None if clear is None else clear.swapcase()

    monkeypatch.setattr(ciphers.CipherName, "decrypt", bad)


def cut_when_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_decrypted", lambda cipher, parts, secret: "another value")


def a_key_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is encrypted goes into the log as it is."""
    monkeypatch.setattr(passwords, "is_password", lambda key: False)


@pytest.fixture(
    params=[garbled_when_decrypted, cut_when_decoded, a_key_that_nobody_knows], ids=lambda each: each.__name__
)
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[FakeEnsemble, Copy]:
    """A cluster, and the copy that a broken decoder makes of it."""
    ensemble = a_cluster()
    request.param(monkeypatch)
    return ensemble, make_copy(read_tree(ensemble.session()), passwords=an_encoder())


def a_cluster() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    SeededTree(topics=1, partitions=1, broker_configs={"1": {KEY: encoded()}}).plant(ensemble)
    return ensemble


def test_a_wrong_decoder_does_not_pass_the_quick_audit(copied: tuple[FakeEnsemble, Copy]) -> None:
    ensemble, copy = copied
    found = compare_sides(ensemble.session(), facts_of_values(copy.values()), RULES, passwords=READER)
    assert [(each.family, each.key, each.field_) for each in found.differences] == [(BROKER_CONFIGS, "1", KEY)]


def test_a_wrong_decoder_does_not_pass_the_audit_of_the_commit(copied: tuple[FakeEnsemble, Copy]) -> None:
    ensemble, copy = copied
    audited = VerifiedCache(READER).audit(ensemble.session(), copy.by_topic(), copy.rest, producer_id_margin(brokers=3))
    assert (audited.same, [each.field_ for each in audited.differences]) == (False, [KEY])


def test_a_wrong_decoder_does_not_pass_the_spark_audit(copied: tuple[FakeEnsemble, Copy]) -> None:
    """By what its tasks do: rows of both sides, sealed, and the judge of a subject."""
    ensemble, copy = copied
    fingerprints = SecretFingerprints()
    rows = _rows_of_part(Others(), ensemble.session(), UNLIMITED, READER)
    fingerprinted = [each for each in zookeeper_rows(rows, fingerprints) if each[1] == "broker/1"]
    records = map(decode_record, copy.values())
    (record,) = (each for each in records if getattr(each, "name", "") == KEY)
    in_log = {(each.family, each.key): each for each in spark_rows(record, fingerprints)}
    of_zookeeper = [ZkRow(row[4], row[5] or "", (row[6] or b"").decode(), row[2], "") for row in fingerprinted]
    (told,) = judge_subject("broker/1", of_zookeeper, in_log, RULES)
    assert (told.outcome, [each.field_ for each in told.differences]) == ("different", [KEY])


def test_what_a_rehearsal_read_is_not_noted_by_a_wrong_decoder(
    copied: tuple[FakeEnsemble, Copy], tmp_path: Path
) -> None:
    kept = KeptReading(READER)
    kept.note(PATH, Znode(config_json({KEY: encoded()}), 0, 10, 10, 0))
    (tmp_path / KEPT).write_bytes(kept.content())
    found = KeptFacts(tmp_path / KEPT)
    assert found.says(BROKER_CONFIGS, "1", found.fingerprints.facts({KEY: CLEAR}))
    in_log = facts_of(map(decode_record, copied[1].values())).configs(BROKER_CONFIGS)["1"]
    assert not found.says(BROKER_CONFIGS, "1", found.fingerprints.facts(in_log))


def test_the_audit_imports_nothing_of_the_copy_s_decoder() -> None:
    for path in Path(migrator.audit.__path__[0]).glob("*.py"):
        for node in ast.walk(tree_of(path.read_text())):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not {"migrator.zk.passwords", "migrator.zk.ciphers"} & set(found), path


# --- what it reads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["texts"], ids=lambda vector: f"{vector['cipher']} {vector['factory']}")
def test_what_kafka_wrote_is_read_by_the_audit(vector: dict[str, Any]) -> None:
    assert PasswordReader(Secrets((VECTORS["secret"],))).clear(PATH, KEY, vector["text"]) == vector["clear"]


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=["Cs"])), st.sampled_from(CIPHERS))
def test_both_decoders_read_the_same(clear: str, cipher: tuple[str, int]) -> None:
    text = an_encoder(cipher=cipher[0], key_length=cipher[1]).encode(clear)
    assert READER.clear(PATH, KEY, text) == an_encoder().decode(text).clear == clear


def test_the_old_secret_is_tried_behind_the_new_one() -> None:
    text = encoded(secret="the old secret")
    reader = PasswordReader.of(an_encoder(old_secret="the old secret").settings)
    assert reader is not None
    assert reader.clear(PATH, KEY, text) == CLEAR


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CLEAR, "Z2K-1070"),
        (encoded(secret="another"), "Z2K-1070"),
        (encoded(secret="another", cipher="AES/CTR/NoPadding"), "Z2K-1070"),
        (with_part(encoded(), "passwordLength", "6"), "Z2K-1070"),
        (with_part(encoded(), "salt", "***"), "Z2K-1070"),
        (with_part(encoded(), "keyLength", "136"), "Z2K-1070"),
        (with_part(encoded(), "keyLength", "0"), "Z2K-1070"),
        (with_part(encoded(), "iterations", "999999999"), "Z2K-1070"),
        (with_part(encoded(), "initializationVector", None), "Z2K-1070"),
        (with_part(encoded(), "initializationVector", "AAAA"), "Z2K-1070"),
        (with_part(encoded(), "encryptedPassword", "AAAA"), "Z2K-1070"),
        (with_part(encoded(), "encryptedPassword", ""), "Z2K-1070"),
        (with_part(encoded(), "cipherAlgorithm", "what is this?"), "Z2K-1070"),
        (with_part(encoded(cipher="AES/GCM/NoPadding"), "authenticationTagLength", "8"), "Z2K-1070"),
        (with_part(encoded(), "cipherAlgorithm", "AES/ECB/PKCS5Padding"), "Z2K-1071"),
        (with_part(encoded(), "cipherAlgorithm", "AES/CBC128/PKCS5Padding"), "Z2K-1071"),
        (with_part(encoded(), "cipherAlgorithm", "RC4/CBC/NoPadding"), "Z2K-1071"),
        (with_part(encoded(), "cipherAlgorithm", "AES/CBC/None"), "Z2K-1071"),
        (with_part(encoded(), "cipherAlgorithm", "AES"), "Z2K-1071"),
        (with_part(encoded(), "keyFactoryAlgorithm", "PBKDF2WithHmacMD5"), "Z2K-1071"),
        (with_part(OF_DESEDE, "keyLength", "128"), "Z2K-1070"),
    ],
)
def test_what_cannot_be_read_is_named_without_a_value(text: str, code: str) -> None:
    with pytest.raises(FindingError, match=code) as refused:
        READER.clear(PATH, KEY, text)
    told = str(refused.value)
    assert KEY in told
    assert CLEAR not in told


def test_an_encrypted_text_is_decoded_whatever_its_key_and_other_values_stay() -> None:
    values = {KEY: encoded(), "of.a.later.kafka": encoded("later"), "log.cleaner.threads": "2", "ssl.protocol": "a:b,c"}
    told = {KEY: CLEAR, "of.a.later.kafka": "later", "log.cleaner.threads": "2", "ssl.protocol": "a:b,c"}
    assert clear_facts(PATH, values, READER) == told
    for key in (KEY, "of.a.later.kafka"):
        with pytest.raises(FindingError, match=r"password\.encoder\.secret"):
            clear_facts(PATH, {key: values[key]}, None)
    assert json.dumps(repr([READER, Secrets((SECRET,))])).count(SECRET) == 0
