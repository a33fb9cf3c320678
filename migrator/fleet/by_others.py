"""The actuators `manual` and `external`: somebody else acts, and leaves evidence.

In:   a node, and an exchange directory of the service.
Out:  an `Instruction` for each act, with a bundle: what to do, the file to put there, the form of the evidence. What is
      known of files and process, from copies and from evidence.
Elsewhere: whether evidence is believed (evidence.py), what the cluster says to it (roll.py, state_machine/rolling).
Errors: Z2K-7026 for evidence that is refused, Z2K-7060 for a copy that is missing or old, Z2K-7059 for an exchange of
two clusters.
Rules: a write is done, and a file has its new content, once there is evidence of it. A stop or a start is never taken
for done here: `status` says stopped once there is evidence, and the cluster has to agree. Steps of a node have numbers,
and what a later step makes void is withdrawn before the later one is shown. Bundles hold files with secrets: their
directories are 0700, their files 0600. Layout, by node id: `<id>/present/<path>`, `<id>/steps/<step>/...`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from migrator.findings.finding import FindingError, words_of
from migrator.findings.fleet import COPY_WANTED, EVIDENCE_REFUSED, EXCHANGE_SHARED, FILE_ABSENT
from migrator.fleet.actuator import Done, Instruction, Performed, ProcessState, ProcessStatus
from migrator.fleet.evidence import PLACEHOLDERS, ManualStep, StepEvidence, why_refused
from migrator.fleet.properties_file import FILE_BYTES_MAX

EVIDENCE: Final = "evidence.json"
STEP: Final = "step.json"
NEW_FILE: Final = "new-file"
WITHDRAWN: Final = "withdrawn"
EVIDENCE_BYTES_MAX: Final = 65_536
KEPT: Final = ".zk2kraft-"
"""In the name of a kept predecessor, as in files.py: the name has its checksum, so that no copy of it gets old."""
WRITTEN_BY_KAFKA: Final = "meta.properties"
STOP_AGE_MAX_S: Final = 3_600.0
"""So long after its evidence a node counts as stopped; then it is asked for again."""
EVIDENCE_AGE_MAX_S: Final = 86_400.0
CLOCKS_DIFFER_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Step:
    """One bundle. answered_at: when evidence was left there; None before. asked_at: when it was made."""

    bundle: Path
    asked: ManualStep
    digest: str
    asked_at: float
    answered_at: float | None


@dataclass(frozen=True, slots=True)
class ByOthers:
    """who: `manual` or `external`. unit: what to stop and start, in the words of the inventory.

    cluster:    the inventory's name of it. cluster_id: Kafka's, where it is known.
    age_max_s:  older copies and evidence say nothing about the present.
    """

    who: Literal["manual", "external"]
    node: int
    host: str
    unit: str
    exchange: Path
    cluster: str = ""
    cluster_id: str = ""
    age_max_s: float = EVIDENCE_AGE_MAX_S
    clock: Callable[[], float] = time.time

    @property
    def kind(self) -> str:
        return self.who

    def read(self, path: str) -> bytes | None:
        """What the newest copy has, or the newest write of which there is evidence. Raises Z2K-7060, Z2K-7024."""
        copy = self._copy(path)
        if copy is None:
            return None
        at, content = max((*_copied(copy), *self._written(path)), key=lambda each: each[0], default=(None, None))
        reason = "there is none" if at is None else self._why_old(path, at)
        if reason is not None:
            raise COPY_WANTED.error(path=path, node=self.node, host=self.host, copy=str(copy), reason=reason)
        if content is None:
            raise FILE_ABSENT.error(path=path, node=self.node)
        return content

    def list(self, directory: str) -> tuple[str, ...] | None:
        """Nobody copies whole directories: `not_read`, unless a listing lies beside the copies that is no older than
        the last start."""
        copy = self._copy(directory)
        listing = None if copy is None else copy.with_name(copy.name + ".names")
        if listing is None or not listing.is_file() or self._why_old(WRITTEN_BY_KAFKA, listing.stat().st_mtime):
            return None
        return tuple(sorted(name for name in listing.read_text().splitlines() if name))

    def write(self, path: str, content: bytes) -> Performed:
        """Shows the same bundle until there is evidence. Raises Z2K-7026 for evidence that is refused."""
        digest = hashlib.sha256(content).hexdigest()
        last = next((each for each in reversed(self._steps()) if each.asked.path == path), None)
        if last is not None and last.asked.sha256 == digest and self._is_of_this_stop(last):
            evidence = self._evidence(last)
            return self._again(last) if evidence is None else Done(f"{evidence.by} wrote it at {evidence.at}")
        for each in self._unanswered():
            if each.asked.path == path:
                _withdraw(each.bundle)
        return self._instruct("write", self._how_to_write(path, digest), path=path, sha256=digest, content=content)

    def stop(self) -> Instruction:
        """Whatever else was asked is void. A stop counts until a start is asked. Raises Z2K-7026."""
        last = self._last("stop", "start")
        again = last is not None and last.asked.act == "stop" and not self._is_old_stop(last)
        for each in self._unanswered():
            if last is None or not again or each.bundle != last.bundle:
                _withdraw(each.bundle)
        if again and last is not None:
            return self._again(last)
        text = (
            f"On {self.host}: stop {self.unit} in order and wait until it ended. Until it is started again nothing may "
            "start it by itself (with systemd: systemctl mask --runtime; when systemctl is-enabled does not say masked "
            "then, a drop-in with ConditionPathExists=!/ in /run/systemd/system)."
        )
        return self._instruct("stop", text)

    def start(self) -> Instruction:
        last = self._last("stop", "start")
        if last is not None and last.asked.act == "start" and last.answered_at is None:
            return self._again(last)
        for each in self._unanswered():
            _withdraw(each.bundle)
        return self._instruct(
            "start", f"On {self.host}: start {self.unit} (with systemd: unmask it first, or remove the drop-in)."
        )

    def status(self) -> ProcessStatus:
        """Stopped, with evidence of it and until a start is asked. Nobody says that a process still runs."""
        last = self._last("stop", "start")
        if last is not None and last.asked.act == "stop" and not self._is_old_stop(last):
            evidence = self._accepted(last)
            if evidence is not None:
                return ProcessStatus(ProcessState.STOPPED, detail=f"{evidence.by} stopped it at {evidence.at}")
        return ProcessStatus(ProcessState.NOT_READ, detail=f"{self.who}: the service does not reach {self.host}")

    def answered(self) -> bool:
        """Whether somebody left evidence for everything that is asked; it may be refused."""
        return not self._unanswered()

    def evidence_of(self, instruction: Instruction) -> StepEvidence | None:
        """What somebody left for this instruction; None while there is nothing. Raises Z2K-7026."""
        assert instruction.bundle is not None, "every instruction of this actuator has a bundle"
        step = next(each for each in self._steps() if str(each.bundle) == instruction.bundle)
        return self._evidence(step)

    # --- what is asked -------------------------------------------------------------------------------------

    def _how_to_write(self, path: str, digest: str) -> str:
        if KEPT in os.path.basename(path):
            present = path[: path.rindex(KEPT)]
            return (
                f"On {self.host}: keep a copy of {present}: cp -p {present} {path}. Its SHA-256 has to be {digest}; "
                f"where it is another one, change nothing and copy {present} into the exchange anew."
            )
        try:
            now = self.read(path)
        except FindingError:
            now = None
        before = ""
        if now is not None:
            before = f" It has SHA-256 {hashlib.sha256(now).hexdigest()} now; where it has another one, change nothing."
        return (
            f"On {self.host}: put the file {{file}} in the place of {path} (same owner and mode, in one step).{before} "
            f"Afterwards its SHA-256 is {digest}."
        )

    def _instruct(self, act: str, text: str, *, path: str = "", sha256: str = "", content: bytes = b"") -> Instruction:
        number = max((each.asked.number for each in self._steps(withdrawn=True)), default=0) + 1
        what = f"-{hashlib.sha256(path.encode()).hexdigest()[:8]}" if path else ""
        name = f"{number:04d}-{act}{what}"
        bundle = self._own / "steps" / name
        step = ManualStep(name, self.node, self.host, act, self.unit, path, sha256, self.cluster, number)
        asked = msgspec.json.format(msgspec.json.encode(step)) + b"\n"
        said = text.replace("{file}", str(bundle / NEW_FILE))
        _make_private(bundle)
        if content:
            _put(bundle / NEW_FILE, content)
        _put(bundle / "README.txt", _readme(said, bundle, step, hashlib.sha256(asked).hexdigest()).encode())
        _put(bundle / STEP, asked)  # last: a bundle with it is whole
        return Instruction(said, str(bundle))

    def _again(self, step: _Step) -> Instruction:
        """Raises Z2K-7026 for evidence that is refused: somebody has to know."""
        self._evidence(step)
        readme = (step.bundle / "README.txt").read_text()
        return Instruction(readme.partition("\n\n")[0], str(step.bundle))

    # --- what is known -------------------------------------------------------------------------------------

    def _written(self, path: str) -> tuple[tuple[float, bytes], ...]:
        """Of the last write of this path of which there is evidence: when it was left, and the content."""
        for step in reversed(self._steps()):
            if step.asked.path == path and step.answered_at is not None and self._accepted(step) is not None:
                try:
                    content = (step.bundle / NEW_FILE).read_bytes()
                except FileNotFoundError:
                    content = b""
                if hashlib.sha256(content).hexdigest() == step.asked.sha256:
                    return ((step.answered_at, content),)
        return ()

    def _why_old(self, path: str, at: float) -> str | None:
        """Why what was known at this moment says nothing about now; None when it does."""
        name = os.path.basename(path)
        if KEPT in name:
            return None
        age = self.clock() - at
        if not -CLOCKS_DIFFER_S <= age <= self.age_max_s:
            return f"the last one is {age / 3600:.0f} h old" if age > 0 else "the time of the last one is in the future"
        start = self._last("start")
        if name == WRITTEN_BY_KAFKA and start is not None and at < start.asked_at:
            return "the last one is from before the last start, in which Kafka may have written the file"
        return None

    def _is_old_stop(self, step: _Step) -> bool:
        return step.answered_at is not None and self.clock() - step.answered_at > STOP_AGE_MAX_S

    def _is_of_this_stop(self, step: _Step) -> bool:
        """No start was asked since."""
        start = self._last("start")
        return start is None or start.asked.number < step.asked.number

    def _last(self, *acts: str) -> _Step | None:
        return next((each for each in reversed(self._steps()) if each.asked.act in acts), None)

    def _unanswered(self) -> tuple[_Step, ...]:
        return tuple(each for each in self._steps() if each.answered_at is None)

    def _accepted(self, step: _Step) -> StepEvidence | None:
        try:
            return self._evidence(step)
        except FindingError:
            return None

    def _evidence(self, step: _Step) -> StepEvidence | None:
        """None while there is none. Raises Z2K-7026."""
        file = step.bundle / EVIDENCE
        if step.answered_at is None:
            return None
        try:
            with file.open("rb") as opened:
                evidence = msgspec.json.decode(opened.read(EVIDENCE_BYTES_MAX), type=StepEvidence)
        except (OSError, msgspec.MsgspecError) as error:
            raise EVIDENCE_REFUSED.error(file=str(file), reason=words_of(error)) from error
        reason = why_refused(evidence, step.asked, step.digest, self.cluster_id, step.asked_at, step.answered_at)
        if reason is not None:
            raise EVIDENCE_REFUSED.error(file=str(file), reason=reason)
        return evidence

    def _steps(self, *, withdrawn: bool = False) -> tuple[_Step, ...]:
        """By number. Bundles of an earlier form have none; they are before all others. Raises Z2K-7059."""
        found = []
        for file in (self._own / "steps").glob(f"*/{STEP}"):
            if not withdrawn and (file.parent / WITHDRAWN).exists():
                continue
            content = file.read_bytes()
            try:
                asked = msgspec.json.decode(content, type=ManualStep)
            except msgspec.MsgspecError as error:
                raise EVIDENCE_REFUSED.error(file=str(file), reason=words_of(error)) from error
            if asked.cluster not in ("", self.cluster):
                raise EXCHANGE_SHARED.error(
                    exchange=str(self.exchange), node=self.node, other=asked.cluster, cluster=self.cluster
                )
            answered_at = _time_of(file.with_name(EVIDENCE))
            digest = hashlib.sha256(content).hexdigest()
            found.append(_Step(file.parent, asked, digest, file.stat().st_mtime, answered_at))
        return tuple(sorted(found, key=lambda each: each.asked.number))

    def _copy(self, path: str) -> Path | None:
        relative = os.path.normpath(path).lstrip("/")
        return None if not relative or relative.startswith("..") else self._own / "present" / relative

    @property
    def _own(self) -> Path:
        return self.exchange / str(self.node)


def _copied(copy: Path) -> tuple[tuple[float, bytes | None], ...]:
    """When a copy was put there, and its content; None in place of it: somebody says that there is no such file."""
    found: list[tuple[float, bytes | None]] = []
    absent = _time_of(copy.with_name(copy.name + ".absent"))
    if absent is not None:
        found.append((absent, None))
    try:
        with copy.open("rb") as file:
            found.append((os.fstat(file.fileno()).st_mtime, file.read(FILE_BYTES_MAX + 1)))
    except (FileNotFoundError, NotADirectoryError):
        pass
    return tuple(found)


def _time_of(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None


def _readme(said: str, bundle: Path, step: ManualStep, digest: str) -> str:
    evidence = {
        "step": step.step,
        "bundle": digest,
        "node": step.node,
        **({"sha256": PLACEHOLDERS["sha256"]} if step.sha256 else {}),
        **({"state": PLACEHOLDERS["state"]} if step.act in ("stop", "start") else {}),
        "cluster_id": PLACEHOLDERS["cluster_id"],
        "by": PLACEHOLDERS["by"],
        "at": PLACEHOLDERS["at"],
    }
    form = msgspec.json.format(msgspec.json.encode(evidence)).decode()
    more = "".join(f"  {name}: {text}\n" for name, text in MEANT.items() if name in evidence)
    return (
        f"{said}\n\nThen write {bundle / EVIDENCE}, under another name first, and rename it. Fill in:\n{more}\n{form}\n"
    )


MEANT: Final = {
    "sha256": "of the file on the host, as `sha256sum` says there",
    "state": "stopped, or running, as the host says",
    "cluster_id": "as meta.properties of the node's data directory on the host has it (`cluster.id`)",
    "by": "who did it",
    "at": "when, in UTC, such as 2026-11-24T10:00:00Z; evidence that is left an hour later is refused",
}


def _withdraw(bundle: Path) -> None:
    """Nobody is to do it any more, and the file that was to be put somewhere is gone."""
    _put(bundle / WITHDRAWN, b"")
    _put(bundle / "README.txt", b"WITHDRAWN. Do not do this: another step took its place.\n")
    (bundle / NEW_FILE).unlink(missing_ok=True)


def _make_private(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in (directory, directory.parent, directory.parent.parent):
        each.chmod(0o700)


def _put(file: Path, content: bytes) -> None:
    """In one step, for its owner alone."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(handle)
    os.replace(name, file)
