"""The actuators `manual` and `external`: somebody else acts, and leaves evidence.

In:   a node, and an exchange directory of the service.
Out:  an `Instruction` for each act, with a bundle: what to do, the file to put there, the form of the evidence.
      `evidence_of` reads what came back. Present files are read from copies that somebody put into the exchange.
Elsewhere: waiting for evidence and believing it (the caller compares it with the cluster).
Errors: Z2K-7026 for evidence of another step, or of another form.
Rules: an act asked for again has the same bundle until that has its evidence; then it is another step with another
bundle. So the caller keeps the `Instruction` that it waits for. Bundles hold files with secrets: directories are 0700,
files 0600. Layout, by node id: `<id>/present/<path>`, `<id>/steps/<step>/...`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from migrator.findings.finding import words_of
from migrator.findings.fleet import EVIDENCE_REFUSED, FILE_ABSENT
from migrator.fleet.actuator import Instruction, Performed, ProcessState, ProcessStatus
from migrator.fleet.properties_file import FILE_BYTES_MAX

EVIDENCE: Final = "evidence.json"
STEP: Final = "step.json"
NEW_FILE: Final = "new-file"
EVIDENCE_BYTES_MAX: Final = 65_536


class ManualStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be done. sha256: of the file after it, for a write."""

    step: str
    node: int
    host: str
    act: str
    unit: str = ""
    path: str = ""
    sha256: str = ""


class StepEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Somebody says that a step is done. sha256: of the file as it is now, for a write."""

    step: str
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    sha256: str = ""
    state: Literal["", "running", "stopped"] = ""
    note: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


@dataclass(frozen=True, slots=True)
class ByOthers:
    """who: `manual` or `external`. unit: what to stop and start, in the words of the inventory."""

    who: Literal["manual", "external"]
    node: int
    host: str
    unit: str
    exchange: Path

    @property
    def kind(self) -> str:
        return self.who

    def read(self, path: str) -> bytes | None:
        """From the copy in the exchange; None without one."""
        copy = self._copy(path)
        if copy is None or not copy.parent.is_dir():
            return None
        try:
            with copy.open("rb") as file:
                return file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            if copy.with_name(copy.name + ".absent").exists():
                raise FILE_ABSENT.error(path=path, node=self.node) from None
            return None

    def list(self, directory: str) -> tuple[str, ...] | None:
        """Nobody copies whole directories: `not_read`, unless a listing lies beside the copies."""
        copy = self._copy(directory)
        listing = None if copy is None else copy.with_name(copy.name + ".names")
        if listing is None or not listing.is_file():
            return None
        return tuple(sorted(name for name in listing.read_text().splitlines() if name))

    def write(self, path: str, content: bytes) -> Performed:
        digest = hashlib.sha256(content).hexdigest()
        text = (
            f"On {self.host}: keep a copy of {path} beside it, then put the file {{file}} in its place "
            f"(same owner and mode, in one step). Its SHA-256 is {digest}."
        )
        return self._instruct("write", text, path=path, sha256=digest, content=content)

    def stop(self) -> Performed:
        text = (
            f"On {self.host}: stop {self.unit} in order and wait until it ended. Until it is started again nothing may "
            "start it by itself (with systemd: systemctl mask --runtime; when systemctl is-enabled does not say masked "
            "then, a drop-in with ConditionPathExists=!/ in /run/systemd/system)."
        )
        return self._instruct("stop", text)

    def start(self) -> Performed:
        text = f"On {self.host}: start {self.unit} (with systemd: unmask it first, or remove the drop-in)."
        return self._instruct("start", text)

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.NOT_READ, detail=f"{self.who}: the service does not reach {self.host}")

    def evidence_of(self, instruction: Instruction) -> StepEvidence | None:
        """What somebody left for this instruction; None while there is nothing. Raises Z2K-7026."""
        assert instruction.bundle is not None, "every instruction of this actuator has a bundle"
        return read_evidence(Path(instruction.bundle))

    def _copy(self, path: str) -> Path | None:
        relative = os.path.normpath(path).lstrip("/")
        return None if not relative or relative.startswith("..") else self._own / "present" / relative

    @property
    def _own(self) -> Path:
        return self.exchange / str(self.node)

    def _instruct(self, act: str, text: str, *, path: str = "", sha256: str = "", content: bytes = b"") -> Instruction:
        what = hashlib.sha256(f"{path}\n{sha256}".encode()).hexdigest()[:12]
        prefix = f"{act}-{what}" if path else act
        name = f"{prefix}-{self._turn(prefix):04d}"
        bundle = self._own / "steps" / name
        step = ManualStep(name, self.node, self.host, act, self.unit, path, sha256)
        said = text.replace("{file}", str(bundle / NEW_FILE))
        evidence = {"step": name, "by": "YOUR NAME", "at": "2026-11-24T10:00:00Z", "sha256": sha256}
        example = msgspec.json.format(msgspec.json.encode(evidence)).decode()
        readme = f"{said}\n\nThen write {bundle / EVIDENCE} (`by` and `at` are who and when):\n\n{example}\n"
        _make_private(bundle)
        if content:
            _put(bundle / NEW_FILE, content)
        _put(bundle / "README.txt", readme.encode())
        _put(bundle / STEP, msgspec.json.format(msgspec.json.encode(step)) + b"\n")  # last: a bundle with it is whole
        return Instruction(said, str(bundle))

    def _turn(self, prefix: str) -> int:
        """How many steps of this kind have their evidence."""
        steps = self._own / "steps"
        return sum((each / EVIDENCE).exists() for each in steps.glob(f"{prefix}-*")) if steps.is_dir() else 0


def read_evidence(bundle: Path) -> StepEvidence | None:
    """Raises Z2K-7026."""
    file = bundle / EVIDENCE
    try:
        with file.open("rb") as opened:
            content = opened.read(EVIDENCE_BYTES_MAX)
        evidence = msgspec.json.decode(content, type=StepEvidence)
        step = msgspec.json.decode((bundle / STEP).read_bytes(), type=ManualStep)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise EVIDENCE_REFUSED.error(file=str(file), reason=words_of(error)) from error
    if evidence.step != step.step:
        raise EVIDENCE_REFUSED.error(file=str(file), reason=f"it is of step {evidence.step}, not of {step.step}")
    if step.sha256 and evidence.sha256.lower() != step.sha256:
        raise EVIDENCE_REFUSED.error(file=str(file), reason="its sha256 is not that of the file to be written")
    return evidence


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
