"""The service's token: made once, kept in a file that only its owner reads, found by whoever may read it.

In:   the service's directory.
Out:  the token; files with it and with the service's address; for clients, the token of a service at an address.
Elsewhere: who is asked for it (api/rest/guard.py), the same for a controller (node/process/control.py).
Rule: reading the file is the right to use the service. Users and roles come later, beside this token.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from migrator.findings.finding import words_of
from migrator.findings.service import TOKEN_FILE_UNUSABLE
from state_machine.clusters.private_files import PRIVATE, read_regular, write_private
from state_machine.origins import LOOPBACK_NAMES, in_url
from state_machine.times.process_mark import process_mark

TOKEN_FILE: Final = "token"
SERVE_FILE: Final = "serve.json"
ENVIRONMENT: Final = "ZK2KRAFT_TOKEN_FILE"
DEFAULT_DIRECTORY: Final = Path("zk2kraft-service")
TOKEN_MAX_BYTES: Final = 4_096
TOKEN_LEAST: Final = 24
"""Characters; less could be guessed."""


class Served(msgspec.Struct, frozen=True):
    """What `serve.json` says: where a service listens, its process, and the file with its token."""

    url: str
    pid: int
    token_file: str = ""


def service_token(directory: Path) -> str:
    """The token of this directory, made when there is none. Raises Z2K-4110."""
    file = directory / TOKEN_FILE
    try:
        if not file.exists():
            write_private(file, secrets.token_urlsafe(32).encode() + b"\n")
        file.chmod(PRIVATE)
    except OSError as error:
        raise TOKEN_FILE_UNUSABLE.error(file=file, reason=error.strerror or str(error)) from error
    return read_token(file)


def read_token(file: Path) -> str:
    """Raises Z2K-4110."""
    try:
        token = read_regular(file, TOKEN_MAX_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise TOKEN_FILE_UNUSABLE.error(file=file, reason=words_of(error)) from error
    if len(token) < TOKEN_LEAST or not token.isprintable():
        raise TOKEN_FILE_UNUSABLE.error(file=file, reason=f"it holds no token of at least {TOKEN_LEAST} characters")
    return token


def page_key(token: str) -> str:
    """What a browser keeps as a cookie: follows from the token, and the token does not follow from it."""
    return hmac.new(token.encode(), b"zk2kraft page", hashlib.sha256).hexdigest()


# --- for clients on this machine --------------------------------------------------------------------------


def url_here(host: str, port: int) -> str:
    """Where clients on this machine find a service that listens on `host`: with all addresses, on loopback."""
    return f"http://{in_url({'0.0.0.0': '127.0.0.1', '::': '::1'}.get(host, host))}:{port}"


def tell_clients(directory: Path, url: str, environment: Mapping[str, str] = os.environ) -> None:
    """Write where this service is: beside its database, and where clients of this user look for it."""
    token_file = directory / TOKEN_FILE
    said = msgspec.json.encode(Served(url, os.getpid(), str(token_file)))
    write_private(directory / SERVE_FILE, said)
    pointer = _pointer(url, environment)
    if pointer is not None:
        pointer.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(pointer, said)


def tell_clients_no_more(url: str, environment: Mapping[str, str] = os.environ) -> None:
    """The service ends: whoever listens there next is not sent its token."""
    pointer = _pointer(url, environment)
    if pointer is not None:
        with suppress(OSError):
            pointer.unlink(missing_ok=True)


def token_for(url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token of the service at this address; None when no file of this user names it. Raises Z2K-4110."""
    named = environment.get(ENVIRONMENT)
    if named:
        return read_token(Path(named))
    for file in _places(url, environment):
        try:
            served = msgspec.json.decode(read_regular(file, TOKEN_MAX_BYTES), type=Served)
        except (OSError, ValueError, msgspec.DecodeError):
            continue
        if _same_place(served.url, url) and served.token_file and process_mark(served.pid) is not None:
            return read_token(Path(served.token_file))
    return None


def person() -> str:
    """Who asks, as this machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid {os.getuid()}"


def _places(url: str, environment: Mapping[str, str]) -> Iterator[Path]:
    pointer = _pointer(url, environment)
    if pointer is not None:
        yield pointer
    yield DEFAULT_DIRECTORY / SERVE_FILE


def _pointer(url: str, environment: Mapping[str, str]) -> Path | None:
    home = environment.get("HOME")
    return Path(home) / ".zk2kraft" / f"serve-{urlsplit(url).port or 80}.json" if home else None


def _same_place(left: str, right: str) -> bool:
    """A token is only sent to the port whose service wrote it, on this machine."""
    one, other = urlsplit(left), urlsplit(right)
    names = {one.hostname, other.hostname}
    return one.port == other.port and (len(names) == 1 or names <= LOOPBACK_NAMES)
