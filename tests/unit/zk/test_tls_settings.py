"""TLS to ZooKeeper, as a controller's file and KAFKA_OPTS say it: honoured, or refused by the name of the key."""

from __future__ import annotations

from typing import Final

import pytest

from migrator.findings.finding import FindingError
from migrator.zk.tls_settings import NETTY, ZkStore, ZkTls, openssl_name, tls_settings

SECRET: Final = "s3cret"
FILE: Final = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": NETTY,
    "zookeeper.ssl.keystore.location": "/k.p12",
    "zookeeper.ssl.keystore.password": SECRET,
    "zookeeper.ssl.truststore.location": "/t.jks",
    "zookeeper.ssl.truststore.password": SECRET,
}
FLAGS: Final = {
    "zookeeper.client.secure": "true",
    "zookeeper.clientCnxnSocket": NETTY,
    "zookeeper.ssl.keyStore.location": "/env/k.jks",
    "zookeeper.ssl.keyStore.passwordPath": "/env/password",
    "zookeeper.ssl.trustStore.location": "/env/t.pem",
}


def opts(flags: dict[str, str | None] | None = None) -> dict[str, str]:
    given = {**FLAGS, **(flags or {})}
    return {
        "KAFKA_OPTS": "-Xmx1g " + " ".join(f"'-D{key}={value}'" for key, value in given.items() if value is not None)
    }


def of_file(**changes: str | None) -> ZkTls | None:
    """The file with keys changed (dots written as `__`), or taken out (None)."""
    keys = {**FILE, **{name.replace("__", "."): value for name, value in changes.items()}}
    return tls_settings({}, {key: value for key, value in keys.items() if value is not None}, "c.properties")


def test_a_file_says_it_in_kafkas_words() -> None:
    found = of_file()
    assert found is not None
    assert found.identity == ZkStore("c.properties", "zookeeper.ssl.keystore.location", "/k.p12", "PKCS12", SECRET)
    assert found.trusted == ZkStore("c.properties", "zookeeper.ssl.truststore.location", "/t.jks", "JKS", SECRET)
    assert (found.verify_names, found.versions, found.ciphers) == (True, ("TLSv1.2", "TLSv1.3"), ())
    assert SECRET not in repr(found)


def test_a_command_takes_it_from_kafka_opts_in_zookeepers_words() -> None:
    found = tls_settings(opts())
    assert found is not None
    assert found.identity == ZkStore(
        "KAFKA_OPTS", "zookeeper.ssl.keyStore.location", "/env/k.jks", "JKS", None, "/env/password"
    )
    assert found.trusted == ZkStore("KAFKA_OPTS", "zookeeper.ssl.trustStore.location", "/env/t.pem", "PEM")


@pytest.mark.parametrize("environment", [{}, {"KAFKA_OPTS": "-Xmx1g"}, opts({"zookeeper.client.secure": None})])
def test_nothing_said_is_plain_tcp(environment: dict[str, str]) -> None:
    assert tls_settings(environment) is None


def test_a_key_of_the_file_wins_and_what_it_does_not_say_is_taken_from_kafka_opts() -> None:
    given = {"zookeeper.ssl.keystore.location": "/k.pem", "zookeeper.ssl.keystore.password": SECRET}
    found = tls_settings(opts(), given, "c.properties")
    assert found is not None
    assert found.identity == ZkStore("c.properties", "zookeeper.ssl.keystore.location", "/k.pem", "PEM", SECRET)
    assert found.trusted is not None
    assert found.trusted.file == "/env/t.pem"
    assert tls_settings(opts(), {"zookeeper.ssl.client.enable": "false"}, "c.properties") is None


@pytest.mark.parametrize(
    ("file", "kind", "found"),
    [
        ("/k.jks", None, "JKS"),
        ("/k.p12", None, "PKCS12"),
        ("/k.PFX", None, "PKCS12"),
        ("/k.pem", None, "PEM"),
        ("/k.store", "pkcs12", "PKCS12"),
        ("/k.jks", "PEM", "PEM"),
    ],
)
def test_the_type_of_a_store_is_the_given_one_or_that_of_its_name(file: str, kind: str | None, found: str) -> None:
    settings = of_file(zookeeper__ssl__keystore__location=file, zookeeper__ssl__keystore__type=kind)
    assert settings is not None
    assert settings.identity is not None
    assert settings.identity.kind == found


@pytest.mark.parametrize(
    ("changes", "versions"),
    [
        ({"protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLSv1.2", "enabled__protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"enabled__protocols": "TLSv1.3, TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"cipher__suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ("TLSv1.2",)),
        (
            {"cipher__suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"},
            ("TLSv1.3",),
        ),
    ],
)
def test_versions_are_those_of_the_file_and_of_its_suites(changes: dict[str, str], versions: tuple[str, ...]) -> None:
    found = of_file(**{f"zookeeper__ssl__{name}": value for name, value in changes.items()})
    assert found is not None
    assert found.versions == versions


@pytest.mark.parametrize(("value", "verified"), [("https", True), ("HTTPS", True), ("", False)])
def test_host_names_are_verified_unless_the_algorithm_is_empty(value: str, *, verified: bool) -> None:
    found = of_file(zookeeper__ssl__endpoint__identification__algorithm=value)
    assert found is not None
    assert found.verify_names == verified


@pytest.mark.parametrize(("value", "verified"), [(None, True), ("true", True), ("false", False)])
def test_in_kafka_opts_that_is_true_or_false(value: str | None, *, verified: bool) -> None:
    found = tls_settings(opts({"zookeeper.ssl.hostnameVerification": value}))
    assert found is not None
    assert found.verify_names == verified


def refused(
    environment: dict[str, str], given: dict[str, str] | None = None, hidden: set[str] | None = None
) -> dict[str, str]:
    with pytest.raises(FindingError) as raised:
        tls_settings(environment, given, "c.properties" if given else "", hidden or set())
    assert raised.value.code == "Z2K-1093"
    assert SECRET not in str(raised.value)
    return dict(raised.value.occurrence.values)


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"zookeeper.ssl.client.enable": "yes"}, "zookeeper.ssl.client.enable", "neither true nor false"),
        ({"zookeeper.clientCnxnSocket": "x"}, "zookeeper.clientCnxnSocket", NETTY),
        ({"zookeeper.clientCnxnSocket": ""}, "zookeeper.clientCnxnSocket", NETTY),
        ({"zookeeper.ssl.crl.enable": "true"}, "zookeeper.ssl.crl.enable", "it is true"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, "zookeeper.ssl.ocsp.enable", "it is true"),
        ({"zookeeper.ssl.protocol": "TLSv1.1"}, "zookeeper.ssl.protocol", "TLSv1.1 is not one of TLSv1.2, TLSv1.3"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.2,SSLv3"}, "zookeeper.ssl.enabled.protocols", "SSLv3"),
        ({"zookeeper.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "zookeeper.ssl.cipher.suites", "all three"),
        (
            {"zookeeper.ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA", "zookeeper.ssl.protocol": "TLSv1.3"},
            "zookeeper.ssl.cipher.suites",
            "no suite in it belongs to TLSv1.3",
        ),
        ({"zookeeper.ssl.keystore.type": "BCFKS"}, "zookeeper.ssl.keystore.type", "BCFKS stores are not read"),
        ({"zookeeper.ssl.keystore.location": "/k"}, "zookeeper.ssl.keystore.type", "does not end with its type"),
        ({"zookeeper.ssl.keystore.location": ""}, "zookeeper.ssl.keystore.location", "a password for it is given"),
        (
            {"zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"},
            "zookeeper.ssl.endpoint.identification.algorithm",
            "neither https nor empty",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_key(changes: dict[str, str], key: str, reason: str) -> None:
    found = refused({}, {**FILE, **changes})
    assert (found["origin"], found["key"]) == ("c.properties", key)
    assert reason in found["reason"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"zookeeper.clientCnxnSocket": None}, "zookeeper.clientCnxnSocket"),
        ({"zookeeper.ssl.context.supplier.class": "x.Y"}, "zookeeper.ssl.context.supplier.class"),
        ({"zookeeper.ssl.crl": "true"}, "zookeeper.ssl.crl"),
        ({"zookeeper.ssl.trustStore.type": "BCFKS"}, "zookeeper.ssl.trustStore.type"),
        ({"zookeeper.client.secure": "1"}, "zookeeper.client.secure"),
        ({"zookeeper.ssl.hostnameVerification": ""}, "zookeeper.ssl.hostnameVerification"),
    ],
)
def test_what_cannot_be_honoured_in_kafka_opts_is_refused_by_its_flag(changes: dict[str, str | None], key: str) -> None:
    found = refused(opts(changes))
    assert (found["origin"], found["key"]) == ("KAFKA_OPTS", key)


def test_a_key_without_a_value_anywhere_is_called_as_in_the_file() -> None:
    given = {key: value for key, value in FILE.items() if key != "zookeeper.clientCnxnSocket"}
    assert refused({}, given)["origin"] == "c.properties"


def test_a_value_of_a_config_provider_is_not_shown() -> None:
    hidden = {"zookeeper.ssl.protocol", "zookeeper.ssl.keystore.location"}
    refused({}, {**FILE, "zookeeper.ssl.protocol": SECRET}, hidden)
    found = tls_settings({}, FILE, "c.properties", hidden)
    assert found is not None
    assert found.identity is not None
    assert found.trusted is not None
    assert (found.identity.shown, found.trusted.shown) == (False, True)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ],
)
def test_suites_are_called_as_openssl_calls_them(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
