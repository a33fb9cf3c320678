"""Nodes as somebody operates them, their inventory, files and acts: Z2K-7xxx."""

from __future__ import annotations

from migrator.findings.finding import Finding, Severity

INVENTORY_UNREADABLE = Finding(
    code="Z2K-7001",
    says="The inventory {file} cannot be read: {reason}.",
    means="Without an inventory it is not known which nodes there are. Nothing was started or changed.",
    remedy="Correct the file; `zk2kraft inventory check FILE` reads it again. docs/inventory.md has an example.",
)

INVENTORY_INVALID = Finding(
    code="Z2K-7002",
    says="{file}: {where}: {reason}.",
    means="The inventory contradicts its schema or itself, so no step can rely on it.",
    remedy="Correct the named place. docs/reference/inventory.schema.json lists every field.",
)

STRIMZI_MANAGED = Finding(
    code="Z2K-7003",
    says="{file}: {where}: Strimzi manages this cluster ({sign}).",
    means="The operator writes these files and restarts these pods. Two that restart brokers break the cluster.",
    remedy="Use Strimzi's own procedure (0.40 to 0.45): make a KafkaNodePool with the role `controller`, annotate the "
    "Kafka resource with `strimzi.io/kraft: migration`, wait for KRaftPostMigration, then set it to `enabled`.",
)

CFK_MANAGED = Finding(
    code="Z2K-7004",
    says="{file}: {where}: Confluent for Kubernetes manages this cluster ({sign}).",
    means="The operator writes these files and restarts these pods. Two that restart brokers break the cluster.",
    remedy="Use the operator's own procedure: deploy a KRaftController resource and apply a KRaftMigrationJob that "
    "names Kafka, ZooKeeper and that controller.",
)

OPERATOR_MANAGED = Finding(
    code="Z2K-7005",
    says="{file}: {where}: a Kubernetes operator manages this cluster ({sign}).",
    means="The operator writes these files and restarts these pods. Two that restart brokers break the cluster.",
    remedy="Follow the migration procedure of that operator. Without one, take the pods out of its management first.",
)

STATEFULSET_UNSAFE = Finding(
    code="Z2K-7006",
    says="{file}: {where}: {reason}.",
    means="A StatefulSet that restarts pods by itself, shares one file or drops volumes cannot go node by node.",
    remedy="Set `updateStrategy.type: OnDelete`, give each ordinal a file of its own, and set "
    "`persistentVolumeClaimRetentionPolicy` to `Retain`. Then correct the inventory.",
)

INVENTORY_HOLDS_SECRET = Finding(
    code="Z2K-7007",
    says="{file}: {where} holds a secret, not a reference.",
    means="An inventory is kept in the database and in backups, so it may not contain a secret.",
    remedy="Write `file:PATH`, `exec:COMMAND` or `systemd:NAME` there. Change the secret if the file was shared.",
)

WAIVER_ENDED = Finding(
    code="Z2K-7008",
    says="{file}: {where}: the waiver for {what} of node {node} ended at {end}.",
    means="What was accepted for a time is accepted no longer, so its gate closes again.",
    remedy="Mend what the waiver accepts, or let its owner extend `end` with a new reason.",
)

IMPORT_INCOMPLETE = Finding(
    code="Z2K-7009",
    says="{where} is not in the imported files: {reason}.",
    means="The inventory was written with what the files have. `inventory check` says what has to be filled in.",
    remedy="Fill in the named place by hand, or import again with the server.properties of each node.",
    severity=Severity.WARNS,
)

SECRET_NOT_RESOLVED = Finding(
    code="Z2K-7010",
    says="The secret {reference} cannot be read: {reason}.",
    means="What needs the secret was not done. The secret itself is in no message.",
    remedy="Make the file, command or systemd credential readable for the user of the service, and for no other user.",
)

TEMPLATE_REFUSED = Finding(
    code="Z2K-7020",
    says="The actuator template {file} is refused: {reason}.",
    means="A template says which commands run on hosts. Only files that the service's owner wrote are used.",
    remedy="Correct the template. It belongs to the service's user or root, only its owner may write it, and it lies "
    "in the directory of templates.",
)

ACT_FAILED = Finding(
    code="Z2K-7021",
    says="{act} of node {node} failed: {reason}.",
    means="The command of the actuator did not succeed. It is not known whether it had an effect.",
    remedy="Run the command of the template by hand on that host, correct the cause, and repeat the step.",
)

HOST_NOT_REACHED = Finding(
    code="Z2K-7046",
    says="{act} of node {node} got no answer: {reason}.",
    means="The connection was lost, or the command could not be started. It says nothing about the node, and it is not "
    "known whether the act had an effect. The act is repeated by itself.",
    remedy="None needed while it passes. If it stays, run the command of the template by hand as the service's user.",
    severity=Severity.WARNS,
)

ACT_TOO_SLOW = Finding(
    code="Z2K-7022",
    says="{act} of node {node} did not end within {seconds} s.",
    means="The command was ended. It is not known whether it had an effect on the host.",
    remedy="Look at the node by hand. If the act only needs longer, raise its `timeout_s` in the template or in "
    "`timeouts` of the inventory.",
)

ACT_TOO_MUCH_OUTPUT = Finding(
    code="Z2K-7023",
    says="{act} of node {node} printed more than {bytes_max} bytes.",
    means="The command was ended and its output was not used.",
    remedy="Check that the path names a configuration file. Raise `output_bytes_max` in the template if it does.",
)

FILE_ABSENT = Finding(
    code="Z2K-7024",
    says="{path} does not exist on node {node}.",
    means="The inventory names a file or directory that the node does not have.",
    remedy="Correct the path in the inventory, or put the file back from its kept predecessor.",
)

NOT_FROZEN = Finding(
    code="Z2K-7025",
    says="{file}: {where}: nothing says that configuration management is frozen for this node.",
    means="Ansible or Puppet could write an older file over a rendered one, and restart the node.",
    remedy="Stop its runs for these files and write `frozen` with tool, by and since into the inventory.",
)

EVIDENCE_REFUSED = Finding(
    code="Z2K-7026",
    says="The evidence {file} is refused: {reason}.",
    means="The step is not taken for done.",
    remedy="Write the evidence again as README.txt of its bundle says.",
)

PROPERTIES_UNREADABLE = Finding(
    code="Z2K-7030",
    says="{file} is no properties file: {reason}.",
    means="Kafka cannot read the file either, so nothing was rendered from it.",
    remedy="Correct the named place and repeat.",
)

PROPERTIES_KEY_TWICE = Finding(
    code="Z2K-7031",
    says="{file} has {key} {times} times; the last one counts.",
    means="Java keeps the last value. A person who edits the first one changes nothing.",
    remedy="Remove all but the one that is meant.",
    severity=Severity.WARNS,
)

RENDER_REFUSED = Finding(
    code="Z2K-7032",
    says="{file} cannot become the {kind} file: {key}: {reason}.",
    means="The result would not start, would start another kind of node, or would never join. Nothing was written.",
    remedy="Correct the file or the inventory, and render again.",
)

RENDER_UNSURE = Finding(
    code="Z2K-7033",
    says="{file}, as {kind} file: {key}: {reason}.",
    means="The rendered file keeps this key. It is not known whether it does in KRaft what it does now.",
    remedy="Try the rendered file on one test node, or ask the owner of the plug-in.",
    severity=Severity.WARNS,
)

METADATA_DIRECTORY_SHARED = Finding(
    code="Z2K-7034",
    says="{file}: the broker's metadata directory {directory} is the same as or inside {other} of controller {node}.",
    means="A broker in migration mode deletes its metadata log at each start. It would delete the controller's.",
    remedy="Give the broker a `metadata.log.dir` of its own, formatted, outside every controller's directory.",
)

KAFKA_REFUSES_FILE = Finding(
    code="Z2K-7035",
    says="Kafka does not accept {file}: {reason}.",
    means="Kafka's own parser refused the rendered file. A node would not start with it.",
    remedy="Correct the named key in the present file and render again.",
)

DRIFT_FOUND = Finding(
    code="Z2K-7036",
    says="{path} of node {node} is not what was rendered: {keys}.",
    means="Somebody or something changed the file. With the next restart the node would run differently from the plan.",
    remedy="Find out who wrote it (configuration management?). Render and write it again, or take the change over.",
)

WRITE_NOT_VERIFIED = Finding(
    code="Z2K-7037",
    says="{path} of node {node} has other content than what was written: {reason}.",
    means="The actuator said that the file was written, and the file that was read afterwards is different.",
    remedy="Look at the file. Its predecessor is beside it. Check the `write` act of the template, then repeat.",
)

FILE_MOVED = Finding(
    code="Z2K-7038",
    says="{path} of node {node} changed after it was rendered from.",
    means="The rendered file would undo somebody's change. Nothing was written.",
    remedy="Render again from the present file, look at the difference, and repeat.",
)

GUARD_NOT_PROVEN = Finding(
    code="Z2K-7040",
    says="The guard of node {node} is not proven: {reason}.",
    means="A stock controller that starts without the migration flag can end the migration for good.",
    remedy="Install docker/guard/zk2kraft-guard on that host as docs/inventory.md says, then repeat the proof.",
)

GUARD_REFUSES = Finding(
    code="Z2K-7041",
    says="The guard does not start {file}: {reason}.",
    means="Without zookeeper.metadata.migration.enable=true this controller could finalize the migration by accident.",
    remedy="Put the rendered file back (its predecessor is beside it). Only the phase FINALIZING removes the guard.",
)

KAFKA_WITHOUT_ZOOKEEPER = Finding(
    code="Z2K-7042",
    says="The guard does not start {file}: {jar} is of a Kafka without ZooKeeper.",
    means="Kafka 4.0 and later ignore zookeeper.metadata.migration.enable. As leader such a controller ends "
    "dual-write, and its snapshots forget the migration.",
    remedy="Put Kafka 3.9 back where the start command takes its jars from, and hold the package or the image until "
    "COMPLETED.",
)

LOGIN_MISSING = Finding(
    code="Z2K-7051",
    says="{file} has no login for the controllers: {key} is missing or empty, and {other} is in the file.",
    means="The controllers want SASL. A broker whose file has logins for its other listeners only ends at its start: "
    "no 'KafkaServer' entry in a JAAS configuration. Kafka's parser does not see it. Nothing was written.",
    remedy="Add the named key with the login that the broker has on the controllers, then render again.",
)

IMPORT_CONTRADICTS = Finding(
    code="Z2K-7048",
    says="{file}: {key} is {value}, and {other} says {present}.",
    means="Files of one cluster agree about it. The import took neither value, so its result is refused.",
    remedy="Leave a file of another cluster out. Else find out which value is right, correct the other file, and "
    "import again.",
)

ANSIBLE_UNREADABLE = Finding(
    code="Z2K-7049",
    says="{file} is not read as an Ansible inventory: {reason}.",
    means="Only Ansible itself knows which hosts and variables an inventory has. Nothing of it was taken.",
    remedy="Where Ansible is installed, run `ansible-inventory -i INVENTORY --list > hosts.json`, and import again "
    "with `--ansible hosts.json`. Without Ansible, give the properties file of each node.",
)

ANSIBLE_WARNED = Finding(
    code="Z2K-7062",
    says="{file}: ansible-inventory warns: {reason}",
    means="Ansible went on without something, or took one of two values. What it took is what was imported.",
    remedy="Compare the named line with the draft. A key that overrides the one of an anchor (`<<: *name`) is right, "
    "though Ansible calls it a duplicate.",
    severity=Severity.WARNS,
)

IMPORT_PLACEHOLDER = Finding(
    code="Z2K-7050",
    says="{file}: {where}: {key} is {value}, which has yet to be filled in.",
    means="A template, a vault or a config provider knows the value. Taken as it is, it would be a wrong host or a "
    "wrong directory.",
    remedy="Write the value itself in the named place of the inventory, or import again with the properties file as it "
    "is on that host.",
)

TRANSFER_NOT_PROVEN = Finding(
    code="Z2K-7043",
    says="{file}: nobody compares the bytes of {acts} on both sides of the connection.",
    means="A connection that breaks in the middle of such an act can leave a cut file on the host, or pass one for "
    "whole.",
    remedy="Take the act over from the template of the same kind in docker/actuators (docs/inventory.md).",
    severity=Severity.WARNS,
)

TRANSFER_CUT = Finding(
    code="Z2K-7044",
    says="{act} of node {node}: what arrived is not what was sent: {reason}.",
    means="The connection broke, or something changed the bytes on their way. They were not used.",
    remedy="Look why the connection breaks. The act is repeated by itself for a while; after that, repeat the step. "
    "The file on the host was not changed by this act.",
)

FILE_IS_NEITHER = Finding(
    code="Z2K-7052",
    says="{path} is neither the file that was looked at before the stop (SHA-256 {before}) nor the one that was to be "
    "written ({wanted}): it is {found}. It differs from the first in {keys}.",
    means="Somebody changed it while the node was stopped. A file that a lost connection cut is repaired by itself. "
    "Nothing was written.",
    remedy="Compare it with the file that is kept beside it (its name ends with `.zk2kraft-` and 16 digits). Put that "
    "one into its place and repeat the step, or send the node back to its previous file.",
)

FILE_CONFLICT = Finding(
    code="Z2K-7045",
    says="{file}: {key} was {before} before the migration, {written} was written, and {found} is there now.",
    means="Somebody changed a key that the migration changes too. Nobody but a person knows which value is meant.",
    remedy="Put the value that was written, or the one from before, into the file, and repeat the step.",
)

HOSTS_TOO_SLOW = Finding(
    code="Z2K-7054",
    says="A reading of all hosts takes {seconds} s, and no gate rests on answers that are older than {limit} s.",
    means="Files and guards would be known too late to decide by, so the gates that rest on them stay closed.",
    remedy="Let ssh share connections, take `read_many` over from docker/actuators, and raise `hosts_at_once` "
    "(docs/inventory.md, Many hosts). A small `drift_every_s` helps as well.",
)

HOST_UNANSWERED = Finding(
    code="Z2K-7055",
    says="The host of {node} has not answered for {seconds} s.",
    means="Other hosts are read and decided on meanwhile. What this host said before counts until it is too old.",
    remedy="Run the command `read` of the template by hand as the service's user, and look why the host hangs.",
    severity=Severity.WARNS,
)

INVENTORY_NOT_OWNED = Finding(
    code="Z2K-7047",
    says="The inventory {file} is refused: {reason}.",
    means="It names commands, hosts and files, so whoever can write it runs commands as the service. Nothing of it was "
    "used.",
    remedy="Give the file and its directories to the service's user or root, writable for the owner alone (`chmod "
    "go-w`). See first who changed it.",
)

NODE_IS_ANOTHER = Finding(
    code="Z2K-7056",
    says="The host of {node} contradicts the inventory: {where} has {what} {found}, and {expected} is expected.",
    means="The inventory names a host, a file or a directory of another node or of another cluster. An act on it would "
    "stop or convert the wrong one. Nothing was stopped or written.",
    remedy="Find out which of the two values is right. Correct the inventory, or the host, then `zk2kraft resume`.",
)

CONTROLLER_FILES_DIFFER = Finding(
    code="Z2K-7057",
    says="The two inventories name different files for {node}: {path} and {other} differ in {keys}.",
    means="Our controller runs with the second one, and stock would run with the first one. After a rollback nothing "
    "would keep stock from starting beside the retired log.",
    remedy="Name one file in both: `properties` of the controller in the inventory file, and in the migration. A copy "
    "of a controller elsewhere has to be copied again.",
)

EXCHANGE_SHARED = Finding(
    code="Z2K-7059",
    says="The exchange {exchange} has steps of node {node} for the cluster {other}, not for {cluster}.",
    means="Two clusters share one exchange, so that a person could carry out the step of the wrong one. Nothing is "
    "asked for and nothing is read there.",
    remedy="Give each inventory an `exchange` of its own, and move the steps of the other cluster away.",
)

CLIENT_LACKS_GSSAPI = Finding(
    code="Z2K-7061",
    says="{cluster}: cluster.security wants GSSAPI, and the Kafka client of this service ({version}) has none.",
    means="Canary traffic uses confluent-kafka. The packages of its makers have no Kerberos, so its gate stays closed. "
    "Controllers, audits and the observation of log and replicas have a client of their own.",
    remedy="Let bootstrap_servers and security name a listener with SCRAM, OAUTHBEARER or certificates; or build "
    "confluent-kafka with Kerberos; or leave canary out.",
)

COPY_WANTED = Finding(
    code="Z2K-7060",
    says="A copy of {path} of node {node} on {host} is wanted as {copy}: {reason}.",
    means="The service does not reach this host. It knows the file only from a copy that somebody puts there.",
    remedy="Copy the file from the host without keeping its time (`scp`, not `scp -p`). Where there is no such file on "
    "the host, create an empty file of the same name with `.absent` behind it.",
)

RELEASE_NOT_PLANNED = Finding(
    code="Z2K-7070",
    says="No way is planned for Kafka {release}: {reason}.",
    means="A plan leads from a release with ZooKeeper through 3.6.2 to 3.9, where the migration is, to 4.0 to 4.4.",
    remedy="Correct `kafka` in the inventory, or --through and --to of `zk2kraft plan`.",
)
