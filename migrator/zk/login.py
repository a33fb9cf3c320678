"""Who a process is for ZooKeeper, and what may be done with the znodes that it makes.

In:   the environment of the process, the text of a JAAS file, paths below the chroot.
Out:  a `ZkLogin`; whether a znode holds secrets.
Elsewhere: reading the file and logging in (session.py), by Kerberos (kerberos.py, model.jaas); TLS, which
the same flags are about (tls_settings.py).
Rules: as with Kafka's own processes the login belongs to the process: `KAFKA_OPTS` names the file
(`-Djava.security.auth.login.config`), and its section `Client`, or `-Dzookeeper.sasl.clientconfig`, the login.
Source: ZooKeeper 3.8 `DigestLoginModule`, `SaslServerCallbackHandler` (the names of a Kerberos principal),
`ZKClientConfig` (the flags); Java's `Krb5LoginModule`; Kafka 3.9 `JaasUtils`, `ZkData` (which paths are sensitive).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from migrator.findings.preflight import ZOOKEEPER_LOGIN_UNUSABLE
from migrator.model.jaas import KERBEROS, NOT_BY_FLAG, KerberosLogin, kerberos_login, parse_section

OPTIONS: Final = "KAFKA_OPTS"
DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Below these nobody but who made a znode may read it. Full paths: stock compares relative ones here (K-14)."""
OPEN: Final = "/consumers"
"""Old consumers, each with an identity of its own, write below it."""

_NOT_BY_FLAG: Final = {
    **NOT_BY_FLAG,
    "zookeeper.server.principal": "servers are SERVICE/HOST of the connect string",
    "zookeeper.server.realm": "krb5.conf says whose realm a host is in ([domain_realm])",
    "zookeeper.sasl.client.canonicalize.hostname": "krb5.conf says it (dns_canonicalize_hostname)",
}
"""Flags of Kerberos logins that are not honoured, and what to do instead."""


@dataclass(frozen=True, slots=True)
class DigestLogin:
    """A user of ZooKeeper, by DIGEST-MD5."""

    user: str
    password: str = field(repr=False)

    @property
    def names(self) -> frozenset[str]:
        """How an access list may name it."""
        return frozenset({self.user})


ZkLogin = DigestLogin | KerberosLogin


@dataclass(frozen=True, slots=True)
class LoginPlace:
    """Where a login stands: a JAAS file and a section of it. flags: of the process, for a Kerberos login."""

    file: str
    section: str
    flags: Mapping[str, str] = field(default_factory=dict, compare=False)


def login_place(environment: Mapping[str, str]) -> LoginPlace | None:
    """None when this process is nobody for ZooKeeper."""
    given = flags_of(environment)
    file = given.get("java.security.auth.login.config")
    if not file or given.get("zookeeper.sasl.client", "true").lower() == "false":
        return None
    return LoginPlace(file.removeprefix("file:"), given.get("zookeeper.sasl.clientconfig", "Client"), given)


def flags_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The `-Dname=value` of KAFKA_OPTS."""
    try:
        words = shlex.split(environment.get(OPTIONS, ""))
    except ValueError:
        words = environment[OPTIONS].split()
    return dict(word[2:].split("=", 1) for word in words if word.startswith("-D") and "=" in word)


def login_in(place: LoginPlace, text: str) -> ZkLogin:
    """text: of the file. Raises Z2K-1092 when it cannot be used."""
    try:
        module = parse_section(text, place.section)
        if module.name == DIGEST:
            return _digest(module.options)
        if module.name == KERBEROS:
            service = place.flags.get("zookeeper.sasl.client.username", "zookeeper")
            return kerberos_login(module.options, place.flags, service, _NOT_BY_FLAG)
        raise ValueError(f"{module.name} is not supported, {DIGEST} and {KERBEROS} are")
    except ValueError as error:
        raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=place.file, reason=f"{place.section}: {error}") from error


def _digest(options: Mapping[str, str]) -> DigestLogin:
    missing = [key for key in ("username", "password") if not options.get(key)]
    if missing:
        raise ValueError(f"it has no {missing[0]}")
    return DigestLogin(options["username"], options["password"])


def is_sensitive(path: str) -> bool:
    return path.startswith(SENSITIVE)
