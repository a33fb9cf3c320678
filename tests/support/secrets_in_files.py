"""Which files hold which secret in clear, whatever they are wrapped in: gzip, Parquet, base64."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq


def forms(secret: bytes) -> set[bytes]:
    """The bytes themselves, in hexadecimal, and in both kinds of base64."""
    encoded = base64.b64encode(secret).rstrip(b"=")
    return {secret, secret.hex().encode(), encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")}


def held_by(data: bytes, secrets: Mapping[str, bytes]) -> list[str]:
    """Names of the secrets that are in it."""
    return [name for name, secret in secrets.items() if any(form in data for form in forms(secret))]


def found_in(files: Iterable[Path], secrets: Mapping[str, bytes]) -> list[str]:
    return [f"{name} in {file}" for file in files for name in held_by(content(file), secrets)]


def content(file: Path) -> bytes:
    """As written, and unpacked behind it where it is packed."""
    data = file.read_bytes()
    if file.suffix == ".gz":
        return data + gzip.decompress(data)
    if file.suffix == ".parquet":
        return data + str(pq.read_table(file).to_pylist()).encode()
    return data


def files_below(*roots: Path) -> Iterator[Path]:
    for root in roots:
        yield from (each for each in sorted(root.rglob("*")) if each.is_file())
