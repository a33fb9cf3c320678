"""What in a broker's rendered file keeps it from starting, from finding the controllers, or from KRaft mode later.

In:   the rendered document, and `Controllers`: what the inventory says of them. `Say`: how a key and a reason become an
occurrence, refused or unsure.
Out:  occurrences of Z2K-7032, Z2K-7033, and Z2K-7051.
Elsewhere: which rule writes which key (render.py), what the takeover gate refuses (takeover_settings.py), Kafka's own
parser (kafka_parser.py), which accepts another protocol, another mechanism and a missing login.
Rule: judged before the broker is restarted for the first time. A broker that has joined is not judged again.
Source: Kafka 3.9 `KafkaConfig.validateValues`, `RaftControllerNodeProvider`, `JaasContext.loadServerContext`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from migrator.findings.finding import Occurrence
from migrator.findings.fleet import LOGIN_MISSING
from migrator.fleet.properties_file import Document, has_placeholder, joined, names_in
from migrator.model import levels
from migrator.model.listeners import DEFAULT_LISTENERS, DEFAULT_MAP, JAVA_BLANKS, PROTOCOL_MAP, mapped

Say: TypeAlias = Callable[[str, str], Occurrence]

RESERVED_ID: Final = 1_000
MECHANISM: Final = "sasl.mechanism.controller.protocol"
DEFAULT_MECHANISM: Final = "GSSAPI"
_LOGIN: Final = re.compile(r"listener\.name\..+\.sasl\.jaas\.config")


class Controllers(NamedTuple):
    """Of the inventory. listener: "" when it is not said. mechanism: "" when it is not said."""

    listener: str
    protocol: str
    mechanism: str


def joining_findings(document: Document, controllers: Controllers, refused: Say, unsure: Say) -> Iterator[Occurrence]:
    """Of a migration file."""
    yield from same_name_findings(document, refused)
    yield from _reserved_id(document, refused, unsure)
    yield from _level(document, refused)
    if controllers.listener:
        yield from _protocol(document, controllers, refused, unsure)
        if controllers.protocol.startswith("SASL_"):
            yield from _login(document, controllers, refused, unsure)


def same_name_findings(document: Document, refused: Say) -> Iterator[Occurrence]:
    """In ZooKeeper mode a broker works with such names; the KRaft broker does not start with them."""
    controllers = {name.upper() for name in names_in(document.value("controller.listener.names"))}
    listening = document.value("listeners") or DEFAULT_LISTENERS
    own = {entry.partition("://")[0].strip(JAVA_BLANKS).upper() for entry in names_in(listening)}
    if both := own & controllers:
        yield refused(
            "listeners",
            f"{joined(sorted(both))} is a listener of controllers too, with which no KRaft broker starts; give that of "
            "the controllers another name in the inventory (quorum.listener), which their own files need not have",
        )


def _reserved_id(document: Document, refused: Say, unsure: Say) -> Iterator[Occurrence]:
    own = document.value("broker.id") or document.value("node.id") or ""
    generation, reserved = document.value("broker.id.generation.enable"), document.value("reserved.broker.max.id")
    if (generation or "true").lower() == "false" or not own.isdecimal():
        return
    if has_placeholder(generation or "") or has_placeholder(reserved or ""):
        if int(own) > RESERVED_ID:
            yield unsure("reserved.broker.max.id", f"a config provider fills it in, and {own} may be too high for it")
        return
    highest = int(reserved) if reserved and reserved.isdecimal() else RESERVED_ID
    if int(own) > highest:
        yield refused(
            "reserved.broker.max.id",
            f"Kafka does not start with an id ({own}) above it ({highest}) unless broker.id.generation.enable is false",
        )


def _level(document: Document, refused: Say) -> Iterator[Occurrence]:
    version = document.value("inter.broker.protocol.version") or ""
    level = levels.level_of_release(version)
    if 0 < level < levels.MIGRATION:
        yield refused("inter.broker.protocol.version", f"it is {version}; the migration begins with 3.4")


def _protocol(document: Document, controllers: Controllers, refused: Say, unsure: Say) -> Iterator[Occurrence]:
    listener = controllers.listener.upper()
    entries = mapped(document.value(PROTOCOL_MAP) or DEFAULT_MAP)
    said = {entry.protocol for entry in entries if entry.name == listener}
    if others := sorted(protocol for protocol in said if protocol not in (None, controllers.protocol)):
        is_what = " and ".join(filter(None, others))
        yield refused(PROTOCOL_MAP, f"{listener} is {is_what}, the inventory says {controllers.protocol}")
    elif None in said or any(entry.name is None for entry in entries):
        yield unsure(PROTOCOL_MAP, f"a config provider knows whether {listener} is {controllers.protocol} in it")


def _login(document: Document, controllers: Controllers, refused: Say, unsure: Say) -> Iterator[Occurrence]:
    mechanism = document.value(MECHANISM) or DEFAULT_MECHANISM
    if has_placeholder(mechanism):
        yield unsure(MECHANISM, f"a config provider knows whether it is {controllers.mechanism or 'what they take'}")
        return
    if controllers.mechanism and mechanism != controllers.mechanism:
        yield refused(MECHANISM, f"it is {mechanism}, the inventory says {controllers.mechanism}")
        return
    key = f"listener.name.{controllers.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if document.value(key):
        return
    others = [name for name in document.values if _LOGIN.fullmatch(name) and name != key]
    if others or document.value(key) is not None:
        yield LOGIN_MISSING.found(file=document.name, key=key, other=others[0] if others else key)
    else:
        yield unsure(
            key,
            "it is missing; it may only be left out where the JAAS file of the Java process has KafkaServer or "
            f"{controllers.listener.lower()}.KafkaServer",
        )
