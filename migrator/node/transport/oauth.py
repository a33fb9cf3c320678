"""OAUTHBEARER towards brokers and stock controllers: tokens of a file or of a token endpoint, and how they are shown.

In:   an `OauthLogin`. Out: `TokenSource.token()`, a token that holds now; `OauthSide`, one login with it.
Elsewhere: which keys of a file say so (security.py), the session that ends with a token (broker_client.py).
Rules: no token, secret, URL or answer of an endpoint is in a text of ours. A file is read for each login, so that
whoever renews it needs no restart. A token of an endpoint is used for 80 % of its life (Kafka's
`sasl.login.refresh.window.factor`), and then until it ends if the endpoint gives no other one.
Source: RFC 7628 (the message), RFC 6749 section 4.4 (client credentials); Kafka 3.9 `OAuthBearerLoginCallbackHandler`,
`OAuthBearerClientInitialResponse`, `HttpAccessTokenRetriever`, `FileTokenRetriever`, `LoginAccessTokenValidator`: the
end of a token is its `exp`, whatever the endpoint says beside it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

from migrator.findings.finding import words_of
from migrator.node.transport.sasl import SaslRefused
from migrator.tls.contexts import TLS_VERSIONS, new_context, trust
from migrator.tls.sources import Source

ENDPOINT_S: Final = 10.0
TOKEN_BYTES_MAX: Final = 1 << 16
REFRESH_SHARE: Final = 0.8
SCHEMES: Final = ("file", "http", "https")

_EXTENSION: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_REASON: Final = re.compile(r"[a-z_]{1,64}")
"""Of RFC 6749, section 5.2, and RFC 7628, section 3.2.2: such a word says nothing secret."""


@dataclass(frozen=True, slots=True)
class OauthLogin:
    """endpoint: a URL; of a file, the token stands in it.

    trusted: by whom an https endpoint is certified; None: the system's authorities. encoded: client id and secret are
    URL-encoded first (RFC 6749, section 2.3.1), which Kafka does where it is told to.
    """

    endpoint: str = field(repr=False)
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted: Source | None = None
    encoded: bool = False

    @property
    def file(self) -> Path | None:
        """Where the token stands; None where an endpoint gives it."""
        parts = urlsplit(self.endpoint)
        return Path(parts.path) if parts.scheme == "file" else None


def refuse_endpoint(endpoint: str) -> None:
    """Raises ValueError for what is no URL of a token; it is not repeated."""
    parts = urlsplit(endpoint)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"it begins with none of {', '.join(f'{each}:' for each in SCHEMES)}")
    is_whole = bool(parts.netloc) if parts.scheme != "file" else not parts.netloc and parts.path.startswith("/")
    if not is_whole:
        raise ValueError("it is neither file:///PATH nor http(s)://HOST[:PORT]/PATH")


def extensions_of(options: Mapping[str, str]) -> dict[str, str]:
    """Take the extensions out of a login module's options. Raises ValueError."""
    found = {key.removeprefix("extension_"): value for key, value in options.items() if key.startswith("extension_")}
    for key, value in found.items():
        if key == "auth" or not _EXTENSION.fullmatch(key) or not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError("an extension_NAME has other letters than Kafka takes, or is called auth")
    return found


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says of itself; nothing is verified. Raises ValueError for what is no JWT with a time of expiry."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        raise ValueError("the token is no JWT that says when it ends (exp)") from None
    assert isinstance(claims, dict)
    return claims


@dataclass(frozen=True, slots=True)
class BearerToken:
    """Times in seconds since 1970."""

    text: str = field(repr=False)
    subject: str
    got_at: float
    ends_at: float

    def is_young(self, now: float) -> bool:
        return now < self.got_at + (self.ends_at - self.got_at) * REFRESH_SHARE


class TokenSource:
    """The tokens of one login, for every connection of this process. Safe on any thread and any event loop."""

    def __init__(self, login: OauthLogin, clock: Callable[[], float] = time.time) -> None:
        self.login = login
        self._clock = clock
        self._kept: BearerToken | None = None
        self._turns = ThreadPoolExecutor(1, "oauth")  # one asks, the others take what it got

    async def token(self) -> BearerToken:
        """A token that holds now. Raises OSError."""
        return await asyncio.get_running_loop().run_in_executor(self._turns, self._now)

    def token_now(self) -> BearerToken:
        """The same for callers on a thread. Blocks."""
        return self._turns.submit(self._now).result()

    def _now(self) -> BearerToken:
        now = self._clock()
        file = self.login.file
        if file is not None:
            return self._of(_read(file), now)
        kept = self._kept
        if kept is not None and kept.is_young(now):
            return kept
        try:
            self._kept = self._of(_asked(self.login), now)
        except OSError:
            if kept is None or now >= kept.ends_at:
                raise
            return kept
        return self._kept

    def _of(self, text: str, now: float) -> BearerToken:
        try:
            claims = claims_of(text)
        except ValueError as error:
            raise OSError(words_of(error)) from None
        found = BearerToken(text, str(claims.get("sub", "")), now, float(claims["exp"]))
        if found.ends_at <= now:
            raise OSError(f"the token ended {now - found.ends_at:.0f} s ago; who renews it?")
        return found


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(TOKEN_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError as error:
        raise OSError(f"the token's file cannot be read: {error.strerror or type(error).__name__}") from None


def _asked(login: OauthLogin) -> str:
    import httpx  # who logs in otherwise does not wait for it

    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of each request, with the whole URL
    form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
    by = tuple(map(quote_plus, (login.client_id, login.client_secret))) if login.encoded else None
    user, secret = by or (login.client_id, login.client_secret)
    basic = base64.b64encode(f"{user}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Accept": "application/json", "Cache-Control": "no-cache"}
    try:
        with (
            httpx.Client(verify=_context(login), timeout=ENDPOINT_S, trust_env=False) as client,
            client.stream("POST", login.endpoint, data=form, headers=headers) as answer,
        ):
            body = b""
            for part in answer.iter_bytes():
                body += part
                if len(body) > TOKEN_BYTES_MAX:
                    raise OSError(f"the token endpoint's answer has more than {TOKEN_BYTES_MAX} bytes")
    except httpx.HTTPError as error:
        raise OSError(f"the token endpoint cannot be asked: {type(error).__name__}") from None
    said = _document(body)
    token = said.get("access_token")
    if answer.status_code != httpx.codes.OK or not isinstance(token, str) or not token:
        raise OSError(f"the token endpoint gave no token (HTTP {answer.status_code}{_reason(said.get('error'))})")
    return token.strip()


def _context(login: OauthLogin) -> ssl.SSLContext:
    context = new_context(ssl.PROTOCOL_TLS_CLIENT, TLS_VERSIONS)
    try:
        trust(context, login.trusted)
    except ValueError as error:
        raise OSError(f"the token endpoint's trust store cannot be used: {words_of(error)}") from None
    return context


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(word: object) -> str:
    return f", {word}" if isinstance(word, str) and _REASON.fullmatch(word) else ""


class OauthSide:
    """One login by a token."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._refused = ""

    async def first(self) -> bytes:
        token = await self._source.token()
        extensions = "".join(f"{key}={value}\x01" for key, value in self._source.login.extensions.items())
        return f"n,,\x01auth=Bearer {token.text}\x01{extensions}\x01".encode()

    async def answer(self, token: bytes) -> bytes | None:
        """An empty answer is a welcome. Any other one refuses: it is acknowledged, then the server says error 58."""
        if self._refused:
            raise SaslRefused(self._refused)
        if not token:
            return None
        self._refused = f"the server refuses the token{_reason(_document(token).get('status'))}"
        return b"\x01"

    async def end(self) -> None:
        return None
