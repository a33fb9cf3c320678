"""Java properties files, always written whole.

In:   keys and values.
Out:  the text of the file; `read` for looking at one again.
Elsewhere: which keys (zookeeper.py, broker.py, controller.py). No file is ever edited line by line: a configuration
is a value, and the file is what it looks like.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

Value = str | int | bool


def render(properties: Mapping[str, Value]) -> str:
    """One `key=value` line each, in the order given, escaped as java.util.Properties reads it."""
    return "".join(f"{_escape_key(key)}={_escape(_text(value))}\n" for key, value in properties.items())


def write(path: Path, properties: Mapping[str, Value]) -> None:
    """Replace the file in one step, so that a process that starts meanwhile reads the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(render(properties))
    os.replace(draft, path)


def read(path: Path) -> dict[str, str]:
    """What `write` wrote. Not a general reader: no continuation lines, no comments inside values."""
    pairs: dict[str, str] = {}
    for line in path.read_text().splitlines():
        key, _, value = line.partition("=")
        if key and not key.startswith("#"):
            pairs[key] = value.replace("\\\\", "\\")
    return pairs


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _escape_key(key: str) -> str:
    return _escape(key).replace("=", "\\=").replace(":", "\\:").replace(" ", "\\ ")
