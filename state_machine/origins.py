"""Under which addresses people and programs reach the service, beside loopback.

In:   `https://zk2kraft.example`, as the settings name them; the Host and Origin headers of a request.
Out:  `Origins`: whether a request was meant for this service.
Elsewhere: where they are declared (settings.py), who is refused (api/rest/guard.py).
Why:  a web page can give its own name the address of this service. Only names that were declared are answered.
Source: RFC 6454 (an origin is scheme, host and port), RFC 9110 7.2 (Host).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")


@dataclass(frozen=True, slots=True)
class Origin:
    """host: in lower case, an IPv6 address without brackets."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{in_url(self.host)}{port}"


@dataclass(frozen=True, slots=True)
class Origins:
    """declared: beside loopback."""

    declared: tuple[Origin, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Origins:
        """Raises ValueError as `parse_origin` does."""
        return cls(tuple(parse_origin(each) for each in texts))

    def named(self, host: str) -> tuple[Origin, ...]:
        """Those that a Host header means. One without a port means the default port of each scheme."""
        found = split_host(host)
        if found is None:
            return ()
        name, port = found
        return tuple(
            each for each in self.declared if each.host == name and each.port == (port or DEFAULT_PORTS[each.scheme])
        )


def parse_origin(text: str) -> Origin:
    """`SCHEME://HOST[:PORT]`. Raises ValueError with the reason.

    `http` beyond loopback is refused: the token would be sent in clear.
    """
    shape = f"{text!r} is not SCHEME://HOST[:PORT], such as https://zk2kraft.example"
    try:
        parts = urlsplit(text)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(shape) from None
    more = parts.path or parts.query or parts.fragment or parts.username is not None or "?" in text or "#" in text
    if parts.scheme not in DEFAULT_PORTS or more or port == 0 or _NAME.fullmatch(name) is None:
        raise ValueError(shape)
    if parts.scheme == "http" and name not in LOOPBACK_NAMES:
        raise ValueError(f"{text!r} would send the token in clear: use https, with a proxy that ends TLS")
    return Origin(parts.scheme, name, port or DEFAULT_PORTS[parts.scheme])


def split_host(host: str) -> tuple[str, int | None] | None:
    """Name in lower case and port of a Host header; None for one that is none."""
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or parts.username is not None or parts.netloc != host:
        return None
    return name, port


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
