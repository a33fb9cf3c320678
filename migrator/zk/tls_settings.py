"""What is said of TLS to ZooKeeper, in a controller's properties file and in the environment of the process.

In:   the keys of a file (none for a command), the environment.
Out:  `ZkTls`, values only, with passwords kept out of its text; None for plain TCP.
Elsewhere: stores read and sockets opened (tls_sockets.py); who the process is for ZooKeeper (login.py).
Errors: Z2K-1093 naming the key, and never the value of a password.
Rules: as in Kafka a key of the file wins, and what the file does not say is taken from the flags of `KAFKA_OPTS`, key
by key. What OpenSSL cannot do as Java would is refused, not passed over. TLS needs `ClientCnxnSocketNetty`, as in
Java, where the other socket would speak without TLS. Without any word on versions, TLSv1.2 and TLSv1.3 are possible.
Source: Kafka 3.9 `KafkaConfig.setZooKeeperClientProperty`, `ZkConfigs`; ZooKeeper 3.8 `X509Util`, `ClientX509Util`,
`KeyStoreFileType`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from migrator.findings.preflight import ZOOKEEPER_TLS_UNUSABLE
from migrator.zk.login import OPTIONS, flags_of

NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
PEM: Final = "PEM"
STORE_TYPES: Final = (PEM, "JKS", "PKCS12")
TYPE_OF_EXTENSION: Final = {".pem": PEM, ".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12"}
"""As ZooKeeper; `.pfx` is a name for PKCS12 that it does not know."""
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
SUITES_OF_13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})

ENABLE: Final = "zookeeper.ssl.client.enable"
SOCKET: Final = "zookeeper.clientCnxnSocket"
ALGORITHM: Final = "zookeeper.ssl.endpoint.identification.algorithm"

_FLAGS: Final = {
    ENABLE: "zookeeper.client.secure",
    SOCKET: SOCKET,
    **{
        f"zookeeper.ssl.{store.lower()}.{what}": f"zookeeper.ssl.{store}.{what}"
        for store in ("keyStore", "trustStore")
        for what in ("location", "password", "type", "passwordPath")
    },
    ALGORITHM: "zookeeper.ssl.hostnameVerification",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
    "zookeeper.ssl.crl.enable": "zookeeper.ssl.crl",
    "zookeeper.ssl.ocsp.enable": "zookeeper.ssl.ocsp",
    "zookeeper.ssl.context.supplier.class": "zookeeper.ssl.context.supplier.class",
}
"""Kafka's key in a file, and ZooKeeper's flag in KAFKA_OPTS that stands in for it."""
_ONLY_FLAGS: Final = (
    "zookeeper.ssl.keystore.passwordPath",
    "zookeeper.ssl.truststore.passwordPath",
    "zookeeper.ssl.context.supplier.class",
)


@dataclass(frozen=True, slots=True)
class ZkStore:
    """One store. key: as it is called where it is set. password_file: has the password in its first line.

    origin: the name of the properties file, or KAFKA_OPTS. shown: whether the store's path may stand in messages.
    """

    origin: str
    key: str
    file: str
    kind: str
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    shown: bool = True


@dataclass(frozen=True, slots=True)
class ZkTls:
    """identity: key and chain; None: this side shows none. trusted: None: the system's authorities.

    ciphers: as OpenSSL names them, for TLSv1.2; none: its defaults.
    """

    identity: ZkStore | None = None
    trusted: ZkStore | None = None
    verify_names: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS
    ciphers: tuple[str, ...] = ()
    ciphers_from: tuple[str, str] = (OPTIONS, "")
    """Where the suites are set, and by which key, for messages."""


def tls_settings(
    environment: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    file: str = "",
    hidden: Collection[str] = (),
) -> ZkTls | None:
    """given: the keys of a properties file. hidden: those whose values may not be shown, whatever they are."""
    return _Reader(environment, given or {}, file, hidden).settings()


def openssl_name(suite: str) -> str:
    """A suite of TLSv1.2 as OpenSSL calls it: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, ECDHE-RSA-AES128-GCM-SHA256."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"^(AES|CAMELLIA|ARIA)_([0-9]+)", r"\1\2", cipher).replace("_CBC_", "_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return "_".join(each for each in (exchange if exchange != "RSA" else "", cipher) if each).replace("_", "-")


class _Reader:
    def __init__(
        self, environment: Mapping[str, str], given: Mapping[str, str], file: str, hidden: Collection[str]
    ) -> None:
        self._flags = flags_of(environment)
        self._given = given
        self._file = file
        self._hidden = hidden

    def settings(self) -> ZkTls | None:
        if not self._bool(ENABLE, False):
            return None
        if self._value("zookeeper.ssl.context.supplier.class"):
            self._refuse("zookeeper.ssl.context.supplier.class", "classes of the JVM cannot be loaded here")
        if self._value(SOCKET) != NETTY:
            self._refuse(SOCKET, f"it is not {NETTY}, and Java speaks TLS to ZooKeeper by no other")
        for key in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
            if self._bool(key, False):
                self._refuse(key, "it is true, and whether certificates are revoked cannot be asked here")
        versions, suites = self._versions(), self._names("zookeeper.ssl.cipher.suites")
        versions = self._versions_with(versions, suites)
        return ZkTls(
            identity=self._store("keystore"),
            trusted=self._store("truststore"),
            verify_names=self._verify_names(),
            versions=versions,
            ciphers=tuple(openssl_name(each) for each in suites if each not in SUITES_OF_13),
            ciphers_from=(self._origin("zookeeper.ssl.cipher.suites"), self._called("zookeeper.ssl.cipher.suites")),
        )

    # --- one setting ---------------------------------------------------------------------------------------

    def _in_file(self, key: str) -> bool:
        return key in self._given and key not in _ONLY_FLAGS

    def _value(self, key: str, default: str = "") -> str:
        return self._given[key] if self._in_file(key) else self._flags.get(_FLAGS[key], default)

    def _called(self, key: str) -> str:
        """The key's name where it is set; where it is not set, as it would be in the file, if there is one."""
        if self._in_file(key) or (self._file and _FLAGS[key] not in self._flags):
            return key
        return _FLAGS[key]

    def _origin(self, key: str) -> str:
        return self._file if self._called(key) == key and self._file else OPTIONS

    def _refuse(self, key: str, reason: str) -> NoReturn:
        raise ZOOKEEPER_TLS_UNUSABLE.error(origin=self._origin(key), key=self._called(key), reason=reason)

    def _shown(self, key: str, value: str) -> str:
        return "a value" if key in self._hidden and self._in_file(key) else value

    def _bool(self, key: str, default: bool) -> bool:
        value = self._value(key, str(default)).lower()
        if value not in ("true", "false"):
            self._refuse(key, "it is neither true nor false")
        return value == "true"

    def _names(self, key: str) -> tuple[str, ...]:
        return tuple(each.strip() for each in self._value(key).split(",") if each.strip())

    # --- what they mean ------------------------------------------------------------------------------------

    def _verify_names(self) -> bool:
        """In a file an algorithm, in KAFKA_OPTS true or false."""
        if not self._in_file(ALGORITHM):
            return self._bool(ALGORITHM, True)
        value = self._value(ALGORITHM).lower()
        if value not in ("https", ""):
            self._refuse(ALGORITHM, "it is neither https nor empty")
        return value == "https"

    def _versions(self) -> tuple[str, ...]:
        for key in ("zookeeper.ssl.enabled.protocols", "zookeeper.ssl.protocol"):
            names = self._names(key)
            if names == ("TLS",) and key == "zookeeper.ssl.protocol":
                return TLS_VERSIONS
            unknown = [each for each in names if each not in TLS_VERSIONS]
            if unknown:
                self._refuse(key, f"{self._shown(key, unknown[0])} is not one of {', '.join(TLS_VERSIONS)}")
            if names:
                return tuple(each for each in TLS_VERSIONS if each in names)
        return TLS_VERSIONS

    def _versions_with(self, versions: tuple[str, ...], suites: tuple[str, ...]) -> tuple[str, ...]:
        """Suites belong to versions: what no named suite belongs to is not spoken. Those of TLSv1.3 go together."""
        key = "zookeeper.ssl.cipher.suites"
        if not suites:
            return versions
        newest = SUITES_OF_13 & set(suites)
        if newest and newest != SUITES_OF_13 and "TLSv1.3" in versions:
            self._refuse(key, "single suites of TLSv1.3 cannot be chosen here: name all three of them, or none")
        possible = {"TLSv1.3"} if newest else set()
        possible |= {"TLSv1.2"} if set(suites) - SUITES_OF_13 else set()
        left = tuple(each for each in versions if each in possible)
        if not left:
            self._refuse(key, f"no suite in it belongs to {' or '.join(versions)}")
        return left

    def _store(self, store: str) -> ZkStore | None:
        names = {what: f"zookeeper.ssl.{store}.{what}" for what in ("location", "password", "type", "passwordPath")}
        key, file = names["location"], self._value(names["location"])
        password, password_file = self._value(names["password"]), self._value(names["passwordPath"])
        if not file:
            if password:
                self._refuse(key, "it is missing, and a password for it is given")
            return None
        return ZkStore(
            origin=self._origin(key),
            key=self._called(key),
            file=file,
            kind=self._kind(names["type"], file, key),
            password=password or None,
            password_file=password_file if password_file and not password else None,
            shown=key not in self._hidden or not self._in_file(key),
        )

    def _kind(self, key: str, file: str, location: str) -> str:
        kind = self._value(key).upper()
        if kind:
            if kind not in STORE_TYPES:
                self._refuse(key, f"{self._shown(key, kind)} stores are not read here, only {', '.join(STORE_TYPES)}")
            return kind
        extension = re.search(r"\.[^./]*$", file)
        found = TYPE_OF_EXTENSION.get(extension[0].lower() if extension else "")
        if found is None:
            self._refuse(key, f"it is missing, and the name in {self._called(location)} does not end with its type")
        return found
