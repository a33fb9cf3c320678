"""SASL mechanisms as conversations: bytes of the other side in, bytes for it out, and a name or a refusal at the end.

In:   tokens; for SCRAM a nonce of this side. Passwords and credentials come from whoever makes the conversation.
Out:  tokens; `SaslRefused` when the other side is not who it says. Its text is for the peer and for logs: it holds no
      secret, and never says whether a user exists.
Elsewhere: the requests that carry tokens (authentication.py, broker_client.py), where logins come from (security.py);
GSSAPI and OAUTHBEARER, which are spoken as a client only (kerberos_side.py, oauth.py).
Source: RFC 4616 (PLAIN), RFC 5802 and RFC 7677 (SCRAM); Kafka 3.9 `PlainSaslServer`, `ScramSaslServer`,
`ScramSaslClient`: no channel binding, at least 4096 iterations, no extensions (delegation tokens).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from migrator.model.values import ScramCredential, ScramMechanism

PLAIN: Final = "PLAIN"
SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_NUMBERS: Final = {"SCRAM-SHA-256": ScramMechanism.SHA_256, "SCRAM-SHA-512": ScramMechanism.SHA_512}
MECHANISMS: Final = (PLAIN, *SCRAM_HASHES)
"""What others may authenticate with here."""
GSSAPI: Final = "GSSAPI"
OAUTHBEARER: Final = "OAUTHBEARER"
CLIENT_MECHANISMS: Final = (*MECHANISMS, GSSAPI, OAUTHBEARER)
"""What this process may authenticate with elsewhere."""

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 1_000_000
"""Kafka's tools allow 16,384. A server that asks for more than this wants this process to be busy."""

_GS2_HEADER: Final = b"n,,"
_BINDING: Final = base64.b64encode(_GS2_HEADER)


class SaslRefused(Exception):
    """The conversation failed, for a reason that may be told."""


FindCredential = Callable[[str, str], ScramCredential | None]
"""By mechanism and user; None when there is none."""


class ServerSide(Protocol):
    """`user` is None until the conversation has ended well."""

    user: str | None

    def answer(self, token: bytes) -> bytes: ...


class ClientSide(Protocol):
    """`first` is sent at once. `answer` gives the next token, or None when the server has proved itself too."""

    def first(self) -> bytes: ...

    def answer(self, token: bytes) -> bytes | None: ...


class TokenSide(Protocol):
    """A client's side whose tokens may have to be waited for. `end` is called once, whatever came of it.

    `answer` gives None when nothing is left to be said. Raises SaslRefused, or OSError where a token cannot be had.
    """

    async def first(self) -> bytes: ...

    async def answer(self, token: bytes) -> bytes | None: ...

    async def end(self) -> None: ...


class AtOnce:
    """A client's side that waits for nobody, as a `TokenSide`."""

    def __init__(self, side: ClientSide) -> None:
        self._side = side

    async def first(self) -> bytes:
        return self._side.first()

    async def answer(self, token: bytes) -> bytes | None:
        return self._side.answer(token)

    async def end(self) -> None:
        return None


# --- PLAIN ------------------------------------------------------------------------------------------------


class PlainServer:
    """users: passwords by user, the `user_NAME` options of the login module."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        try:
            authorization, user, password = token.decode().split("\0")
        except ValueError as error:
            raise SaslRefused("Invalid SASL/PLAIN response: it has not three parts") from error
        if not user or not password:
            raise SaslRefused("Authentication failed: user or password not specified")
        expected = self._users.get(user)
        # The comparison takes as long for a user who does not exist.
        is_right = hmac.compare_digest((password if expected is None else expected).encode(), password.encode())
        if expected is None or not is_right:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if authorization not in ("", user):
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


class PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, token: bytes) -> None:
        return None


# --- SCRAM ------------------------------------------------------------------------------------------------


class ScramServer:
    """nonce: printable characters without a comma, new for each conversation."""

    def __init__(self, mechanism: str, find: FindCredential, nonce: str) -> None:
        self._mechanism = mechanism
        self._hash = SCRAM_HASHES[mechanism]
        self._find = find
        self._own_nonce = nonce
        self._claimed = ""
        self._credential: ScramCredential | None = None
        self._client_first = b""
        self._server_first = b""
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        try:
            return self._final(token) if self._server_first else self._first(token)
        except (ValueError, KeyError) as error:
            raise self._refusal() from error

    def _refusal(self) -> SaslRefused:
        reason = f"due to invalid credentials with SASL mechanism {self._mechanism}"
        return SaslRefused(f"Authentication failed during authentication {reason}")

    def _first(self, token: bytes) -> bytes:
        binding, authorization, bare = token.split(b",", 2)
        if binding != b"n" or (authorization and not authorization.startswith(b"a=")):
            raise self._refusal()
        said = _attributes(bare)
        self._claimed = _user_of(said["n"])
        if "tokenauth" in said or _user_of(authorization[2:].decode()) not in ("", self._claimed):
            raise self._refusal()
        self._credential = self._find(self._mechanism, self._claimed)
        if self._credential is None or self._credential.iterations < ITERATIONS_MIN or not said["r"]:
            raise self._refusal()
        salt = base64.b64encode(self._credential.salt).decode()
        self._client_first = bare
        self._server_first = f"r={said['r']}{self._own_nonce},s={salt},i={self._credential.iterations}".encode()
        return self._server_first

    def _final(self, token: bytes) -> bytes:
        assert self._credential is not None
        without_verified, _, proof_text = token.rpartition(b",p=")
        said = _attributes(without_verified)
        if self.user is not None or said["r"] != _attributes(self._server_first)["r"]:
            raise self._refusal()
        everything = b",".join((self._client_first, self._server_first, without_verified))
        signature = _hmac(self._hash, self._credential.stored_key, everything)
        client_key = _xor(base64.b64decode(proof_text, validate=True), signature)
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), self._credential.stored_key):
            raise self._refusal()
        self.user = self._claimed
        return b"v=" + base64.b64encode(_hmac(self._hash, self._credential.server_key, everything))


class ScramClient:
    """Proves that it knows the password, and wants the proof that the server knows it too."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}".encode()
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return _GS2_HEADER + self._bare

    def answer(self, token: bytes) -> bytes | None:
        try:
            if self._expected is None:
                return self._proof(token)
            self._verify(token, self._expected)
        except (ValueError, KeyError) as error:
            raise SaslRefused("the server's SCRAM message cannot be read") from error
        return None

    def _proof(self, token: bytes) -> bytes:
        said = _attributes(token)
        iterations = int(said["i"])
        if not said["r"].startswith(self._nonce) or len(said["r"]) == len(self._nonce):
            raise SaslRefused("the server's nonce does not continue ours")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslRefused(f"the server asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, base64.b64decode(said["s"], validate=True), iterations)
        without_verified = b"c=" + _BINDING + b",r=" + said["r"].encode()
        everything = b",".join((self._bare, token, without_verified))
        client_key = _hmac(self._hash, salted, b"Client Key")
        signature = _hmac(self._hash, hashlib.new(self._hash, client_key).digest(), everything)
        self._expected = _hmac(self._hash, _hmac(self._hash, salted, b"Server Key"), everything)
        return without_verified + b",p=" + base64.b64encode(_xor(client_key, signature))

    def _verify(self, token: bytes, expected: bytes) -> None:
        said = _attributes(token)
        if not hmac.compare_digest(base64.b64decode(said.get("v", ""), validate=True), expected):
            raise SaslRefused("the server does not know the password")


def scram_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a password. Source: `ScramFormatter.generateCredential`."""
    name = SCRAM_HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    stored_key = hashlib.new(name, _hmac(name, salted, b"Client Key")).digest()
    return ScramCredential(salt, stored_key, _hmac(name, salted, b"Server Key"), iterations)


def _attributes(message: bytes) -> dict[str, str]:
    """`n=user,r=nonce` by letter; ValueError for what has no `=`."""
    return dict(part.split("=", 1) for part in message.decode().split(","))


def _user_of(name: str) -> str:
    """ValueError for an `=` that stands for nothing."""
    if name.replace("=2C", "").replace("=3D", "").count("="):
        raise ValueError("a bare = in a name")
    return name.replace("=2C", ",").replace("=3D", "=")


def _hmac(name: str, key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, name).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
