"""One raise of a feature, as the cluster stands to it: who supports it, and what it would change there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from migrator.model.features.kept_min_isr import MinIsrAfter, OwnMinIsr
from migrator.model.features.raises import Raise


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRaise:
    """wanted: the decision. now: the finalized level, as voters say; age_s: of the oldest answer of one of them.

    against: nodes, in words, whose registration does not have the level. unknown: voters that did not answer, in words.
    metadata_version: the finalized one. too_old: voters whose software takes the raise and changes nothing.
    no_voters: registered controllers that are no voters. min_isr, own: of eligible leader replicas alone.
    voters_in_files: nodes whose file has controller.quorum.voters, of kraft.version alone; None: files were not read.
    """

    wanted: Raise
    now: int = 0
    age_s: float = math.inf
    against: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    metadata_version: int = 0
    too_old: tuple[int, ...] = ()
    no_voters: tuple[int, ...] = ()
    min_isr: MinIsrAfter | None = None
    own: tuple[OwnMinIsr, ...] = ()
    voters_in_files: tuple[str, ...] | None = None

    @property
    def words(self) -> str:
        """Name it as an approval does."""
        return f"the raise of {self.wanted.words}"
