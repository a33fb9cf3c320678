"""Kafka's own opinion about a rendered file: its parser is started and reads the file.

In:   the document, a class path with Kafka's jars. Out: why Kafka refuses it; None when it does not.
Elsewhere: our own rules (render.py).
Errors: Z2K-7035 from `require_kafka_accepts`.
Rules: `kafka.tools.StorageTool info` builds a `KafkaConfig`, with every check of a start, and writes nothing. What it
says about directories is passed over: they are on the node. The file lies for this time in a private directory.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from migrator.commands.bounded import CommandFailed, run_command
from migrator.findings.fleet import KAFKA_REFUSES_FILE
from migrator.fleet.properties_file import HIDDEN, Document
from migrator.model.hidden_keys import is_hidden

LIMIT_S: Final = 60.0
OUTPUT_BYTES_MAX: Final = 1 << 20
_EXCEPTION: Final = re.compile(r'^Exception in thread "main" [\w.$]+: ?(.*)$', re.MULTILINE)
_FOUND: Final = re.compile(r"^Found (?:log director|metadata|problem)", re.MULTILINE)


def why_kafka_refuses(document: Document, class_path: str, java: str = "java") -> str | None:
    """class_path: Kafka's jars, such as `/opt/kafka/libs/*`. java: the command.

    A file with config.providers is not tried here, since their files are on the node: the reason then begins with "not
    tried". Raises Z2K-7035 when the parser itself cannot be started.
    """
    if document.value("config.providers"):
        return "not tried: config.providers would read files of the node"
    with tempfile.TemporaryDirectory(prefix="zk2kraft-parser-") as directory:
        file = Path(directory) / "rendered.properties"
        file.touch(0o600)
        file.write_bytes(document.content)
        words = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path]
        words += ["kafka.tools.StorageTool", "info", "--config", str(file)]
        try:
            said = run_command(words, limit_s=LIMIT_S, output_bytes_max=OUTPUT_BYTES_MAX, accepted=(0, 1))
        except CommandFailed as error:
            raise KAFKA_REFUSES_FILE.error(file=document.name, reason=f"its parser did not run: {error}") from error
    if (refused := _EXCEPTION.search(said.errors)) is not None:
        return _without_secrets(refused[1] or "it ended with an exception", document)
    if not _FOUND.search(said.stdout.decode(errors="replace")):
        reason = "its parser did not run: Kafka's jars are not on the class path, or are of another version"
        raise KAFKA_REFUSES_FILE.error(file=document.name, reason=reason)
    return None


def require_kafka_accepts(document: Document, class_path: str, java: str = "java") -> str | None:
    """Why it was not tried; None when Kafka accepts the file. Raises Z2K-7035 when it does not."""
    reason = why_kafka_refuses(document, class_path, java)
    if reason is not None and not reason.startswith("not tried"):
        raise KAFKA_REFUSES_FILE.error(file=document.name, reason=reason)
    return reason


def class_path_of(kafka: Path) -> str:
    """kafka: an installed Kafka, or a directory of its jars."""
    libs = kafka / "libs" if (kafka / "libs").is_dir() else kafka
    return os.path.join(libs, "*")


def _without_secrets(text: str, document: Document) -> str:
    """Kafka quotes the value that it refuses."""
    for key, value in document.values.items():
        if is_hidden(key) and value:
            text = text.replace(value, HIDDEN)
    return text
