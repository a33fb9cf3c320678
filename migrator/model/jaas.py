"""Login modules of a JAAS configuration: one as it stands in a properties file, or a file of named sections.

In:   the value of `listener.name.<listener>.<mechanism>.sasl.jaas.config`; a file as Java is given with
      `-Djava.security.auth.login.config`.
Out:  the module's class name and its options. ValueError says what is wrong, never with a value in it.
Elsewhere: which module fits which mechanism (node.transport.security), the login for ZooKeeper (zk.login).
Source: Kafka 3.9 `JaasConfig`: one module, its control flag, options as `key="value"`, a semicolon; Java's
`javax.security.auth.login.Configuration` for files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))""", re.DOTALL)

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SIGNS: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: Mapping[str, str] = field(repr=False)


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
