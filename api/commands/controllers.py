"""Commands about one controller: run it, format and show its directories, print its log.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from api.commands.output import print_json, start_logging
from migrator.findings.finding import FindingError


def run_controller(file: Path) -> int:
    from migrator.node.config.properties import read_config
    from migrator.node.process.controller import run_controller as run

    start_logging()
    return run(read_config(file))


def format_storage(file: Path, cluster_id: str, release: str | None, *, ignore_formatted: bool) -> int:
    from migrator.node.config.formatting import format_node
    from migrator.node.config.properties import read_config

    for line in format_node(read_config(file), cluster_id, release, ignore_formatted=ignore_formatted):
        print(line)
    return 0


def storage_info(file: Path) -> int:
    from migrator.node.config.properties import read_config
    from migrator.node.log.storage import read_meta_properties, refuse_later_format

    config = read_config(file)
    problems = 0
    for directory in sorted({config.metadata_log_dir, *config.log_dirs}):
        try:
            meta = read_meta_properties(directory)
            print(f"{directory}: cluster.id={meta.cluster_id} node.id={meta.node_id} directory.id={meta.directory_id}")
            if directory == config.metadata_log_dir:
                refuse_later_format(directory)
        except FindingError as error:
            problems += 1
            print(error)
    return 1 if problems else 0


def dump_log(path: Path, *, as_json: bool) -> int:
    """One line per record: offset, epoch, type, and its fields (ids as Kafka writes them, secrets left out)."""
    from migrator.audit.log_source import log_directory
    from migrator.wire.batch import read_batches
    from migrator.wire.records import decode_versioned_record

    files = [path] if path.is_file() else sorted(log_directory(path).glob("*.log"))
    documents = []
    for file in files:
        for batch in read_batches(file.read_bytes()):
            for number, record in enumerate(batch.control_records):
                documents.append(_document(batch.base_offset + number, batch.leader_epoch, record, 0))
            for number, value in enumerate(batch.values):
                message, version = decode_versioned_record(value)
                documents.append(_document(batch.base_offset + number, batch.leader_epoch, message, version))
    if as_json:
        print_json(documents)
    else:
        for each in documents:
            print(f"{each['offset']:>8} {each['epoch']:>4} {each['type']} {msgspec.json.encode(each['data']).decode()}")
    return 0


def check_logs(directories: list[Path], *, as_json: bool) -> int:
    """0: every log is whole and says what its snapshot says, and no two differ in what was committed."""
    from migrator.audit.log_check import check_logs

    found = check_logs(directories)
    if as_json:
        print_json(found)
        return found.exit_code
    for each in found.directories:
        snapshot = "no snapshot" if each.snapshot < 0 else f"snapshot at offset {each.snapshot}"
        later = f", {each.unknown} records of a later release: its snapshot was not compared" if each.unknown else ""
        print(
            f"{each.directory}: offsets {each.begins} to {each.end} of epoch {each.epoch}, {each.records} records, "
            f"{snapshot}{later}: {'NOT WELL' if each.problems else 'well'}"
        )
        print("\n".join(f"  {problem}" for problem in each.problems), end="\n" if each.problems else "")
    for line in (*found.disagreements, *(f"not committed, so no fault: {each}" for each in found.parted)):
        print(line)
    return found.exit_code


def _document(offset: int, epoch: int, record: msgspec.Struct, version: int) -> dict[str, Any]:
    from migrator.audit.fingerprints import without_secrets

    shown = without_secrets(record)
    data = {name: _plain(getattr(shown, name)) for name in record.__struct_fields__}
    return {"offset": offset, "epoch": epoch, "type": type(record).__name__, "version": version, "data": data}


def _plain(value: Any) -> Any:
    """Ids become Kafka's text; structs become their fields."""
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
