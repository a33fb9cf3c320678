"""The change report as JSON and as a page.

In:   a `ChangeReport`. Out: a document of JSON types; HTML.
Elsewhere: what the report says (state_machine.change), its text for a terminal (text.py), what holds for every page
that is kept as a file (api/standalone.py).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import msgspec

from api import standalone
from api.pages import words
from api.standalone import plain
from state_machine.change.document import ChangeReport

TEMPLATE: Final = "change.html"
STYLE: Final = "change.css"


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
    return standalone.templates.get_template(TEMPLATE).render(
        report=shown,
        rolls=rolls,
        by_number=by_number,
        with_diff=[each for each in shown["restarts"] if each["diff"] or each["checksum_after"]],
        done=[each for each in shown["restarts"] if each["began_at"] is not None],
        style=style(),
    )


def style() -> str:
    """What stands in the page's style element, to the byte."""
    return standalone.style(STYLE)


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


standalone.templates.filters |= {"between": between, "takes": takes, "sources": sources}
