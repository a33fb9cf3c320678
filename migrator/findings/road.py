"""The road from dual-write to the end: rolling restarts, replaced controllers, soak, finalize: Z2K-42xx."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

NODE_OVERDUE = Finding(
    code="Z2K-4201",
    says="{node} did not come through {step} within {seconds} s: {reason}.",
    means="The rolling restart stands. No other node is touched. The other nodes serve the cluster.",
    remedy="Read the log of this node. When the cause is gone, `zk2kraft resume` goes on from its last step.",
)

NODE_STARTED_BY_OTHERS = Finding(
    code="Z2K-4202",
    says="{node} was started by something else before its file was written.",
    means="A supervisor or a tool restarts this node. It may run with another file than the one that is meant for it. "
    "The rolling restart stands.",
    remedy="Mask the automatic restart of this node (its actuator does that in `stop`), then `zk2kraft resume`.",
)

NODE_ENDED = Finding(
    code="Z2K-4203",
    says="{node} ended after it was started with its new file.",
    means="It does not run. The rolling restart stands, and no other node is touched.",
    remedy="Read the last lines of its log. Correct the cause, then `zk2kraft resume` starts it again.",
)

STEP_FAILED = Finding(
    code="Z2K-4204",
    says="The act {act} of {node} failed: {reason}.",
    means="The rolling restart stands at this node. No other node is touched.",
    remedy="Correct the cause, then `zk2kraft resume` repeats the step. Every step may be repeated.",
)

STRAY_DIRECTORIES = Finding(
    code="Z2K-4205",
    says="{node} has stray directories after its restart: {directories}.",
    means="The broker moved these logs aside because the metadata does not name them. They hold data. The roll stands.",
    remedy="Delete none of them. Compare the topic ids in their `partition.metadata` with the log, and call the owner.",
)

TOPIC_IDS_DIFFER = Finding(
    code="Z2K-4206",
    says="{node}: {path} has topic id {found}; the metadata log has {expected}.",
    means="In KRaft mode the broker would move this log aside as stray. The broker is not stopped.",
    remedy="Find out which topic the directory belongs to before anything else. See failure case F-31.",
)

NO_FLEET = Finding(
    code="Z2K-4207",
    says="The fleet of {name} is not usable: {reason}.",
    means="The service does not know how to operate brokers and controllers, so it cannot go on from dual-write.",
    remedy="Write the inventory {name}.yaml into the directory that `fleets` of the service's configuration names.",
)

VERSION_NOT_RAISED = Finding(
    code="Z2K-4229",
    says="{feature} was not raised to {level}; the voters say {found}: {reason}.",
    means="The cluster works on as before. Nothing else was changed.",
    remedy="Read the reason: often a node with older software is still registered. Then approve and request it again.",
)

NOT_A_RAISE = Finding(
    code="Z2K-4250",
    says="{text} is no raise of a feature: {reason}.",
    means="Nothing was asked of the cluster. A raise names one feature and one level of Kafka 4.0 to 4.4.",
    remedy="`zk2kraft finalize-version --release-version 4.4` lists what a release would raise, one command each.",
)

LEVEL_NOT_KNOWN = Finding(
    code="Z2K-4222",
    says="{text} is no level of metadata.version; levels are {known}.",
    means="The level was not judged. A level is a number, a name such as 3.8-IV0, or a release such as 3.9.",
    remedy="Name one of these levels. `zk2kraft features` without --to lists what the nodes support.",
)

CONTROLLER_WITHOUT_TIERS = Finding(
    code="Z2K-4223",
    says="{path} of controller {node} does not set remote.log.storage.system.enable=true, and the files of brokers "
    "{brokers} do.",
    means="While such a controller leads, ours or stock, no tiered topic can be created, and the configuration of none "
    "can be changed (INVALID_CONFIG). Nothing that is stored is lost. No node is stopped for the migration.",
    remedy="Set remote.log.storage.system.enable=true in this file, or restore the file if the line was taken out. "
    "Before stock controllers, also restart the controller, which reads its file only at its start.",
)

LOG_NOT_OBSERVED = Finding(
    code="Z2K-4208",
    says="The metadata log is not observed: {reason}.",
    means="Registrations, replicas and the state of the migration are not known, so no step begins.",
    remedy="Check that a majority of the controllers runs and that the service reaches their listener.",
)

FILE_DRIFTED = Finding(
    code="Z2K-4209",
    says="{path} of {node} is not what was rendered for it.",
    means="A restart of this node may change its mode at the wrong time. Steps that restart nodes wait.",
    remedy="Find out who changed it. Restore the content that lies beside it, and freeze configuration management.",
)

RESTART_CHANGES = Finding(
    code="Z2K-4234",
    says="A restart of {node} would also change {key} ({path}): {change}.",
    means="Somebody changed the file or ZooKeeper after the broker started, or a directory failed. The running broker "
    "does not have the change. A restart for the migration would bring it in as well.",
    remedy="Undo the change. If it is wanted, restart the broker yourself first and see that it is well, or waive "
    "Z2K-4234 for this broker in the inventory, with a reason.",
)

FINALIZE_NOT_APPROVED = Finding(
    code="Z2K-4210",
    says="Nobody has approved {phase} as things are now: {reason}.",
    means="An approval counts for the plan and the evidence that the approver saw, for 4 hours, and for another person "
    "than the one who asks.",
    remedy="Look at `zk2kraft gates`. Then another person runs `zk2kraft approve`, and again with its --digest.",
)

FINALIZE_INTENT_STANDS = Finding(
    code="Z2K-4211",
    says="The finalize of this cluster was begun ({path}: {text}).",
    means="A controller may have run without the migration flag, so the log may be final. Going back to ZooKeeper "
    "could make two clusters out of one.",
    remedy="Go forward. If no controller was started without the flag, the runbook says how to prove it.",
)

FINALIZE_WAITS = Finding(
    code="Z2K-4235",
    says="The finalize has not begun, and does not begin: {reason}.",
    means="Every controller runs with the migration flag, as in the soak. The gate was open when FINALIZING was "
    "requested; it is asked again before the first controller is stopped, and something changed meanwhile.",
    remedy="Correct what the message names, or approve again if the approval ended. The finalize then begins by "
    "itself. `zk2kraft abort` gives it up, and leads back to SOAK.",
)

CLOCK_SET_BACK = Finding(
    code="Z2K-4236",
    severity=Severity.WARNS,
    says="The clock of the service's host is {seconds} s behind the times of the service's rows.",
    means="It was set back, or it was wrong when earlier rows were written. New rows go on from the newest one, so "
    "that their order holds and every step stays possible. Times that the service shows are ahead by that much.",
    remedy="Nothing has to be done for the migration. See that the host's time service is well.",
)

FLAG_REMOVED_EARLY = Finding(
    code="Z2K-4212",
    says="{path} of controller {node} has no migration flag, and nothing was approved.",
    means="The next start of this controller would finalize the migration for good.",
    remedy="Restore the flag now, before this controller starts again. The content before lies beside the file.",
)

CONTROLLER_NOT_LEFT = Finding(
    code="Z2K-4213",
    says="Controller {node} (process {pid}) did not end within {seconds} s.",
    means="It is not replaced while it runs. The other voters serve the cluster.",
    remedy="Read its log. When it has ended, `zk2kraft resume` goes on.",
)

BACKUP_FAILED = Finding(
    code="Z2K-4214",
    says="The backup before {phase} failed: {reason}.",
    means="The step does not begin without a backup.",
    remedy="Correct the cause; the service tries again by itself.",
)

BACK_REFUSED = Finding(
    code="Z2K-4216",
    says="{node} cannot go back alone: {reason}.",
    means="The node stays as it is. `zk2kraft resume` tries its step again.",
    remedy="Correct what the message names, then `zk2kraft back` again. Under stock controllers, `zk2kraft rollback` "
    "takes all nodes back.",
)

CANARY_OVER_BUDGET = Finding(
    code="Z2K-4217",
    says="The canary traffic is over its error budget: {reason}.",
    means="Producers of the cluster may see the same. No further node is stopped.",
    remedy="Find out which broker does not answer. The next restart waits until ten minutes are within the budget.",
)

FILES_NOT_READ = Finding(
    code="Z2K-4218",
    says="The file of {node} is not read: {reason}.",
    means="Whether it is what was rendered is not known. Steps that restart controllers wait.",
    remedy="Give its actuator a way to read it, or waive it for this node in the inventory (Z2K-4218) with a reason.",
    severity=Severity.WARNS,
)

CLUSTER_LOCKED = Finding(
    code="Z2K-4219",
    says="Another service restarts nodes of this cluster ({path}: {holder}).",
    means="Two services that restart nodes could stop two at one time. This one stops none.",
    remedy="Let one service lead this cluster, and stop the other one. The lock ends with the session of its holder.",
)

CLUSTER_LOCK_LOST = Finding(
    code="Z2K-4220",
    says="The lock of this cluster cannot be held: {reason}.",
    means="Whether another service restarts nodes is not known, so no node is stopped.",
    remedy="Check that ZooKeeper answers. The service tries again by itself.",
)

BACKUP_NOT_OPENED = Finding(
    code="Z2K-4221",
    says="The backup {file} cannot be opened: {reason}.",
    means="Nothing of it was restored.",
    remedy="Compare its SHA-256 with the one that the service shows, and give the key that `backup_key` named then.",
)

ZOOKEEPER_STILL_REACHABLE = Finding(
    code="Z2K-4226",
    says="ZooKeeper at {connect} is still reachable, and the migration is COMPLETED.",
    means="Nothing of the cluster needs it. A broker that somebody starts in ZooKeeper mode by mistake finds it, and "
    "serves the metadata of before with the same broker id.",
    remedy="Make ZooKeeper unreachable for brokers, and stop it. Where other applications use the ensemble, take only "
    "the chroot from Kafka, as the runbook says. Do not delete `/controller`.",
    severity=Severity.WARNS,
)

LATER_KAFKA = Finding(
    code="Z2K-4232",
    says="{node} runs a Kafka without ZooKeeper (metadata.version {lowest} to {highest}), and the migration is not "
    "COMPLETED.",
    means="Nothing is lost before such a controller leads. When it leads, nothing goes to ZooKeeper any more, and its "
    "snapshots forget the migration. Such a broker has no ZooKeeper mode to go back to. No step forward begins.",
    remedy="Put Kafka 3.9 back on this node before it leads; file and command stay. A controller that wrote a snapshot "
    "meanwhile needs an empty metadata directory as well. Hold the package or the image until COMPLETED.",
)

LATER_KAFKA_LEADS = Finding(
    code="Z2K-4233",
    says="Dual-write has ended, and there is no way back: {reason}.",
    means="Nothing goes to ZooKeeper, and brokers in ZooKeeper mode hear of no change. Producers and consumers work on "
    "while leaders and replicas need no change there.",
    remedy="Stop that controller, and do not start it again on its directory. If another controller still has the "
    "migration in its log, it leads on, ZooKeeper is brought up to date, and the way back opens. The runbook has the "
    "steps, also for a log without migration.",
)

LOSS_NOT_ACCEPTED = Finding(
    code="Z2K-4230",
    says="Nobody consented to what the rollback loses: {lost}.",
    means="ZooKeeper has no form for it. After the rollback it is gone.",
    remedy="Write it down or remove it. Then `zk2kraft approve --to ROLLING_BACK` consents to this list for 4 hours.",
)

FILE_OF_BEFORE_LOST = Finding(
    code="Z2K-4231",
    says="The previous file of {node} is not kept: {reason}.",
    means="The node could not go back with its own settings. Nothing was stopped.",
    remedy="Restore that file beside the present one from the service's backup before the node was changed, under the "
    "same name.",
)

NODE_HOLDS_WAY_BACK = Finding(
    code="Z2K-4237",
    says="{node} cannot go back now: {reason}.",
    means="The other nodes go back before it. The rollback does not end before this node is back, or is left out by "
    "name.",
    remedy="Bring its host back. If the node is lost, leave it out: a waiver Z2K-4237 for this node in the inventory, "
    "with owner, reason and end.",
)

NODE_NOT_AS_JOURNAL = Finding(
    code="Z2K-4239",
    says="{node} is not as the journal says: the journal says {step}, and {found}.",
    means="The service stopped or changed it and its database lost that, or somebody else did. Nothing else is touched "
    "until that is clear.",
    remedy="Look at the node. The runbook says which command goes on with it, and which one brings it back.",
)

SCRAM_AT_STAKE = Finding(
    code="Z2K-4224",
    says="A node that starts on this log may lose the SCRAM credentials of {users}.",
    means="Kafka 3.5 to 4.4 replay a removed credential wrongly where no other of its mechanism was known before, and "
    "lose those that were set beside it (Z2K-5011). No node is stopped for the migration meanwhile.",
    remedy="Remove no more users. Follow this code's page: under zk2kraft controllers the log can be mended; under "
    "stock controllers wait for snapshots, check each directory with `zk2kraft log check`, and waive this code then.",
)

STOCK_WRITES_NOTHING = Finding(
    code="Z2K-4244",
    says="Stock controller {node} leads and writes nothing to ZooKeeper: {records} records are missing there for "
    "{seconds} s, and ZooKeeper answers.",
    means="Dual-write stands still, and so does every step that needs it. No data is affected: KRaft goes on. After a "
    "connection to ZooKeeper that ended in the middle of a write, Kafka's migration driver tries the same write again "
    "with a version of /migration that is too old, without end.",
    remedy="Restart that controller; another one leads then and writes what is missing.",
)

NODE_LEFT_OUT = Finding(
    code="Z2K-4238",
    says="{node} is left out of the way back, by {owner} ({reason}).",
    means="Its process, its files and its directories are as the migration left them. It is no node of the cluster "
    "that went back.",
    remedy="Before it is ever started again: its file from before, and `meta.properties` of version 0, as the runbook "
    "says.",
    severity=Severity.WARNS,
)

SOAK_WITHOUT_DISK = Finding(
    code="Z2K-4215",
    says="The snapshots of controller {node} cannot be listed.",
    means="Whether a stock controller wrote a snapshot is not known, so the soak does not end.",
    remedy="Give its actuator a `list` template, or waive it for this node in the inventory.",
    severity=Severity.WARNS,
)

BROKERS_DIFFER = Finding(
    code="Z2K-4241",
    says="The inventory and the cluster do not have the same brokers: {reason}.",
    means="A broker that the inventory lacks would stay in its mode, and one that the cluster lacks would be restarted "
    "although nobody knows whose it is. No step begins.",
    remedy="Add the broker to the inventory, or take out one that was removed. Where it is decommissioned, remove its "
    "registration as the runbook says.",
)

SERVICE_COPIED = Finding(
    code="Z2K-4243",
    says="A service with the identity of this one restarts nodes of this cluster ({path}: {holder}).",
    means="The directory of one service was copied: a cloned machine, a volume that was put back elsewhere, a standby. "
    "Both run. This one stops no node.",
    remedy="Stop one of the two for good. Only where both are meant: stop this one, delete `identity` in its "
    "directory, and start it again. It is another service then.",
)

NEEDS_EVERY_REPLICA = Finding(
    code="Z2K-4242",
    says="{count} partitions need all of their replicas for a write with acks=all (min.insync.replicas), such as "
    "{first}; by broker: {brokers}. {minimum}.",
    means="While any broker of such a partition restarts, nobody can write to it with acks=all; it can be read. A "
    "migration restarts every broker at least once.",
    remedy="Lower min.insync.replicas, or add a replica with kafka-reassign-partitions. Or let the owner accept it, "
    "once for all of them: a waiver Z2K-4242 in the inventory, with owner, reason and end. Without it no broker is "
    "restarted.",
    severity=Severity.WARNS,
)

RACK_ONE_BY_ONE = Finding(
    code="Z2K-4240",
    says="Rack {rack} is restarted one broker after the other: {reason}.",
    means="The inventory asks for a rack at a time. A rack is stopped as a whole only while every partition keeps its "
    "minimum ISR on brokers outside of it. Nothing is wrong with the restart; it takes longer.",
    remedy="None needed. To have it faster, give these partitions enough replicas outside of the rack with "
    "kafka-reassign-partitions, and pause before that rack meanwhile.",
    severity=Severity.WARNS,
)

STOCK_STANDS_STILL = Finding(
    code="Z2K-4246",
    says="Stock controller {node} has the claim and goes no further for {seconds} s: {sign} (K-{flaw}).",
    means="Kafka's own migration driver stands. Until it goes on nobody is an active controller for brokers in "
    "ZooKeeper mode: no leader is elected, and no administrator changes anything.",
    remedy="Restart that controller, so that another one leads in a later Raft epoch and begins the same step anew.",
)

STOCK_CANNOT_COMPARE = Finding(
    code="Z2K-4247",
    says="The log has configuration that ZooKeeper has no form of: {what} (K-11).",
    means="Kafka's own controllers compare log and ZooKeeper at each change of the leader. With such an entry that "
    "comparison never ends, and from then on nothing is written to ZooKeeper.",
    remedy="Take the entry out before the next election, as the runbook says, and set it again after COMPLETED.",
)
