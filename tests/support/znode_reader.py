"""Kafka's own readers of znodes, run inside a laboratory by way of `ZnodeReader.java`. Needs a JDK."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from migrator.lab.servers.laboratory import Laboratory

PROGRAM: Final = Path(__file__).with_name("ZnodeReader.java")


class Refused(str):
    """Why there is no value: what Kafka threw, or "nothing" where it takes bytes for none."""

    __slots__ = ()


def ask_readers(laboratory: Laboratory, texts: Sequence[tuple[str, bytes]]) -> list[Any]:
    """One answer for each kind and text: a value of JSON, or `Refused`."""
    tasks = laboratory.directory / "znodes"
    tasks.parent.mkdir(parents=True, exist_ok=True)
    tasks.write_text("".join(f"{kind}\t{base64.b64encode(data).decode()}\n" for kind, data in texts))
    answers = laboratory.tool(str(PROGRAM), tasks).removesuffix("\n").split("\n")
    assert len(answers) == len(texts), answers[-1:]
    return [Refused(each) if each == "nothing" or each.startswith("refused ") else json.loads(each) for each in answers]
