"""May the takeover begin? Content of the tree, health of the brokers, readiness of the quorum.

In:   a reading of ZooKeeper, the registrations in the log, heartbeats, and what else the node knows.
Out:  occurrences of findings for the content (the same that `zk2kraft check` prints), and a `Verdict` that names
      every condition with what was seen.
Elsewhere: reading (node.zookeeper.tree_reader), when it is asked (machine.py: before the claim, and again right before
it).
Rule: no path avoids this gate; what a waiver can lift is named where it is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from migrator.driver.checks.content import oddities
from migrator.driver.checks.restarts import configs_of, tiered_topics
from migrator.driver.checks.settings import (
    broker_findings,
    controller_findings,
    request_limit_finding,
)
from migrator.driver.checks.waivers import PartitionWaiver, lifted
from migrator.driver.claim import ClaimObservation, refuse_claim
from migrator.driver.places import place_findings
from migrator.driver.tree import Tree, clear_broker_configs, live_and_assigned
from migrator.driver.window import TAKEOVER_MAX_MS
from migrator.findings.content import (
    BROKER_ABSENT,
    CLUSTER_ID_DIFFERS,
    DELETION_PENDING,
    FEATURE_FINALIZED,
    IN_SYNC_WITHOUT_REPLICA,
    ISR_INCOMPLETE,
    LEADER_RECOVERING,
    MALFORMED_ZNODE,
    OLD_SECRET_LEFT,
    ORPHAN_CONFIG,
    REASSIGNMENT_MALFORMED,
    REASSIGNMENT_RUNNING,
)
from migrator.findings.driver import WINDOW_LIMIT_LOW, WINDOW_TOO_LONG
from migrator.findings.finding import Occurrence, Severity
from migrator.findings.preflight import (
    EARLIER_LOG,
    IBP_DIFFERS,
    PERMISSION_MISSING,
    ZOOKEEPER_LIMIT_UNKNOWN,
    ZOOKEEPER_TAKES_LESS,
)
from migrator.model import levels
from migrator.model.broker_settings import ControllerFileSettings
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.values import Broker, Partition, Recovery, is_password
from migrator.model.verdict import Condition, Verdict
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER
from migrator.zk.passwords import PasswordEncoder, reasons_to_wait
from migrator.zk.znodes import topic_id_text

SUPPORTED_METADATA_VERSIONS: Final = range(levels.TRANSACTIONS, levels.LATEST + 1)
"""Levels with which this release migrates."""

HEARTBEAT_FRESH_MS: Final = 3_000
VOTERS_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class TakeoverEvidence:
    """What the node knows at the moment of the question.

    voters_enabled:   by voter that is known, whether it has the migration enabled.
    heartbeat_age_ms: by broker id; absent means never heard.
    reading:          brokers that this leadership gave what they asked for of the log.
    waived:           partitions whose incomplete ISR was accepted.
    estimated_ms:     how long the window will take, from the pre-copy and a rehearsal of the full update.
    unasked:          brokers that did not say what they have, with the reason.
    denied:           by broker, the operations on the cluster that it denies this controller's principal.
    denials_unknown:  brokers that did not say what they deny, with the reason.
    unexplained:      what brokers have and would lose with a full send made of this tree (driver.guard).
    ours:             what this controller's file says, as far as the brokers' settings have to go with it.
    broker_settings:  by broker, what an operator set (model.broker_settings.ASKED).
    settings_unread:  brokers that did not say how they are set, with the reason.
    passwords:        what decodes brokers' passwords, None without a secret for it.
    limits:           by ZooKeeper server, the size of a request that passed, at most `jute_maxbuffer`.
    limits_unknown:   ZooKeeper servers that were asked for it in vain, with the reason.
    jute_maxbuffer:   the largest request that this controller may send to ZooKeeper, in bytes.
    exported:         where the checksummed ZooKeeper export of this attempt is, None while there is none.
    """

    tree: Tree
    observed: ClaimObservation
    image: Image
    voters: tuple[int, ...]
    voters_enabled: Mapping[int, bool]
    foreign_voters: tuple[str, ...]
    kraft_epoch: int
    heartbeat_age_ms: Mapping[int, int]
    reading: Collection[int]
    estimated_ms: int
    takeover_max_ms: int
    laboratory: bool
    exported: str | None
    inter_broker_listener: str
    cluster_id: str
    unasked: Mapping[int, str] = field(default_factory=dict)
    denied: Mapping[int, Sequence[str]] = field(default_factory=dict)
    denials_unknown: Mapping[int, str] = field(default_factory=dict)
    unexplained: Collection[Occurrence] = ()
    waived: Collection[PartitionWaiver] = ()
    ours: ControllerFileSettings = field(default_factory=ControllerFileSettings)
    broker_settings: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    settings_unread: Mapping[int, str] = field(default_factory=dict)
    passwords: PasswordEncoder | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    limits_unknown: Mapping[str, str] = field(default_factory=dict)
    jute_maxbuffer: int = JUTE_MAXBUFFER


def takeover_verdict(evidence: TakeoverEvidence) -> Verdict:
    """Every condition of the takeover, each as one check."""
    content, warnings = _by_severity(content_findings(evidence.tree, evidence.waived, evidence.passwords))
    refused = refuse_claim(evidence.observed, evidence.voters, evidence.kraft_epoch)
    return Verdict(
        (
            *quorum_checks(evidence),
            *broker_checks(evidence),
            Condition(
                "no finding in ZooKeeper's content blocks",
                not content,
                _listed([found.text for found in content]) if content else _warned(len(warnings)),
                tuple(sorted({found.code for found in content})),
            ),
            *settings_checks(evidence),
            Condition(
                "/migration and /controller may be claimed",
                refused is None,
                "free" if refused is None else refused.text,
                () if refused is None else (refused.code,),
            ),
            Condition(
                "ZooKeeper and the controllers are of one cluster",
                evidence.tree.cluster_id == evidence.cluster_id,
                f"ZooKeeper: {evidence.tree.cluster_id}, controllers: {evidence.cluster_id}",
                (CLUSTER_ID_DIFFERS.code,),
            ),
            _request_limits(evidence),
            Condition(
                "a ZooKeeper export is taken",
                evidence.exported is not None,
                evidence.exported or "no export is taken yet",
            ),
            _time_without_controller(evidence),
        )
    )


def limit_findings(
    limits: Mapping[str, int], unknown: Mapping[str, str], jute_maxbuffer: int
) -> tuple[list[Occurrence], list[Occurrence]]:
    """ZooKeeper servers that take less than we may send, and those of which nothing is known."""
    less = [
        ZOOKEEPER_TAKES_LESS.found(server=server, passed=passed, limit=jute_maxbuffer)
        for server, passed in limits.items()
        if passed < jute_maxbuffer
    ]
    return less, [ZOOKEEPER_LIMIT_UNKNOWN.found(server=server, reason=reason) for server, reason in unknown.items()]


def _request_limits(evidence: TakeoverEvidence) -> Condition:
    """A server that is down bars nothing: the session is with another one. It is named all the same."""
    less, unknown = limit_findings(evidence.limits, evidence.limits_unknown, evidence.jute_maxbuffer)
    passed = f"{evidence.jute_maxbuffer} bytes passed at {len(evidence.limits)} servers."
    return Condition(
        "every ZooKeeper server takes the largest request that is sent",
        not less,
        " ".join([_listed([each.text for each in less]) if less else passed, *(each.text for each in unknown)]),
        (ZOOKEEPER_TAKES_LESS.code,) if less else (),
    )


def _time_without_controller(evidence: TakeoverEvidence) -> Condition:
    """An overrun after the commit costs a restart of every broker, so it is said before the takeover."""
    estimated_ms, half_ms = evidence.estimated_ms, evidence.takeover_max_ms // 2
    partitions = sum(len(reading.topic.partitions) for reading in evidence.tree.topics.values())
    brokers = len(evidence.image.brokers)
    takes = {"estimated_ms": estimated_ms, "half_ms": half_ms, "brokers": brokers, "partitions": partitions}
    needed_ms = 2 * -(-estimated_ms // 500) * 500
    found = None
    if estimated_ms > half_ms:
        fits = needed_ms <= TAKEOVER_MAX_MS
        found = WINDOW_LIMIT_LOW.found(needed_ms=needed_ms, **takes) if fits else WINDOW_TOO_LONG.found(**takes)
    return Condition(
        "the time without controller fits into half of its limit",
        found is None,
        f"about {estimated_ms} ms of {half_ms} ms" if found is None else found.text,
        () if found is None else (found.code,),
    )


def _by_severity(found: Iterable[Occurrence]) -> tuple[list[Occurrence], list[Occurrence]]:
    """Those that block, and those that warn."""
    blocking: list[Occurrence] = []
    warning: list[Occurrence] = []
    for each in found:
        (blocking if each.finding.severity is Severity.BLOCKS else warning).append(each)
    return blocking, warning


def _warned(count: int) -> str:
    return f"nothing blocks; `zk2kraft check` shows {count} warnings" if count else "none found"


def _listed(texts: list[str], shown: int = 2) -> str:
    if not texts:
        return "none found"
    more = f" (and {len(texts) - shown} more)" if len(texts) > shown else ""
    return f"{len(texts)} found: " + " ".join(texts[:shown]) + more


def settings_checks(evidence: TakeoverEvidence) -> tuple[Condition, ...]:
    """What was set on controllers and brokers goes together (F-18, F-37, F-38, F-50); what is for later is reported."""
    ours, families = evidence.ours, evidence.tree.families
    found = list(controller_findings(evidence.tree, ours))
    size = full_request_bytes(evidence.tree)
    for broker in sorted(evidence.broker_settings):
        settings = evidence.broker_settings[broker]
        found += broker_findings(broker, settings, ours)
        found += filter(None, [request_limit_finding(broker, settings, size)])
    blocking, warning = _by_severity(found)
    unread = {broker: evidence.settings_unread[broker] for broker in sorted(evidence.settings_unread)}
    tiered = len(tiered_topics(configs_of(evidence.tree)))
    held = f"{len(families.acls)} resources with ACLs, {len(families.tokens)} tokens, {tiered} tiered topics"
    return (
        Condition("the settings of every broker are known", not unread, _reasons(unread) or "all are known"),
        Condition(
            "the settings of brokers and controllers fit each other",
            not blocking,
            _listed([each.text for each in blocking]) if blocking else held,
            tuple(sorted({each.code for each in blocking})),
        ),
        Condition(
            "the changes that brokers need for KRaft mode are known", True, _listed([each.text for each in warning])
        ),
    )


def can_register(image: Image) -> bool:
    """Whether the log has a record in which a controller makes itself known (from 3.7-IV0 on)."""
    return image.metadata_version >= levels.CONTROLLER_REGISTRATION


def voters_enabled(image: Image, asked: Mapping[int, bool]) -> Mapping[int, bool]:
    """Each voter that is known, and whether it has the migration enabled.

    Its registration says so, or its answer where no voter can register. (Stock asks no voter then, and would copy
    beside a voter that finalizes.)
    """
    if not can_register(image):
        return asked
    return {each.id: each.zk_migration_ready for each in image.controllers.values()}


def quorum_checks(evidence: TakeoverEvidence) -> tuple[Condition, ...]:
    """Every voter is ours, registered and ready. One voter is for the laboratory only (F-59)."""
    enough = len(evidence.voters) >= VOTERS_MIN or evidence.laboratory
    missing = [voter for voter in evidence.voters if voter not in evidence.voters_enabled]
    unready = [voter for voter in evidence.voters if not evidence.voters_enabled.get(voter, True)]
    level = evidence.image.metadata_version
    return (
        Condition("there are at least 3 voters", enough, f"{len(evidence.voters)} voters"),
        Condition(
            "every voter runs zk2kraft",
            not evidence.foreign_voters,
            f"not known to run zk2kraft: {', '.join(evidence.foreign_voters)}"
            if evidence.foreign_voters
            else "all voters do",
        ),
        Condition(
            "every voter is known and has the migration enabled",
            not missing and not unready,
            f"not known: {missing}, not enabled: {unready}" if missing or unready else "all voters are ready",
        ),
        Condition(
            "this release migrates at the quorum's metadata.version",
            level in SUPPORTED_METADATA_VERSIONS,
            levels.level_name(level),
        ),
    )


def broker_checks(evidence: TakeoverEvidence) -> tuple[Condition, ...]:
    """Every broker is there, fresh, and of one kind (F-02, F-12, F-16, F-20)."""
    live, assigned = live_and_assigned(evidence.tree)
    registered = evidence.image.brokers
    ready = {broker for broker in live if broker in registered and registered[broker].migrating}
    wanted = live | set(assigned)
    fenced = sorted(broker for broker in ready if registered[broker].fenced)
    stale = sorted(broker for broker in ready if evidence.heartbeat_age_ms.get(broker, 10**9) >= HEARTBEAT_FRESH_MS)
    unread = sorted(ready - set(evidence.reading))
    level = evidence.image.metadata_version
    other_levels = {broker: _levels(registered[broker]) for broker in sorted(ready)}
    other_levels = {broker: levels for broker, levels in other_levels.items() if levels != (level, level)}
    deaf = sorted(broker for broker in ready if registered[broker].listener(evidence.inter_broker_listener) is None)
    unasked = {broker: evidence.unasked[broker] for broker in sorted(evidence.unasked)}
    kraft = sorted(broker for broker, each in registered.items() if not each.migrating and not each.fenced)
    return (
        Condition("there is at least one broker", bool(live), f"{len(live)} in {paths.BROKER_IDS}"),
        Condition(
            "every broker is registered in migration mode",
            wanted <= ready,
            f"{len(ready)} of {len(wanted)} brokers are registered"
            + (f", missing {sorted(wanted - ready)}" if wanted - ready else ""),
        ),
        Condition("no broker is fenced", not fenced, f"fenced: brokers {fenced}" if fenced else "none is"),
        Condition(
            "every broker reads this log",
            not unread,
            f"brokers {unread} do not" if unread else "all brokers do",
            (EARLIER_LOG.code,),
        ),
        Condition("every heartbeat is under 3 s old", not stale, f"older: brokers {stale}" if stale else "all are"),
        Condition(
            "every broker's IBP is the quorum's metadata.version",
            not other_levels,
            f"differing: {other_levels}" if other_levels else levels.level_name(level),
        ),
        Condition(
            f"every broker listens on {evidence.inter_broker_listener}",
            not deaf,
            f"brokers {deaf} do not" if deaf else "all brokers do",
        ),
        _permissions(evidence),
        Condition("every broker reported its logs", not unasked, _reasons(unasked) or "all brokers did"),
        Condition(
            "the logs of every broker agree with ZooKeeper",
            not evidence.unexplained,
            _listed([found.text for found in evidence.unexplained]),
            tuple(sorted({found.code for found in evidence.unexplained})),
        ),
        Condition(
            "no broker runs in KRaft mode yet", not kraft, f"in KRaft mode: brokers {kraft}" if kraft else "none does"
        ),
    )


def ibp_differs(kept_out: Mapping[int, tuple[int, int]], image: Image) -> Occurrence | None:
    """The first broker in ZooKeeper mode that was refused for its level. kept_out: lowest and highest, by broker."""
    for broker, (lowest, highest) in sorted(kept_out.items()):
        if lowest == highest:
            level = levels.level_name(image.metadata_version)
            return IBP_DIFFERS.found(broker=broker, ibp=levels.level_name(highest), level=level)
    return None


def _permissions(evidence: TakeoverEvidence) -> Condition:
    """Without them the takeover would be noticed to fail when it is made: seconds without a controller."""
    denied = [
        PERMISSION_MISSING.found(broker=broker, operations=", ".join(evidence.denied[broker])).text
        for broker in sorted(evidence.denied)
    ]
    unknown = _reasons(evidence.denials_unknown)
    return Condition(
        "every broker grants this controller the operations that it needs",
        not denied and not unknown,
        _listed([*denied, *filter(None, [unknown])]) if denied or unknown else "all brokers do",
        (PERMISSION_MISSING.code,) if denied else (),
    )


def _reasons(by_broker: Mapping[int, str]) -> str:
    """Each broker with its reason; empty where there is none."""
    return "; ".join(f"broker {broker}: {by_broker[broker]}" for broker in sorted(by_broker))


def _levels(broker: Broker) -> tuple[int, int]:
    found = next((each for each in broker.features if each.name == METADATA_VERSION), None)
    return (1, 1) if found is None else (found.lowest, found.highest)


# --- content ----------------------------------------------------------------------------------------------


def content_findings(
    tree: Tree, waived: Collection[PartitionWaiver] = (), passwords: PasswordEncoder | None = None
) -> list[Occurrence]:
    """Everything in the tree that blocks a takeover or deserves a warning, blocking ones first."""
    found = [*tree.problems, *place_findings(tree.missing)]
    found += _shared_ids(tree)
    found += _feature_findings(tree)
    found += _deletion_and_reassignment(tree)
    found += _broker_and_isr_findings(tree, waived)
    found += _config_findings(tree)
    found += _password_findings(tree, passwords)
    found += oddities(tree)
    return sorted(found, key=lambda each: each.finding.severity is not Severity.BLOCKS)


def _shared_ids(tree: Tree) -> list[Occurrence]:
    """Two topics with one id: the log has no form of that, and brokers could not tell their logs apart."""
    found: list[Occurrence] = []
    owners: dict[bytes, str] = {}
    for name in sorted(tree.topics):
        topic = tree.topics[name].topic
        owner = owners.setdefault(topic.id, name)
        if owner != name:
            reason = f"topic_id {topic_id_text(topic.id)} is also that of {owner}"
            found.append(MALFORMED_ZNODE.found(path=paths.topic(name), reason=reason))
    return found


def _feature_findings(tree: Tree) -> list[Occurrence]:
    """Finalized features are refused, since no record could be right for them.

    Stock does not look at `/feature` when it migrates, and does not write it in dual-write: brokers in ZooKeeper mode
    of 3.6 to 3.9 support no feature, and end on one that is finalized. So whoever finalized one runs other software. A
    record of it would end every stock controller, and no record would take from that software what it relies on.
    Source: Kafka 3.9 `KafkaServer.brokerFeatures` (empty), `ZkMetadataCache.updateFeaturesOrThrow`,
    `FeatureControlManager.replay`, `KRaftMigrationZkWriterTest` ("Features are not used in ZK mode, so we don't migrate
    or dual-write them"); `ZkMigrationClient` has no feature.
    """
    if not tree.features:
        return []
    return [FEATURE_FINALIZED.found(count=len(tree.features), first=tree.features[0])]


def _deletion_and_reassignment(tree: Tree) -> list[Occurrence]:
    found = []
    if tree.pending_deletions:
        found.append(DELETION_PENDING.found(count=len(tree.pending_deletions), first=tree.pending_deletions[0]))
    moving = [
        (reading.topic.name, partition)
        for reading in tree.topics.values()
        for partition in reading.topic.partitions
        if partition.adding or partition.removing
    ]
    names = [f"{topic}-{partition.id}" for topic, partition in moving]
    names += [f"{each.topic}-{each.partition}" for each in tree.ordered_moves]
    if names:
        found.append(REASSIGNMENT_RUNNING.found(count=len(set(names)), first=names[0]))
    for topic, partition in moving:
        reason = _why_no_move(partition)
        if reason is not None:
            found.append(REASSIGNMENT_MALFORMED.found(partition=f"{topic}-{partition.id}", reason=reason))
    return found


def _why_no_move(partition: Partition) -> str | None:
    """Why no controller could end this reassignment; stock copies it all the same."""
    for what, brokers in (("added", partition.adding), ("removed", partition.removing)):
        if len(set(brokers)) != len(brokers):
            return f"a replica is {what} twice: {brokers}"
        if not set(brokers) <= set(partition.replicas):
            return f"{brokers} are being {what}, and the replicas are {partition.replicas}"
    if set(partition.replicas) <= set(partition.removing):
        return f"every replica is being removed: {partition.replicas}"
    return None


def _broker_and_isr_findings(tree: Tree, waived: Collection[PartitionWaiver]) -> list[Occurrence]:
    live, assigned = live_and_assigned(tree)
    found = [BROKER_ABSENT.found(broker=broker, topic=assigned[broker]) for broker in sorted(set(assigned) - live)]
    broken: dict[str, Occurrence] = {}
    for reading in tree.topics.values():
        for partition in reading.topic.partitions:
            if _is_sound(partition):
                continue  # nearly all, and this is asked while nobody is controller
            name = f"{reading.topic.name}-{partition.id}"
            if partition.recovery != Recovery.RECOVERED:
                found.append(LEADER_RECOVERING.found(path=paths.state(reading.topic.name, partition.id)))
            if strays := sorted(set(partition.isr) - set(partition.replicas)):
                found.append(
                    IN_SYNC_WITHOUT_REPLICA.found(
                        partition=name, brokers=strays, isr=partition.isr, replicas=partition.replicas
                    )
                )
            if not _healthy(partition):
                broken[name] = ISR_INCOMPLETE.found(
                    partition=name, replicas=partition.replicas, isr=partition.isr, leader=partition.leader
                )
    free, said = lifted(waived, list(broken), _partition_names(tree))
    return [*found, *said, *(each for name, each in broken.items() if name not in free)]


def _partition_names(tree: Tree) -> Iterator[str]:
    for reading in tree.topics.values():
        for partition in reading.topic.partitions:
            yield f"{reading.topic.name}-{partition.id}"


def _is_sound(partition: Partition) -> bool:
    """Recovered, every replica in sync and no other broker, led by one of them."""
    return (
        partition.recovery == Recovery.RECOVERED
        and partition.isr == partition.replicas
        and partition.leader in partition.isr
    )


def _healthy(partition: Partition) -> bool:
    """Led by a replica in sync, and all are in sync; while replicas move, all that had it before or all that stay.

    Who is in sync and no replica counts for nothing here: it is a finding of its own.
    """
    if partition.leader not in partition.isr:
        return False
    if partition.isr == partition.replicas:
        return True
    replicas = set(partition.replicas)
    in_sync = replicas & set(partition.isr)
    if partition.leader not in in_sync:
        return False
    return replicas - set(partition.adding) <= in_sync or replicas - set(partition.removing) <= in_sync


def _config_findings(tree: Tree) -> list[Occurrence]:
    return [ORPHAN_CONFIG.found(path=paths.topic_config(name)) for name in sorted(tree.orphan_configs)]


def _password_findings(tree: Tree, passwords: PasswordEncoder | None) -> list[Occurrence]:
    """Passwords that would be garbled in the log, or in ZooKeeper by what dual-write puts there (F-25)."""
    found = clear_broker_configs(tree, passwords).problems
    if passwords is not None:
        for broker, values in tree.broker_configs.items():
            found += reasons_to_wait(paths.broker_config(broker), values, passwords)
    found.sort(key=lambda each: (each.values["path"], each.values["key"]))
    holders = sorted(broker for broker, values in tree.broker_configs.items() if any(map(is_password, values)))
    if holders and passwords is not None and passwords.settings.old_secret:
        found.append(OLD_SECRET_LEFT.found(count=len(holders), path=paths.broker_config(holders[0])))
    return found


def full_request_bytes(tree: Tree) -> int:
    """About how long the full UpdateMetadata (version 8) will be: fixed fields, and four bytes per replica."""
    size = 0
    for reading in tree.topics.values():
        size += len(reading.topic.name) + 24
        for partition in reading.topic.partitions:
            size += 28 + 4 * (len(partition.replicas) + len(partition.isr))
    return size
