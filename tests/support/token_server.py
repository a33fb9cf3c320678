"""A token server of a test's own, on loopback: client credentials in, signed tokens out, its key as a JWKS.

In:   the clients it knows, with their secrets. Out: addresses for brokers (`jwks`) and clients (`token_url`); tokens.
Source: RFC 6749 section 4.4 and 5.2, RFC 7515 (RS256), RFC 7517.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

HOST: Final = "127.0.0.1"
ISSUER: Final = "tokens of a test"
AUDIENCE: Final = "kafka"
KEY_ID: Final = "of-this-test"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenServer:
    """Serves between `start` and `stop`. lifetime_s: of the next tokens. asked: client and scope of each one given."""

    def __init__(self, clients: Mapping[str, str], lifetime_s: float = 600.0, tls: Path | None = None) -> None:
        """tls: key and certificate, as PEM in one file; None for plain HTTP."""
        self.lifetime_s = lifetime_s
        self.asked: list[tuple[str, str]] = []
        self.is_down = False
        self._clients = clients
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        self._http = ThreadingHTTPServer((HOST, 0), self._handler())
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://{HOST}:{self._http.server_address[1]}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks(self) -> str:
        return f"{self.url}/jwks"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def token(self, subject: str, scope: str = "", lifetime_s: float | None = None) -> str:
        """A signed one. lifetime_s: None for that of the server."""
        now = int(time.time())
        ends = now + (self.lifetime_s if lifetime_s is None else lifetime_s)
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "scope": scope, "iat": now, "exp": int(ends)}
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = ".".join(encoded(json.dumps(each).encode()) for each in (header, claims))
        return f"{signed}.{encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"

    def _keys(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        words = {
            name: encoded(n.to_bytes((n.bit_length() + 7) // 8)) for name, n in (("n", numbers.n), ("e", numbers.e))
        }
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, **words}]}

    def _give(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if self.is_down:
            return 503, {"error": "temporarily_unavailable"}
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self._clients.get(client) != secret:
            return 401, {"error": "invalid_client", "error_description": f"{client} with {secret}"}
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        scope = "".join(form.get("scope", []))
        self.asked.append((client, scope))
        return 200, {"access_token": self.token(client, scope), "token_type": "Bearer", "expires_in": self.lifetime_s}

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # `self` is the request's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*((200, server._keys()) if self.path == "/jwks" else (404, {})))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                self._answer(*server._give(self.headers.get("Authorization", ""), parse_qs(body)))

            def _answer(self, status: int, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                """A token server's log has no tokens."""

        return Handler
