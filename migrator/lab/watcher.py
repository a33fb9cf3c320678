"""Who was controller when, seen from outside: ZooKeeper's `/controller` and `/controller_epoch`, change by change.

In:   `python -m migrator.lab.watcher --zookeeper HOSTS/CHROOT --out FILE`, until SIGTERM.
Out:  FILE, one JSON object for each change (`ClaimSample`); from it `reigns` (who, of what kind, from when to when) and
      `longest_absence_s` (the longest time without a controller).
Elsewhere: what the controller says of itself (its log), what clients felt (figures.py).
Source: KIP-866: `/controller` of a KRaft controller carries its epoch as `kraftControllerEpoch`; -1 for ZooKeeper's.
A watch wakes the watcher at once; it also looks every 50 ms, so a change is late by that much at most. An absence that
is over before the look is still seen: the next `/controller` was then created after the deletion was heard of, by the
clocks of ZooKeeper and of the watcher, which the laboratory has on one machine. A transaction that deletes and creates
is no absence. While ZooKeeper cannot be reached nothing is known, which is not the same as no controller.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType

from migrator.findings.laboratory import LEDGER_DAMAGED
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import Process
from migrator.lab.servers.zookeeper import RECONNECT

LOOK_EVERY_S: Final = 0.05
LOOK_DEADLINE_S: Final = 1.0
"""A look that takes longer is no look: what is the case in the meantime is unknown."""

ANSWER_S: Final = 10.0
SESSION_S: Final = 10.0
READY_DEADLINE_S: Final = 90.0

logger = logging.getLogger(__name__)


class ClaimHolder(StrEnum):
    """Whose controller it is. ABSENT: there is no `/controller`. UNKNOWN: ZooKeeper was not reached."""

    ZOOKEEPER = "zookeeper"
    KRAFT = "kraft"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class ClaimSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was seen at a moment; written when it differs from the sample before, and once more at the end.

    at:      seconds of the wall clock when the answer came.
    node:    who is controller; None when ABSENT or UNKNOWN.
    epoch:   the content of `/controller_epoch`; None when it does not exist or was not read.
    created: when ZooKeeper created this `/controller`, by the server's clock; None when it was not read.
    created_zxid: tells two registrations of the same controller apart.
    """

    at: float
    kind: ClaimHolder
    node: int | None = None
    epoch: int | None = None
    created: float | None = None
    created_zxid: int | None = None

    def same_as(self, other: ClaimSample | None) -> bool:
        return other is not None and msgspec.structs.replace(self, at=other.at) == other


class Reign(msgspec.Struct, frozen=True):
    """One controller, or none, from its first sample to the first sample of the next. Seconds of the wall clock."""

    start: float
    end: float
    kind: ClaimHolder
    node: int | None

    @property
    def seconds(self) -> float:
        return self.end - self.start


# --- reading what was seen ------------------------------------------------------------------------------------


def read_observations(file: Path) -> list[ClaimSample]:
    """What a watcher wrote, also while it runs. Raises Z2K-6014."""
    decoder = msgspec.json.Decoder(ClaimSample)
    observations = []
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            observations.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise LEDGER_DAMAGED.error(file=file, line=number, reason=error) from error
    return observations


def reigns(observations: Iterable[ClaimSample]) -> list[Reign]:
    """Who was controller when: neighbouring samples of the same registration are one reign, in order, without gaps."""
    return list(_reigns(list(observations)))


def _reigns(observations: list[ClaimSample]) -> Iterator[Reign]:
    start = observations[0] if observations else None
    for before, after in pairwise(observations):
        assert start is not None
        if (after.kind, after.node, after.created_zxid) != (before.kind, before.node, before.created_zxid):
            yield Reign(start.at, after.at, start.kind, start.node)
            start = after
    if start is not None and observations[-1].at > start.at:
        yield Reign(start.at, observations[-1].at, start.kind, start.node)


def longest_absence_s(known: Iterable[Reign], start: float | None = None, end: float | None = None) -> float:
    """The longest time without `/controller` between two moments (all of it when not given); 0 when there was none."""
    return max((seconds for _, seconds in _inside(known, ClaimHolder.ABSENT, start, end)), default=0.0)


def unseen_s(known: Iterable[Reign], start: float | None = None, end: float | None = None) -> float:
    """How long ZooKeeper could not be asked between two moments; a figure is only worth something when this is 0."""
    return sum(seconds for _, seconds in _inside(known, ClaimHolder.UNKNOWN, start, end))


def first_reign(known: Iterable[Reign], kind: ClaimHolder, after: float = 0.0) -> Reign | None:
    """The first controller of a kind that was seen after a moment."""
    return next((reign for reign in known if reign.kind is kind and reign.start >= after), None)


def _inside(
    known: Iterable[Reign], kind: ClaimHolder, start: float | None, end: float | None
) -> Iterator[tuple[Reign, float]]:
    for reign in known:
        first = reign.start if start is None else max(start, reign.start)
        last = reign.end if end is None else min(end, reign.end)
        if reign.kind is kind and last > first:
            yield reign, last - first


# --- watching -------------------------------------------------------------------------------------------------


class Watcher:
    """Looks until `stop`; every change of what it sees becomes a line."""

    def __init__(self, zookeeper: str, out: Path) -> None:
        self._kazoo = KazooClient(
            hosts=zookeeper, timeout=SESSION_S, read_only=True, logger=logger, connection_retry=RECONNECT
        )
        self._out = out.open("ab", buffering=0)
        self._last: ClaimSample | None = None
        self._wake = threading.Event()
        self._deleted_at = 0.0
        self._stopped = False

    def stop(self) -> None:
        """End at the next look. Sets a flag and nothing else, so that a signal handler may call it at any point."""
        self._stopped = True

    def run(self) -> None:
        self._kazoo.start(timeout=ANSWER_S)
        try:
            while not self._stopped:
                self._wake.clear()
                observation = self._look()
                if (absence := absence_between(self._last, observation, self._deleted_at)) is not None:
                    self._write(absence)
                if not observation.same_as(self._last):
                    self._write(observation)
                self._wake.wait(LOOK_EVERY_S)
            self._write(self._look())
        finally:
            self._kazoo.stop()
            self._kazoo.close()
            self._out.close()

    def _look(self) -> ClaimSample:
        if not self._kazoo.connected:
            return ClaimSample(time.time(), ClaimHolder.UNKNOWN)
        asked = self._kazoo.get_async("/controller", watch=self._changed), self._kazoo.get_async("/controller_epoch")
        try:
            found, epoch = (_or_none(answer) for answer in asked)
            if found is None:
                self._kazoo.exists_async("/controller", watch=self._changed)
        except (KazooException, KazooTimeoutError):
            return ClaimSample(time.time(), ClaimHolder.UNKNOWN)
        return observation_of(time.time(), found, None if epoch is None else int(epoch[0]))

    def _changed(self, event: Any) -> None:
        if event.type == EventType.DELETED:
            self._deleted_at = time.time()
        self._wake.set()

    def _write(self, observation: ClaimSample) -> None:
        self._last = observation
        self._out.write(msgspec.json.encode(observation) + b"\n")


def observation_of(at: float, found: tuple[bytes, Any] | None, epoch: int | None) -> ClaimSample:
    """found: data and stat of `/controller`; None when it does not exist."""
    if found is None:
        return ClaimSample(at, ClaimHolder.ABSENT, epoch=epoch)
    data, stat = found
    controller = msgspec.json.decode(data, type=_Controller)
    return ClaimSample(
        at=at,
        kind=ClaimHolder.KRAFT if controller.kraft_epoch > 0 else ClaimHolder.ZOOKEEPER,
        node=controller.broker_id,
        epoch=epoch,
        created=stat.ctime / 1000,
        created_zxid=stat.czxid,
    )


def absence_between(before: ClaimSample | None, now: ClaimSample, deleted_at: float) -> ClaimSample | None:
    """The absence that came and went between two samples, or None. deleted_at: when the watcher heard of it."""
    if before is None or before.created_zxid is None or now.created is None:
        return None
    if before.created_zxid == now.created_zxid or not before.at < deleted_at < now.created:
        return None
    return ClaimSample(deleted_at, ClaimHolder.ABSENT, epoch=before.epoch)


class _Controller(msgspec.Struct):
    broker_id: int = msgspec.field(name="brokerid")
    kraft_epoch: int = msgspec.field(name="kraftControllerEpoch", default=-1)


def _or_none(asked: Any) -> Any:
    try:
        return asked.get(timeout=LOOK_DEADLINE_S)
    except NoNodeError:
        return None


def start_watcher(laboratory: Laboratory, zookeeper: str, name: str = "watcher") -> tuple[Process, Path]:
    """A watcher as a process of a laboratory; returns when it has seen something. zookeeper: with the chroot.

    Answers the process, to be stopped with `stop`, and its file.
    """
    out = laboratory.directory / name / "observations.jsonl"
    command = [sys.executable, "-m", "migrator.lab.watcher", "--zookeeper", zookeeper, "--out", str(out)]
    process = laboratory.processes.start(name, command)
    laboratory.wait(
        lambda: None if out.exists() and out.stat().st_size else "it has seen nothing yet",
        name=name,
        deadline_s=READY_DEADLINE_S,
        process=process,
    )
    return process, out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m migrator.lab.watcher", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--zookeeper", required=True, help="host:port,... with the chroot")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    watcher = Watcher(chosen.zookeeper, chosen.out)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watcher.stop())
    watcher.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
