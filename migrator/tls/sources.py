"""Where keys and certificates come from: PEM in a file or as text, or a store of Java's.

In:   nothing. Out: values, with every secret kept out of their text.
Elsewhere: which keys of a properties file say so (node.transport.security, zk.tls_settings); reading (contexts.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PemSource:
    """Certificates or keys in PEM: a file, or the text itself."""

    key: str
    """The key of the properties file that gives it, for messages."""
    file: Path | None = None
    text: str | None = field(default=None, repr=False)
    shown: bool = True
    """Whether the name of the file may stand in messages: it may not where it came from a config provider."""


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A JKS or PKCS12 file. password: of the store."""

    key: str
    file: Path
    password: str | None = field(repr=False)
    shown: bool = True


Source: TypeAlias = PemSource | StoreSource
