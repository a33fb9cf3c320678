"""The catalogue of findings, and the one exception that carries them.

In:   nothing; every room above imports this one.
Out:  `Finding` (what we know about a kind of trouble), `Occurrence` (one time it happened, with values) and
      `FindingError` (an occurrence on its way up).
Elsewhere: the page of each code (`runbooks/<code>.md`), which cases a check covers (`docs/cases.md`).
Rules: a code is given once and never reused; `says` names the values, `means` and `remedy` stand without them.
The codes by room: 1xxx content and preflight, 2xxx driver and ZooKeeper, 3xxx bytes, log and quorum,
4xxx service, 5xxx audit, 6xxx laboratory and set-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from os import strerror
from typing import Any


class Severity(StrEnum):
    """What a finding does to a gate: BLOCKS closes it, WARNS is shown beside it."""

    BLOCKS = "blocks"
    WARNS = "warns"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time a finding was made: which, and the values that `says` names.

    values: what happened here; paths, ids and versions are kept whole, never cut off.
    """

    finding: Finding
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        return self.finding.code

    @property
    def text(self) -> str:
        return self.finding.says.format(**{name: _shown(value) for name, value in self.values.items()})

    @property
    def in_full(self) -> str:
        """For somebody who sees one line and no page: the code, what happened, and what to do."""
        return f"{self.code} {self.text} {self.finding.remedy}"

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.finding.code,
            "severity": self.finding.severity.value,
            "says": self.text,
            "means": self.finding.means,
            "remedy": self.finding.remedy,
            "values": {name: _plain(value) for name, value in self.values.items()},
            "runbook": f"runbooks/{self.finding.code}.md",
        }


class FindingError(Exception):
    """The one exception of expected trouble; `occurrence` says which, and with what values."""

    def __init__(self, occurrence: Occurrence) -> None:
        super().__init__(f"{occurrence.code} {occurrence.text}")
        self.occurrence = occurrence

    @property
    def code(self) -> str:
        return self.occurrence.code


CATALOGUE: dict[str, Finding] = {}


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of trouble: its code, what happened, what that means, and what to do about it."""

    code: str
    says: str
    means: str
    remedy: str
    severity: Severity = Severity.BLOCKS
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.code not in CATALOGUE, f"{self.code} was given before"
        CATALOGUE[self.code] = self

    def found(self, **values: Any) -> Occurrence:
        return Occurrence(self, values)

    def error(self, **values: Any) -> FindingError:
        return FindingError(self.found(**values))


def words_of(error: BaseException) -> str:
    """An exception as a person says it: what the system calls it and of which file, not how Python writes it.

    A fault of ours keeps the name of its class, by which it is found.
    """
    match error:
        case FindingError():
            return str(error)
        case EOFError():
            return "the connection was closed"
        case OSError(errno=int(number), strerror=str(said), filename=where):
            words = strerror(number) if number > 0 else said  # asyncio's `strerror` has a tuple in it
            return words if where is None else f"{where}: {words}"
        case TimeoutError():
            return str(error) or "no answer in time"
        case OSError() | ValueError():
            return str(error) or type(error).__name__
        case _:
            return f"{type(error).__name__}: {error}".removesuffix(": ")


def _shown(value: Any) -> Any:
    """A value as a sentence can carry it: words without Python's quotes, exceptions in words. Ids keep brackets."""
    match value:
        case BaseException():
            return words_of(value)
        case StrEnum():
            return value.value
        case Mapping():
            return ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in value.items())
        case set() | frozenset():
            return _shown(sorted(value, key=str))
        case list() | tuple() if not all(isinstance(item, int) for item in value):
            return ", ".join(str(_shown(item)) for item in value)
        case tuple():
            return list(value)
        case _:
            return value


def _plain(value: Any) -> Any:
    """A value as JSON can carry it: sets and tuples become lists, unknown things their text."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)


# --- 1xxx: content and preflight --------------------------------------------------------------------------

MALFORMED_ZNODE = Finding(
    code="Z2K-1001",
    says="{path} cannot be read: {reason}.",
    means="This znode does not hold what Kafka writes there. Copying it would mean guessing, so nothing is copied.",
    remedy="Look at the znode with `zk2kraft export` or ZooKeeper's shell, find out who wrote it, and repair or "
    "remove it with Kafka's own tools; then run `zk2kraft check` again.",
)

TOPIC_ID_MISSING = Finding(
    code="Z2K-1002",
    says="{path} has no topic_id.",
    means="The topic was written by hand or by a broker below IBP 2.8. Its identity in KRaft would be a guess, and "
    "brokers move logs of a wrong identity aside.",
    remedy="Restart the ZooKeeper controller (delete nothing): at IBP 2.8 or later it gives an id to every topic that "
    "lacks one. Then run `zk2kraft check` again.",
    cases=("F-23",),
)
STATE_MISSING = Finding(
    code="Z2K-1003",
    says="{path} does not exist.",
    means="The partition was assigned but never got a leader, or its state was deleted. Stock would invent a full ISR "
    "at leader epoch 0; nothing is invented here.",
    remedy="Let the ZooKeeper controller elect a leader for it (start its replicas), or delete the topic; then run "
    "`zk2kraft check` again.",
    cases=("F-26",),
)

NOT_MIGRATED_YET = Finding(
    code="Z2K-1004",
    says="{count} {family} in ZooKeeper, the first at {first}.",
    means="This release does not copy this family, so after a takeover it would be missing from KRaft.",
    remedy="Wait for a release that copies it (docs/families.md), or disable the features with Kafka's own tool if the "
    "cluster does not need them.",
)
DELETION_PENDING = Finding(
    code="Z2K-1005",
    says="{count} topics wait for deletion, the first is {first}.",
    means="A topic that is half deleted is neither copied nor left; its files would become stray directories.",
    remedy="Bring back the brokers that hold its replicas until /admin/delete_topics is empty.",
    cases=("F-27",),
)
REASSIGNMENT_RUNNING = Finding(
    code="Z2K-1006",
    says="{count} partitions are being reassigned, the first is {first}.",
    means="The moves are taken over as they are and go on under the new controller; a hand-back gives them back.",
    remedy="None needed. A takeover has less to carry when they have ended: kafka-reassign-partitions --list names "
    "what moves, --cancel takes it back.",
    severity=Severity.WARNS,
    cases=("F-47",),
)
BROKER_ABSENT = Finding(
    code="Z2K-1007",
    says="Broker {broker} is not in /brokers/ids, but {topic} is assigned to it.",
    means="Kafka waits for ever for such a broker, and a copied partition would start under-replicated.",
    remedy="Start the broker, or move its replicas away with kafka-reassign-partitions.",
    cases=("F-01",),
)
ISR_INCOMPLETE = Finding(
    code="Z2K-1008",
    says="{partition}: replicas {replicas}, in sync {isr}, leader {leader}.",
    means="While there is no controller no leader can be replaced; the takeover begins only on a healthy cluster.",
    remedy="Bring the missing replicas back into sync. Partitions that must stay as they are can be waived by name or "
    "pattern in the controllers' files (zk2kraft.waive).",
)
LEADER_RECOVERING = Finding(
    code="Z2K-1009",
    says="{path}: the leader is recovering from an unclean election.",
    means="Records may be lost already. The state is copied, and its leader reports to the new controller when it has "
    "recovered.",
    remedy="None needed for the migration; find out which records the partition lost.",
    severity=Severity.WARNS,
)
PASSWORD_CONFIG = Finding(
    code="Z2K-1010",
    says="{path} holds the password {key}, and no password.encoder.secret is known here.",
    means="Passwords are encrypted in ZooKeeper and clear in KRaft. Without the brokers' secret the encrypted text "
    "would become the password.",
    remedy="Give every controller's properties file the password.encoder.* settings of the brokers (and `rehearse` and "
    "`audit` that file, with --controller); then check again.",
    cases=("F-25",),
)
ORPHAN_CONFIG = Finding(
    code="Z2K-1011",
    says="{path} configures a topic that does not exist.",
    means="It is not copied and stays in ZooKeeper. A topic created later under this name replaces it.",
    remedy="None needed; remove the znode if nobody wants it.",
    severity=Severity.WARNS,
)
REASSIGNMENT_MALFORMED = Finding(
    code="Z2K-1080",
    says="The reassignment of {partition} cannot be understood: {reason}.",
    means="The topic's znode names replicas as being added or removed in a way that no controller writes, so nobody "
    "could end this move. Copying it would carry it into KRaft for ever.",
    remedy="Order the replicas that the partition shall have with kafka-reassign-partitions, wait until that has "
    "ended, then run `zk2kraft check` again.",
)
TOO_BIG_FOR_ONE_REQUEST = Finding(
    code="Z2K-1012",
    says="The full UpdateMetadata would take about {bytes} bytes; broker {broker} accepts {limit}, and needs "
    "socket.request.max.bytes={needed} at least.",
    means="A full request must hold everything at once, and this broker would close the connection on it, again and "
    "again, inside the window.",
    remedy="Raise socket.request.max.bytes in every broker's file and restart them one by one, or delete topics that "
    "nobody needs; then look at the gate again.",
    cases=("F-54",),
)
CLUSTER_ID_DIFFERS = Finding(
    code="Z2K-1013",
    says="ZooKeeper's cluster id is {zookeeper}, the controllers are formatted for {controllers}.",
    means="Brokers refuse to register with controllers of another cluster.",
    remedy="Format fresh controller directories with the id of /cluster/id.",
    cases=("F-15",),
)

PASSWORD_UNDECODABLE = Finding(
    code="Z2K-1070",
    says="{path}: the password {key} cannot be decoded: {reason}.",
    means="It would be garbled in KRaft, and a broker's listener would not start with it. Nothing is copied. In "
    "dual-write this broker's configuration stays in ZooKeeper as it is.",
    remedy="Give the controllers the password.encoder.secret with which this broker runs. If the broker cannot read "
    "the value either (its log says `could not be decoded`), set it once more through that broker; then check again.",
    cases=("F-25",),
)
PASSWORD_ALGORITHM_UNKNOWN = Finding(
    code="Z2K-1071",
    says="{path}: the password {key} is encoded with {algorithm}, which this release does not know.",
    means="It cannot be decoded, so nothing is copied. In dual-write this broker's configuration stays in ZooKeeper as "
    "it is.",
    remedy="Give this broker an algorithm that is known (AES/CBC/PKCS5Padding and PBKDF2WithHmacSHA512 are Kafka's own "
    "choice), restart it, and set the value once more through it; then check again.",
    cases=("F-25",),
)
PASSWORD_OF_OLD_SECRET = Finding(
    code="Z2K-1072",
    says="{path}: the password {key} is still encoded under password.encoder.old.secret.",
    means="This broker was not restarted with the new secret, so it could not read what dual-write puts into "
    "ZooKeeper.",
    remedy="Restart the broker with both secrets in its properties file: it encodes its values again by itself. Then "
    "check again.",
    cases=("F-25",),
)
PASSWORD_CIPHERS_DIFFER = Finding(
    code="Z2K-1073",
    says="{path}: the password {key} is encoded with {brokers}, and the controllers would write {controllers}.",
    means="A broker that is set to AES/GCM reads nothing else, and one that is not cannot read AES/GCM, whatever the "
    "text says of itself. It could not read what dual-write puts into ZooKeeper.",
    remedy="Give the controllers the brokers' password.encoder.cipher.algorithm, then check again.",
    cases=("F-25",),
)
PASSWORD_UNCERTAIN = Finding(
    code="Z2K-1074",
    says="{path}: the password {key} is encoded with {algorithm}, which does not tell whether the secret is right.",
    means="A wrong secret would give another short text instead of an error, and nobody could see that it is garbled.",
    remedy="Set the broker to a cipher with a padding or a tag (AES/CBC/PKCS5Padding is Kafka's own choice) and give "
    "it its secret as password.encoder.old.secret too: at its restart it encodes the value again. Then check again.",
    cases=("F-25",),
)
OLD_SECRET_LEFT = Finding(
    code="Z2K-1075",
    says="password.encoder.old.secret is set, and {count} brokers keep passwords in ZooKeeper, the first at {path}.",
    means="A broker with this line writes its passwords again at every start, which Kafka refuses while a KRaft "
    "controller rules: in dual-write such a broker would not start any more.",
    remedy="Take password.encoder.old.secret out of the brokers' files before the takeover (no restart is needed for "
    "that), then out of the controllers'.",
    severity=Severity.WARNS,
    cases=("F-25",),
)

PATH_MISSING = Finding(
    code="Z2K-1111",
    says="{path} does not exist in ZooKeeper: {lost}.",
    means="Every broker creates this znode at its start, so somebody deleted it. The takeover writes into or below it "
    "and would fail after the commit. Nothing is claimed before it exists again.",
    remedy="Follow this code's page for the path: most are created again by restarting the brokers one by one; "
    "/latest_producer_id_block needs a value first.",
)
PATH_WILL_BE_CREATED = Finding(
    code="Z2K-1112",
    says="{path} does not exist in ZooKeeper; the takeover creates it, empty, before it claims anything.",
    means="Every broker creates this znode at its start, so somebody deleted it, with all that was below it.",
    remedy="Find out who deleted it and whether configuration below it was lost; an export tells what there was.",
    severity=Severity.WARNS,
)
PERMISSION_MISSING = Finding(
    code="Z2K-1113",
    says="Broker {broker} denies this controller's principal {operations} on the cluster.",
    means="With an authorizer, brokers take UpdateMetadata, LeaderAndIsr and StopReplica only from a principal with "
    "ClusterAction, and show what they have and how they are set only with Describe and DescribeConfigs.",
    remedy="Grant the operations to the principal of the controllers with kafka-acls.sh, or name it in the brokers' "
    "super.users. Follow this code's page.",
)
ZOOKEEPER_TAKES_LESS = Finding(
    code="Z2K-1115",
    says="ZooKeeper server {server} takes requests of up to {passed} bytes, and the controllers may send {limit}.",
    means="A server closes the connection at a request above its jute.maxbuffer. After a takeover such a change would "
    "be committed and would never reach ZooKeeper.",
    remedy="Set `zk2kraft.zookeeper.jute.maxbuffer` in every controller's file to the smallest size that a server "
    "takes, and restart the controllers one by one; or raise that server's jute.maxbuffer.",
)
ZOOKEEPER_LIMIT_UNKNOWN = Finding(
    code="Z2K-1116",
    says="It is not known how large a request ZooKeeper server {server} takes: {reason}.",
    means="Every server of zookeeper.connect is asked. One that takes less than the others would close the connection "
    "at a large write as soon as the controllers' session moves there.",
    remedy="Bring the server back, or take it out of `zookeeper.connect`, then look again.",
    severity=Severity.WARNS,
)
CONTROLLERS_RUN = Finding(
    code="Z2K-1118",
    says="Controllers of ours run: {controllers}.",
    means="They lead the cluster. A rollback without controllers would take it away from them while they answer "
    "brokers, and what they have not written to ZooKeeper yet would be lost. Nothing was changed.",
    remedy="Better: go back with them, by `zk2kraft rollback`. Otherwise stop the processes that are named, and keep "
    "their supervisor (systemd, the service) from starting them again. A session of a killed process ends within its "
    "time-out (zookeeper.session.timeout.ms, 18 s unless set); then run the command again.",
)
PEER_DENIED = Finding(
    code="Z2K-1119",
    says="Controllers deny requests of {principal}: it lacks {operation} on the cluster.",
    means="Only brokers and controllers ask for this. A controller that is denied elects no leader and follows none; a "
    "broker that is denied is not registered, or is fenced.",
    remedy="Add the principal to super.users in the properties file of every controller and restart them one by one, "
    "or grant the operation with kafka-acls.sh where ACLs are known already. Follow this code's page.",
    severity=Severity.WARNS,
)
WAIVED = Finding(
    code="Z2K-1120",
    says="The waiver {waiver} lifts Z2K-1008 from {count} partitions, the first {first}.",
    means="They are not whole, and the controllers' files accept it. Their leaders cannot be replaced in the seconds "
    "of the takeover.",
    remedy="None needed. When the replicas are in sync again, take the waiver out of the files (zk2kraft.waive).",
    severity=Severity.WARNS,
)
WAIVER_EXCEEDED = Finding(
    code="Z2K-1121",
    says="The waiver {waiver} lifts nothing: {count} of the {total} partitions that it matches are not whole.",
    means="That is more than its share, so each of these partitions blocks as if there were no waiver.",
    remedy="Find out why there are more of them than was accepted; bring replicas back into sync, or accept a larger "
    "share in the controllers' files (zk2kraft.waive).",
    severity=Severity.WARNS,
)

# --- 2xxx: driver and ZooKeeper ---------------------------------------------------------------------------

ZOOKEEPER_UNREACHABLE = Finding(
    code="Z2K-2001",
    says="ZooKeeper at {connect} does not answer: {reason}.",
    means="Nothing could be read or written. The cluster itself is not affected by this.",
    remedy="Check the address (with its chroot), that the ensemble has a leader, and that no firewall or TLS setting "
    "stands between; then run the command again.",
)
ZOOKEEPER_LOST = Finding(
    code="Z2K-2002",
    says="The connection to ZooKeeper was lost during {path} ({reason}).",
    means="A read can be repeated; whether a write was applied is unknown until the znodes were read again.",
    remedy="None needed while the controller runs: it reconnects, reads again and reconciles. If it lasts, look at "
    "the ensemble's health.",
)
ZOOKEEPER_REFUSES = Finding(
    code="Z2K-2004",
    says="ZooKeeper refuses {path}: {reason}.",
    means="The session lacks the right to read or write this znode, or the server is read-only.",
    remedy="Look at the access list of that path with ZooKeeper's shell (getAcl), and log in to ZooKeeper as the "
    "brokers do (KAFKA_OPTS, docs/drop-in.md).",
)
WRITE_REFUSED = Finding(
    code="Z2K-2121",
    says="ZooKeeper answered {error} to a write on {path}; everything is read and compared again.",
    means="The connection works. The znode is not as the controller expected: somebody else changed, created or "
    "deleted it. The whole multi was refused; nothing of it was applied.",
    remedy="None needed when it comes once: the controller reads again and writes what differs. When it repeats, look "
    "at that path and find out who writes there.",
)
PATH_RECREATED = Finding(
    code="Z2K-2122",
    says="{paths} did not exist in ZooKeeper any more and was created again from the log.",
    means="Somebody deleted it after the takeover. Its content was written again. After /config/changes was deleted, "
    "ZooKeeper-mode brokers do not hear of changed configuration until they are restarted.",
    remedy="Find out who deletes znodes and stop it. If /config/changes is named, restart the ZooKeeper-mode brokers "
    "one by one.",
    severity=Severity.WARNS,
)
MIRROR_BROKE = Finding(
    code="Z2K-2123",
    says="A write to ZooKeeper did not succeed: {reason}.",
    means="Whether it was applied is not assumed: everything is read, compared and written again.",
    remedy="None needed when it comes once. When it repeats, follow the code or the path that the reason names.",
)
ZNODE_NOT_WRITTEN = Finding(
    code="Z2K-2124",
    says="{path} would be {bytes} bytes; ZooKeeper takes {limit}.",
    means="ZooKeeper breaks the connection at a request above its jute.maxbuffer, and each repetition would break it "
    "again. This znode stays as it is; everything else is written.",
    remedy="Make it smaller with Kafka's tools: delete ACLs of that resource, shorten the configuration, or delete the "
    "topic. Such requests are taken also while other changes are refused.",
)
TOPIC_NOT_WHOLE = Finding(
    code="Z2K-2125",
    says="Topic {topic} is not whole in ZooKeeper, so its later changes are not written there one by one.",
    means="An earlier change of it could not be written. ZooKeeper keeps what it has of the topic; brokers are served "
    "from the log.",
    remedy="Make the earlier change possible (`zk2kraft status` names it), then restart the leading controller: the "
    "next one compares everything and writes what differs.",
)

FENCED = Finding(
    code="Z2K-2003",
    says="/migration or /controller was changed by somebody else: found {found}; this node expected {expected}.",
    means="Another controller, or a person, touched the claim. This node has stopped writing to ZooKeeper and answers "
    "brokers that it is not the controller.",
    remedy="Find out who holds the claim now: `zk2kraft release -z ...` without --execute tells it and changes "
    "nothing. This node does not go on by itself; what to do then is on this code's page.",
    cases=("F-43",),
)
CLAIM_NOT_POSSIBLE = Finding(
    code="Z2K-2005",
    says="The controllership cannot be claimed: {reason}.",
    means="Nothing was changed. The ZooKeeper controller, if there is one, goes on.",
    remedy="Read the reason. `zk2kraft release -z ...` without --execute tells who holds the claim and changes "
    "nothing; if that is another quorum, its migration has to be ended first.",
)
FOREIGN_MIGRATION = Finding(
    code="Z2K-2006",
    says="/migration exists and is not from this quorum's log: {found}.",
    means="It is left from another migration, or a stock controller with migration enabled was started against this "
    "ZooKeeper. Going on could delete topics from ZooKeeper.",
    remedy="If a migration of yours is in dual-write, this is its mark: leave it. Otherwise make sure that no KRaft "
    "controller runs against this ZooKeeper and that a broker is controller; then keep what /migration holds in your "
    "notes, delete it, and run `zk2kraft check` again.",
    cases=("F-05", "F-42"),
)
HANDED_BACK = Finding(
    code="Z2K-2008",
    says="This metadata log was handed back: the controller in ZooKeeper is {controller}.",
    means="The cluster is ruled by ZooKeeper again. This log does not know what was decided since, and may never be "
    "used again. Nothing was written.",
    remedy="Leave this controller stopped; `zk2kraft release` tells whether anything of ours still stands. To migrate "
    "again: format a fresh quorum (new directories), and restart every broker before the takeover.",
    cases=("F-42",),
)
LOG_BEHIND_ZOOKEEPER = Finding(
    code="Z2K-2009",
    says="/migration says that offset {mirrored} is mirrored, but this log ends at {log}.",
    means="The metadata log lost records that ZooKeeper and brokers already have. Going on would undo them.",
    remedy="Start the controller whose directory is complete; if there is none, hand back with `zk2kraft release`.",
)

FULL_SEND_INCOMPLETE = Finding(
    code="Z2K-2010",
    says="The full send to broker {broker} would drop {what}: {reason}.",
    means="A broker moves aside every log, and forgets the committed offsets of every topic, that a full request does "
    "not name. Nothing was sent to this broker, and at the first full send to no other.",
    remedy="Run `zk2kraft audit`; it names what ZooKeeper and the log do not agree on. A leftover log is moved aside "
    "while its broker is stopped. If the driver is RETIRED, the next takeover needs a fresh quorum and restarted "
    "brokers.",
    cases=("F-31",),
)

SURVEY_FAILED = Finding(
    code="Z2K-2141",
    says="Broker {broker} does not say which logs it has: {reason}.",
    means="The broker gets no full update before it was asked: it would move aside every log that the update does not "
    "name. It leads and follows what it led and followed before. The other brokers are not affected.",
    remedy="Look at the broker: is it running, and does its inter-broker listener answer? It is asked again by itself, "
    "at the latest every 10 s. The rollback waits for it.",
)

FULL_UPDATE_NOT_BUILT = Finding(
    code="Z2K-2142",
    says="The full update for broker {broker} cannot be built: {reason}.",
    means="Something in the metadata or in the broker's answer is not as this controller expects. This broker alone "
    "gets no update; the other brokers are not affected.",
    remedy="Keep the controller's log and report the fault. Restart the broker if its own answer is at fault. The "
    "update is tried again by itself, at the latest every 10 s. The rollback waits for it.",
)

COPY_DIFFERS = Finding(
    code="Z2K-2011",
    says="The audit of the copy found {different} differences before the commit, the first is {first}.",
    means="ZooKeeper was changed while it was copied, or the copy is wrong. Nothing was appended; the controllership "
    "was given back.",
    remedy="Find out who wrote to ZooKeeper (tools that bypass Kafka are the usual cause) and stop it, then allow "
    "another takeover with `zk2kraft advance`.",
    cases=("F-34", "F-57"),
)
MOVED_WHILE_COPIED = Finding(
    code="Z2K-2012",
    says="{count} places in ZooKeeper moved while they were copied, the first is {first}.",
    means="Somebody writes to ZooKeeper without asking the controller. Nothing was appended; the controllership was "
    "given back.",
    remedy="Stop administrative changes and tools that write to ZooKeeper for the seconds of the takeover, then allow "
    "another one with `zk2kraft advance`.",
)
ONLY_IN_ZOOKEEPER = Finding(
    code="Z2K-2013",
    says="After the commit {count} entries in ZooKeeper are not as they were copied, the first is {first}.",
    means="Somebody changed them after the audit. Nothing of that is set back: no broker was told yet, so the cluster "
    "is given back to ZooKeeper, and this log is retired.",
    remedy="Stop what writes to ZooKeeper, format a fresh quorum, restart the brokers, and take over again.",
)
HAND_BACK_NOT_POSSIBLE = Finding(
    code="Z2K-2014",
    says="The cluster cannot be handed back now: {reason}.",
    means="The hand-back needs every broker in ZooKeeper mode, everything mirrored, and both sides equal. Dual-write "
    "goes on.",
    remedy="Read the reason, mend it (bring brokers back, wait for ZooKeeper), and ask again with `zk2kraft rollback`.",
)
WINDOW_OVERDUE = Finding(
    code="Z2K-2015",
    says="The takeover was not finished after {limit_ms} ms (zk2kraft.takeover.max.ms).",
    means="The cluster must not stay without a controller, so the controllership was given back; nothing was appended.",
    remedy="Look at the driver's history for the slow step; a busy ensemble is the usual cause. Then allow another "
    "takeover with `zk2kraft advance`.",
)
BROKER_LOST_IN_WINDOW = Finding(
    code="Z2K-2016",
    says="Broker {broker} {what} while the cluster had no controller.",
    means="Nobody could replace its leaders, so the controllership was given back at once; nothing was appended.",
    remedy="Bring the broker back and wait until every partition is in sync, then allow another takeover with "
    "`zk2kraft advance`.",
)
NOT_STEPPED_DOWN = Finding(
    code="Z2K-2060",
    says="Broker {broker} did not step down as controller within {limit_ms} ms ({reason}).",
    means="It was displaced and still worked on something, or did not answer. The place was given back. A controller "
    "that is cut off in the middle of a change is of no use when it is elected again, until it is restarted.",
    remedy="Restart that broker if its log says 'batch is not empty'. Wait until no topic is created, deleted or "
    "moved, then allow another takeover with `zk2kraft advance`.",
)
LATCHED = Finding(
    code="Z2K-2017",
    says="An earlier takeover of this log was begun and not committed ({mark}).",
    means="No second attempt is made by itself. The cluster is ruled by ZooKeeper.",
    remedy="Find out why the first one ended (the log of that time), then allow another with `zk2kraft advance`.",
    severity=Severity.WARNS,
)

BACKUP_UNUSABLE = Finding(
    code="Z2K-2018",
    says="The ZooKeeper backup {file} cannot be used: {reason}.",
    means="Nothing was written, or only what the reason names was refused.",
    remedy="Use a file that `zk2kraft export` finished, and an empty chroot as the target.",
)

RELEASE_REFUSED = Finding(
    code="Z2K-2019",
    says="The controllership in ZooKeeper is not released: {reason}.",
    means="Nothing was changed. Releasing now could leave partitions without a controller that knows them.",
    remedy="Mend what the reason names; a living controller of ours hands back with `zk2kraft rollback`.",
)
ORDERS_STAND = Finding(
    code="Z2K-2101",
    says="ZooKeeper holds {count} orders that nobody carries out, the first is {first}.",
    means="Somebody wrote them for a ZooKeeper controller: an old tool, or a script that knows ZooKeeper. The KRaft "
    "controller does not read them. A ZooKeeper controller would carry them out after a way back, so none is possible "
    "while they stand.",
    remedy="Find out who writes them and stop that. Give the order once more with Kafka's own tools and "
    "--bootstrap-server. Then remove the znodes (the page says how), or restart the leading controller: the next one "
    "removes them.",
    severity=Severity.WARNS,
)
ORDERS_IN_THE_WAY = Finding(
    code="Z2K-2102",
    says="There is no way back now: ZooKeeper holds {count} orders for a ZooKeeper controller, the first is {first}.",
    means="The next ZooKeeper controller would carry them out: a topic named in /admin/delete_topics would be deleted "
    "with its data. Nothing was changed.",
    remedy="Remove the znodes of the orders (the page says how), and ask again. With no controller alive, "
    "`zk2kraft release --drop-orders` removes them in the same transaction.",
)
ORDERS_REMOVED = Finding(
    code="Z2K-2103",
    says="{count} orders were removed from ZooKeeper and not carried out, the first is {first}.",
    means="They were written for a ZooKeeper controller. The controllers bring ZooKeeper to what the log says, and the "
    "log has no such order.",
    remedy="If the order is still wanted, give it with Kafka's own tools and --bootstrap-server.",
    severity=Severity.WARNS,
)
NOT_MIRRORED = Finding(
    code="Z2K-2104",
    says="{count} things of the metadata log cannot be written to ZooKeeper, the first is {first}: {reason}.",
    means="Everything else is written. The log is the truth, and brokers act on it; a ZooKeeper controller would not "
    "know these things, so no hand-back is possible.",
    remedy="Change or delete what is named, with Kafka's own tools and --bootstrap-server: it is planned anew then. A "
    "name that ZooKeeper does not take (`.` or `..`) has to be deleted.",
    severity=Severity.WARNS,
)
UNEXPECTED = Finding(
    code="Z2K-2105",
    says="The driver met a fault that it does not know ({where}): {reason}.",
    means="This is a fault of zk2kraft. The quorum goes on; the same step is tried again. A takeover that is not "
    "committed ends, and the cluster goes back.",
    remedy="Keep the controller's log, which has the whole fault, and report it. Changes of the cluster that are "
    "named there can often be taken back with Kafka's own tools.",
    severity=Severity.WARNS,
)
ODD_ZNODES_AMENDED = Finding(
    code="Z2K-2106",
    says="{count} znodes were not as Kafka writes them and were put right, the first is {first}.",
    means="Somebody wrote into ZooKeeper after the takeover. The log is the truth: znodes of what it has were "
    "rewritten from it, others of the mirrored families were removed.",
    remedy="Find out who writes to ZooKeeper, and stop that. Changes are made with Kafka's own tools and "
    "--bootstrap-server.",
    severity=Severity.WARNS,
)
ODD_ZNODES_LEFT = Finding(
    code="Z2K-2107",
    says="{count} znodes that are not mirrored are not as Kafka writes them, the first: {first}",
    means="They are left as they are, and hold up no controller of ours. A broker in ZooKeeper mode ends at its next "
    "start over a registration that it cannot read, and so does a ZooKeeper controller: no hand-back while they stand.",
    remedy="Find out who wrote them, and remove or repair them with ZooKeeper's shell.",
    severity=Severity.WARNS,
)
TOLD_FIRST = Finding(
    code="Z2K-2108",
    says="Brokers were told what the log says before ZooKeeper could be brought to it: {reason}.",
    means="After a fail-over ZooKeeper is compared and written first. That failed again and again, and brokers need "
    "their leaders, so they were told. New and moved replicas wait until ZooKeeper has them. No hand-back until then.",
    remedy="Mend what the reason names; the comparison is tried again by itself.",
    severity=Severity.WARNS,
)
RELEASE_WOULD_LOSE = Finding(
    code="Z2K-2070",
    says="ZooKeeper lacks {records} of the metadata log in {directory}: it has everything up to offset {mirrored}, and "
    "the last that it lacks is at offset {last}.",
    means="They were committed, or may have been, while ZooKeeper was behind, and brokers acted on them. Released now, "
    "they are lost: leaders and in-sync replicas go back to older ones, and with them data that was acknowledged may "
    "go. Nothing was changed.",
    remedy="Start the controllers: they bring ZooKeeper up to date; then `zk2kraft rollback`, or stop them and release "
    "again. If they can never be started: look at what is lost, and consent with `--accept-loss`.",
)
VERSIONS_LAG = Finding(
    code="Z2K-2126",
    says="The state znodes of {partitions} partitions are behind their partition epochs: {operations} writes are left, "
    "about {seconds} s.",
    means="The data in them is right, and producers, consumers and brokers notice nothing. A ZooKeeper controller "
    "would refuse ISR changes of these partitions until their leaders change, so a rollback is refused meanwhile.",
    remedy="Wait: while nothing else is to be written, the active controller raises them. `zk2kraft status` shows how "
    "many are left. Then ask for the rollback again.",
    severity=Severity.WARNS,
)
RELEASE_WOULD_DIFFER = Finding(
    code="Z2K-2127",
    says="ZooKeeper and the metadata log in {directory} differ in {count} things, the first is {first}.",
    means="ZooKeeper was told of every record, and yet it says something else: it could not be written there, or "
    "somebody changed it. After a rollback what ZooKeeper says counts. Nothing was changed.",
    remedy="`zk2kraft audit -z ZK --kraft DIR` shows what differs, by value. Start the controllers and roll back while "
    "they run; they put it right or name it. If they can never be started: consent with `--accept-loss`.",
)
ODD_HOST = Finding(
    code="Z2K-2151",
    says="Broker {broker} is not registered: listener {listener} advertises the host {host!r}, and {reason}.",
    means="No controller could connect to that host, so the registration is refused (INVALID_REGISTRATION). The broker "
    "asks again until it is restarted. The cluster is served without it.",
    remedy="Correct `advertised.listeners` in the broker's server.properties and restart the broker.",
)

ZNODE_TOO_LARGE = Finding(
    code="Z2K-2152",
    says="{what} would take up to {bytes} bytes in ZooKeeper, and {limit} fit into one znode there.",
    means="While the cluster is in ZooKeeper too, a change that ZooKeeper cannot hold is refused. Nothing was changed.",
    remedy="Ask for less, or ask again after the migration is finalized. If every ZooKeeper server and broker runs "
    "with a larger `jute.maxbuffer`: set `zk2kraft.zookeeper.jute.maxbuffer` in every controller's file.",
)

REQUEST_TOO_LARGE = Finding(
    code="Z2K-2135",
    says="The request asks for what the metadata log does not take in one piece: {reason}.",
    means="What one request asks for is written whole or not at all. Nothing was changed.",
    remedy="Ask for it in several requests: fewer topics, partitions or settings in each. One setting "
    "that is too long has to be shorter.",
)

CONTROLLER_FILES_DISAGREE = Finding(
    code="Z2K-1014",
    says="{file}: {reason}.",
    means="The controllers' files do not fit each other or the brokers, so the quorum or the takeover would not work.",
    remedy="Render all controller files from one source, then run `zk2kraft check` again.",
    cases=("F-14", "F-16"),
)

ACLS_UNHEEDED = Finding(
    code="Z2K-1020",
    says="ZooKeeper holds ACLs of {count} resources, the first of {first}, and the controllers have no authorizer.",
    means="Brokers pass administrative requests on before they look at permissions. In dual-write everybody could then "
    "create, change and delete topics.",
    remedy="Set authorizer.class.name and super.users in every controller's file (docs/requests.md, Permissions).",
)

TOPIC_CONFIG_REFUSED = Finding(
    code="Z2K-1030",
    says="{path}: {reason}.",
    means="Kafka's own rules refuse this value. It would be copied as it is; then a broker may not be able to open the "
    "topic's logs, and every later change of the topic's configuration is refused.",
    remedy="Delete or correct the key with kafka-configs --entity-type topics, then run `zk2kraft check` again.",
    cases=("F-39",),
)
TOPIC_CONFIG_UNKNOWN = Finding(
    code="Z2K-1031",
    says="{path} has keys that Kafka 3.9 does not know: {keys}.",
    means="They are copied and do nothing. As long as they are there, every change of the topic's configuration is "
    "refused (INVALID_CONFIG), with KRaft as with ZooKeeper.",
    remedy="Delete the keys with kafka-configs --entity-type topics --delete-config, if nobody needs them.",
    severity=Severity.WARNS,
    cases=("F-39",),
)
BROKER_CONFIG_REFUSED = Finding(
    code="Z2K-1032",
    says="{path}: {reason}.",
    means="Brokers pass over a dynamic value that they cannot read and run with their file's; every later change of "
    "this configuration is refused. It is copied as it is.",
    remedy="Delete or correct the key with kafka-configs --entity-type brokers, then run `zk2kraft check` again.",
    severity=Severity.WARNS,
    cases=("F-39",),
)
LISTENERS_DYNAMIC = Finding(
    code="Z2K-1033",
    says="{path} sets {key} dynamically.",
    means="A broker in KRaft mode does not change its listeners while it runs: it passes over everything that its "
    "dynamic configuration says, and clients are sent to the addresses of its file.",
    remedy="Put the value into the broker's properties file, delete the key with kafka-configs --entity-type brokers, "
    "restart the broker, then run `zk2kraft check` again.",
    cases=("F-58",),
)
TOPIC_NAME_IMPOSSIBLE = Finding(
    code="Z2K-1034",
    says="{path} is a topic whose name KRaft does not take: {reason}.",
    means="No tool of Kafka can have made it. It could be copied, and after that neither changed nor deleted.",
    remedy="Find out who wrote the znode. If nobody needs the topic, remove its znodes while no takeover is wanted, "
    "then run `zk2kraft check` again.",
)
ASSIGNMENT_IMPOSSIBLE = Finding(
    code="Z2K-1035",
    says="{path} cannot be an assignment: {reason}.",
    means="Controllers and brokers count replicas as a set of brokers. Copied, such a list makes partitions that can "
    "never be in sync.",
    remedy="Set the assignment right with kafka-reassign-partitions, or delete the topic; then run `zk2kraft check` "
    "again.",
)
EPOCH_BEHIND_STATES = Finding(
    code="Z2K-1036",
    says="{path} is {epoch}, but states of {topic} were written by controller epoch {highest}.",
    means="The znode was set back: by a restored backup, or a rollback that left the epoch of a KRaft controller "
    "behind. Brokers ignore a controller of a lower epoch, so such partitions have none.",
    remedy="Follow this code's page: raise the epoch above the highest one, let another broker become controller, then "
    "run `zk2kraft check` again.",
    cases=("F-40",),
)
KRAFT_RULES_ALREADY = Finding(
    code="Z2K-1037",
    says="/controller is held by node {node} under KRaft epoch {epoch}, and /migration {migration}.",
    means="A KRaft controller rules this cluster, or was taken away without giving it back. ZooKeeper brokers do not "
    "elect a controller while this znode is there.",
    remedy="If those controllers run, this is their migration: leave it. If none runs, `zk2kraft release -z ...` shows "
    "what stands and gives the cluster back.",
    cases=("F-43", "F-49"),
)
BROKER_IDS_ABOVE_RESERVED = Finding(
    code="Z2K-1039",
    says="Brokers {brokers} have ids above 1000.",
    means="Ids above 1000 are those that ZooKeeper generates. KRaft generates none, and a broker with migration "
    "enabled does not start while its file leaves the id to ZooKeeper.",
    remedy="In each of their files set broker.id to this number and broker.id.generation.enable=false (or raise "
    "reserved.broker.max.id), before the migration is enabled there.",
    severity=Severity.WARNS,
    cases=("F-13",),
)
BROKER_TOO_OLD = Finding(
    code="Z2K-1040",
    says="{path} is a registration of version {version}; brokers that can be migrated write 5.",
    means="The broker runs with an inter.broker.protocol.version below 2.7. Such a broker does not talk to KRaft.",
    remedy="Upgrade the broker and every broker's inter.broker.protocol.version to 3.6 or later, then run "
    "`zk2kraft check` again.",
    cases=("F-11", "F-12"),
)
BROKER_CONFIG_UNUSED = Finding(
    code="Z2K-1041",
    says="{path} configures broker {broker}, which is not alive and has no replica.",
    means="It is copied. If it is left from a broker that was taken away, the next broker of that id gets it.",
    remedy="None needed; delete it with kafka-configs --entity-type brokers if nobody wants it.",
    severity=Severity.WARNS,
)
CONFIG_FAMILY_NOT_COPIED = Finding(
    code="Z2K-1042",
    says="{path} is configuration of a kind that brokers in ZooKeeper mode do not have.",
    means="Neither stock nor this program copies it, so it would be missing after the takeover.",
    remedy="Find out who wrote it. Keep its value in your notes, remove the znode, and set it again when the cluster "
    "runs in KRaft mode.",
    cases=("F-51",),
)
AUTHORIZER_ABSENT = Finding(
    code="Z2K-1043",
    says="Brokers have or had an authorizer ({path} exists, without entries), and {file} sets none.",
    means="Brokers pass administrative requests on before they look at permissions. With an authorizer on brokers and "
    "none on controllers everybody may change the cluster in dual-write.",
    remedy="If brokers still have an authorizer, set authorizer.class.name and super.users in every controller's file "
    "(docs/requests.md, Permissions).",
    severity=Severity.WARNS,
    cases=("F-09", "F-37"),
)
TOKENS_WITHOUT_KEY = Finding(
    code="Z2K-1044",
    says="ZooKeeper holds {count} delegation tokens, and the controllers have no delegation.token.secret.key.",
    means="A token's secret is made of its id and that key. Without the brokers' key controllers refuse to make, renew "
    "or end tokens in dual-write, and brokers in KRaft mode refuse to check them.",
    remedy="Set delegation.token.secret.key in every controller's file to what the brokers have.",
    cases=("F-38",),
)
ZNODE_GUARDED = Finding(
    code="Z2K-1045",
    says="{path} has an access list ({acl}) that does not let this process write.",
    means="It could read this znode and then not write it, which would be seen only inside the window.",
    remedy="Log in to ZooKeeper as the brokers do (KAFKA_OPTS, docs/drop-in.md). Otherwise follow this code's page: "
    "lift the access lists with Kafka's zookeeper-security-migration tool.",
    cases=("F-18",),
)
FOREIGN_SESSIONS = Finding(
    code="Z2K-1046",
    says="{count} sessions of ZooKeeper are of no broker: {clients}.",
    means="Tools that speak to ZooKeeper and not to Kafka do not see what a KRaft controller does, and what they write "
    "is set back or gives the cluster back.",
    remedy="Find the programs at these addresses (old consumers, Cruise Control, --zookeeper scripts, exporters) and "
    "switch them to bootstrap servers before the takeover.",
    severity=Severity.WARNS,
    cases=("F-57",),
)
SESSIONS_NOT_READ = Finding(
    code="Z2K-1047",
    says="{server} does not tell its sessions: {reason}.",
    means="Nobody looked whether other programs use this ZooKeeper.",
    remedy="Add cons to 4lw.commands.whitelist of every ZooKeeper server, or look at its connections yourself.",
    severity=Severity.WARNS,
    cases=("F-57",),
)
GROUPS_IN_ZOOKEEPER = Finding(
    code="Z2K-1048",
    says="{count} consumer groups keep their offsets in ZooKeeper, the first is {path}.",
    means="They are of consumers from before Kafka 0.9, or left of them. They are neither copied nor touched; such a "
    "consumer ends with ZooKeeper.",
    remedy="Make sure that no such consumer runs any more; the znodes do no harm.",
    severity=Severity.WARNS,
    cases=("F-57",),
)
BROKER_SETTING_FORBIDS = Finding(
    code="Z2K-1050",
    says="Broker {broker} runs with {key}={value}: {reason}.",
    means="The broker's own setting and the controllers' do not go together; in dual-write or after it requests would "
    "be judged, sent or stored differently from now.",
    remedy="Follow this code's page for the key: change the broker's file and restart it, or the controllers' files.",
    cases=("F-09", "F-18", "F-37", "F-38", "F-39", "F-50"),
)
BROKER_SETTING_FOR_LATER = Finding(
    code="Z2K-1051",
    says="Broker {broker} runs with {key}={value}: {reason}.",
    means="It does no harm now. It has to be changed before this broker is restarted in KRaft mode.",
    remedy="Follow this code's page for the key when the broker's file for KRaft mode is written.",
    severity=Severity.WARNS,
    cases=("F-37", "F-53"),
)

IBP_DIFFERS = Finding(
    code="Z2K-1090",
    says="Broker {broker} runs at inter.broker.protocol.version {ibp}; this quorum began with metadata.version "
    "{level}.",
    means="A broker is registered at exactly the level of the quorum, or not at all, so this one stays outside and the "
    "takeover stays closed. The level of a log cannot be changed during a migration.",
    remedy="If every broker runs at that inter.broker.protocol.version: format the controllers anew with it (`zk2kraft "
    "storage format -r`). If only this one does: give it the others' and restart it.",
    cases=("F-12",),
)

LEVEL_WITHOUT_TOKENS = Finding(
    code="Z2K-1091",
    says="{count} delegation tokens are in ZooKeeper, and metadata.version {level} has none; 3.6-IV2 has.",
    means="In dual-write tokens could not be made, renewed or ended, and a snapshot of Kafka's own controllers would "
    "leave them out. Below that level ZooKeeper serves them and KRaft does not.",
    remedy="Raise the brokers' inter.broker.protocol.version to 3.6-IV2 or later and format the controllers with the "
    "same, or end the tokens with kafka-delegation-tokens.",
    cases=("F-38",),
)

ZOOKEEPER_LOGIN_UNUSABLE = Finding(
    code="Z2K-1092",
    says="The login for ZooKeeper in {file} cannot be used: {reason}.",
    means="KAFKA_OPTS names a JAAS file, as for Kafka's own processes, and without the login in it this process would "
    "be nobody for ZooKeeper. It does not begin.",
    remedy="Correct the file (section Client, ZooKeeper's DigestLoginModule, username and password as the brokers have "
    "them), or take -Djava.security.auth.login.config from KAFKA_OPTS where ZooKeeper wants no login.",
    cases=("F-18",),
)

TAKEOVER_ABORTED = Finding(
    code="Z2K-2020",
    says="The takeover was aborted by a person: {reason}.",
    means="The controllership was given back; nothing was appended. No second attempt is made by itself.",
    remedy="Allow another takeover with `zk2kraft advance` when the reason is gone.",
    severity=Severity.WARNS,
)

WRITE_NOT_ALLOWED = Finding(
    code="Z2K-2050",
    says="ZooKeeper does not let this controller change {path}: its access list, or that of the znode above it, "
    "forbids it.",
    means="Somebody set an access list after the gate was passed. In dual-write ZooKeeper is behind the log from here "
    "on; leaders and in-sync sets go on changing, new topics and moved replicas reach brokers only after it.",
    remedy="Open the path again for everybody (setAcl with ZooKeeper's shell, by the identity that closed it). The "
    "controller tries again by itself and writes everything that is missing.",
    cases=("F-18",),
)
CLAIM_EXPIRED = Finding(
    code="Z2K-2051",
    says="The claim in ZooKeeper ended before any broker was told of it: the controller is {controller} now.",
    means="The session that held the claim ended, so a ZooKeeper-mode broker is controller again. Nothing is lost. "
    "Before the commit the driver is HELD; after it this log may not be used any more, and the driver is RETIRED.",
    remedy="Find out what ended the session (an ensemble without a leader, a controller that stood still). HELD: "
    "allow another takeover with `zk2kraft advance`. RETIRED: format a fresh quorum, restart the brokers, take over.",
)
TOLD_TOO_LATE = Finding(
    code="Z2K-2052",
    says="The copy was committed, but after {limit_ms} ms (zk2kraft.takeover.max.ms) no broker had been told of it: "
    "{reason}",
    means="The cluster must not stay without a controller, so it was given back to ZooKeeper. Nothing is lost; this "
    "log may not be used any more, and the driver ends in RETIRED.",
    remedy="Mend what the reason names (usually ZooKeeper), format a fresh quorum, restart the brokers, and take over "
    "again.",
)

BROKER_DOES_NOT_FOLLOW = Finding(
    code="Z2K-2040",
    says="Broker {broker} is in /brokers/ids and does not follow the controllers: {known} ({count} such brokers).",
    means="It is told nothing: it leads no partition, and its metadata is what it knew before. Usually it was started "
    "without the migration enabled, or with another quorum's voters.",
    remedy="Start it with `zookeeper.metadata.migration.enable=true` and this quorum's `controller.quorum.voters`; "
    "what else it may be is on this code's page.",
    severity=Severity.WARNS,
)

ZOOKEEPER_FALLS_BEHIND = Finding(
    code="Z2K-2041",
    says="ZooKeeper lacks {records} records, the oldest for {seconds} s; the limits are {max_records} records and "
    "{max_seconds} s.",
    means="Writes to ZooKeeper do not get through, or not fast enough. Nothing is lost: the log has everything, and "
    "ZooKeeper is caught up as soon as it takes writes. Until then a hand-back has to wait.",
    remedy="Look why ZooKeeper does not take writes (`zk2kraft status` names the reason). At a limit, changes of "
    "administrators are refused when `zk2kraft.divergence.policy` is block.",
    severity=Severity.WARNS,
)

FULL_SEND_IS_LARGE = Finding(
    code="Z2K-2042",
    says="The full UpdateMetadata would take about {bytes} bytes; every broker needs socket.request.max.bytes={needed} "
    "at least (Kafka's default is {default}).",
    means="A takeover tells every broker everything in one request. What the brokers are set to is asked by the "
    "takeover gate only (Z2K-1012).",
    remedy="Raise socket.request.max.bytes in every broker's file before the restart that gets them ready to migrate.",
    severity=Severity.WARNS,
    cases=("F-54",),
)

# --- 3xxx: bytes, log and quorum --------------------------------------------------------------------------

MALFORMED_BYTES = Finding(
    code="Z2K-3001",
    says="{what} is not well formed at byte {position}: {reason}.",
    means="Bytes from a peer or a file do not follow Kafka's format. Nothing of them was used.",
    remedy="From a peer: look at its version and log, the connection was closed. From a file: keep a copy and follow "
    "this code's page; never edit it.",
)
UNSUPPORTED_IN_VERSION = Finding(
    code="Z2K-3002",
    says="{message} version {version} has no field {field}, but it holds {value}.",
    means="Writing this message at this version would lose a value that must not be lost.",
    remedy="This is a fault of the program: report it with this line. Nothing was sent.",
)

RECORD_NOT_SUPPORTED = Finding(
    code="Z2K-3003",
    says="The metadata log holds a {record}, which this release does not support.",
    means="Leading this log would lose what that record says. The controller stops; nothing was written.",
    remedy="Run a stock controller on this directory (with zookeeper.metadata.migration.enable as it was: without it "
    "stock finalizes), or a release of this program that supports the record.",
)
CANNOT_ACTIVATE = Finding(
    code="Z2K-3004",
    says="This controller may not become active: {reason}.",
    means="Its configuration does not fit what the metadata log says. It stopped before writing anything.",
    remedy="Read the reason: correct zookeeper.metadata.migration.enable in the file, give the directory to a stock "
    "controller, or format a fresh quorum.",
    cases=("F-04", "F-11", "F-48"),
)
CONFIG_NOT_HONOURED = Finding(
    code="Z2K-3010",
    says="{file}: {key}={value} cannot be honoured: {reason}.",
    means="The controller would run differently from what the file says, so it does not start.",
    remedy="Change or remove the key, or run a stock controller where the key is needed; see docs/drop-in.md.",
    cases=("F-21",),
)
CONFIG_MISSING = Finding(
    code="Z2K-3011",
    says="{file}: {key} is missing ({reason}).",
    means="A controller cannot start without it.",
    remedy="Add the key, which a stock Kafka controller needs as well. Where it says (the file itself): name a file "
    "that exists and that this user may read.",
)
DIRECTORY_UNUSABLE = Finding(
    code="Z2K-3012",
    says="{directory} cannot be used: {reason}.",
    means="The directory is not formatted, belongs to another node or cluster, or was damaged. Nothing was changed.",
    remedy="Check log.dirs, metadata.log.dir and node.id. A new node is formatted with `zk2kraft storage format` or "
    "Kafka's own tool; a directory that is in the way is moved aside, never deleted.",
    cases=("F-14", "F-15"),
)
DIRECTORY_LOCKED = Finding(
    code="Z2K-3013",
    says="{directory} is in use by another process.",
    means="Two controllers on one directory would destroy the metadata log.",
    remedy="Find the other process (a stock controller or a second one of ours) and stop it first.",
)

LOG_DAMAGED = Finding(
    code="Z2K-3014",
    says="{file} is damaged at byte {position}: {reason}.",
    means="Records that were acknowledged may be lost. A torn end would have been cut off by itself; this is not one.",
    remedy="Keep a copy of the directory. Before a takeover: format a fresh one. In dual-write: hand back with "
    "`zk2kraft release` while all brokers are in ZooKeeper mode.",
)

DYNAMIC_VOTERS = Finding(
    code="Z2K-3020",
    says="The quorum of this directory has dynamic voters (kraft.version 1), as {file} says: {what}.",
    means="Its voters are those that its log lists, not those of controller.quorum.voters. This release knows static "
    "voters only and would count other majorities than the rest of the quorum. Nothing was changed.",
    remedy="A new quorum: format it without --standalone and --initial-controllers. One that holds data: run stock "
    "controllers on it; it cannot be made static again.",
)
TLS_NOT_USABLE = Finding(
    code="Z2K-3021",
    says="{file}: {key} cannot be used: {reason}.",
    means="A listener needs TLS, and what the file says of it cannot be honoured. Nothing was started or changed.",
    remedy="Keys and certificates are read in PEM (ssl.keystore.type=PEM, ssl.truststore.type=PEM), which Kafka reads "
    "as well; the runbook page has the commands that convert JKS and PKCS12.",
    cases=("F-16",),
)
SASL_NOT_USABLE = Finding(
    code="Z2K-3022",
    says="{file}: {key} cannot be used: {reason}.",
    means="A listener needs SASL, and what the file says of it cannot be honoured. Nothing was started or changed.",
    remedy="Use PLAIN over TLS, or TLS client certificates, on the controller listener, with the login in the file; "
    "see the runbook page. GSSAPI and OAUTHBEARER need stock controllers.",
    cases=("F-16",),
)
UNKNOWN_RELEASE = Finding(
    code="Z2K-3016",
    says="{release} is not a release whose metadata.version is known here (known: {known}).",
    means="The directory was not formatted.",
    remedy="Use the brokers' inter.broker.protocol.version, for instance 3.9.",
)

LOG_NOT_ON_DISK = Finding(
    code="Z2K-3121",
    says="Controller {node} cannot write its metadata log: {reason}.",
    means="A voter promises only what is on its disk. This process ends; the other voters elect a leader and go on.",
    remedy="Repair what the reason names (disk full, disk error, no file descriptor, no thread), then start this "
    "controller again. It reads from the others what it lacks.",
)
LOG_FLUSH_SILENT = Finding(
    code="Z2K-3122",
    says="The disk of controller {node} has not confirmed a flush of the metadata log for {seconds} s.",
    means="This controller acknowledges nothing and does not lead until the disk answers. The other voters go on.",
    remedy="Look at the disk of metadata.log.dir (kernel log, storage, iostat). When it answers, this controller "
    "catches up by itself; a process that stays stuck has to be ended and started again.",
)

CONNECTIONS_FULL = Finding(
    code="Z2K-3123",
    says="All {most} places for connections are taken: {refused} were refused and {closed} were closed for others.",
    means="More connections are open than max.connections or the process's file descriptors allow. The connections "
    "that were silent for the longest time make room, so voters and brokers still get in.",
    remedy="Find who opens them (ss -tn), raise the limit of open files of this process, and start it again.",
    severity=Severity.WARNS,
)

SNAPSHOT_NOT_WRITTEN = Finding(
    code="Z2K-3124",
    says="Controller {node} cannot write the snapshot of the metadata that ends at offset {end}: {reason}.",
    means="The log still has every record, and the quorum goes on. It grows until a snapshot can be written, and a "
    "controller that starts has more to read.",
    remedy="Repair what the reason names (disk full, permissions); the next snapshot is tried after the next "
    "metadata.log.max.record.bytes.between.snapshots or metadata.log.max.snapshot.interval.ms.",
    severity=Severity.WARNS,
)

# --- 4xxx: service ----------------------------------------------------------------------------------------

SERVE_CONFIG = Finding(
    code="Z2K-4001",
    says="{file}: {key}: {reason}.",
    means="The service would run differently from what its configuration says, so it does not start.",
    remedy="Correct or remove the key; `zk2kraft serve --help` names those that exist.",
)
REQUEST_NOT_UNDERSTOOD = Finding(
    code="Z2K-4002",
    says="The request was not understood: {reason}.",
    means="Nothing was recorded and nothing was changed.",
    remedy="Compare the request with /api/v1/openapi.json, correct it, and send it again.",
)
NOT_POSSIBLE_HERE = Finding(
    code="Z2K-4003",
    says="{wish} is not possible in {phase}; possible here: {possible}.",
    means="The table of transitions has no such step. Nothing was recorded and nothing was changed.",
    remedy="Look at the phase with `zk2kraft status`, and ask for one of the steps that the line names.",
)
NO_SUCH_THING = Finding(
    code="Z2K-4004",
    says="There is no {what}.",
    means="The address names something that this service does not have.",
    remedy="List what there is with `zk2kraft migrations` or `zk2kraft audits`.",
)
GATE_CLOSED = Finding(
    code="Z2K-4005",
    says="{wish} is refused by its gate: {reason}.",
    means="At least one condition of the step does not hold now. Nothing was changed.",
    remedy="`zk2kraft gates` shows each check with what was seen. Mend what fails (its code has a page) and ask again.",
)
VERSION_MOVED = Finding(
    code="Z2K-4006",
    says="The migration is at version {found}; the request expected {expected}.",
    means="Something happened since the request was made up, so it may not mean the same now. Nothing was changed.",
    remedy="Look at the migration again; if the step is still wanted, ask for it with the new version.",
)
KEY_USED_AGAIN = Finding(
    code="Z2K-4007",
    says="The Idempotency-Key {key} was used for another request.",
    means="A key stands for one request, so that repeating it is safe. Nothing was recorded.",
    remedy="Use a new key for a new wish, and the same key only to repeat the same request.",
)
NOT_IN_THIS_RELEASE = Finding(
    code="Z2K-4008",
    says="{phase} is not in this release.",
    means="This release goes as far as dual-write and back. Nothing was changed.",
    remedy="Stay in dual-write or roll back; a later release goes on from here.",
)
WISH_PENDING = Finding(
    code="Z2K-4009",
    says="{wish} was asked for by {who} and is not settled yet ({link}).",
    means="Two wishes at a time could mean something that nobody wants. The second was not recorded.",
    remedy="Wait until the first one is settled, or undo (`zk2kraft abort`, `rollback`), which takes its place.",
)
BEYOND_LOOPBACK = Finding(
    code="Z2K-4010",
    says="The service may not listen on {host}: it is not a loopback address.",
    means="Without tokens and TLS anybody who reaches the port could move the cluster. This release has neither.",
    remedy="Listen on 127.0.0.1 and reach it through an SSH tunnel (`ssh -L 8085:127.0.0.1:8085 HOST`).",
)
GATES_NOT_HELD = Finding(
    code="Z2K-4011",
    says="{file} has zk2kraft.gates={value}.",
    means="Such a controller takes over by itself, without the service's gates and history. It is not started.",
    remedy="Set zk2kraft.gates=hold in the file of every controller that the service looks after.",
)
CONTROLLER_DOES_NOT_STAY = Finding(
    code="Z2K-4012",
    says="Controller {node} ended {times} times soon after its start; its last words: {words}",
    means="It is not started again by itself. Until it runs, this migration cannot go on, nor be undone by it.",
    remedy="Read its log ({log}) and mend the cause, then `zk2kraft resume` lets the service start it again.",
)
SERVICE_RUNS_ALREADY = Finding(
    code="Z2K-4013",
    says="{directory} is in use by another `zk2kraft serve` ({holder}).",
    means="Two services on one database would both act on the cluster. This one does not start.",
    remedy="Use the one that runs, stop it first, or give this one a directory of its own.",
)
INSPECTION_FAILED = Finding(
    code="Z2K-4014",
    says="`zk2kraft {command}` gave no result: {reason}",
    means="Nothing is known from this run, so the gates that need it stay closed.",
    remedy="Run the same command by hand and read what it says; the service tries again by itself.",
)
NAME_TAKEN = Finding(
    code="Z2K-4015",
    says="A migration named {name} exists already (number {number}, {phase}).",
    means="Two migrations of one cluster would work against each other. Nothing was created.",
    remedy="Go on with the one that exists; after a rollback create the next one under another name.",
)
DATABASE_UNUSABLE = Finding(
    code="Z2K-4016",
    says="The database {database} cannot be used: {reason}.",
    means="The service does not start: without its history it could repeat a step.",
    remedy="Look at the path, its rights and the disk; a database of a later release needs that release.",
)
NOT_CONFIRMED = Finding(
    code="Z2K-4017",
    says="The name typed, {typed}, is not the name of this cluster.",
    means="The form asks for the name so that nobody moves the wrong cluster. Nothing was recorded.",
    remedy="Make sure that this is the page of the cluster that you mean, and type its name as the page shows it.",
)
SERVICE_SILENT = Finding(
    code="Z2K-4018",
    says="The service at {url} does not answer: {reason}.",
    means="Nothing is known of the migration. The controllers go on without the service.",
    remedy="Start `zk2kraft serve`, or name the right address with --url or ZK2KRAFT_URL.",
)
NOT_LOOKED_AT = Finding(
    code="Z2K-4019",
    says="The service has not looked at the cluster for {seconds} s.",
    means="What it shows may be old, so no step forward is allowed.",
    remedy="Look at the log of `zk2kraft serve`; restarting it is safe at any moment.",
)
REHEARSAL_NOT_GREEN = Finding(
    code="Z2K-4020",
    says="There is no fresh rehearsal with a green audit: {reason}.",
    means="A rehearsal is what a takeover would commit. Without an audited one nobody knows whether it would be right.",
    remedy="Wait for the next rehearsal; if its audit found differences, look at them with `zk2kraft audits`.",
)
CONTROLLER_SILENT = Finding(
    code="Z2K-4021",
    says="Controller {node} does not answer on its control port: {reason}.",
    means="The service cannot see what the driver does, nor ask it for anything.",
    remedy="The service starts it again if it ended. If it hangs, read its log, named by `zk2kraft status`.",
)
CLUSTER_DISAGREES = Finding(
    code="Z2K-4022",
    says="The driver is in {state}, which does not follow from {phase}: {reason}.",
    means="The cluster is somewhere that this migration's history does not lead to. The service does not act on it.",
    remedy="Find out who else drives these controllers; the phase's page says how to go on from here.",
)
FOREIGN_REQUEST = Finding(
    code="Z2K-4023",
    says="The request came from {origin}, not from this service's own page.",
    means="Another web page tried to use your browser to reach the service. Nothing was recorded.",
    remedy="Open the service's own page and use its forms; programs send no Origin header.",
)
SERVICE_FAULT = Finding(
    code="Z2K-4024",
    says="The service met a fault of its own: {fault}.",
    means="This request was not answered. What the loop does is not touched by it; nothing was half done.",
    remedy="Repeat the request with the same Idempotency-Key. If it happens again, report it with the service's log.",
)

# One migration's trouble, which is no other migration's.
DATABASE_TROUBLE = Finding(
    code="Z2K-4101",
    says="The database did not do its work for migration {migration}: {reason}.",
    means="This migration waits; nothing was half written. Controllers go on.",
    remedy="Free the disk, or end what locks the database. The service goes on by itself once the database answers.",
)
MIGRATION_UNREADABLE = Finding(
    code="Z2K-4102",
    says="What the database holds of migration {migration} cannot be read: {reason}.",
    means="This migration is set aside: the service does not look at it and starts nothing for it. Others go on.",
    remedy="Restore the database from its backup, or remove the migration and create it again with its inventory.",
)
ROUND_FAILED = Finding(
    code="Z2K-4103",
    says="The service met a fault of its own while it looked after migration {migration}: {fault}.",
    means="This migration waits and is tried again every few seconds. Others go on.",
    remedy="Report it with the service's log. Controllers go on; `zk2kraft rollback --help` says how to go back.",
)
CLUSTER_TAKEN = Finding(
    code="Z2K-4104",
    says="Cluster {cluster} belongs to migration {number} ({name}), which is in {phase}.",
    means="Two migrations of one cluster would start two quorums for it. This one does nothing forward.",
    remedy="Go on with the other migration, or roll it back; remove this one with `zk2kraft delete`.",
)
SERVICE_FILE_TROUBLE = Finding(
    code="Z2K-4105",
    says="The service could not use a file or start a process for migration {migration}: {reason}.",
    means="This migration waits and is tried again every few seconds. Others go on.",
    remedy="Look at the path, its rights and the space on the disk (`df`).",
)
NOT_REMOVABLE = Finding(
    code="Z2K-4106",
    says="Migration {name} cannot be {what}: {reason}.",
    means="Only a migration that holds no claim and runs no controller can be changed or removed.",
    remedy="Run `zk2kraft rollback`, wait until no controller runs, and repeat this.",
)

INVENTORY_FILE_UNUSABLE = Finding(
    code="Z2K-4107",
    says="The file {file} cannot be used as an inventory: {reason}.",
    means="Nothing was sent to the service.",
    remedy="Name a file with one JSON object; docs/service.md shows its fields.",
)

TOKEN_FILE_UNUSABLE = Finding(
    code="Z2K-4110",
    says="The token file {file} cannot be used: {reason}.",
    means="Without its token nobody can use the service, and the service does not start.",
    remedy="Run the command as the user of the service, or remove the file and start the service again.",
)
TOKEN_NEEDED = Finding(
    code="Z2K-4111",
    says="This request has {token}.",
    means="The service answers only who can read its token file. Nothing was done.",
    remedy="Use `zk2kraft` as the user of the service, or name the file in ZK2KRAFT_TOKEN_FILE; see the runbook.",
)
PATH_OUTSIDE = Finding(
    code="Z2K-4112",
    says="{path} of controller {node} lies outside the directories that this service may use: {roots}.",
    means="The service neither reads this file nor starts a controller with it.",
    remedy="Move the file, or add its directory to `roots` in the service's configuration and start the service again.",
)
NO_CLUSTER_ID = Finding(
    code="Z2K-4198",
    says="{given} is no cluster id: it has to be 22 characters of base64 (A-Z a-z 0-9 - _) that stand for 16 bytes.",
    means="Kafka's storage tool refuses it as well. A directory with another id than the cluster's is of no use.",
    remedy="Take the id that stands in ZooKeeper: `zookeeper-shell HOST:PORT/chroot get /cluster/id`.",
)
STARTED_ELSEWHERE = Finding(
    code="Z2K-4199",
    says="Controller {node} does not answer, and this service starts none (start_controllers = false).",
    means="Controllers are units or containers of their own here. The migration waits until this one answers.",
    remedy="Start it: `systemctl start zk2kraft-controller@NODE` or `docker compose up -d controller-NODE`.",
)
PROCESS_NOT_KNOWN = Finding(
    code="Z2K-4113",
    says="Controllers {nodes} answer, but the processes that their control files name are not known to be theirs.",
    means="The service sends no signal to a process that it does not recognise. These controllers go on.",
    remedy="Stop them by hand where they run (systemctl, docker, or SIGTERM to the process).",
)
SYSTEM_REFUSED = Finding(
    code="Z2K-4114",
    says="The system refused{what}: {reason}.",
    means="The command ended without an answer.",
    remedy="Look at the path, its rights and the space on the disk (`df`), or name another one; then run it again.",
)
PORT_UNUSABLE = Finding(
    code="Z2K-4115",
    says="The service cannot listen on {host}:{port}: {reason}.",
    means="The service did not start. Controllers go on.",
    remedy="End what has the port (`ss -ltnp`), or give the service another `port`.",
)
WISH_FORGOTTEN = Finding(
    code="Z2K-4060",
    says="The {wish} that was asked for has not begun, and no driver keeps it: {reason}.",
    means="Nothing was changed. No wish is handed on by itself: the cluster may not be what it was when it was meant.",
    remedy="Look at the migration (`zk2kraft status`, `zk2kraft gates`), and ask again if the step is still wanted.",
)
WISH_TOO_OLD = Finding(
    code="Z2K-4061",
    says="The takeover was asked for {age} s ago and has not begun; it is not begun any more.",
    means="Nothing was changed. A takeover begins while somebody is there, and on evidence of that moment.",
    remedy="Read why it waited (`zk2kraft status`, `zk2kraft gates`), and ask again with `zk2kraft advance`.",
)

AUDITS_DIVERGED = Finding(
    code="Z2K-4025",
    says="Audits {first} and {second} of dual-write both diverged; the later one found {different} differences.",
    means="ZooKeeper and the metadata log say different things, and not only for a moment. Steps forward stay closed; "
    "the way back stays open, and compares by itself.",
    remedy="Look at the differences (`zk2kraft audits`), find who wrote beside the controller, and ask for an audit.",
)
AUDIT_OVERDUE = Finding(
    code="Z2K-4026",
    says="No audit of dual-write has passed since {since}; one is due every {every} s.",
    means="Nobody knows whether ZooKeeper and the metadata log still say the same. Steps forward stay closed; the way "
    "back stays open.",
    remedy="Read why the last audits have no result or diverged (`zk2kraft audits`), and ask for one.",
)

CONFIRMATION_DISAGREES = Finding(
    code="Z2K-4027",
    says="Audit {audit} by Spark found {different} differences in a rehearsal that the quick engine passed.",
    means="One of the two engines is wrong. The takeover is not begun until Spark confirms a later rehearsal.",
    remedy="Look at the differences of that audit (`zk2kraft audits`); report it with both audits.",
)
AUDIT_PROCESS_ENDED = Finding(
    code="Z2K-4029",
    says="The warm audit process ended twice without a result: {reason}. The audit ran in a process of its own.",
    means="The result counts as any other: only the seconds of a fresh start were lost. The next audit tries the warm "
    "process again.",
    remedy="Look at the reason, at free memory, and at `audit-process.log` in the service's directory. "
    "`audit_process_idle_s = 0` keeps no such process.",
    severity=Severity.WARNS,
)
SPARK_SAID_NOTHING = Finding(
    code="Z2K-4028",
    says="The rehearsal is not confirmed by Spark: {reason} (audit {audit}).",
    means="The quick engine passed the rehearsal, and the takeover may begin on that. The second engine has no result.",
    remedy="Repair what the reason names (Java, memory, disk), or set the migration's `audit_engine` to `quick`.",
    severity=Severity.WARNS,
)

# --- 5xxx: audit ------------------------------------------------------------------------------------------

AUDIT_CANNOT_READ = Finding(
    code="Z2K-5001",
    says="The audit cannot read {what}: {reason}.",
    means="Nothing can be said about what was not read; this audit is not green.",
    remedy="Name a directory with a metadata log, or the address of the active controller, and run it again.",
)
LOG_INCONSISTENT = Finding(
    code="Z2K-5002",
    says="The metadata log does not fit together at {record}: {reason}.",
    means="What the log says cannot be told from here on, so this audit is not green. A controller could not read this "
    "log either.",
    remedy="Audit another controller's directory. If it says the same, do not take over with this log: run "
    "`zk2kraft log dump` on it and keep its output for the owner.",
)
SPARK_FAILED = Finding(
    code="Z2K-5003",
    says="Spark could not do the audit on {master}: {reason}.",
    means="Nothing was compared, or not all of it. Neither side was changed.",
    remedy="Check that Java 17 starts on this machine and that 2 GB of memory and 1 GB of disk are free, then run it "
    "again; `--engine quick` asks the same question without Spark.",
)
AUDIT_OUT_UNUSABLE = Finding(
    code="Z2K-5004",
    says="{directory} cannot be used for this audit: {reason}.",
    means="Nothing was read or compared. What an earlier audit kept is never written over.",
    remedy="Name a directory that does not exist or is empty; to look at an earlier audit again, name the one it kept.",
)
AUDIT_ROWS_LOST = Finding(
    code="Z2K-2201",
    says="The audit lost rows: it was to {step} {expected} and has {found}.",
    means="A part of one side was not compared, so nothing can be said; this audit is incomplete.",
    remedy="Name an output directory that every Spark executor sees and that nothing else changes, then run the audit "
    "again.",
)

# --- 6xxx: laboratory and set-up --------------------------------------------------------------------------

JAVA_MISSING = Finding(
    code="Z2K-6001",
    says="Java 17 or later is needed; found {found}.",
    means="Kafka, ZooKeeper and Spark run on Java; without it only `make check` works.",
    remedy="Install a Java 17 runtime (Debian: `apt install openjdk-17-jre-headless`) or set JAVA_HOME, then run "
    "the command again.",
)
ARTIFACTS_UNAVAILABLE = Finding(
    code="Z2K-6002",
    says="Could not bring {artifact}: {reason}.",
    means="The laboratory needs Kafka's and ZooKeeper's jars, and neither the cache nor the network has them.",
    remedy="Set KAFKA_HOME to an installed Kafka, or ZK2KRAFT_MAVEN_MIRROR to a reachable repository, then run the "
    "command again; what was already downloaded is kept.",
)
PROCESS_NOT_READY = Finding(
    code="Z2K-6003",
    says="{name} was not ready after {seconds} s: {reason}. Its log: {log}",
    means="A laboratory process started but did not answer its protocol, or it ended early.",
    remedy="Read the end of the log named here; most often memory or a port was taken by something else.",
)
PYTHON_TOO_OLD = Finding(
    code="Z2K-6004",
    says="Python 3.11 or later is needed; found {found}.",
    means="This program is written for Python 3.11 and later; nothing was set up.",
    remedy="Install Python 3.11 or later and run the command again with it (`make PYTHON=python3.11 setup`).",
)
SETUP_FAILED = Finding(
    code="Z2K-6005",
    says="Set-up stopped at `{command}` (exit code {exit_code}).",
    means="The environment in .venv is not complete. The next run starts again; what was downloaded is kept.",
    remedy="Read the lines above this one. Without direct access to PyPI set HTTPS_PROXY, or ZK2KRAFT_PYPI_MIRROR to "
    "an index that can be reached; then run the command again.",
)
NO_FREE_PORT = Finding(
    code="Z2K-6006",
    says="No free port on {host} between {first} and {last}: {reason}.",
    means="The laboratory listens on loopback only and found no place to do so.",
    remedy="Stop other laboratories on this machine (`make lab` in another terminal), or allow this user to listen "
    "on loopback; then run the command again.",
)
TOOL_FAILED = Finding(
    code="Z2K-6007",
    says="{tool} ended with exit code {exit_code}: {output}",
    means="One of Kafka's own tools refused its input. The laboratory did not go on.",
    remedy="Read the tool's words above; most often a directory was formatted before or belongs to another cluster.",
)
GUARD_LOST = Finding(
    code="Z2K-6008",
    says="The laboratory's guard process ended ({reason}); {name} was not started.",
    means="Without the guard, processes could outlive this run, so nothing more is started.",
    remedy="Start the laboratory again. If it happens twice, look for what kills processes of this user (memory?).",
)
CONTROL_REFUSED = Finding(
    code="Z2K-6012",
    says="The controller refused {wish}: {reason}.",
    means="What was asked of it is not possible in its present state.",
    remedy="Look at its status (`zk2kraft status`), which says what it waits for and what may be asked of it.",
)
TRAFFIC_FAILED = Finding(
    code="Z2K-6013",
    says="The traffic {name} ended with exit code {exit_code}: {output}",
    means="The clients of the laboratory did not end in order. What the ledger holds up to its end is still true.",
    remedy="Read the traffic's own log; the last status file tells what was outstanding. Then run the test again.",
)
LEDGER_DAMAGED = Finding(
    code="Z2K-6014",
    says="{file}, line {line}, is not well formed: {reason}.",
    means="A file of evidence was written by something else or edited. Nothing is concluded from it.",
    remedy="Do not repair it by hand: run again with a fresh directory. A torn last line is no damage and is left out.",
)
MARK_UNKNOWN = Finding(
    code="Z2K-6015",
    says="The ledger has no mark {mark} (known: {known}).",
    means="The moment that was asked for was never marked in this run, so there is no figure for it.",
    remedy="Use a known mark, or give the moment as seconds of the wall clock.",
)
READER_FAILED = Finding(
    code="Z2K-6016",
    says="The outside reader gave no report (exit code {exit_code}): {output}",
    means="Nothing was checked, so nobody can say that nothing was lost; this is not the same as a loss.",
    remedy="Read its words; most often ZooKeeper or a broker does not run. Start it, then run the reader again.",
)
DEMO_NOT_POSSIBLE = Finding(
    code="Z2K-6017",
    says="The demo cannot run: {reason}.",
    means="Nothing was started and nothing was changed.",
    remedy="Change what is named and run it again; `zk2kraft demo --help` shows what it can do.",
)
DEMO_STOPPED = Finding(
    code="Z2K-6018",
    says="The demo stopped in {phase}: {reason}.",
    means="The migration did not go on as the demo expected. Its clusters and controllers were stopped; the directory "
    "with every log was kept.",
    remedy="Read the reason, then service/server.log and the broker's logs in the directory. Run the demo again with "
    "another directory to compare.",
)
REHEARSAL_OUT_UNUSABLE = Finding(
    code="Z2K-6019",
    says="{directory} cannot be used for a rehearsal: {reason}.",
    means="Nothing was read or copied. What is in that place is never written over.",
    remedy="Name a directory with --out that does not exist or is empty.",
)
