"""The change report as JSON and as a page.

In:   a `ChangeReport`. Out: a document of JSON types; HTML.
Elsewhere: what the report says (state_machine.change), its text for a terminal (text.py).
Rules: the page needs nothing from elsewhere: no script, no font, no picture; its style is inside of it. Everything is
escaped by the template. Characters that change the direction of text, or that are no text, are shown as codes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from api.pages import words
from state_machine.change.document import ChangeReport

TEMPLATE: Final = "change.html"
STYLE: Final = "change.css"
SHOWN_AS_CODES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode: control, format (such as right-to-left overrides), surrogates, unassigned, separators."""

_loader = PackageLoader("api")
_templates = Environment(
    loader=_loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def as_json(report: ChangeReport) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(report)
    return found


def as_html(document: dict[str, Any]) -> str:
    """document: of `as_json`, also one that was fetched."""
    shown = plain(document)
    by_number = {each["number"]: each for each in shown["restarts"]}
    rolls: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in shown["restarts"]:
        rolls[each["roll"]].append(each)
    return _templates.get_template(TEMPLATE).render(
        report=shown,
        rolls=rolls,
        by_number=by_number,
        with_diff=[each for each in shown["restarts"] if each["diff"] or each["checksum_after"]],
        done=[each for each in shown["restarts"] if each["began_at"] is not None],
        style=style(),
    )


def style() -> str:
    """What stands in the page's style element, to the byte; not escaped there."""
    return _loader.get_source(_templates, STYLE)[0].strip()


def style_hash() -> str:
    """The hash of the style, for the Content-Security-Policy of the page."""
    digest = hashlib.sha256(style().encode()).digest()
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
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _shown(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() or character in "\n\t" else f"\\x{ord(character):02x}"
    if unicodedata.category(character) not in SHOWN_AS_CODES:
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def between(span: dict[str, Any]) -> str:
    low, high = words.span(span["low_s"]), words.span(span["high_s"])
    return low if low == high else f"{low} to {high}"


def takes(undo: dict[str, Any]) -> str:
    """How long going back takes. A document of an earlier release does not say it."""
    found = undo.get("takes")
    return words.dash(None) if found is None else between(found)


def sources(undos: list[dict[str, Any]]) -> list[str]:
    """What the ranges of going back are from, each once."""
    return list(dict.fromkeys(f"{each['takes']['source']}" for each in undos if each.get("takes")))


_templates.filters |= {"moment": moment, "span": words.span, "between": between, "dash": words.dash, "yes": words.yes}
_templates.filters |= {"takes": takes, "sources": sources}
