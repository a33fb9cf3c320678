"""The guard of stock controllers: its proof on each host, and the token by which FINALIZING removes it.

In:   an actuator, and where the guard lies. Out: the proof or why there is none; the token's name and content.
Elsewhere: the guard itself (docker/guard/zk2kraft-guard, a POSIX shell script without dependencies).
Errors: none; what cannot be read is not proven (Z2K-7040).
Rules: the proof is the script's checksum, and that the supervisor's loaded start command is the guard. A file on a disk
that nobody uses proves nothing.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.fleet import FILE_ABSENT, GUARD_NOT_PROVEN
from migrator.fleet.actuator import Actuator
from migrator.fleet.files import checksum_of

GUARD_SHA256: Final = "be7727d5bc12fe200a58da79905460958a2dad9203611f3e86ec24066de81620"
"""Of docker/guard/zk2kraft-guard as shipped with this release."""

_PLAN: Final = re.compile(r"[0-9a-f]{64}\Z")
_SYSTEMD_PATH: Final = re.compile(r"\bpath=(\S+)")
_FIRST_WORD: Final = re.compile(r"[\s\[\"']*([^\s\[\]\"',]+)")


@runtime_checkable
class Launches(Protocol):
    """An actuator that can say how the supervisor starts the process."""

    def launch(self) -> str | None: ...


class Proof(StrEnum):
    """Of a guard on one host. NOT_READ: the host does not say; that is no proof either."""

    PROVEN = "proven"
    NOT_PROVEN = "not proven"
    NOT_READ = "not read"


@dataclass(frozen=True, slots=True)
class GuardProof:
    """reason: why it is not proven, or what proves it."""

    state: Proof
    reason: str


def prove_guard(actuator: Actuator, node: int, guard: str, properties: str) -> tuple[Occurrence, ...]:
    """() when the shipped guard lies at `guard`, and the supervisor starts this node's file through it."""
    proof = guard_proof(actuator, guard, properties)
    return () if proof.state is Proof.PROVEN else (GUARD_NOT_PROVEN.found(node=node, reason=proof.reason),)


def guard_proof(actuator: Actuator, guard: str | None, properties: str) -> GuardProof:
    """Blocks on the host. guard: where the inventory says that it lies; None: it does not say."""
    if guard is None:
        return GuardProof(Proof.NOT_PROVEN, "the inventory does not say where it lies (`guard` of the controller)")
    try:
        content = actuator.read(guard)
        said = actuator.launch() if isinstance(actuator, Launches) else None
    except FindingError as error:
        state = Proof.NOT_PROVEN if error.code == FILE_ABSENT.code else Proof.NOT_READ
        return GuardProof(state, f"{error.code} {error.occurrence.text}")
    if content is None:
        return GuardProof(Proof.NOT_READ, f"{guard} cannot be read by this actuator")
    if (found := checksum_of(content)) != GUARD_SHA256:
        return GuardProof(Proof.NOT_PROVEN, f"{guard} has SHA-256 {found}, not that of the shipped guard")
    if said is None:
        return GuardProof(Proof.NOT_READ, "how the supervisor starts the process cannot be read")
    reason = why_not_used(said, guard, properties)
    return GuardProof(Proof.NOT_PROVEN, reason) if reason else GuardProof(Proof.PROVEN, f"{guard} starts {properties}")


def why_not_used(said: str, guard: str, properties: str) -> str | None:
    """said: of systemd, `show --property=ExecStart`; of others, the command and its arguments."""
    if "ExecStart=" in said:
        commands = _SYSTEMD_PATH.findall(said)
    else:
        first = _FIRST_WORD.match(said)
        commands = [] if first is None else [first[1]]
    if not commands:
        return "the supervisor's start command is not understood"
    if others := [each for each in commands if posixpath.normpath(each) != posixpath.normpath(guard)]:
        return f"the supervisor starts {others[0]} and not {guard}"
    if re.search(rf"(?<![^\s\"'=,\[]){re.escape(properties)}(?![^\s\"',;\]])", said) is None:
        return f"the supervisor's start command does not name {properties}"
    if "--check" in said:
        return "the supervisor only checks the file and starts nothing"
    return None


def finalize_token(plan: str, node: int, content: bytes, directory: str) -> tuple[str, bytes]:
    """Path and content of the token that allows exactly this file, without the flag, on this node.

    plan: SHA-256 of plan and evidence, 64 hexadecimal digits. The directory is that of the properties file.
    """
    assert _PLAN.match(plan), f"{plan} is no SHA-256"
    text = f"plan={plan}\nnode={node}\nsha256={checksum_of(content)}\n"
    return posixpath.join(directory, f"finalize-{plan}"), text.encode()
