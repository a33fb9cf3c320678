"""Dual-write at work: committed deltas become multis in flight, and their answers move the mark forward.

In:   deltas in commit order, from the loop's thread.
Out:  `on_applied(position)` when ZooKeeper has everything up to it, `on_broken(reason)` once when a write was refused
      or its answer was lost; then nothing more is sent, and later commits wait for the reconcile (`Mirroring`).
Elsewhere: what is written (driver.mirror), what happens after a break (reconciling.py: read, diff, write differences).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Set
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from migrator.driver.claim import Claim
from migrator.driver.lagging import plan_raises
from migrator.driver.mirror import Shape, plan, still_unmirrored
from migrator.driver.paths_set import PathsSet
from migrator.driver.unmirrored import Unmirrored
from migrator.findings.driver import VERSIONS_LAG
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.zk.multi import Multi, MultiOutcome
from migrator.zk.passwords import PasswordEncoder

log = structlog.get_logger()

RAISES_PER_S = 5_000.0
"""Until it was measured: how many writes that only raise versions ZooKeeper takes in a second (docs/performance.md)."""


class PendingBatch(Protocol):
    def outcome(self) -> MultiOutcome: ...
    def when_done(self, callback: Callable[[], None]) -> None: ...


class Writer(Protocol):
    @property
    def session_id(self) -> int: ...
    def send(self, multi: Multi) -> PendingBatch: ...


@dataclass(slots=True)
class _Sent:
    """One multi on its way; `batch` is set on the last one of a commit."""

    multi: Multi
    pending: PendingBatch
    batch: _Batch | None


@dataclass(frozen=True, slots=True)
class _Batch:
    """raises: how many writes it has when they only raise versions; 0 for a commit, whose lag is measured."""

    position: Position
    image: Image
    claim: Claim
    writes: int
    multis: int
    committed_at: float
    raises: int = 0


class Mirror:
    """Writes one claim's deltas. Made anew after every break, from what the reconcile found."""

    def __init__(
        self,
        session: Writer,
        claim: Claim,
        image: Image,
        shape: Shape,
        *,
        session_id: int,
        passwords: PasswordEncoder | None = None,
        on_applied: Callable[[Position], None],
        on_broken: Callable[[str], None],
        on_claim: Callable[[Claim], None],
        on_unmirrored: Callable[[tuple[Unmirrored, ...]], None] = lambda _: None,
        unmirrored: tuple[Unmirrored, ...] = (),
    ) -> None:
        """unmirrored: what the reconcile before could not write."""
        self.image = image
        """What ZooKeeper has for certain."""
        self._session = session
        self._session_id = session_id
        """In which the claim was seen: nothing is sent in a later one before it was seen again."""
        self._planned_claim = claim
        self._passwords = passwords
        self._configs: Set[str] = PathsSet(shape.configs)
        self._unreadable = shape.unreadable
        self._jute_maxbuffer = shape.jute_maxbuffer
        self.lagging = shape.lagging
        """Whose versions are behind, once everything on its way is applied."""
        self._raises_per_s = RAISES_PER_S
        self._sent: deque[_Sent] = deque()
        self._on_applied = on_applied
        self._on_broken = on_broken
        self._on_claim = on_claim
        self._on_unmirrored = on_unmirrored
        self.unmirrored = unmirrored
        self._broken = False
        self._loop = asyncio.get_running_loop()
        self.lag_ms = 0.0

    @property
    def behind(self) -> int:
        """Multis without an answer."""
        return len(self._sent)

    @property
    def lagging_s(self) -> float:
        """About how long raising what lags will take."""
        return self.lagging.operations / self._raises_per_s

    def publish(self, delta: Delta) -> None:
        """Send what one commit needs; a commit without a form in ZooKeeper needs nothing."""
        if self._broken:
            return
        position = delta.after.position
        shape = Shape(
            self._configs,
            unreadable=self._unreadable,
            unmirrored=self._held(),
            lagging=self.lagging,
            jute_maxbuffer=self._jute_maxbuffer,
        )
        try:
            planned = plan(delta, self._planned_claim, position, shape, self._passwords)
            self._note_unmirrored(still_unmirrored(self.unmirrored, delta, planned))
        except Exception as error:
            log.exception("dual_write.not_planned", offset=position.offset)
            self._break(words_of(error))
            return
        if not planned.multis:
            if not self._sent:
                self.image = delta.after
                self._on_applied(position)
            else:  # reported together with the write before it
                last = self._sent[-1]
                assert last.batch is not None
                last.batch = replace(last.batch, position=position, image=delta.after)
            self.lagging = planned.lagging
            return
        self._planned_claim, self._configs, self.lagging = planned.claim, planned.configs, planned.lagging
        now = time.monotonic()
        batch = _Batch(position, delta.after, planned.claim, planned.writes, len(planned.multis), now)
        self._send(planned.multis, batch)

    def raise_versions(self) -> bool:
        """Bring lagging versions nearer to their partition epochs, while nothing else is on its way.

        False when nothing was sent.
        """
        if self._broken or self._sent or not self.lagging:
            return False
        try:
            raises = plan_raises(self.lagging, self.image, self._planned_claim, self._held(), self._jute_maxbuffer)
        except Exception as error:
            log.exception("dual_write.not_raised")
            self._break(words_of(error))
            return False
        if not raises.multis:
            return False
        self._planned_claim, self.lagging = raises.claim, raises.lagging
        position, multis, now = self.image.position, len(raises.multis), time.monotonic()
        batch = _Batch(position, self.image, raises.claim, raises.operations, multis, now, raises.operations)
        self._send(raises.multis, batch)
        return True

    def _held(self) -> frozenset[Hashable]:
        return frozenset(each.subject for each in self.unmirrored)

    def _send(self, multis: tuple[Multi, ...], batch: _Batch) -> None:
        """All of them in flight, in the session in which the claim was seen."""
        if self._session.session_id != self._session_id:
            self._break("the session in which the claim was seen ended")
            return
        for index, multi in enumerate(multis):
            last_one = index == len(multis) - 1
            try:
                pending = self._session.send(multi)
            except Exception as error:
                self._break(words_of(error))
                return
            self._sent.append(_Sent(multi, pending, batch if last_one else None))
            pending.when_done(self._answered)

    def _note_unmirrored(self, found: tuple[Unmirrored, ...]) -> None:
        if found != self.unmirrored:
            self.unmirrored = found
            self._on_unmirrored(found)

    def break_off(self, reason: str) -> None:
        """What is on its way may be lost: nothing more is sent, and that is reported."""
        self._break(reason)

    def stop(self) -> None:
        """Send nothing more and report nothing more (the claim is being deleted)."""
        self._broken = True
        self._sent.clear()

    def _answered(self) -> None:
        """On the session's thread: answers come in the order of sending, each call stands for one of them."""
        self._loop.call_soon_threadsafe(self._take_answer)

    def _take_answer(self) -> None:
        if self._broken or not self._sent:
            return
        sent = self._sent.popleft()
        try:
            outcome = sent.pending.outcome()
        except FindingError as error:
            self._break(str(error))
            return
        if not outcome.applied:
            operation = sent.multi.describe()[outcome.failed_at]
            self._break(f"{outcome.error} at: {operation[:300]}")
        elif sent.batch is not None:
            self._applied(sent.batch)

    def _applied(self, batch: _Batch) -> None:
        self.image = batch.image
        took_s = time.monotonic() - batch.committed_at
        if batch.raises:
            self._raises_per_s = batch.raises / max(took_s, 0.001)
        else:
            self.lag_ms = took_s * 1000
        self._on_claim(batch.claim)
        log.debug(
            "dual_write.applied",
            offset=batch.position.offset,
            ops=batch.writes,
            multis=batch.multis,
            lag_ms=round(took_s * 1000, 1),
        )
        self._on_applied(batch.position)

    def _break(self, reason: str) -> None:
        if not self._broken:
            self._broken = True
            self._sent.clear()
            log.warning("dual_write.broken", reason=reason)
            self._on_broken(reason)


class MirrorListener(Protocol):
    """What the mirror reports, on the loop's thread."""

    def on_claim(self, claim: Claim) -> None:
        """The claim as it stands after a write."""

    def on_started(self, position: Position) -> None:
        """ZooKeeper has everything up to here: a reconcile found or wrote it."""

    def on_applied(self, position: Position) -> None:
        """ZooKeeper has everything up to here: a commit was written."""

    def on_unmirrored(self, found: tuple[Unmirrored, ...]) -> None:
        """What cannot be written to ZooKeeper, from now on; empty when there is nothing."""

    def on_broken(self, reason: str) -> None:
        """Nothing more is written before the next reconcile."""


class Mirroring:
    """The mirror of one driver, if there is one, and the commits that came while there was none."""

    def __init__(self, session: Writer, passwords: PasswordEncoder | None, listener: MirrorListener) -> None:
        self.mirror: Mirror | None = None
        self.backlog: list[Delta] = []
        """Commits since the reconcile's target that no mirror has received yet."""
        self._session = session
        self._passwords = passwords
        self._listener = listener

    def begin(
        self, claim: Claim, image: Image, shape: Shape, session_id: int, unmirrored: tuple[Unmirrored, ...]
    ) -> None:
        """Write from here on. image: what ZooKeeper has now. It may break at once: then `mirror` is None."""
        self._listener.on_claim(claim)
        self._listener.on_started(image.position)
        self._listener.on_unmirrored(unmirrored)
        self.mirror = Mirror(
            self._session,
            claim,
            image,
            shape,
            session_id=session_id,
            passwords=self._passwords,
            on_applied=self._listener.on_applied,
            on_broken=self._on_broken,
            on_claim=self._listener.on_claim,
            on_unmirrored=self._listener.on_unmirrored,
            unmirrored=unmirrored,
        )
        waiting, self.backlog = self.backlog, []
        for delta in waiting:
            if self.mirror is not None:
                self.mirror.publish(delta)

    def published(self, delta: Delta) -> None:
        """A commit became visible."""
        if self.mirror is not None:
            self.mirror.publish(delta)
        else:
            self.backlog.append(delta)

    def break_off(self, reason: str) -> None:
        """What is on its way may be lost: nothing more is sent, and that is reported."""
        if self.mirror is not None:
            self.mirror.break_off(reason)

    def forget_commits(self) -> None:
        """What is committed until now will be in the target of the next reconcile."""
        self.backlog.clear()

    def stop(self) -> None:
        """Write nothing more, and report nothing more."""
        if self.mirror is not None:
            self.mirror.stop()
            self.mirror = None
        self.backlog.clear()

    def _on_broken(self, reason: str) -> None:
        self.mirror = None
        self._listener.on_broken(reason)


def versions_lag(mirror: Mirror | None) -> Occurrence | None:
    """What bars a rollback while versions are behind their partition epochs."""
    if mirror is None or not mirror.lagging:
        return None
    lagging = mirror.lagging
    return VERSIONS_LAG.found(
        partitions=lagging.partitions, operations=lagging.operations, seconds=max(1, round(mirror.lagging_s))
    )
