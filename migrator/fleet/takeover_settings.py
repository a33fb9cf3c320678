"""What in a broker's file rules out the takeover, said before the broker is restarted for it.

In:   a broker's document, and what is known of the controllers.
Out:  occurrences of Z2K-1050, the finding with which the takeover gate refuses what a running broker answers.
Elsewhere: the rule (model.broker_settings), which file is asked when (render.py, importing.py, `zk2kraft check
--brokers`, the gate of BROKERS_JOINING).
Limits: a value that a config provider fills in is known to the running broker only, which the takeover gate asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.findings.finding import Occurrence
from migrator.findings.preflight import BROKER_SETTING_FORBIDS
from migrator.fleet.properties_file import Document, has_placeholder
from migrator.model.broker_settings import (
    ASKED,
    NOT_KNOWN,
    TOKEN_KEYS,
    ControllerFileSettings,
    forbidding,
    is_principals,
)

_HIDDEN: Final = "(hidden)"


def settings_in(document: Document) -> dict[str, str]:
    """Of a broker's file, as the broker would answer: without what only a config provider knows, secrets hidden."""
    found = {key: value for key, value in document.values.items() if key in ASKED or is_principals(key)}
    if "log.dirs" not in found and (directory := document.value("log.dir")):
        found["log.dirs"] = directory
    if (guarded := found.get("zookeeper.set.acl")) is not None:
        found["zookeeper.set.acl"] = guarded.lower()
    return {key: _HIDDEN if key in TOKEN_KEYS else value for key, value in found.items() if not has_placeholder(value)}


def not_judged(document: Document) -> tuple[str, ...]:
    """Keys that the gate asks for, and whose values come from a config provider."""
    return tuple(
        key
        for key, value in document.values.items()
        if has_placeholder(value) and (key in ASKED or is_principals(key)) and key not in TOKEN_KEYS
    )


def name_of(document: Document) -> str:
    """A broker by its own id, or by its file."""
    return document.value("broker.id") or document.value("node.id") or f"of {document.name}"


def forbidding_findings(
    document: Document, broker: int | None = None, ours: ControllerFileSettings = NOT_KNOWN
) -> Iterator[Occurrence]:
    """What the takeover gate would refuse. broker: None takes the file's own id, or its name where it has none."""
    settings = settings_in(document)
    for key, reason in forbidding(settings, ours):
        yield BROKER_SETTING_FORBIDS.found(
            broker=name_of(document) if broker is None else broker, key=key, value=settings[key], reason=reason
        )
