"""Login modules of a JAAS configuration: one as it stands in a properties file, or a file of named sections.

In:   the value of `listener.name.<listener>.<mechanism>.sasl.jaas.config`; a file as Java is given with
      `-Djava.security.auth.login.config`.
Out:  the module's class name and its options; the `KerberosLogin` that they describe. ValueError says what is wrong,
      never with a value in it.
Elsewhere: which module fits which mechanism (node.transport.security), the login for ZooKeeper (zk.login), logging in
by Kerberos (kerberos.tickets).
Source: Kafka 3.9 `JaasConfig`: one module, its control flag, options as `key="value"`, a semicolon; Java's
`javax.security.auth.login.Configuration` for files, and its `Krb5LoginModule`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))""", re.DOTALL)

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SIGNS: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: Mapping[str, str] = field(repr=False)


NOT_BY_FLAG: Final = {
    "java.security.krb5.realm": "name a krb5.conf by -Djava.security.krb5.conf",
    "java.security.krb5.kdc": "name a krb5.conf by -Djava.security.krb5.conf",
    "sun.security.krb5.principal": "name the principal in the login",
}
"""Flags of Java for every Kerberos login that are not honoured, and what to do instead."""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A Kerberos principal, by GSSAPI.

    keytab: file with its key; "" where tickets come from a cache that somebody else keeps fresh. Where Java is told of
    both, it looks into the cache first.
    ticket_cache: that cache; "" for the one of the environment. configuration: krb5.conf; "" for the host's.
    service: the first part of the servers' principal.
    """

    principal: str
    keytab: str = ""
    ticket_cache: str = ""
    configuration: str = ""
    service: str = "zookeeper"

    @property
    def names(self) -> frozenset[str]:
        """ZooKeeper omits host or realm where its settings (`removeHostFromPrincipal` and the like) say so."""
        name, _, realm = self.principal.partition("@")
        short = name.partition("/")[0]
        return frozenset({short, name, self.principal, f"{short}@{realm}" if realm else short})


def kerberos_login(
    options: Mapping[str, str], flags: Mapping[str, str], service: str, not_by_flag: Mapping[str, str] = NOT_BY_FLAG
) -> KerberosLogin:
    """What Java would do otherwise than the Kerberos library of the host is refused, not passed over.

    options: of the `Krb5LoginModule`. flags: the `-Dname=value` of the process. Raises ValueError.
    """
    for flag, instead in not_by_flag.items():
        if flag in flags:
            raise ValueError(f"-D{flag} is not supported; {instead}")
    if not options.get("principal"):
        raise ValueError("it has no principal")
    if any("${" in options.get(key, "") for key in ("principal", "keyTab", "ticketCache")):
        raise ValueError("a value has ${...} in it, which only Java replaces")
    by_keytab, by_cache = (options.get(key, "false").lower() == "true" for key in ("useKeyTab", "useTicketCache"))
    if by_keytab and not options.get("keyTab"):
        raise ValueError("it has no keyTab")
    if not by_keytab and not by_cache:
        raise ValueError(
            "it has neither useKeyTab=true nor useTicketCache=true, and nobody is here to ask for a password"
        )
    return KerberosLogin(
        options["principal"],
        re.sub("^file:", "", options["keyTab"], flags=re.IGNORECASE) if by_keytab else "",
        options.get("ticketCache", "") if not by_keytab else "",
        flags.get("java.security.krb5.conf", ""),
        service,
    )


def parse_login_module(text: str) -> LoginModule:
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in FLAGS:
        raise ValueError("it is not: a login module, one of " + ", ".join(FLAGS) + ", options, a semicolon")
    end = tokens.index(";") if ";" in tokens else -1
    if end < 0:
        raise ValueError("it does not end with a semicolon")
    if end != len(tokens) - 1:
        raise ValueError("it has more than one login module")
    options: dict[str, str] = {}
    for at in range(2, end, 3):
        name, *rest = tokens[at : min(at + 3, end)]
        if len(rest) != 2 or rest[0] != "=":
            raise ValueError(f"option {at // 3 + 1} is not key=value")
        options[str(name)] = str(rest[1])
    return LoginModule(str(tokens[0]), options)


def parse_section(text: str, name: str) -> LoginModule:
    """The one module of a section `name { ... };` of a file. Comments count where a line begins with them."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("//", "#", "/*", "*"))]
    found = re.search(rf"(?:^|[;\s]){re.escape(name)}\s*\{{(.*?)\}}\s*;", "\n".join(lines), re.DOTALL)
    if found is None:
        raise ValueError(f"it has no section {name}")
    return parse_login_module(found[1])


class _Text(str):
    """What stood in quotes: never a sign."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Text) and str.__eq__(self, other)

    __hash__ = str.__hash__


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("a quotation mark is not closed")
        quoted = match[1] if match[1] is not None else match[2]
        found.append(match[3] or match[4] if quoted is None else _Text(_ESCAPE.sub(_sign, quoted)))
        position = match.end()
    return found


def _sign(escaped: re.Match[str]) -> str:
    return _SIGNS.get(escaped[1], escaped[1])
