"""What has to hold before one feature is raised in COMPLETED, beside what holds for every raise.

In:   `FeatureRaise`. Out: conditions; the decision in a text; the facts of it in words, for who approves it.
Elsewhere: the gate that asks (gates_forward.py, `may_raise_version`), what features are
(migrator/model/features/raises.py), what was observed (evidence/raised.py), the act (finish/version_raise.py).
Errors: Z2K-4250.
Rules: one decision each. A feature that takes something from topics is closed until they keep what they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.findings.content import MIN_ISR_IN_FILES_ALONE
from migrator.findings.road import NOT_A_RAISE
from migrator.model.features.raises import (
    ELIGIBLE,
    FEATURES,
    KRAFT,
    Raise,
    changes_of,
    level_words,
    moved_by,
    parse_raise,
    undo_of_raise,
)
from migrator.model.image import METADATA_VERSION
from migrator.model.levels import level_name
from migrator.model.verdict import Condition
from state_machine.facts.raises import FeatureRaise

ANSWERS_FRESH_S: Final = 60.0
NODES_SHOWN: Final = 5


def raise_of(text: str | None) -> Raise | None:
    """None for none: then metadata.version is meant, at the highest level that every node supports. Raises Z2K-4250."""
    if text is None:
        return None
    try:
        return parse_raise(text)
    except ValueError as error:
        raise NOT_A_RAISE.error(text=text, reason=str(error)) from error


def raises_of(release: str) -> tuple[Raise, ...]:
    """The decisions that a release stands for. Raises Z2K-4250."""
    try:
        return moved_by(release)
    except ValueError as error:
        raise NOT_A_RAISE.error(text=release, reason=str(error)) from error


def raise_conditions(found: FeatureRaise) -> Iterator[Condition]:
    """Judge what holds of the feature alone."""
    wanted = found.wanted
    fresh = found.age_s < ANSWERS_FRESH_S
    now = f"it is {level_words(wanted.feature, found.now)}"
    silent = "; ".join(found.unknown)
    yield Condition(
        f"{wanted.feature} is below {level_words(wanted.feature, wanted.level)}",
        fresh and not silent and found.now < wanted.level,
        "the voters were not asked in the last minute" if not fresh else silent or now,
    )
    yield Condition(
        f"every registered node supports {wanted.text}",
        not found.against,
        f"not supported by {_few(found.against)}" if found.against else "every registration has it",
    )
    yield Condition(
        "every registered controller is a voter",
        not found.no_voters,
        f"controllers {list(found.no_voters)} are registered and are no voters" if found.no_voters else "every one is",
    )
    needs = 0 if wanted.feature == METADATA_VERSION else FEATURES[wanted.feature].needs
    if needs:
        yield Condition(
            f"metadata.version is {level_name(needs)} or later",
            found.metadata_version >= needs,
            f"it is {level_name(found.metadata_version)}",
        )
    if wanted.feature == ELIGIBLE:
        yield _min_isr_is_kept(found)
    if wanted.feature == KRAFT:
        yield Condition(
            "every voter runs Kafka 4.1 or later",
            not found.too_old,
            f"voters {list(found.too_old)} would answer that it was raised, and change nothing"
            if found.too_old
            else "every one does",
        )
        yield _files_are_known(found)


def _min_isr_is_kept(found: FeatureRaise) -> Condition:
    name, codes = "every topic keeps its min.insync.replicas", (MIN_ISR_IN_FILES_ALONE.code,)
    if found.min_isr is None:
        return Condition(name, False, "what topics have is not known", codes)
    problem = found.min_isr.problem
    return Condition(name, not problem, problem or found.min_isr.words, codes)


def _files_are_known(found: FeatureRaise) -> Condition:
    """They start as they are; who approves it reads which ones say something that is not true any more."""
    files = found.voters_in_files
    said = "the service has not read all files" if files is None else _files_words(files)
    return Condition("the files that name voters are known", files is not None, said)


def _files_words(files: tuple[str, ...]) -> str:
    if not files:
        return "no file has controller.quorum.voters"
    return f"controller.quorum.voters of {_few(files)} says no more who votes; they start as they are"


def raise_words(found: FeatureRaise) -> Iterator[str]:
    """What an approver reads, and agrees to."""
    wanted = found.wanted
    now, then = (level_words(wanted.feature, each) for each in (found.now, wanted.level))
    yield f"{wanted.feature}, from and to: {now}, {then}"
    yield changes_of(wanted.feature)
    undo = undo_of_raise(wanted.feature)
    yield f"undo: {undo}" if undo else "this cannot be undone"
    yield from facts_in_words(found)


def facts_in_words(found: FeatureRaise) -> Iterator[str]:
    """What it would do to this cluster."""
    if found.min_isr is not None:
        yield found.min_isr.words
        for each in found.own:
            yield f"{each.topics} topics set {each.value} themselves and keep it, such as {', '.join(each.first)}"
    if found.voters_in_files is not None:
        yield _files_words(found.voters_in_files)


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NODES_SHOWN} more" if len(names) > NODES_SHOWN else ""
    return ", ".join(names[:NODES_SHOWN]) + more
