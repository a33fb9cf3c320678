"""Pages that need nothing from elsewhere: no script, no font, no picture; their style is inside of them.

In:   a template, its style sheets, a document of JSON types.
Out:  HTML, the hash of its style for a Content-Security-Policy, a file.
Elsewhere: which pages there are (change/views.py, audit_report/views.py).
Rules: everything is escaped by the template. Characters that change the direction of text, or that are no text, are
shown as codes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
import unicodedata
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from api.pages import words

SHOWN_AS_CODES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode: control, format (such as right-to-left overrides), surrogates, unassigned, separators."""

_loader = PackageLoader("api")
templates = Environment(
    loader=_loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def style(*sheets: str) -> str:
    """What stands in the page's style element, to the byte; not escaped there."""
    return "\n".join(_loader.get_source(templates, each)[0].strip() for each in sheets)


def style_hash(style: str) -> str:
    """The hash of a style, for the Content-Security-Policy of its page."""
    digest = hashlib.sha256(style.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def write_page(file: Path, page: str) -> None:
    """Readable by its owner only: it names hosts, files and people. In one step. Raises OSError."""
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(page.encode("utf-8", "backslashreplace"))
    os.replace(draft, file)


def moment(at: float | None) -> str:
    """RFC 3339 in UTC, to the second."""
    try:
        return "-" if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return "no time that a calendar has"


def plain(value: Any) -> Any:
    """Every text in a document, with what is no text as codes such as `\\u202e`."""
    if isinstance(value, str):
        return "".join(_shown(each) for each in value)
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _shown(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() or character in "\n\t" else f"\\x{ord(character):02x}"
    if unicodedata.category(character) not in SHOWN_AS_CODES:
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


templates.filters |= {"moment": moment, "span": words.span, "dash": words.dash, "yes": words.yes}
templates.filters |= {"sentence": words.sentence}
