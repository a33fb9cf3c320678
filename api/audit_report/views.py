"""The report of one audit as a page that can be printed and kept.

In:   an `AuditReport` as JSON types, and where and when the audit was made.
Out:  HTML that needs nothing from elsewhere.
Elsewhere: what the report says (migrator/audit/compare.py), what holds for every such page (standalone.py).
Rules: the verdict comes first. Nothing of a report is left out but what the report itself left off, and it says so.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import Any, Final, NamedTuple

import msgspec

from api import standalone
from api.standalone import plain

TEMPLATE: Final = "audit_report.html"
STYLES: Final = ("style.css", "audit_report.css")
ALONE: Final = {"broker": "the broker stands alone", "log": "the log stands alone", "each": "all three differ"}
"""By `alone` of a broker's difference."""

_OF_BROKERS: Final[dict[str, Any]] = {
    **{name: [] for name in ("asked", "families", "differences", "zookeeper_alone", "not_asked")},
    "left_off": 0,
    "problem": "",
    "lag_problem": "",
    "asked_here": "",
}
"""Reports leave out what is as it is by default."""
_OF_ZOOKEEPER: Final = ("connect", "cluster_id", "controller", "controller_epoch", "dual_write")


class AboutAudit(NamedTuple):
    """What a report does not say of itself. directory: where it is kept; empty: nowhere."""

    name: str
    ended_at: float | None
    directory: str
    has_inputs: bool


class AuditVerdict(NamedTuple):
    """word: passed, diverged or incomplete."""

    word: str
    says: str


def as_html(document: dict[str, Any], about: AboutAudit) -> str:
    """document: an `AuditReport` as JSON types."""
    report = plain(_whole(document))
    side = report["brokers"]
    told_alone = set(side["zookeeper_alone"]) if side else set()
    differences = [{**each, "zookeeper_alone": _name(each) in told_alone} for each in report["differences"]]
    return standalone.templates.get_template(TEMPLATE).render(
        report=report,
        about=AboutAudit(*plain(list(about))),
        verdict=verdict(report),
        differences=_grouped(differences, "family"),
        expected=_grouped(report["expected"], "rule"),
        of_brokers=_grouped(side["differences"], "family") if side else {},
        steps=[(name, took) for name, took in report["seconds"].items() if name != "total"],
        alone=ALONE,
        style=style(),
    )


def style() -> str:
    """What stands in the page's style element, to the byte."""
    return standalone.style(*STYLES)


def verdict(report: dict[str, Any]) -> AuditVerdict:
    """One word, and what it means in numbers. report: with every field."""
    side = report["brokers"]
    compared, expected, different, unread = (
        sum(each[name] for each in report["families"]) for name in ("compared", "expected", "different", "not_read")
    )
    of_brokers = sum(each["different"] for each in side["asked"]) if side else 0
    if report["same"]:
        sides = "ZooKeeper, the log and the brokers" if side else "ZooKeeper and the log"
        meant = f", {expected:,} of them with a difference that a rule expects" if expected else ""
        return AuditVerdict("passed", f"{sides} are equal: {_keys(compared)} compared{meant}.")
    says = []
    if different:
        says.append(f"Different between ZooKeeper and the log: {different:,} of {_keys(compared)}.")
    if of_brokers:
        says.append(f"Different between brokers and the log: {_keys(of_brokers)}.")
    if unread:
        says.append(f"Not read, so that nothing is known of them: {_keys(unread)}.")
    silent = [f"{each['broker']}" for each in side["asked"] if each["problem"] or each["refused"]] if side else []
    if silent:
        says.append(f"Brokers of which not all was read: {', '.join(silent)}.")
    if side and side["problem"]:
        says.append("No broker was read.")
    word = "diverged" if different or of_brokers else "incomplete"
    return AuditVerdict(word, " ".join(says) or "Not all was compared.")


def _keys(count: int) -> str:
    return f"{count:,} key{'' if count == 1 else 's'}"


def _files_text(told: Any) -> str | None:
    """Which files stood in for an ensemble, and up to when; None where none did."""
    match told:
        case {"zxid": int(zxid), "at_ms": int(at_ms), "snapshot": str(snapshot), "logs": [*logs]}:
            moment = f" of {standalone.moment(at_ms / 1_000)}" if at_ms else ""
            parts = [f"{', '.join(map(str, (snapshot, *logs)))} up to transaction {zxid:#x}{moment}"]
            confirms = "confirms this tree" if told.get("verified") else "is not noted"
            parts.append(f"the server's digest {confirms}")
            if torn := told.get("torn"):
                parts.append(f"{torn} ends inside the entry at offset {told.get('torn_at')}")
            if isinstance(skipped := told.get("skipped"), list | tuple):
                named = [each for each in skipped if isinstance(each, dict)]
                parts += [f"skipped {each.get('file')}: {each.get('reason')}" for each in named]
            return "; ".join(parts)
        case _:
            return None


def _whole(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every field that the page looks at."""
    side = document.get("brokers")
    shape = document.get("shape")
    return {
        **document,
        "left_off": {"differences": 0, "expected": 0, **document.get("left_off", {})},
        "brokers": None if side is None else {**_OF_BROKERS, **side},
        "zk": {**dict.fromkeys(_OF_ZOOKEEPER), **document["zk"], "files": _files_text(document["zk"].get("files"))},
        "kraft": {**dict.fromkeys(("offset", "epoch")), **document["kraft"]},
        "seconds": {"total": None, **document["seconds"]},
        "shape": None if shape is None else {**shape, **{name: _named(shape[name]) for name in _SPREADS}},
    }


_SPREADS: Final = ("partitions_per_topic", "isr_sizes")


def _named(buckets: list[dict[str, int]]) -> list[dict[str, Any]]:
    """Buckets with their bounds in words: 1, 2 to 3, 1024 and more."""
    ends = [each["at_least"] - 1 for each in buckets[1:]]
    found = []
    for number, each in enumerate(buckets):
        first = each["at_least"]
        last = ends[number] if number < len(ends) else None
        words = f"{first} and more" if last is None else f"{first}" if first == last else f"{first} to {last}"
        found.append({**each, "words": words})
    return found


def _grouped(rows: list[dict[str, Any]], name: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in rows:
        found[each[name]].append(each)
    return dict(found)


def _name(difference: dict[str, Any]) -> str:
    """As `zookeeper_alone` names it."""
    return " ".join(filter(None, (difference["family"], difference["key"], difference["field"])))


def _value(value: Any) -> str:
    """A side's value: a text as it is, anything else as JSON; a dash where that side has none."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


standalone.templates.filters |= {"value": _value, "quoted": shlex.quote}
