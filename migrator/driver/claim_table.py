"""What a leader does about the claim that it finds: by what stands in ZooKeeper, who leads, and the brokers' modes.

In:   the claim's znodes as they were observed, what this leader knows of the claim that stood last, the image.
Out:  an `Answer`, and the finding that explains it.
Elsewhere: observing (node.driver.claim_watch), acting (node.driver.claiming), the states (machine.py), the same table
for operators (docs/claim.md, which a test compares).

Rules:
* Nothing retires by inference. A log is retired only where every registered broker is in ZooKeeper mode and a fact
  proves that the cluster went back: a ZooKeeper-mode broker holds `/controller` with a higher epoch than our claim had,
  or a later migration has made its own `/migration`. That a znode is absent proves nothing: a person, a restored backup
  or a wiped ensemble makes it so too.
* Where every registered broker is in KRaft mode, nobody follows ZooKeeper. Brokers and administrators are served
  whatever stands there, the log is the truth, and the claim is made again where no other controller holds it.
* While brokers in ZooKeeper mode are registered, one of them may have been elected. It is not fought: this quorum stops
  and a person decides. A new leader claims again beside brokers of both modes only where `/controller_epoch` is as our
  claim left it: every election raises it, so nobody was elected.
Source: Kafka 3.9 `KafkaZkClient.registerControllerAndIncrementControllerEpoch`: one multi makes `/controller` and
raises `/controller_epoch`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from migrator.driver.claim import NOBODYS, Claim, ClaimObservation, is_successor, still_ours
from migrator.driver.machine import all_in_kraft_mode
from migrator.findings.driver import FENCED, LOG_BEHIND_ZOOKEEPER, LOG_RETIRED
from migrator.findings.finding import Occurrence
from migrator.model.image import NOWHERE, Image, Position
from migrator.zk.znodes import INT32_MAX, MigrationZnode, migration_data


class Brokers(Enum):
    """The mode of the registered brokers, fenced ones too. With none registered it is ZOOKEEPER."""

    ZOOKEEPER = "all in ZooKeeper mode"
    HYBRID = "some in KRaft mode"
    KRAFT = "all in KRaft mode"


class Leads(Enum):
    """Who leads the quorum."""

    GOING_ON = "ours, going on"
    COMING = "ours, elected or restarted"
    STOCK = "Kafka's own"


class Stands(Enum):
    """What stands in ZooKeeper, in words for the page."""

    OURS = "our claim, unchanged"
    ABSENT = "no `/controller`"
    LATER_VOTER = "`/controller` of another voter of ours, of a later epoch"
    EARLIER_VOTER = "`/controller` or `/migration` of a voter of ours, of an earlier epoch"
    ZOOKEEPER_BROKER = "`/controller` of a ZooKeeper-mode broker, its epoch above that of our claim"
    EARLIER_BROKER = "`/controller` of a ZooKeeper-mode broker, its epoch not above that of our claim"
    FOREIGN_QUORUM = "`/controller` or `/migration` of a KRaft controller that is no voter of ours"
    MIGRATION_GONE = "our `/controller`; `/migration` deleted, reset or unreadable"
    ANOTHER_MIGRATION = "our `/controller`; `/migration` made again later, with a higher epoch"
    EPOCH_MOVED = "our `/controller` and `/migration`; `/controller_epoch` changed or deleted"
    LOG_BEHIND = "our `/controller`; `/migration` is ahead of this log"
    TREE_GONE = "a tree of no or another cluster (`/cluster/id`), wiped for instance"


class Answer(Enum):
    """What the leader does, in words for the page."""

    GO_ON = "goes on"
    CLAIM_AGAIN = "claims again, alarm Z2K-2021"
    SERVE = "serves, mirrors nothing, alarm Z2K-2022"
    PROVE = "claims again if `/controller_epoch` is as our claim left it, else FENCED"
    FENCE = "FENCED"
    RESIGN = "resigns"
    RETIRE = "RETIRED, proven"
    NOTHING = "nothing"


_FENCE: Final = Answer.FENCE
TABLE: Final[dict[tuple[Stands, Leads], tuple[Answer, Answer, Answer]]] = {
    # brokers all in ZooKeeper mode, in both modes, all in KRaft mode
    (Stands.OURS, Leads.GOING_ON): (Answer.GO_ON, Answer.GO_ON, Answer.GO_ON),
    (Stands.ABSENT, Leads.GOING_ON): (_FENCE, _FENCE, Answer.CLAIM_AGAIN),
    (Stands.LATER_VOTER, Leads.GOING_ON): (Answer.RESIGN, Answer.RESIGN, Answer.RESIGN),
    (Stands.EARLIER_VOTER, Leads.GOING_ON): (_FENCE, _FENCE, Answer.CLAIM_AGAIN),
    (Stands.ZOOKEEPER_BROKER, Leads.GOING_ON): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.EARLIER_BROKER, Leads.GOING_ON): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.FOREIGN_QUORUM, Leads.GOING_ON): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.MIGRATION_GONE, Leads.GOING_ON): (_FENCE, _FENCE, Answer.CLAIM_AGAIN),
    (Stands.ANOTHER_MIGRATION, Leads.GOING_ON): (_FENCE, _FENCE, Answer.CLAIM_AGAIN),
    (Stands.EPOCH_MOVED, Leads.GOING_ON): (_FENCE, _FENCE, Answer.CLAIM_AGAIN),
    (Stands.LOG_BEHIND, Leads.GOING_ON): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.TREE_GONE, Leads.GOING_ON): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.OURS, Leads.COMING): (Answer.GO_ON, Answer.GO_ON, Answer.GO_ON),
    (Stands.ABSENT, Leads.COMING): (_FENCE, Answer.PROVE, Answer.CLAIM_AGAIN),
    (Stands.LATER_VOTER, Leads.COMING): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.EARLIER_VOTER, Leads.COMING): (Answer.GO_ON, Answer.GO_ON, Answer.GO_ON),  # the leader before this one
    (Stands.ZOOKEEPER_BROKER, Leads.COMING): (Answer.RETIRE, _FENCE, Answer.SERVE),
    (Stands.EARLIER_BROKER, Leads.COMING): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.FOREIGN_QUORUM, Leads.COMING): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.MIGRATION_GONE, Leads.COMING): (_FENCE, Answer.PROVE, Answer.CLAIM_AGAIN),
    (Stands.ANOTHER_MIGRATION, Leads.COMING): (Answer.RETIRE, _FENCE, Answer.CLAIM_AGAIN),
    (Stands.EPOCH_MOVED, Leads.COMING): (Answer.CLAIM_AGAIN, Answer.CLAIM_AGAIN, Answer.CLAIM_AGAIN),
    (Stands.LOG_BEHIND, Leads.COMING): (_FENCE, _FENCE, Answer.SERVE),
    (Stands.TREE_GONE, Leads.COMING): (_FENCE, _FENCE, Answer.SERVE),
    **{(each, Leads.STOCK): (Answer.NOTHING, Answer.NOTHING, Answer.NOTHING) for each in Stands},
}
"""A follower of ours looks at no claim, so beside a stock leader all cells are alike."""


@dataclass(frozen=True, slots=True)
class ClaimedBefore:
    """What the log says of the newest claim of this quorum: `/controller_epoch`, its value and its version.

    The log does not tell where it is of an earlier release, or a stock controller's snapshot dropped the mark.
    """

    zk_epoch: int
    epoch_version: int

    def text(self) -> str:
        return f"{self.zk_epoch} {self.epoch_version}"


def claimed_before(text: str | None) -> ClaimedBefore | None:
    """The claim that a text of `Mark.CLAIM` names; None for a text that cannot be read."""
    words = (text or "").split()
    if len(words) != 2 or not all(word.lstrip("-").isdecimal() for word in words):
        return None
    return ClaimedBefore(int(words[0]), int(words[1]))


@dataclass(frozen=True, slots=True)
class Known:
    """What this leader knows.

    claim: the one that it holds; None while it is coming. at: end of its log. born: `migration_born` of this log's
    migration, when any leader of it saw that. before: the newest claim that the log tells of.
    """

    voters: Collection[int]
    kraft_epoch: int
    at: Position = NOWHERE
    claim: Claim | None = None
    born: int | None = None
    before: ClaimedBefore | None = None

    @property
    def leads(self) -> Leads:
        return Leads.COMING if self.claim is None else Leads.GOING_ON

    @property
    def zk_epoch(self) -> int | None:
        """The epoch in ZooKeeper of this quorum's newest claim; None before its first."""
        if self.claim is not None:
            return self.claim.zk_epoch
        return None if self.before is None else self.before.zk_epoch


@dataclass(frozen=True, slots=True)
class Judged:
    """finding: for FENCE and RETIRE; None for the others."""

    stands: Stands
    answer: Answer
    finding: Occurrence | None = None


def brokers_of(image: Image) -> Brokers:
    if all_in_kraft_mode(image):
        return Brokers.KRAFT
    return Brokers.ZOOKEEPER if all(each.migrating for each in image.brokers.values()) else Brokers.HYBRID


def judge(observed: ClaimObservation, known: Known, brokers: Brokers, *, of_this_cluster: bool = True) -> Judged:
    """of_this_cluster: whether `/cluster/id` is that of this log; it matters only before the claim is made again."""
    found = what_stands(observed, known) if of_this_cluster else Stands.TREE_GONE
    answer = TABLE[found, known.leads][tuple(Brokers).index(brokers)]
    # A broker may have been elected and gone meanwhile; only the epoch and its version tell.
    if answer is Answer.PROVE:
        answer = Answer.CLAIM_AGAIN if nobody_was_elected(observed, known) else Answer.FENCE
    if answer is Answer.CLAIM_AGAIN and observed.epoch >= INT32_MAX:  # no later epoch can be claimed
        answer = Answer.SERVE if brokers is Brokers.KRAFT else Answer.FENCE
    return Judged(found, answer, _finding(observed, known, found, answer))


def nobody_was_elected(observed: ClaimObservation, known: Known) -> bool:
    """Whether `/controller_epoch` is as the newest claim of this quorum left it: every election moves it."""
    return known.before is not None and known.before == ClaimedBefore(observed.epoch, observed.epoch_version)


def what_stands(observed: ClaimObservation, known: Known) -> Stands:
    """Which row of the table this is. `/cluster/id` is not looked at."""
    held, claim = observed.controller, known.claim
    if claim is not None and still_ours(observed, claim):
        return Stands.OURS
    if held is None:
        return Stands.ABSENT
    if held.kraft_epoch <= 0:
        is_higher = known.zk_epoch is None or observed.epoch > known.zk_epoch
        return Stands.ZOOKEEPER_BROKER if is_higher else Stands.EARLIER_BROKER
    # KRaft's, and no node of ours: two quorums must never write to one tree.
    if held.brokerid not in known.voters:
        return Stands.FOREIGN_QUORUM
    if claim is None:
        return Stands.LATER_VOTER if held.kraft_epoch > known.kraft_epoch else _beside_a_voter(observed, known)
    if is_successor(observed, claim, known.voters, known.kraft_epoch):
        return Stands.LATER_VOTER
    if (held.brokerid, held.kraft_epoch) != (claim.node, claim.kraft_epoch):
        return Stands.EARLIER_VOTER
    return _beside_a_voter(observed, known)


def _beside_a_voter(observed: ClaimObservation, known: Known) -> Stands:
    """A voter of ours holds `/controller`: the other two znodes tell."""
    migration, claim = observed.migration, known.claim
    if observed.migration_version < 0 or migration is None or migration == NOBODYS:
        return Stands.MIGRATION_GONE
    if migration.kraft_controller_id not in known.voters:
        return Stands.FOREIGN_QUORUM
    if known.born is not None and observed.migration_born != known.born:
        is_higher = known.zk_epoch is None or observed.epoch > known.zk_epoch
        return Stands.ANOTHER_MIGRATION if is_higher else Stands.MIGRATION_GONE
    if claim is not None:
        return Stands.EPOCH_MOVED if observed.epoch_version != claim.epoch_version else Stands.EARLIER_VOTER
    # Whoever wrote that had records that this log lacks: it is an old copy, or lost its disk.
    if mirrored(migration) > known.at:
        return Stands.LOG_BEHIND
    is_lower = known.before is not None and observed.epoch < known.before.zk_epoch
    return Stands.EPOCH_MOVED if observed.epoch_version < 0 or is_lower else Stands.OURS


def mirrored(migration: MigrationZnode) -> Position:
    """Up to where ZooKeeper has the log; NOWHERE where nothing was noted."""
    return Position(migration.kraft_metadata_epoch, migration.kraft_metadata_offset)


# --- in words ---------------------------------------------------------------------------------------------


def holder(observed: ClaimObservation) -> str:
    held = observed.controller
    if held is None:
        return "no controller"
    kind = f"KRaft epoch {held.kraft_epoch}" if held.kraft_epoch > 0 else "in ZooKeeper mode"
    return f"node {held.brokerid} ({kind})"


def found_text(observed: ClaimObservation, found: Stands) -> str:
    """The three znodes as they stand, for a person."""
    migration = "absent" if observed.migration_version < 0 else "unreadable"
    if observed.migration is not None:
        migration = migration_data(observed.migration).decode()
    epoch = "absent" if observed.epoch_version < 0 else str(observed.epoch)
    tree = "the tree of no or another cluster; " if found is Stands.TREE_GONE else ""
    return f"{tree}{holder(observed)} at /controller, /controller_epoch {epoch}, /migration {migration}"


def expected_text(known: Known) -> str:
    if known.claim is not None:
        return f"node {known.claim.node}, epoch {known.claim.zk_epoch}"
    return f"one of {sorted(known.voters)} at /controller and in /migration"


def _finding(observed: ClaimObservation, known: Known, found: Stands, answer: Answer) -> Occurrence | None:
    if answer is Answer.RETIRE:
        another = ", in another migration than that of this log" if found is Stands.ANOTHER_MIGRATION else ""
        return LOG_RETIRED.found(controller=holder(observed) + another)
    if answer is not Answer.FENCE:
        return None
    if found is Stands.LOG_BEHIND and observed.migration is not None:
        at = mirrored(observed.migration)
        return LOG_BEHIND_ZOOKEEPER.found(mirrored=f"{at.offset} of epoch {at.epoch}", log=known.at.offset)
    return FENCED.found(found=found_text(observed, found), expected=expected_text(known))
