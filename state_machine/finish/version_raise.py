"""The raise of metadata.version, or of one other feature, after COMPLETED: an act of its own for each of them.

In:   a snapshot in COMPLETED. Out: a `LevelsDocument`; the request to the active stock controller.
Elsewhere: what has to hold (policy/gates_forward.py, `may_raise_version`; policy/raises.py), who requested and approved
it (work/operations.py).
Rules: voters are asked by ApiVersions; a broker's range is the one that its running process registered, which stock
compares as well. Without a level, that of metadata.version is the highest that every node supports; the approval is
bound to it. A request without an answer is no failure: what the voters say afterwards counts.
Source: Kafka 3.9 `FeatureControlManager.updateMetadataVersion`, `QuorumFeatures.reasonNotSupported`; R-778-03, -08.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from migrator.findings.finding import FindingError, words_of
from migrator.findings.road import VERSION_NOT_RAISED
from migrator.model.features.raises import Raise, level_words
from migrator.model.image import METADATA_VERSION
from state_machine.clusters.log_observer import LogObservation
from state_machine.clusters.observe import ClusterObserver, LogSource
from state_machine.policy.conditions import fleet_evidence_of
from state_machine.policy.gates import Evidence
from state_machine.rows.documents import LEVELS, LevelsDocument, document
from state_machine.rows.store import Snapshot, Store

log = structlog.get_logger()

ASK_EVERY_S: Final = 10.0
SHOWN_S: Final = 10.0
"""A voter that follows has the raised level within a fetch."""
SHOWN_AGAIN_S: Final = 0.2


class VersionRaise:
    def __init__(
        self,
        store: Store,
        observer: ClusterObserver,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._observer = observer
        self._clock = clock
        self._steady = steady
        self._asking: dict[int, asyncio.Task[LevelsDocument]] = {}
        self._asked_at: dict[int, float] = {}

    async def look(self, snapshot: Snapshot) -> None:
        """Every ten seconds, beside the round. A voter that does not answer keeps no other one waiting."""
        task = self._asking.get(snapshot.id)
        if task is not None:
            if task.done():
                del self._asking[snapshot.id]
                await self._keep(snapshot, task.result())
            return
        source = self._observer.log_of(snapshot.id)
        since = self._steady() - self._asked_at.get(snapshot.id, -ASK_EVERY_S)
        if source is None or since < ASK_EVERY_S:
            return
        self._asked_at[snapshot.id] = self._steady()
        self._asking[snapshot.id] = asyncio.create_task(self._ask(snapshot, source))

    async def perform(self, snapshot: Snapshot, evidence: Evidence, who: str, wanted: Raise | None = None) -> str:
        """Its gate is open. Returns what was done. Raises Z2K-4229.

        wanted: None: metadata.version, as high as it goes.
        """
        source = self._observer.log_of(snapshot.id)
        observed = LogObservation() if snapshot.observation is None else snapshot.observation.log
        wanted = _highest(evidence) if wanted is None else wanted
        assert source is not None, "the log was observed"
        before = _finalized(document(snapshot, LEVELS, LevelsDocument) or LevelsDocument(0.0), wanted.feature)
        log.warning("feature.raise", feature=wanted.text, before=before, who=who, leader=observed.leader)
        reason = "no voter shows it"
        try:
            await source.raise_feature(wanted.feature, wanted.level, observed)
        except (OSError, TimeoutError, FindingError) as error:
            reason = words_of(error)
        found = await self._shown(snapshot, source, wanted)
        now, then = (level_words(wanted.feature, each) for each in (before, wanted.level))
        said = f"{who} raised {wanted.feature} from {now} to {then}"
        if (shown := _finalized(found, wanted.feature)) != wanted.level:
            await self._keep(snapshot, found)
            shown_words = level_words(wanted.feature, shown)
            raise VERSION_NOT_RAISED.error(feature=wanted.feature, level=then, found=shown_words, reason=reason)
        if wanted.feature == METADATA_VERSION:
            found = msgspec.structs.replace(found, raised=said)
        else:
            found = msgspec.structs.replace(found, raised_features={wanted.feature: said})
        await self._keep(snapshot, found)
        log.warning("feature.raised", feature=wanted.text)
        return said

    async def _shown(self, snapshot: Snapshot, source: LogSource, wanted: Raise) -> LevelsDocument:
        """What the voters say, as soon as one of them has the level; the last answer when none gets it."""
        ends = time.monotonic() + SHOWN_S
        while True:
            found = await self._ask(snapshot, source)
            if _finalized(found, wanted.feature) == wanted.level or time.monotonic() >= ends:
                return found
            await asyncio.sleep(SHOWN_AGAIN_S)

    async def _ask(self, snapshot: Snapshot, source: LogSource) -> LevelsDocument:
        observed = LogObservation() if snapshot.observation is None else snapshot.observation.log
        nodes = [each.id for each in observed.voters] or list(snapshot.inventory.node_ids)
        answers = await asyncio.gather(*(source.levels_of(each) for each in nodes), return_exceptions=True)
        found = LevelsDocument(self._clock())
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, BaseException):
                said = words_of(answer) if isinstance(answer, Exception) else type(answer).__name__
                found = msgspec.structs.replace(found, silent={**found.silent, str(node): said})
                continue
            found = msgspec.structs.replace(
                found,
                voters={**found.voters, str(node): (answer.lowest, answer.highest)},
                finalized=max(found.finalized, answer.finalized),
                features={
                    name: max(found.features.get(name, 0), answer.features.get(name, 0))
                    for name in (*found.features, *answer.features)
                },
            )
        return found

    async def _keep(self, snapshot: Snapshot, value: LevelsDocument) -> None:
        before = document(snapshot, LEVELS, LevelsDocument)
        if before is not None:
            value = msgspec.structs.replace(
                value,
                raised=value.raised or before.raised,
                raised_features={**before.raised_features, **value.raised_features},
            )
        found: dict[str, Any] = msgspec.to_builtins(value)

        def write() -> None:
            self._store.record_document(snapshot.id, LEVELS, found, at=self._clock())

        await self._store.away(write)


def _highest(evidence: Evidence) -> Raise:
    """Of metadata.version."""
    levels = fleet_evidence_of(evidence).levels
    assert levels is not None, "the gate is open"
    assert levels.target is not None, "the gate is open"
    return Raise(METADATA_VERSION, levels.target)


def _finalized(levels: LevelsDocument, feature: str) -> int:
    return levels.finalized if feature == METADATA_VERSION else levels.features.get(feature, 0)
