"""Kafka's own `PasswordEncoder`, run inside a laboratory by way of `PasswordCoder.java`. Needs a JDK."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from migrator.lab.servers.laboratory import Laboratory
from migrator.zk.passwords import EncoderSettings

PROGRAM = Path(__file__).with_name("PasswordCoder.java")


class Task(NamedTuple):
    """value: clear to encode, a text to decode."""

    what: Literal["encode", "decode"]
    settings: EncoderSettings
    value: str

    def line(self) -> str:
        each = self.settings
        factory = each.key_factory or "-"
        words = (self.what, _base64(each.secret), _base64(self.value), factory, each.cipher, each.key_length)
        return "\t".join(map(str, (*words, each.iterations)))


def ask_kafka(laboratory: Laboratory, tasks: Sequence[Task]) -> list[str]:
    """One answer for each task; what Kafka refused is told as "refused ..."."""
    answers = _run(laboratory, [task.line() for task in tasks])
    return [
        base64.b64decode(answer).decode() if task.what == "decode" and not answer.startswith("refused") else answer
        for task, answer in zip(tasks, answers, strict=True)
    ]


def keys_of_brokers(laboratory: Laboratory) -> dict[str, bool]:
    """Every key of a broker's configuration, and whether Kafka encrypts it in ZooKeeper."""
    pairs = (each.split("=") for each in _run(laboratory, ["keys"])[0].split(","))
    return {name: encrypted == "true" for name, encrypted in pairs}


def _run(laboratory: Laboratory, lines: list[str]) -> list[str]:
    tasks = laboratory.directory / "password-tasks"
    tasks.parent.mkdir(parents=True, exist_ok=True)
    tasks.write_text("".join(f"{line}\n" for line in lines))
    return laboratory.tool(str(PROGRAM), tasks).splitlines()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
