"""The takeover, dual-write, and the way back: the other codes Z2K-2xxx."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

FENCED = Finding(
    code="Z2K-2003",
    says="Another controller or program changed /migration or /controller: found {found}; this node expected "
    "{expected}.",
    means="Another controller, or an operator, changed the claim while brokers in ZooKeeper mode are registered, and "
    "one of them may have been elected. This node has stopped writing to ZooKeeper and tells brokers that it is not "
    "the controller. No log is retired by that.",
    remedy="Find out who holds the claim now: `zk2kraft rollback --without-controllers -z ...` without --execute shows "
    "it and changes nothing. This node does not continue by itself; this code's runbook has the next steps.",
    cases=("F-43",),
)

CLAIM_CHANGED = Finding(
    code="Z2K-2021",
    says="The claim in ZooKeeper is not as this quorum left it: found {found}; expected {expected}.",
    means="Another program or a person changed it, or ZooKeeper was restored. Brokers and administrators are served, "
    "and no log is retired. The claim is made again, and then ZooKeeper is made equal to the log. If it cannot be made "
    "again, Z2K-2022 says why.",
    remedy="None needed for the migration. Find out who changed the znodes, and stop that: it can happen again.",
    severity=Severity.WARNS,
    cases=("F-43",),
)

MIRROR_STOPPED = Finding(
    code="Z2K-2022",
    says="ZooKeeper is not written: {reason}; found {found}.",
    means="Every registered broker runs in KRaft mode and follows the log, so brokers and administrators are served. "
    "ZooKeeper falls behind, so there is no way back to it until it is written again. No log is retired.",
    remedy="Remove the reason; the controller looks again by itself and then makes ZooKeeper equal to the log. A "
    "restart of a controller neither helps nor harms. This code's runbook has the steps for each reason.",
    cases=("F-43",),
)

CLAIM_NOT_POSSIBLE = Finding(
    code="Z2K-2005",
    says="The controllership cannot be claimed: {reason}.",
    means="Nothing was changed. The ZooKeeper controller, if there is one, stays active.",
    remedy="Read the reason. `zk2kraft rollback --without-controllers -z ...` without --execute shows who holds the "
    "claim and changes nothing. If another quorum holds it, end that quorum's migration first.",
)

FOREIGN_MIGRATION = Finding(
    code="Z2K-2006",
    says="/migration exists and does not come from this quorum's log: {found}.",
    means="Another migration left it, or a stock controller with migration enabled was started against this ZooKeeper. "
    "To continue could delete topics from ZooKeeper.",
    remedy="If another migration of yours is in dual-write, this znode belongs to it: leave it. Otherwise make sure "
    "that no KRaft controller runs against this ZooKeeper and that a broker is the controller. Then keep a note of the "
    "content of /migration, delete it, and run `zk2kraft check` again.",
    cases=("F-05", "F-42"),
)

LOG_RETIRED = Finding(
    code="Z2K-2008",
    says="This metadata log was rolled back: the controller in ZooKeeper is {controller}.",
    means="ZooKeeper controls the cluster again. This log does not have the changes since then, so it is retired and "
    "may never be used again. Nothing was written.",
    remedy="Leave this controller stopped; `zk2kraft rollback --without-controllers` shows whether a claim of our "
    "controllers is left. To migrate again, format a fresh quorum (new directories), and restart every broker before "
    "the takeover.",
    cases=("F-42",),
)

LOG_BEHIND_ZOOKEEPER = Finding(
    code="Z2K-2009",
    says="/migration says that offset {mirrored} is mirrored, but this log ends at {log}.",
    means="The metadata log lost records that ZooKeeper and brokers already have. To continue would undo those "
    "records.",
    remedy="Start the controller with the complete directory. If there is none, roll back with `zk2kraft rollback "
    "--without-controllers`.",
)

FULL_SEND_INCOMPLETE = Finding(
    code="Z2K-2010",
    says="The full send to broker {broker} would drop {what}: {reason}.",
    means="A full request must name everything: a broker moves aside every log that it does not name, and forgets the "
    "committed offsets of every topic that it does not name. Nothing was sent to this broker. If this is the first "
    "full send, no broker got it.",
    remedy="Run `zk2kraft audit`; it names the differences between ZooKeeper and the log. To remove a leftover log, "
    "stop its broker and move the log aside. If the driver is RETIRED, the next takeover needs a fresh quorum and "
    "restarted brokers.",
    cases=("F-31",),
)

SURVEY_FAILED = Finding(
    code="Z2K-2141",
    says="Broker {broker} does not report its logs: {reason}.",
    means="The broker would move aside every log that a full update does not name, so it gets no full update before it "
    "reports its logs. It keeps its leaders and followers as before. The other brokers are not affected.",
    remedy="Check the broker: is it running, and does its inter-broker listener answer? The controller asks again by "
    "itself at least every 10 s. The rollback waits for it.",
)

FULL_UPDATE_NOT_BUILT = Finding(
    code="Z2K-2142",
    says="The full update for broker {broker} cannot be built: {reason}.",
    means="Something in the metadata or in the broker's answer is not as this controller expects. Only this broker "
    "gets no update; the other brokers are not affected.",
    remedy="Keep the controller's log and report the fault. If the broker's answer is wrong, restart the broker. The "
    "controller tries again by itself at least every 10 s. The rollback waits for it.",
)

COPY_DIFFERS = Finding(
    code="Z2K-2011",
    says="The audit of the copy found {different} differences before the commit, the first is {first}.",
    means="ZooKeeper was changed during the copy, or the copy is wrong. Nothing was appended, and the takeover was "
    "aborted.",
    remedy="Find out who wrote to ZooKeeper (usually a tool that bypasses Kafka) and stop it. Then allow another "
    "takeover with `zk2kraft advance`.",
    cases=("F-34", "F-57"),
)

MOVED_WHILE_COPIED = Finding(
    code="Z2K-2012",
    says="{count} places in ZooKeeper changed while they were copied, the first is {first}.",
    means="Another program writes to ZooKeeper directly, not through the controller. Nothing was appended, and the "
    "takeover was aborted.",
    remedy="Stop administrative changes and tools that write to ZooKeeper for the seconds of the takeover. Then allow "
    "another one with `zk2kraft advance`.",
)

ONLY_IN_ZOOKEEPER = Finding(
    code="Z2K-2013",
    says="After the commit, {count} entries in ZooKeeper differ from what was copied, the first is {first}.",
    means="They were changed after the audit. The changes stay as they are. No broker was updated yet, so the cluster "
    "is rolled back to ZooKeeper and this log is retired.",
    remedy="Stop the program that writes to ZooKeeper, format a fresh quorum, restart the brokers, and take over "
    "again.",
)

ROLLBACK_NOT_POSSIBLE = Finding(
    code="Z2K-2014",
    says="The cluster cannot be rolled back now: {reason}.",
    means="The rollback needs every broker in ZooKeeper mode, everything mirrored, and both sides equal. Dual-write "
    "goes on.",
    remedy="Read the reason and remove it (bring brokers back, wait for ZooKeeper). Then repeat `zk2kraft rollback`.",
)

WINDOW_OVERDUE = Finding(
    code="Z2K-2015",
    says="The takeover was not finished after {limit_ms} ms (zk2kraft.takeover.max.ms).",
    means="The cluster must not stay without a controller, so the takeover was aborted. Nothing was appended.",
    remedy="Find the slow step in the driver's history; a busy ensemble is the usual cause. Then allow another "
    "takeover with `zk2kraft advance`.",
)

BROKER_LOST_IN_WINDOW = Finding(
    code="Z2K-2016",
    says="Broker {broker} {what} while the cluster had no controller.",
    means="Its leaders could not be replaced during that time, so the takeover was aborted at once. Nothing was "
    "appended.",
    remedy="Bring the broker back and wait until every partition is in sync, then allow another takeover with "
    "`zk2kraft advance`.",
)

NOT_STEPPED_DOWN = Finding(
    code="Z2K-2060",
    says="Broker {broker} did not step down as controller within {limit_ms} ms ({reason}).",
    means="The broker was displaced, but it still worked on a change or did not answer. The takeover was aborted. A "
    "controller that is interrupted in the middle of a change cannot work as controller again until it is restarted.",
    remedy="Restart that broker if its log says 'batch is not empty'. Wait until no topic is being created, deleted or "
    "moved, then allow another takeover with `zk2kraft advance`.",
)

LATCHED = Finding(
    code="Z2K-2017",
    says="An earlier takeover of this log was begun and not committed ({mark}).",
    means="The driver makes no second attempt by itself. ZooKeeper controls the cluster.",
    remedy="Find out why the first takeover ended (read the log of that time), then allow another one with `zk2kraft "
    "advance`.",
    severity=Severity.WARNS,
)

EXPORT_NOT_WRITTEN = Finding(
    code="Z2K-2076",
    says="The ZooKeeper export cannot be written to {file}: {reason}.",
    means="The takeover does not begin without an export of Kafka's znodes. The attempt leaves nothing on the disk. "
    "The cluster and its clients are not affected.",
    remedy="Make room in that directory, or correct its owner. Or name another one in `zk2kraft.export.dir` and "
    "restart the controllers one by one. The controller tries again by itself.",
)

EXPORTS_NOT_REMOVED = Finding(
    code="Z2K-2077",
    says="{count} old ZooKeeper exports cannot be removed, the first {first}: {reason}.",
    means="A controller keeps its newest three exports. Those before them stay on the disk, with the SCRAM credentials "
    "that ZooKeeper has. The new export is complete, so the takeover does not wait for this.",
    remedy="None needed for the migration. Correct the owner of that directory; the controller removes them after its "
    "next export.",
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
    says="The rollback without controllers is refused: {reason}.",
    means="Nothing was changed. A rollback now could leave partitions with a controller that does not know them.",
    remedy="Remove the reason. While one of our controllers is alive, roll back with `zk2kraft rollback`.",
)

ORDERS_STAND = Finding(
    code="Z2K-2101",
    says="ZooKeeper holds {count} orders that no controller carries out, the first is {first}.",
    means="Another program wrote them for a ZooKeeper controller: an old tool, or a script that knows ZooKeeper. The "
    "KRaft controller does not read them. After a rollback a ZooKeeper controller would carry them out, so no rollback "
    "is possible while they exist.",
    remedy="Find out who writes them and stop that. Repeat the change with Kafka's own tools and --bootstrap-server. "
    "Then remove the znodes (the runbook says how), or restart the active controller: the next one removes them.",
    severity=Severity.WARNS,
)

ORDERS_IN_THE_WAY = Finding(
    code="Z2K-2102",
    says="A rollback is not possible now: ZooKeeper holds {count} orders for a ZooKeeper controller, the first is "
    "{first}.",
    means="The next ZooKeeper controller would carry them out: it would delete a topic that is named in "
    "/admin/delete_topics, with its data. Nothing was changed.",
    remedy="Remove the znodes of the orders (the runbook says how), and repeat the rollback. If no controller is "
    "alive, `zk2kraft rollback --without-controllers --drop-orders` removes them in the same transaction.",
)

ORDERS_REMOVED = Finding(
    code="Z2K-2103",
    says="{count} orders were removed from ZooKeeper without being carried out, the first is {first}.",
    means="They were written for a ZooKeeper controller. Our controllers make ZooKeeper equal to the log, and the log "
    "has no such order.",
    remedy="If the change is still needed, make it with Kafka's own tools and --bootstrap-server.",
    severity=Severity.WARNS,
)

NOT_MIRRORED = Finding(
    code="Z2K-2104",
    says="{count} entries of the metadata log cannot be written to ZooKeeper, the first is {first}: {reason}.",
    means="Everything else is written. The log is the truth, and brokers follow it. A ZooKeeper controller would not "
    "know these entries, so no rollback is possible.",
    remedy="Change or delete the named entries with Kafka's own tools and --bootstrap-server; the controller then "
    "tries again. A name that ZooKeeper does not accept (`.` or `..`) must be deleted.",
    severity=Severity.WARNS,
)

UNFIT_NODE = Finding(
    code="Z2K-2024",
    says="{node} does not fit a migration that is under way: {reason}.",
    means="Kafka 4.0 and later know nothing of ZooKeeper. Such a controller that leads writes nothing there, and its "
    "snapshots forget the migration. A broker of it has no ZooKeeper mode to go back to.",
    remedy="Put Kafka 3.9 back on this node before it leads, with an empty metadata directory if it wrote a snapshot, "
    "and hold its package or image. If it leads, stop it: a controller that has the migration in its log goes on. "
    "This code's runbook has the steps.",
    cases=("F-48",),
)

UNEXPECTED = Finding(
    code="Z2K-2105",
    says="The driver met an unknown fault ({where}): {reason}.",
    means="This is a fault of zk2kraft. The quorum goes on, and the driver repeats the same step. A takeover that is "
    "not committed is aborted.",
    remedy="Keep the controller's log, which has the whole fault, and report it. If it names a change of the cluster, "
    "you can often undo that change with Kafka's own tools.",
    severity=Severity.WARNS,
)

ODD_ZNODES_AMENDED = Finding(
    code="Z2K-2106",
    says="{count} znodes were not in Kafka's format and were corrected, the first is {first}.",
    means="Another program wrote to ZooKeeper after the takeover. The log is the truth: znodes that the log has were "
    "written again from it, and other znodes of the mirrored families were removed.",
    remedy="Find out who writes to ZooKeeper, and stop that. Make changes with Kafka's own tools and "
    "--bootstrap-server.",
    severity=Severity.WARNS,
)

ODD_ZNODES_LEFT = Finding(
    code="Z2K-2107",
    says="{count} znodes outside the mirrored families are not in Kafka's format, the first: {first}",
    means="They stay as they are and do not stop our controllers. A ZooKeeper-mode broker that cannot read a "
    "registration fails at its next start, and so does a ZooKeeper controller. No rollback is possible while they "
    "exist.",
    remedy="Find out who wrote them, and remove or repair them with ZooKeeper's shell.",
    severity=Severity.WARNS,
)

UPDATED_FIRST = Finding(
    code="Z2K-2108",
    says="Brokers were updated from the log before ZooKeeper could be made equal to it: {reason}.",
    means="After a fail-over, ZooKeeper is normally compared and written first. That failed several times, and brokers "
    "need their leaders, so brokers were updated first. New and moved replicas wait until ZooKeeper has them. No "
    "rollback is possible until then.",
    remedy="Remove the reason; the controller repeats the comparison by itself.",
    severity=Severity.WARNS,
)

WITHOUT_CONTROLLERS_WOULD_LOSE = Finding(
    code="Z2K-2070",
    says="ZooKeeper lacks {records} of the metadata log in {directory}: it has everything up to offset {mirrored}, and "
    "the last that it lacks is at offset {last}.",
    means="They were committed, or may have been, while ZooKeeper was behind, and brokers acted on them. A rollback "
    "now loses them: leaders and in-sync replicas become older ones, and acknowledged data may be lost with them. "
    "Nothing was changed.",
    remedy="Start the controllers: they bring ZooKeeper up to date. Then run `zk2kraft rollback`, or stop them and "
    "repeat the rollback without controllers. If they can never start again, read what would be lost and consent with "
    "`--accept-loss`.",
)

VERSIONS_LAG = Finding(
    code="Z2K-2126",
    says="The state znodes of {partitions} partitions are behind their partition epochs: {operations} writes are left, "
    "about {seconds} s.",
    means="The data in them is right. Producers, consumers and brokers notice nothing. A ZooKeeper controller would "
    "refuse ISR changes of these partitions until their leaders change, so a rollback is refused meanwhile.",
    remedy="Wait: the active controller raises the versions while it has nothing else to write. `zk2kraft status` "
    "shows how many are left. Then repeat the rollback.",
    severity=Severity.WARNS,
)

WITHOUT_CONTROLLERS_WOULD_DIFFER = Finding(
    code="Z2K-2127",
    says="ZooKeeper and the metadata log in {directory} have {count} differences, the first is {first}.",
    means="Every record was sent to ZooKeeper, and yet ZooKeeper differs: a write was impossible, or another program "
    "changed it. After a rollback, what ZooKeeper holds counts. Nothing was changed.",
    remedy="`zk2kraft audit -z ZK --kraft DIR` shows the differences by value. Start the controllers and roll back "
    "while they run; they correct the differences or name them. If they can never start again, consent with "
    "`--accept-loss`.",
)

LOG_HAS_TO_BE_SHOWN = Finding(
    code="Z2K-2131",
    says="Brokers {brokers} were in KRaft mode since the takeover ({path}), and no metadata log was given.",
    means="Their directory assignments are in the log only, and a broker or a controller that still runs in KRaft mode "
    "leaves no trace in ZooKeeper. Nothing was changed.",
    remedy="Give the metadata log directories of the controllers, `--log DIR` once for each. If every log is lost, see "
    "that no broker and no controller of Kafka runs in KRaft mode, and consent with `--accept-loss`.",
)

LOG_IS_FINAL = Finding(
    code="Z2K-2132",
    says="The metadata log in {directory} says that the migration is finalized (POST_MIGRATION, offset {offset}).",
    means="A controller ran without the migration flag. If that record is committed, a rollback makes two clusters out "
    "of one. Nothing was changed.",
    remedy="Go forward: start the controllers without the flag. If the record may never have been "
    "committed, the runbook says what to look at.",
)

ONLY_THE_LOG_HAS = Finding(
    code="Z2K-2133",
    says="Only the metadata log in {directory} has: {lost}.",
    means="ZooKeeper has no form for it, so a rollback loses it. Nothing was changed.",
    remedy="Write down what you need of it: `zk2kraft log dump DIR` shows it. Then consent with `--accept-loss`. While "
    "controllers of ours can run, roll back with `zk2kraft rollback`.",
)

REQUEST_TOO_LARGE = Finding(
    code="Z2K-2135",
    says="The request is too large for the metadata log in one piece: {reason}.",
    means="The log takes a request whole or not at all. Nothing was changed.",
    remedy="Split it into several requests with fewer topics, partitions or settings in each. A single setting that is "
    "too long must become shorter.",
)

TAKEOVER_ABORTED = Finding(
    code="Z2K-2020",
    says="An operator aborted the takeover: {reason}.",
    means="The claim was removed from ZooKeeper; nothing was appended. The driver makes no second attempt by itself.",
    remedy="When the reason is gone, allow another takeover with `zk2kraft advance`.",
    severity=Severity.WARNS,
)

CLAIM_EXPIRED = Finding(
    code="Z2K-2051",
    says="The claim in ZooKeeper ended before any broker was updated: the controller is {controller} now.",
    means="The session that held the claim ended, so a ZooKeeper-mode broker is controller again. Nothing is lost. "
    "Before the commit, the driver becomes ABORTED. After the commit, the driver becomes RETIRED and this log may not "
    "be used any more.",
    remedy="Find out what ended the session (an ensemble without a leader, a controller that stopped for seconds). "
    "ABORTED: allow another takeover with `zk2kraft advance`. RETIRED: format a fresh quorum, restart the brokers, "
    "take over again.",
)

UPDATED_TOO_LATE = Finding(
    code="Z2K-2052",
    says="The copy was committed, but after {limit_ms} ms (zk2kraft.takeover.max.ms) no broker was updated: {reason}",
    means="The cluster must not stay without a controller, so it was rolled back to ZooKeeper. Nothing is lost. This "
    "log may not be used any more, and the driver ends in RETIRED.",
    remedy="Remove the reason (usually ZooKeeper), format a fresh quorum, restart the brokers, and take over again.",
)

WINDOW_LIMIT_LOW = Finding(
    code="Z2K-2078",
    says="The time without controller would be about {estimated_ms} ms of {half_ms} ms, which is half of "
    "zk2kraft.takeover.max.ms, with {partitions} partitions and {brokers} brokers: raise the limit to {needed_ms}.",
    means="The takeover does not begin. One that is over its limit after the commit is rolled back, and that costs a "
    "fresh quorum and a restart of every broker.",
    remedy="Set zk2kraft.takeover.max.ms to the value named, in the file of each controller, and restart the "
    "controllers one by one, the active controller last. Brokers are not restarted.",
)

WINDOW_TOO_LONG = Finding(
    code="Z2K-2079",
    says="The time without controller would be about {estimated_ms} ms, with {partitions} partitions and {brokers} "
    "brokers: more than half of the largest zk2kraft.takeover.max.ms, which is 60000. Half of it is {half_ms} ms now.",
    means="The takeover does not begin, and no value of the setting lets it begin. The cluster would be without a "
    "controller for too long.",
    remedy="Run the controllers on faster machines that nothing else keeps busy, near ZooKeeper, and delete topics "
    "that nobody uses. The estimate is made again at each look.",
)

BROKER_DOES_NOT_FOLLOW = Finding(
    code="Z2K-2040",
    says="Broker {broker} is in /brokers/ids and does not follow the controllers: {known} ({count} such brokers).",
    means="The broker gets no updates: it leads no partition, and its metadata is old. Usually it was started without "
    "the migration enabled, or with the voters of another quorum.",
    remedy="Start it with `zookeeper.metadata.migration.enable=true` and this quorum's `controller.quorum.voters`. "
    "This code's runbook lists other causes.",
    severity=Severity.WARNS,
)

ZOOKEEPER_FALLS_BEHIND = Finding(
    code="Z2K-2041",
    says="ZooKeeper lacks {records} records, the oldest for {seconds} s; the limits are {max_records} records and "
    "{max_seconds} s.",
    means="Writes to ZooKeeper fail or are too slow. Nothing is lost: the log has everything, and ZooKeeper catches up "
    "as soon as it accepts writes. Until then a rollback must wait.",
    remedy="Find out why ZooKeeper does not accept writes (`zk2kraft status` names the reason). At a limit, "
    "administrators' changes are refused when `zk2kraft.divergence.policy` is block.",
    severity=Severity.WARNS,
)

FULL_SEND_IS_LARGE = Finding(
    code="Z2K-2042",
    says="The full UpdateMetadata takes about {bytes} bytes; every broker needs at least "
    "socket.request.max.bytes={needed} (Kafka's default is {default}).",
    means="A takeover sends all metadata to every broker in one request. Only the takeover gate reads the brokers' own "
    "settings (Z2K-1012).",
    remedy="Raise socket.request.max.bytes in every broker's file before the restart that prepares the brokers for the "
    "migration.",
    severity=Severity.WARNS,
    cases=("F-54",),
)

BROKERS_FORWARD_NOTHING = Finding(
    code="Z2K-2043",
    says="After the rollback, {count} brokers answered no request that they forward to the controller: {brokers}.",
    means="The thread that forwards requests may have ended in these brokers: a flaw of Kafka's brokers when the "
    "controller changes between KRaft and ZooKeeper. Such a broker serves its partitions, but new producers at it wait "
    "for a producer id without end. No data is affected.",
    remedy="Look for `channel-manager]: Error due to` in the log of each broker that is named. Restart a broker that "
    "has this line, one at a time. Without it, find out whether a ZooKeeper-mode broker is the controller.",
    severity=Severity.WARNS,
)

STOCK_CANNOT_MIRROR = Finding(
    code="Z2K-2071",
    says="The log has {count} configurations that a stock controller cannot mirror to ZooKeeper, for instance {first}.",
    means="Stock 3.9 compares such configuration with ZooKeeper and has no place for it there. Its comparison never "
    "ends, so it never enters dual-write. Our controllers skip it.",
    remedy="Remove the configuration with kafka-configs.sh (client-metrics, groups) before our controllers are "
    "replaced, and set it again after the migration is finalized.",
)

STOCK_CANNOT_CONTINUE = Finding(
    code="Z2K-2072",
    says="A stock controller cannot take the place of ours now: {reason}.",
    means="Kafka's own controllers expect the log and ZooKeeper in dual-write as they left it themselves. With this "
    "state one of them stays inactive, or undoes something.",
    remedy="Wait until `zk2kraft status` shows dual-write with lag 0. Delete orders below /admin that nobody wants. If "
    "the reason stays, see this code's runbook.",
)

INELIGIBLE_IN_LOG = Finding(
    code="Z2K-2074",
    says="{count} records of the metadata log make a broker leader or in-sync that may not be it, or replace a "
    "partition; the first is at offset {offset}, partition {partition}: {reason}.",
    means="No correct controller writes such a record. Brokers acted on it: a replica that was not in sync may have "
    "become the leader, and then acknowledged records may be missing from that partition.",
    remedy="Compare what producers got acknowledged with what the partition has; this code's runbook says how to find "
    "the records and the partitions. Nothing has to be restarted.",
    severity=Severity.WARNS,
)

INELIGIBLE_DECISION = Finding(
    code="Z2K-2075",
    says="A decision of this controller was not written: partition {partition}: {reason}.",
    means="The decision did not fit the metadata that it changes. That is a fault of zk2kraft. The record was not "
    "written, so no broker acts on it; whoever asked got an error.",
    remedy="Repeat the request. Report the line `decision.refused` of this controller's log. If it comes again and "
    "again, restart this controller: another one becomes active.",
    severity=Severity.WARNS,
)

STOCK_NEEDS_SECRET = Finding(
    code="Z2K-2073",
    says="{count} broker configurations hold passwords, for instance that of broker {first}: each stock controller "
    "needs password.encoder.secret, and the active controller's file does not have it.",
    means="Without the brokers' secret a stock controller writes these passwords unencrypted into ZooKeeper, or "
    "fails at them.",
    remedy="Put the brokers' password.encoder.secret (and its other password.encoder keys) into the file of each stock "
    "controller. `zk2kraft render controller FILE --for stock` keeps them.",
    severity=Severity.WARNS,
)
