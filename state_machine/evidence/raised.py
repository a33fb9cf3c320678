"""How a cluster stands to one raise of a feature, put together from rows.

In:   a `Snapshot`, the decision and the time. Out: `FeatureRaise`; the document that an approval is bound to.
Elsewhere: conditions (policy/raises.py), the same of metadata.version without a decision (after_dual_write.py).
Rules: the finalized level is what voters answer; kraft.version is no record that an image has. Who supports a level is
what nodes registered, which stock compares as well (`ClusterFeatureSupportDescriber`).
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import msgspec

from migrator.model.features.kept_min_isr import min_isr_after
from migrator.model.features.raises import DYNAMIC_VOTERS, ELIGIBLE, KRAFT, Raise
from migrator.model.image import METADATA_VERSION
from state_machine.clusters.log_observer import LogObservation
from state_machine.facts.raises import FeatureRaise
from state_machine.policy.phases import Phase
from state_machine.policy.raises import raise_words
from state_machine.rows.documents import FILES, LEVELS, FilesDocument, LevelsDocument, document
from state_machine.rows.store import Snapshot


def feature_raise(snapshot: Snapshot, wanted: Raise, now: float) -> FeatureRaise | None:
    """None before COMPLETED."""
    if snapshot.phase is not Phase.COMPLETED:
        return None
    log = LogObservation() if snapshot.observation is None else snapshot.observation.log
    answers = document(snapshot, LEVELS, LevelsDocument) or LevelsDocument(-math.inf)
    files = document(snapshot, FILES, FilesDocument)
    voters = {each.id for each in log.voters}
    of_quorum = wanted.feature == KRAFT
    eligible = wanted.feature == ELIGIBLE
    in_files = {} if files is None else dict(files.min_isr_of_controllers)
    kept = min_isr_after(log.min_isr, [each.id for each in log.brokers], in_files, voters)
    all_read = files is not None and not files.problem and not files.not_read
    return FeatureRaise(
        wanted=wanted,
        now=answers.finalized if wanted.feature == METADATA_VERSION else answers.features.get(wanted.feature, 0),
        age_s=now - answers.at if now >= answers.at else math.inf,
        against=tuple(_against(log, wanted)),
        unknown=tuple(f"voter {node}: {why}" for node, why in answers.silent.items()),
        metadata_version=log.metadata_version,
        too_old=tuple(int(node) for node, (_, high) in answers.voters.items() if of_quorum and high < DYNAMIC_VOTERS),
        no_voters=tuple(each.id for each in log.controllers if each.id not in voters),
        min_isr=kept if eligible else None,
        own=log.own_min_isr if eligible else (),
        voters_in_files=files.with_voters if of_quorum and files is not None and all_read else None,
    )


def _against(log: LogObservation, wanted: Raise) -> list[str]:
    """Nodes that registered no such level; one that names no range of a feature has its level 0 alone."""
    return [
        f"{each.nodes} ({each.lowest} to {each.highest})"
        for each in log.supported
        if each.feature == wanted.feature and not each.lowest <= wanted.level <= each.highest
    ]


def plan_of_raise(snapshot: Snapshot, wanted: Raise) -> dict[str, Any]:
    """What an approver agrees to."""
    log = LogObservation() if snapshot.observation is None else snapshot.observation.log
    found = feature_raise(snapshot, wanted, math.inf)
    facts = {} if found is None else {key: value for key, value in asdict(found).items() if key != "age_s"}
    return {
        "cluster": snapshot.migration.cluster_id,
        "state": log.migration,
        "raises": wanted.text,
        "facts": msgspec.to_builtins(facts),
        "supported": [msgspec.to_builtins(each) for each in log.supported if each.feature == wanted.feature],
        "brokers": [[each.id, each.incarnation] for each in log.brokers],
        "controllers": [[each.id, each.incarnation] for each in log.controllers],
        "steps": [
            *(() if found is None else raise_words(found)),
            "UpdateFeatures to the active controller, upgrade only, of this feature alone",
        ],
    }
