"""JKS and PKCS12: what keytool wrote is read, and what cannot be read is said in words without a secret."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from migrator.tls.contexts import new_context, own_name, show, trust
from migrator.tls.jks import KeyEntry, read_jks, unlock
from migrator.tls.key_stores import Identity, identity_in, trusted_in
from migrator.tls.sources import StoreSource
from tests.support.certificates import Authority
from tests.support.java_stores import (
    KEY_PASSWORD,
    KEYS_JKS,
    KEYS_OLD_PKCS12,
    KEYS_PKCS12,
    STORE_PASSWORD,
    TRUST_PASSWORD,
    TRUSTED_JKS,
    TRUSTED_PKCS12,
    a_jks,
    locked,
)

SECRETS: Final = (STORE_PASSWORD, KEY_PASSWORD, TRUST_PASSWORD, "wr0ng")


def subjects(pem: str) -> list[str]:
    begin = pem.index("-----BEGIN CERTIFICATE-----")
    return [each.subject.rfc4514_string() for each in x509.load_pem_x509_certificates(pem[begin:].encode())]


def key_of(found: Identity) -> ec.EllipticCurvePublicKey:
    end = found.pem.index("-----BEGIN CERTIFICATE-----")
    key = serialization.load_pem_private_key(found.pem[:end].encode(), found.password.encode())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.public_key()


def why_not(data: bytes, password: str | None, key_password: str | None = None, *, trust: bool = False) -> str:
    with pytest.raises(ValueError, match=r"^(it|the)") as raised:
        trusted_in(data, password) if trust else identity_in(data, password, key_password)
    assert not [each for each in SECRETS if each in str(raised.value)]
    return str(raised.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_the_same_key_is_in_both_kinds_of_store() -> None:
    jks, p12 = identity_in(KEYS_JKS, STORE_PASSWORD, KEY_PASSWORD), identity_in(KEYS_PKCS12, STORE_PASSWORD)
    assert subjects(jks.pem) == subjects(p12.pem) == ["CN=node"]
    assert key_of(jks) == key_of(p12)


def test_a_store_of_java_8_is_read() -> None:
    assert subjects(identity_in(KEYS_OLD_PKCS12, STORE_PASSWORD).pem) == ["CN=old node"]


def test_trusted_certificates_are_in_both_kinds_of_store() -> None:
    assert trusted_in(TRUSTED_JKS, TRUST_PASSWORD) == trusted_in(TRUSTED_PKCS12, TRUST_PASSWORD)
    assert subjects(trusted_in(TRUSTED_JKS, TRUST_PASSWORD)) == ["CN=node"]


def test_without_a_password_the_integrity_of_a_jks_trust_store_is_not_checked_as_in_java() -> None:
    assert subjects(trusted_in(TRUSTED_JKS, None)) == ["CN=node"]
    assert subjects(trusted_in(TRUSTED_JKS[:-1] + b"\0", None)) == ["CN=node"]


def test_a_private_key_is_never_in_clear_outside() -> None:
    found = identity_in(KEYS_JKS, STORE_PASSWORD, KEY_PASSWORD)
    assert "BEGIN ENCRYPTED PRIVATE KEY" in found.pem
    assert found.password != identity_in(KEYS_JKS, STORE_PASSWORD, KEY_PASSWORD).password
    assert "PRIVATE" not in repr(found)
    assert found.password not in repr(found)


def test_the_password_of_a_key_is_that_of_the_store_if_none_is_given(authority: Authority) -> None:
    key, chain = pkcs8(authority, "node")
    assert subjects(identity_in(a_jks([("node", key, chain[:1])]), STORE_PASSWORD).pem) == ["CN=node"]
    assert "password of its private key is wrong" in why_not(KEYS_JKS, STORE_PASSWORD)


def pkcs8(authority: Authority, name: str) -> tuple[bytes, list[bytes]]:
    signed = authority.sign(name)
    loaded = serialization.load_pem_private_key(signed.key.read_bytes(), None)
    key = loaded.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    pems = (signed.certificate, authority.trusted)
    return key, [ssl.PEM_cert_to_DER_cert(each.read_text()) for each in pems]


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_key_of_a_store_counts_with_its_whole_chain(authority: Authority, version: int) -> None:
    first, second = pkcs8(authority, "first"), pkcs8(authority, "second")
    data = a_jks([("one", *first), ("two", *second)], version=version)
    assert subjects(identity_in(data, STORE_PASSWORD).pem) == ["CN=first", "CN=authority of a test"]


def test_the_chain_of_a_pkcs12_store_is_put_in_order_and_others_are_left_out(authority: Authority) -> None:
    signed, other = authority.sign("node"), authority.sign("other")
    key = serialization.load_pem_private_key(signed.key.read_bytes(), None)
    own, above, foreign = (
        x509.load_pem_x509_certificate(each.read_bytes())
        for each in (signed.certificate, authority.trusted, other.certificate)
    )
    locked_by = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    data = pkcs12.serialize_key_and_certificates(b"node", key, own, [foreign, above], locked_by)
    assert subjects(identity_in(data, STORE_PASSWORD).pem) == ["CN=node", "CN=authority of a test"]
    assert "which of them are trusted cannot be told" in why_not(data, STORE_PASSWORD, trust=True)


def test_a_key_store_as_trust_store_trusts_the_certificates_of_its_keys_only(authority: Authority) -> None:
    """As Java: not what stands above them in their chains."""
    key, chain = pkcs8(authority, "node")
    assert subjects(trusted_in(a_jks([("node", key, chain)]), STORE_PASSWORD)) == ["CN=node"]
    assert subjects(trusted_in(KEYS_PKCS12, STORE_PASSWORD)) == ["CN=node"]


@pytest.mark.parametrize("data", [KEYS_JKS, KEYS_PKCS12, KEYS_OLD_PKCS12])
def test_a_wrong_password_is_named_as_such(data: bytes) -> None:
    assert "password is wrong" in why_not(data, "wr0ng", KEY_PASSWORD)
    assert "password is wrong" in why_not(data, "", KEY_PASSWORD)


def test_a_wrong_password_of_the_key_alone_is_named_as_such() -> None:
    assert why_not(KEYS_JKS, STORE_PASSWORD, "wr0ng") == "the password of its private key is wrong"


@pytest.mark.parametrize("data", [KEYS_JKS, KEYS_PKCS12, KEYS_OLD_PKCS12, TRUSTED_JKS, TRUSTED_PKCS12])
def test_a_store_that_is_cut_off_anywhere_is_refused_in_words(data: bytes) -> None:
    for size in range(4, len(data)):
        for password in (STORE_PASSWORD, None):
            assert "cut off" in why_not(data[:size], password, KEY_PASSWORD)
            assert "cut off" in why_not(data[:size], password, trust=True)


def test_a_store_of_which_one_byte_is_changed_is_refused() -> None:
    for position in range(len(KEYS_JKS)):
        spoiled = bytearray(KEYS_JKS)
        spoiled[position] ^= 0x40
        why_not(bytes(spoiled), STORE_PASSWORD, KEY_PASSWORD)


def test_a_damaged_key_without_a_checked_store_is_refused() -> None:
    """Without the store's password nothing but the key's own check is left."""
    entry = read_jks(KEYS_JKS, None).keys[0]
    start = KEYS_JKS.index(entry.locked)
    for position in range(start, start + len(entry.locked)):
        spoiled = bytearray(KEYS_JKS)
        spoiled[position] ^= 0x01
        try:
            found = identity_in(bytes(spoiled), None, KEY_PASSWORD)
        except ValueError as error:
            assert "private key" in str(error)  # noqa: PT017
        else:  # what stands behind the algorithm's name means nothing
            assert subjects(found.pem) == ["CN=node"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"what else", "neither a JKS nor a PKCS12"),
        (bytes.fromhex("cececece") + bytes(100), "JCEKS"),
        (b"-----BEGIN CERTIFICATE-----\n", "PEM file"),
        (bytes.fromhex("feedfeed00000003") + bytes(100), "version 1 or 2"),
        (bytes.fromhex("feedfeed0000000200000001") + bytes(100), "entry of kind 0"),
        (KEYS_JKS + b"\0", "1 bytes follow"),
        (b"\x30\x03\x02\x01\x03", "password is wrong, or the file is damaged"),
        (a_jks(), "no private key"),
        (TRUSTED_JKS, "password is wrong"),
        (TRUSTED_PKCS12, "password is wrong"),
        (a_jks([("node", b"no key at all, just bytes", [b"x"])]), "of a kind that is not read"),
        (a_jks([("node", b"no key at all, just bytes", [])]), "no certificate for its private key"),
    ],
)
def test_what_is_no_key_store_is_refused_in_words(data: bytes, reason: str) -> None:
    assert reason in why_not(data, STORE_PASSWORD)


def test_a_trust_store_has_no_key_and_an_empty_one_trusts_nobody() -> None:
    assert "no private key" in why_not(TRUSTED_JKS, TRUST_PASSWORD)
    assert "no private key" in why_not(TRUSTED_PKCS12, TRUST_PASSWORD)
    assert "no trusted certificate" in why_not(a_jks(), STORE_PASSWORD, trust=True)


def test_a_key_protected_in_another_way_is_refused() -> None:
    other = locked(b"key", KEY_PASSWORD, bytes.fromhex("06092a864886f70d01050d"))
    data = a_jks([("node", b"key", [b"x"])], key_password=KEY_PASSWORD)
    spoiled = data[:-20].replace(locked(b"key", KEY_PASSWORD), b"")
    assert spoiled != data[:-20]
    with pytest.raises(ValueError, match="protected by a way"):
        unlock(KeyEntry("node", other, ()), KEY_PASSWORD)


@pytest.mark.parametrize(("name", "data", "key"), [("k.jks", KEYS_JKS, KEY_PASSWORD), ("k.p12", KEYS_PKCS12, None)])
def test_openssl_takes_what_is_read(tmp_path: Path, name: str, data: bytes, key: str | None) -> None:
    """Whatever the store is called: the type is that of the file."""
    file = tmp_path / name
    file.write_bytes(data)
    source = StoreSource("ssl.keystore.location", file, STORE_PASSWORD)
    context = new_context(ssl.PROTOCOL_TLS_SERVER, ("TLSv1.2", "TLSv1.3"))
    show(context, source, key)
    trust(context, source)
    assert own_name(source, key) == "CN=node"
    assert context.get_ca_certs() == []  # no authority, one peer
    assert context.cert_store_stats()["x509"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]
