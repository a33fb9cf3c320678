"""The takeover, dual-write, and the way back: the other codes Z2K-2xxx."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

FENCED = Finding(
    code="Z2K-2003",
    says="/migration or /controller was changed by somebody else: found {found}; this node expected {expected}.",
    means="Another controller, or a person, touched the claim. This node has stopped writing to ZooKeeper and answers "
    "brokers that it is not the controller.",
    remedy="Find out who holds the claim now: `zk2kraft rollback --without-controllers -z ...` without --execute "
    "tells it and changes "
    "nothing. This node does not go on by itself; what to do then is on this code's page.",
    cases=("F-43",),
)

CLAIM_NOT_POSSIBLE = Finding(
    code="Z2K-2005",
    says="The controllership cannot be claimed: {reason}.",
    means="Nothing was changed. The ZooKeeper controller, if there is one, goes on.",
    remedy="Read the reason. `zk2kraft rollback --without-controllers -z ...` without --execute tells who holds the "
    "claim and changes "
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

LOG_RETIRED = Finding(
    code="Z2K-2008",
    says="This metadata log was rolled back: the controller in ZooKeeper is {controller}.",
    means="The cluster is ruled by ZooKeeper again. This log does not know what was decided since, and may never be "
    "used again. Nothing was written.",
    remedy="Leave this controller stopped; `zk2kraft rollback --without-controllers` tells whether anything of ours "
    "still stands. To migrate "
    "again: format a fresh quorum (new directories), and restart every broker before the takeover.",
    cases=("F-42",),
)

LOG_BEHIND_ZOOKEEPER = Finding(
    code="Z2K-2009",
    says="/migration says that offset {mirrored} is mirrored, but this log ends at {log}.",
    means="The metadata log lost records that ZooKeeper and brokers already have. Going on would undo them.",
    remedy="Start the controller whose directory is complete; if there is none, roll back with `zk2kraft rollback "
    "--without-controllers`.",
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

ROLLBACK_NOT_POSSIBLE = Finding(
    code="Z2K-2014",
    says="The cluster cannot be rolled back now: {reason}.",
    means="The rollback needs every broker in ZooKeeper mode, everything mirrored, and both sides equal. Dual-write "
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

WITHOUT_CONTROLLERS_REFUSED = Finding(
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
    "`zk2kraft rollback --without-controllers --drop-orders` removes them in the same transaction.",
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
    "know these things, so no rollback is possible.",
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
    "start over a registration that it cannot read, and so does a ZooKeeper controller: no rollback while they stand.",
    remedy="Find out who wrote them, and remove or repair them with ZooKeeper's shell.",
    severity=Severity.WARNS,
)

UPDATED_FIRST = Finding(
    code="Z2K-2108",
    says="Brokers were told what the log says before ZooKeeper could be brought to it: {reason}.",
    means="After a fail-over ZooKeeper is compared and written first. That failed again and again, and brokers need "
    "their leaders, so they were told. New and moved replicas wait until ZooKeeper has them. No rollback until then.",
    remedy="Mend what the reason names; the comparison is tried again by itself.",
    severity=Severity.WARNS,
)

WITHOUT_CONTROLLERS_WOULD_LOSE = Finding(
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

WITHOUT_CONTROLLERS_WOULD_DIFFER = Finding(
    code="Z2K-2127",
    says="ZooKeeper and the metadata log in {directory} differ in {count} things, the first is {first}.",
    means="ZooKeeper was told of every record, and yet it says something else: it could not be written there, or "
    "somebody changed it. After a rollback what ZooKeeper says counts. Nothing was changed.",
    remedy="`zk2kraft audit -z ZK --kraft DIR` shows what differs, by value. Start the controllers and roll back while "
    "they run; they put it right or name it. If they can never be started: consent with `--accept-loss`.",
)

REQUEST_TOO_LARGE = Finding(
    code="Z2K-2135",
    says="The request asks for what the metadata log does not take in one piece: {reason}.",
    means="What one request asks for is written whole or not at all. Nothing was changed.",
    remedy="Ask for it in several requests: fewer topics, partitions or settings in each. One setting "
    "that is too long has to be shorter.",
)

TAKEOVER_ABORTED = Finding(
    code="Z2K-2020",
    says="The takeover was aborted by a person: {reason}.",
    means="The controllership was given back; nothing was appended. No second attempt is made by itself.",
    remedy="Allow another takeover with `zk2kraft advance` when the reason is gone.",
    severity=Severity.WARNS,
)

CLAIM_EXPIRED = Finding(
    code="Z2K-2051",
    says="The claim in ZooKeeper ended before any broker was told of it: the controller is {controller} now.",
    means="The session that held the claim ended, so a ZooKeeper-mode broker is controller again. Nothing is lost. "
    "Before the commit the driver is HELD; after it this log may not be used any more, and the driver is RETIRED.",
    remedy="Find out what ended the session (an ensemble without a leader, a controller that stood still). HELD: "
    "allow another takeover with `zk2kraft advance`. RETIRED: format a fresh quorum, restart the brokers, take over.",
)

UPDATED_TOO_LATE = Finding(
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
    "ZooKeeper is caught up as soon as it takes writes. Until then a rollback has to wait.",
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
