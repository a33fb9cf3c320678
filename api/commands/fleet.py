"""Commands about nodes: their inventory, and the files that they get.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
Exit codes: 0 done, 1 with warnings (`inventory check`), 2 refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from api.commands.output import print_json
from migrator.findings.finding import FindingError, Occurrence, Severity, words_of
from migrator.findings.fleet import INVENTORY_UNREADABLE, PROPERTIES_UNREADABLE
from migrator.fleet.actuators import transfer_findings
from migrator.fleet.ansible import BYTES_MAX, decoded, read_file
from migrator.fleet.importing import Assumed, import_nodes
from migrator.fleet.inventory import Inventory, Node, check_inventory, read_inventory, wanted_of
from migrator.fleet.kafka_parser import class_path_of, require_kafka_accepts
from migrator.fleet.properties_file import Document, has_placeholder, parse_properties
from migrator.fleet.render import RULES, FileKind, Rendered, Wanted, render
from migrator.fleet.strict_yaml import dump_yaml
from migrator.fleet.takeover_settings import name_of, settings_in

__all__ = [
    "Assumed",
    "FileKind",
    "broker_settings",
    "check_inventory_file",
    "import_inventory",
    "kinds_of",
    "render_file",
]

REFUSED: Final = 2
STDIN: Final = "standard input"


def check_inventory_file(file: Path, *, as_json: bool) -> int:
    """Exit: 0 nothing was found, 1 warnings, 2 it is refused."""
    try:
        inventory = read_inventory(file)
        findings = check_inventory(inventory, str(file), datetime.now(UTC))
        with suppress(FindingError):  # whoever uses the templates says what is wrong with one
            findings = (*findings, *transfer_findings(inventory, file.resolve().parent / "templates"))
    except FindingError as error:
        inventory, findings = None, (error.occurrence,)
    blocked = any(each.finding.severity is Severity.BLOCKS for each in findings)
    if as_json:
        print_json({"file": str(file), "passed": not blocked, "findings": [each.as_json() for each in findings]})
    else:
        for each in findings:
            print(each.in_full)
        if inventory is not None and not blocked:
            cluster = inventory.cluster.name
            print(f"{cluster}: {len(inventory.brokers)} brokers, {len(inventory.controllers)} controllers.")
    return REFUSED if blocked else 1 if findings else 0


def import_inventory(
    ansible: Path | None, files: list[Path], out: Path | None, assumed: Assumed, groups: dict[str, str]
) -> int:
    """Write the document to `out` or standard output; say on standard error what it lacks.

    Exit: 0, 1 incomplete, 2 refused, and nothing is written.
    """
    try:
        text, warned = (None, ()) if ansible is None else _ansible(ansible)
        imported = import_nodes(text, [_properties(file) for file in files], assumed, groups)
    except FindingError as error:
        _say([error.occurrence])
        return REFUSED
    written = dump_yaml(imported.document)
    if out is None:
        sys.stdout.write(written)
    else:
        _write_new(out, written.encode(), 0o644)
    findings = (*warned, *imported.findings)
    _say(findings)
    return 1 if findings else 0


def _ansible(file: Path) -> tuple[tuple[str, str], tuple[Occurrence, ...]]:
    """Name and text, and what Ansible warned of; `-` is standard input. Raises Z2K-7049."""
    if str(file) == "-":
        return (STDIN, decoded(STDIN, sys.stdin.buffer.read(BYTES_MAX + 1))), ()
    text, warned = read_file(file)
    return (str(file), text), warned


def render_file(
    role: str,
    file: Path,
    kind: FileKind,
    *,
    inventory: Path | None,
    node: int | None,
    before: Path | None,
    kafka: Path | None,
    out: Path | None,
    diff: bool,
) -> int:
    """Print the next file (secrets hidden) or its difference; write it whole to `out`. Exit: 0, 2 refused."""
    try:
        present = _properties(file)
        predecessor = None if before is None else _properties(before)
        rendered = render(role, present, kind, _wanted(inventory, node, present), predecessor)
        _say(rendered.findings)
        if rendered.blocked:
            return REFUSED
        _ask_kafka(rendered, kafka)
    except FindingError as error:
        _say([error.occurrence])
        return REFUSED
    if out is not None:
        _write_new(out, rendered.content, 0o600)
        print(f"{out}: sha256 {rendered.checksum}", file=sys.stderr)
    for line in rendered.diff() if diff else [] if out is not None else rendered.document.shown():
        print(line)
    return 0


def broker_settings(file: Path) -> tuple[str, dict[str, str]]:
    """Id of a broker, or the name of its file where that has none, and what the takeover gate would ask it for.

    Raises Z2K-7030.
    """
    document = _properties(file)
    return name_of(document), settings_in(document)


def kinds_of(role: str) -> tuple[FileKind, ...]:
    return tuple(kind for of, kind in RULES if of == role)


def _ask_kafka(rendered: Rendered, kafka: Path | None) -> None:
    """Raises Z2K-7035."""
    if kafka is None:
        return
    not_tried = require_kafka_accepts(rendered.document, class_path_of(kafka))
    print(f"Kafka's own parser: {not_tried or 'accepted'}", file=sys.stderr)


def _wanted(file: Path | None, node_id: int | None, present: Document) -> Wanted:
    """What is wanted of the node with that id, or of the one that the file names. Raises Z2K-7001 or Z2K-7002."""
    if file is None:
        return Wanted(node=node_id)
    inventory = read_inventory(file)
    node = _node(inventory, node_id, present)
    if node is None:
        own = present.value("node.id") or present.value("broker.id")
        wanted = node_id if node_id is not None else own
        reason = f"there is no node {wanted}; --node names one"
        raise INVENTORY_UNREADABLE.error(file=str(file), reason=reason)
    return wanted_of(inventory, node)


def _node(inventory: Inventory, node_id: int | None, present: Document) -> Node | None:
    if node_id is not None:
        return inventory.node(node_id)
    own = present.value("node.id") or present.value("broker.id") or ""
    return inventory.node(int(own)) if own.isdecimal() and not has_placeholder(own) else None


def _properties(file: Path) -> Document:
    """Raises Z2K-7030."""
    return parse_properties(_read(file), str(file))


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PROPERTIES_UNREADABLE.error(file=str(file), reason=error.strerror or words_of(error)) from error


def _write_new(file: Path, content: bytes, mode: int) -> None:
    """Write a file in one step; its mode is right before its content is there."""
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(draft, file)


def _say(findings: Iterable[Occurrence]) -> None:
    for each in findings:
        print(each.in_full, file=sys.stderr)
