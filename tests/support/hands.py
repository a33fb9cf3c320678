"""A person, or a tool, who does what bundles of an exchange say, and nothing else.

In:   an exchange; how a node is stopped and started. Out: files of hosts, evidence, copies.
The hosts' files are on this machine, at the same paths.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

WANTED = re.compile(r"A copy of (\S+) of node \d+ on \S+ is wanted as (\S+): ")
KEEPS = re.compile(r"cp -p (\S+) (\S+)\. Its SHA-256 has to be ([0-9a-f]{64});")
PUTS = re.compile(r"put the file (\S+) in the place of (\S+) ")
HAS_NOW = re.compile(r"It has SHA-256 ([0-9a-f]{64}) now;")


class Hands:
    """stop, start: of a node. cluster_id: as every host has it."""

    def __init__(
        self, exchange: Path, stop: Callable[[int], None], start: Callable[[int], None], cluster_id: str = "cluster"
    ) -> None:
        self.exchange = exchange
        self.stop = stop
        self.start = start
        self.cluster_id = cluster_id
        self.did: list[str] = []
        self.dead: set[int] = set()
        """Nodes whose host nobody can do anything on."""

    def open_bundles(self) -> list[Path]:
        return sorted(
            each.parent
            for each in self.exchange.glob("*/steps/*/step.json")
            if not (each.parent / "evidence.json").exists() and not (each.parent / "withdrawn").exists()
        )

    def obey(self) -> None:
        for bundle in self.open_bundles():
            if int(bundle.parents[1].name) in self.dead:
                continue
            self.do(bundle)
            leave(bundle, self.seen(bundle))

    def do(self, bundle: Path) -> None:
        """By the words of README.txt alone."""
        said = (bundle / "README.txt").read_text().partition("\n\n")[0]
        node = int(bundle.parents[1].name)
        self.did.append(f"{bundle.name} of {node}")
        if found := KEEPS.search(said):
            assert sha256(found[1]) == found[3], said
            shutil.copy2(found[1], found[2])
        elif found := PUTS.search(said):
            now = HAS_NOW.search(said)
            assert now is None or sha256(found[2]) == now[1], said
            shutil.copyfile(found[1], found[2] + ".new")
            os.replace(found[2] + ".new", found[2])
        elif ": stop " in said:
            self.stop(node)
        else:
            assert ": start " in said, said
            self.start(node)

    def seen(self, bundle: Path) -> dict[str, Any]:
        """What the host says after the step, in the fields of the form."""
        step = json.loads((bundle / "step.json").read_text())
        found: dict[str, Any] = {"by": "Ada", "at": now(), "cluster_id": self.cluster_id}
        if step["path"]:
            found["sha256"] = sha256(step["path"])
        if step["act"] in ("stop", "start"):
            found["state"] = "stopped" if step["act"] == "stop" else "running"
        return found

    def copy_what_is_wanted(self, *said: str) -> None:
        for path, copy in {found.groups() for each in said for found in WANTED.finditer(each)}:
            Path(copy).parent.mkdir(parents=True, exist_ok=True)
            if Path(path).exists():
                shutil.copyfile(path, copy)
            else:
                Path(copy + ".absent").touch()


def form_of(bundle: Path) -> dict[str, Any]:
    """What README.txt gives to be filled in."""
    readme = (bundle / "README.txt").read_text()
    form: dict[str, Any] = json.loads(readme[readme.index("\n{\n") :])
    return form


def leave(bundle: Path, filled_in: dict[str, Any]) -> None:
    new = bundle / "evidence.new"
    new.write_text(json.dumps(form_of(bundle) | filled_in))
    new.replace(bundle / "evidence.json")


def now() -> str:
    return datetime.now(UTC).isoformat()


def sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
