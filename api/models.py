"""What goes over the wire: every field with the help text that people see beside it.

In:   nothing. Out: models of requests and answers; the page shows the very same objects.
Elsewhere: filling them from rows (views.py), the addresses (`rest/`), the page (`pages/`).
Times are wall times in seconds since 1970 unless a name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from migrator.model.connect_string import BROKER_ADDRESSES_MAX
from migrator.model.printable import OBEYED
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.fleet_evidence import UNNAMED
from state_machine.policy.outcome import OutcomeKind
from state_machine.policy.phases import Phase

Item = TypeVar("Item")
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="name of the cluster; a form asks for it before each step",
        examples=["orders-prod"],
    ),
]
FilePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f]{1,1000}$", examples=["/etc/kafka/controller-3000.properties"])]
RemoteAddress = Annotated[
    str,
    Field(
        pattern=r"^(https://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5})?$",
        max_length=300,
        examples=["https://kafka-controller-1:9643"],
    ),
]
RAISE: Final = r"^[a-z][a-z.]{0,99}=[0-9]{1,5}$"
SHOWN: Final = f"^[^{OBEYED}]*$"
"""Without characters that a terminal obeys: it is printed before somebody who approves."""
Who = Annotated[
    str, Field(min_length=1, max_length=100, pattern=SHOWN, description="who requests it; kept in the history")
]
Why = Annotated[str, Field(max_length=1000, pattern=SHOWN, description="why; kept in the history")]
NodeId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Engine = Literal["spark", "quick"]


class Request(BaseModel):
    """A body; keys that do not exist are refused."""

    model_config = ConfigDict(extra="forbid")


class ControllerIn(Request):
    node_id: NodeId = Field(description="node.id of this controller")
    properties: FilePath = Field(description="its properties file, with zk2kraft.gates=pause")
    data: FilePath = Field(description="its metadata log directory, formatted")
    control: RemoteAddress = Field(
        default="",
        description="of a controller on another host: its control port; properties is a copy of its file on this host",
    )


class BrokerIn(Request):
    id: NodeId = Field(description="broker.id")
    host: str = Field(default="", max_length=255, pattern=SHOWN, description="where it runs; only shown")
    note: str = Field(default="", max_length=500, pattern=SHOWN, description="a note for people; only shown")


def _controllers_differ(controllers: list[ControllerIn]) -> list[ControllerIn]:
    if len({each.node_id for each in controllers}) != len(controllers):
        raise ValueError("a node_id occurs twice")
    return controllers


def _brokers_differ(brokers: list[BrokerIn]) -> list[BrokerIn]:
    if len({each.id for each in brokers}) != len(brokers):
        raise ValueError("a broker id occurs twice")
    return brokers


ZooKeeperConnect = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5}(,[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5})*(/[!-~]*)?$",
        max_length=2000,
        description="HOST:PORT[,HOST:PORT][/chroot], as the brokers have it",
        examples=["zk1:2181,zk2:2181,zk3:2181/kafka"],
    ),
]
BootstrapServers = Annotated[
    str,
    Field(
        pattern=r"^[!-~]+$",
        max_length=BROKER_ADDRESSES_MAX,
        description="HOST:PORT[,HOST:PORT] of brokers",
        examples=["kafka1:9092"],
    ),
]
Controllers = Annotated[
    list[ControllerIn],
    AfterValidator(_controllers_differ),
    Field(min_length=1, max_length=5, description="the voters; every one is a zk2kraft controller"),
]
Brokers = Annotated[
    list[BrokerIn],
    AfterValidator(_brokers_differ),
    Field(max_length=1000, description="brokers that must be registered"),
]


class InventoryIn(Request):
    """The cluster to migrate, and the controllers that take it over."""

    name: Name
    zookeeper: ZooKeeperConnect
    bootstrap_servers: BootstrapServers
    controllers: Controllers
    brokers: Brokers = []
    audit_engine: Engine | None = Field(default=None, description="for rehearsals; absent: the service's setting")
    engine: ControllerEngine = Field(
        default=ControllerEngine.OURS,
        description="whose controllers take over: zk2kraft's, or Kafka 3.9's own (stock)",
    )


class ChangeIn(Request):
    """A change of the inventory; absent fields stay. Possible until controllers are started."""

    name: Name | None = None
    zookeeper: ZooKeeperConnect | None = None
    bootstrap_servers: BootstrapServers | None = None
    controllers: Controllers | None = None
    brokers: Brokers | None = None
    audit_engine: Engine | None = Field(default=None, description="for rehearsals")
    expected_version: int | None = Field(
        default=None, ge=1, le=2**31 - 1, description="refused if the migration has another version"
    )
    reason: Why = ""
    who: Who = UNNAMED


class ActionIn(Request):
    """An operation. All fields are optional; each one given protects against a misunderstanding."""

    to: Phase | None = Field(default=None, description="the phase you expect; refused if the step leads elsewhere")
    expected_version: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="the version that you saw; refused if the migration has another version now",
    )
    reason: Why = ""
    who: Who = UNNAMED
    digest: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{12,64}$",
        description="`approve` needs it: SHA-256 of what was read (`GET .../agreement`)",
    )
    feature: str | None = Field(
        default=None,
        pattern=RAISE,
        description="of `finalize-version`, and of `approve` to COMPLETED: the feature and its level, such as "
        "group.version=1; absent: metadata.version at the highest level that every node supports",
    )


class AuditIn(Request):
    engine: Engine | None = Field(default=None, description="absent: the migration's own engine")
    who: Who = UNNAMED


# --- answers ----------------------------------------------------------------------------------------------


class ConditionView(BaseModel):
    name: str = Field(description="what must be true")
    status: Literal["True", "False", "Unknown"] = Field(description="whether it is true now")
    message: str = Field(description="what is true now")
    codes: list[str] = Field(description="findings behind it; each has a runbook")


class VerdictView(BaseModel):
    holds: bool = Field(description="whether every condition is True")
    conditions: list[ConditionView] = Field(description="every condition, with its message")


class FieldFault(BaseModel):
    where: list[str] = Field(description="the way to the field: body, controllers, 0, node_id")
    says: str = Field(description="what is wrong with it")


class Problem(BaseModel):
    """RFC 9457 problem details, with the finding behind it."""

    type: str = Field(description="urn of the finding")
    title: str = Field(description="what it means")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what happened, with values")
    instance: str = Field(description="the address of the request")
    code: str = Field(description="the finding's code")
    remedy: str = Field(description="what to do")
    runbook: str = Field(description="its page")
    conditions: list[ConditionView] = Field(default=[], description="every condition that is not True")
    possible: list[str] = Field(default=[], description="operations that are possible instead")
    errors: list[FieldFault] = Field(default=[], description="what was wrong with the request, field by field")


class EdgeView(BaseModel):
    trigger: str = Field(description="the step, in the words of the command line")
    by: Literal["a person", "the service", "the driver"] = Field(description="who takes the step")
    to: Phase = Field(description="where it leads")
    holds: bool = Field(description="whether its gate is open")
    conditions: list[ConditionView] = Field(description="every condition of its gate, with its message")
    command: str = Field(description="what an operator types; empty when the step comes by itself")
    irreversible: bool = Field(default=False, description="nothing leads back after this step")


class StepView(BaseModel):
    phase: Phase = Field(description="the phase")
    state: Literal["done", "now", "ahead"] = Field(description="whether it was reached")
    at: float | None = Field(description="when it was entered last")
    note: str = Field(description="why it was entered, or why nothing happens now")


class ActiveControllerView(BaseModel):
    kind: str = Field(description="what holds /controller in ZooKeeper")
    node_id: int | None = Field(description="id of the controller; once stock leads, of the leader by the metadata log")
    since: float | None = Field(description="since when, as /controller says")
    controller_epoch: int | None = Field(description="/controller_epoch")
    kraft_epoch: int | None = Field(description="leader epoch of a KRaft controller; none for a broker")
    says: str = Field(description="the same for people")


class BrokerView(BaseModel):
    id: int = Field(description="broker id")
    registered: bool | None = Field(description="registered with the KRaft controllers; none while nobody says")
    mode: str = Field(description="ZooKeeper or KRaft; empty while nobody says")
    epoch: int | None = Field(description="broker epoch of its registration")
    fenced: bool | None = Field(description="a fenced broker gets no leadership")
    heartbeat_age_ms: int | None = Field(description="time since its last heartbeat")
    metadata_version: list[int] | None = Field(description="lowest and highest level that it supports")
    listeners: list[str] = Field(description="where it listens")
    log_dirs: int | None = Field(description="number of log directories")
    updated: bool | None = Field(description="it acknowledged the full update of its present epoch")
    requests_waiting: int | None = Field(description="our requests that it has not answered")
    problem: str = Field(description="why it is not ready; empty when it is")
    note: str = Field(description="host and note of the inventory")


class DenialView(BaseModel):
    """Requests that a controller denied in the last minutes."""

    principal: str = Field(description="who asked")
    operation: str = Field(description="what it lacks on the cluster, as kafka-acls.sh writes it")
    requests: list[str] = Field(description="kinds of requests that were denied")
    host: str = Field(description="where the last one came from")
    count: int = Field(description="how many were denied")
    since: float = Field(description="when the first one was")
    last: float = Field(description="when the last one was")


class ControllerView(BaseModel):
    node_id: int = Field(description="node id")
    kind: Literal["zk2kraft", "stock"] = Field(default="zk2kraft", description="whose process is or will be there")
    answers: bool = Field(description="ours: its control port answers; stock: it leads, or follows the leader")
    leads: bool = Field(description="whether it leads the quorum")
    driver: str = Field(description="state of its driver")
    epoch: int | None = Field(description="leader epoch")
    high_watermark: int | None = Field(description="everything below it is committed")
    log_end: int | None = Field(description="the next offset that it would write")
    observers: dict[str, int] = Field(description="brokers that follow the log, with the offset they reached")
    loop_delay_ms: float | None = Field(description="how late its loop was at worst in the last ten seconds")
    loop_work_ms: float | None = Field(description="the same without the time in which it waited for a processor")
    pid: int | None = Field(description="its process")
    problem: str = Field(description="why it does not answer")
    ready: bool = Field(default=True, description="it is as this phase wants it")
    denials: list[DenialView] = Field(description="principals whose requests it denies, and the missing operation")
    log: str = Field(description="the log file of the process that the service started")


class FeatureGroupView(BaseModel):
    """Nodes that support the same levels of metadata.version and are in the same case."""

    case: str = Field(description="A to G (docs/feature-levels.md)")
    nodes: list[str] = Field(description="brokers and controllers, by kind and number")
    metadata_version: list[int] | None = Field(description="lowest and highest level; none: not known")
    stands_in_the_way: bool = Field(description="of this migration, or of another level")
    holds: str = Field(description="what the case means")
    remedy: str = Field(description="what an operator does")


class FeaturesView(BaseModel):
    """Feature levels, from what the service observes anyway; `zk2kraft features` tells more."""

    case: str = Field(description="case of the cluster, A to G (docs/feature-levels.md)")
    effective: str | None = Field(description="the metadata.version that counts; none: no log has one yet")
    others: list[str] = Field(description="other finalized features with their levels, as the log has them")
    remedy: str = Field(description="what an operator does")
    nodes: list[FeatureGroupView] = Field(description="every node that is known, grouped")


class DualWriteView(BaseModel):
    offset: int | None = Field(description="up to here ZooKeeper has what the log has")
    log_offset: int | None = Field(description="the last committed record")
    lag_records: int | None = Field(description="records that ZooKeeper does not have yet")
    behind_ms: int = Field(description="age of the oldest record that ZooKeeper does not have yet")
    blocking_ms: int = Field(description="how long administrators' changes have been refused for that")
    divergence: str = Field(description="WITHIN the declared limits, NEAR one (half of it), or OVER")
    lag_ms: float | None = Field(description="how long the last write to ZooKeeper took after its commit")
    multis_waiting: int | None = Field(description="writes on their way to ZooKeeper")
    reconciled_writes: int | None = Field(description="differences that were written at the last reconcile")


class FamilyView(BaseModel):
    family: str = Field(description="kind of metadata")
    compared: int = Field(description="keys compared")
    equal: int = Field(description="equal on both sides")
    expected: int = Field(description="expected differences")
    different: int = Field(description="differences that no rule expects")
    not_read: int = Field(description="could not be read; never passed")


class BrokerLagView(BaseModel):
    """How far a broker's copy of the metadata log is behind, as the quorum's leader says."""

    offsets: int = Field(description="records that it has not read yet")
    ms: int = Field(description="milliseconds since it last had everything; -1: not known")
    beyond: bool = Field(description="it is more than a healthy broker ever is")


class AskedBrokerView(BaseModel):
    broker: int = Field(description="id of the broker")
    mode: Literal["ZooKeeper", "KRaft", ""] = Field(description="how it runs; empty: it told nothing itself")
    result: Literal["passed", "diverged", "incomplete"] = Field(
        description="it says what the log says, contradicts it, or did not tell all"
    )
    problem: str = Field(description="why it gave no answer; empty: it did")
    compared: int = Field(description="keys compared")
    different: int = Field(description="keys in which it contradicts the log")
    refused: str = Field(description="the first kind of metadata that it did not tell, and why; empty: it told all")
    listed_at_ms: int = Field(default=0, description="when its disks were listed; 0: no listing was given")
    lagging: int = Field(
        default=0, description="keys in which it only lags; `different` has them if it is behind by more than the bound"
    )
    lag: BrokerLagView | None = Field(
        default=None, description="of a broker that differed in every look: by how much it is behind; none: not known"
    )


class AuditView(BaseModel):
    id: int = Field(description="number of the audit")
    migration: int = Field(description="number of the migration")
    purpose: Literal["rehearsal", "copy", "demand", "schedule", "confirmation"] = Field(
        description="what it was made for"
    )
    engine: Engine = Field(description="which engine compared")
    state: Literal["asked", "running", "done", "failed", "stopped"] = Field(description="how far it is")
    result: Literal["passed", "diverged", "incomplete"] | None = Field(description="none while it has not ended")
    passed: bool | None = Field(description="both sides are equal and all was read; none while it has not ended")
    who: str = Field(description="who requested it")
    asked_at: float = Field(description="when it was requested")
    finished_at: float | None = Field(description="when it ended")
    families: list[FamilyView] = Field(description="one line per kind of metadata")
    seconds: dict[str, float] = Field(description="how long its parts took")
    position: dict[str, Any] = Field(description="what it read on both sides")
    rehearsal: dict[str, Any] | None = Field(description="what the rehearsal copied and how long that took")
    directory: str | None = Field(description="where its inputs and result are kept")
    problem: str = Field(description="why it has no result")
    differences: str = Field(description="address of its differences")
    page: str | None = Field(default=None, description="address of its report as a page; none while it has no report")
    left_off: dict[str, int] = Field(
        default={}, description="how many `differences` and `expected` ones its report does not carry; none: it has all"
    )
    brokers: BrokersView | None = Field(default=None, description="the third side; none: brokers were not asked")


class BrokersView(BaseModel):
    """What brokers say beside the log, of all of them together."""

    result: Literal["passed", "diverged", "incomplete"] = Field(
        description="all say what the log says, some contradict it, or not all was read"
    )
    said: str = Field(description="the same in words, with the first brokers that are not well")
    asked: list[AskedBrokerView] = Field(description="every broker that was asked")
    not_asked: list[int] = Field(description="brokers that were being restarted, so that they were not asked")
    families: list[FamilyView] = Field(description="one line per kind of metadata; keys of all brokers")
    zookeeper_alone: list[str] = Field(description="where ZooKeeper contradicts log and brokers: family, key, field")
    seconds: float = Field(description="how long it took")
    problem: str = Field(description="why no broker was read")
    lag_problem: str = Field(
        default="", description="why it is not known whether brokers that differ only lag; empty: nobody had to know"
    )
    asked_here: str = Field(
        default="", description="why the tasks of Spark did not ask brokers; empty: they did, or there were none"
    )
    left_off: int = Field(description="how many differences its report does not carry")


class AuditScheduleView(BaseModel):
    """The audits of dual-write."""

    every_s: float = Field(description="seconds between two audits; 0: they are off")
    next_at: float | None = Field(description="when the next one begins; none when they are off")
    last: int | None = Field(description="number of the last finished one")
    result: Literal["passed", "diverged", "incomplete"] | None = Field(description="of the last finished one")
    finished_at: float | None = Field(description="when the last one ended")
    differences: int | None = Field(description="what the last one found different")
    passed_at: float | None = Field(description="when the last pass ended; none when none passed yet")
    diverged_twice: bool = Field(description="the last two diverged (Z2K-4025): steps forward are closed")
    overdue: bool = Field(description="none passed for two intervals (Z2K-4026): steps forward are closed")
    brokers: Literal["passed", "diverged", "incomplete"] | None = Field(
        default=None, description="what brokers said in the last one that asked them; none: none has yet"
    )
    brokers_said: str = Field(default="", description="the same in words, with brokers that did not answer")
    brokers_diverged_twice: bool = Field(
        default=False, description="brokers contradicted the log in the last two (Z2K-4065): steps forward are closed"
    )


class DifferenceView(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    number: int = Field(description="position in the report")
    family: str = Field(description="kind of metadata")
    key: str = Field(description="which topic, partition or broker")
    field: str = Field(description="which field; empty: the whole key")
    kind: str = Field(
        description="changed, missing in zookeeper, missing in log, other in snapshot, unusable, or not read"
    )
    zookeeper: Any = Field(description="the value in ZooKeeper")
    log: Any = Field(description="the value in the log")
    rule: str = Field(
        description="the rule that expects it; of a snapshot, what it says; of a broker, why it was not read, or lag"
    )
    broker: int | None = Field(default=None, description="the broker that differs from the log; none: ZooKeeper does")
    on_broker: Any = Field(default=None, description="the value on that broker")
    alone: Literal["broker", "log", "each", ""] = Field(
        default="", description="of a broker's: which side stands alone; each: all three differ; empty: not known"
    )


class EventView(BaseModel):
    version: int = Field(description="version of the migration after it")
    from_phase: Phase = Field(description="phase before")
    to_phase: Phase = Field(description="phase after")
    trigger: str = Field(description="what moved it")
    who: str = Field(description="a person, the service, or the driver")
    reason: str = Field(description="in words")
    at: float = Field(description="when it happened; for a driver's step by the driver's clock")
    recorded_at: float = Field(description="when the service wrote it down")
    source: str = Field(description="run and number of the driver's history, or the service's version")
    verdict: VerdictView = Field(description="the conditions of its gate at that moment")


class OperationView(BaseModel):
    id: int = Field(description="number of the operation")
    operation: str = Field(description="in the words of the command line")
    to: Phase | None = Field(description="the phase that was expected")
    who: str = Field(description="who requested it")
    reason: str = Field(description="why")
    at: float = Field(description="when")
    state: Literal["recorded", "accepted", "succeeded", "refused", "expired", "cancelled"] = Field(
        description="its state"
    )
    answer: str = Field(description="in words")
    ended_at: float | None = Field(description="when it ended")
    verdict: VerdictView | None = Field(description="the conditions of its gate at that moment")


class FindingView(BaseModel):
    code: str = Field(description="the finding's code")
    severity: Literal["blocks", "warns"] = Field(description="whether it closes a gate")
    says: str = Field(description="what was found, with values")
    means: str = Field(description="what that means")
    remedy: str = Field(description="what to do")
    runbook: str = Field(description="its page")
    source: str = Field(description="who found it: check, driver or service")
    open: bool = Field(description="whether it is still seen")
    first_seen: float = Field(description="when it was seen first")
    last_seen: float = Field(description="when it was seen last")


class FindingGroupView(BaseModel):
    """Open findings of one code: 200 partitions that are not whole are one problem, not 200."""

    code: str = Field(description="the findings' code")
    severity: Literal["blocks", "warns"] = Field(description="whether they close a gate")
    count: int = Field(description="how many there are")
    first: list[FindingView] = Field(description="the first few of them")
    remedies: list[str] = Field(description="what to do")
    since: float = Field(description="when the first of them was seen first")
    page: str = Field(description="address of the page with all of them")


class UndoView(BaseModel):
    command: str = Field(description="what to type; empty when nothing can or need be undone")
    does: str = Field(description="what that does")
    restarts: str = Field(description="brokers that restart")
    lost: str = Field(description="what is lost by it")
    without_controller: str = Field(description="how long the cluster has no controller")
    irreversible: bool = Field(default=False, description="nothing leads back from here any more")


class RoadNodeView(BaseModel):
    """How far a rolling restart is with one node."""

    roll: str = Field(description="join, kraft, stock, soak, final, ours, back or original: what it does")
    role: str = Field(description="broker or controller")
    node_id: int = Field(description="id of the node")
    step: str = Field(description="how far it is; WHOLE: it is back, FAILED: the roll stands at it")
    since: float = Field(description="when it reached this step")
    took_s: float = Field(description="seconds from the order to stop until now, or until it was whole")
    path: str = Field(description="its properties file")
    kind: str = Field(description="which file it gets; empty: its own stays")
    checksum: str = Field(description="SHA-256 of that file")
    detail: str = Field(description="what was read before it was stopped")
    instruction: str = Field(description="what a person has to do now; empty when nobody has to")
    cause: str = Field(description="why it failed, with the finding's code")
    code: str = Field(default="", description="that code; it has a runbook")


class RemedyView(BaseModel):
    """An order of a person that sets a rolling restart with a failed node going again."""

    word: Literal["resume", "back"] = Field(description="the step, in the words of the command line")
    command: str = Field(description="what an operator types")
    does: str = Field(description="what that does")
    possible: bool = Field(description="whether it is possible now")
    why_not: str = Field(description="why it is not possible; empty when it is")


class AgreementView(BaseModel):
    """What an approval is about now. A request to approve it carries the digest."""

    to: str = Field(description="the phase that is agreed to; COMPLETED: the raise of metadata.version")
    digest: str = Field(description="SHA-256 of `document`")
    says: list[str] = Field(description="the same in words")
    document: dict[str, Any] = Field(description="exactly what is agreed to")


class RaiseView(BaseModel):
    """One decision: a feature that a release would raise, in COMPLETED."""

    feature: str = Field(description="such as group.version")
    level: int = Field(description="the level that the release stands for")
    now: str = Field(description="the finalized level, with its name where it has one")
    to: str = Field(description="`level`, with its name where it has one")
    done: bool = Field(description="it has that level, or a higher one")
    changes: str = Field(description="what it changes")
    undo: str = Field(description="how it is undone, and what that leaves; empty: it cannot be undone")
    facts: list[str] = Field(description="what it would do to this cluster, in words")
    holds: bool = Field(description="every condition holds, but for the approval")
    conditions: list[ConditionView] = Field(description="every condition, the approval too")
    approve: str = Field(description="what another person types first")
    command: str = Field(description="what an operator types then")


class ApprovalView(BaseModel):
    who: str = Field(description="who approved")
    at: float = Field(description="when")
    to: str = Field(description="the step that was approved")
    raises: str = Field(default="", description="the raise of a feature that was approved, such as group.version=1")
    counts: bool = Field(description="the plan and the evidence are unchanged, and 4 hours are not over")
    digest: str = Field(description="SHA-256 of the plan and the evidence that were approved")


class GuardView(BaseModel):
    node_id: int = Field(description="id of the controller")
    state: str = Field(description="proven, not proven, or not read")
    reason: str = Field(description="what proves it, or why it is not proven")


class WaiverView(BaseModel):
    """An accepted exception of the inventory that holds now."""

    what: str = Field(description="the condition, or the finding's code")
    node_id: int | None = Field(description="id of the node; none: the whole cluster")
    owner: str = Field(description="who accepted it")
    reason: str = Field(description="why")
    end: float = Field(description="until when")


class WayBackView(BaseModel):
    """What `rollback` would do, cost and lose, from DUAL_WRITE to SOAK; while it is led, what is left of it."""

    possible: bool = Field(description="whether its gate is open")
    why_not: str = Field(description="the conditions that are not True")
    controllers: list[int] = Field(description="stock controllers in whose place ours are put first")
    restarts: list[int] = Field(description="brokers that restart into ZooKeeper mode")
    again: list[int] = Field(description="brokers that restart with their original file afterwards")
    lost: list[str] = Field(description="what only KRaft has, beside directory assignments; it needs consent before")
    consented_by: str | None = Field(description="who consented to exactly that")
    seconds: float | None = Field(description="about how long the restarts take, by those on the way here")
    at_least_s: float | None = Field(
        description="at least so long, by assumption; none where `seconds` is known or nothing is left"
    )
    epoch_gap: int | None = Field(
        default=None,
        description="how far the KRaft epoch is ahead of /controller_epoch at most, which the rollback repairs; none "
        "while our controllers lead, or it is not known",
    )
    unknown: list[str] = Field(
        default_factory=list, description="nodes of which nothing is known now: they go last (Z2K-4237)"
    )
    left_out: list[str] = Field(default_factory=list, description="nodes that are left out by name (Z2K-4238)")


class RoadView(BaseModel):
    """The way from dual-write to the end."""

    nodes: list[RoadNodeView] = Field(description="the journal of all rolling restarts")
    failed: list[RoadNodeView] = Field(default=[], description="failed nodes of this phase; each waits for a person")
    remedies: list[RemedyView] = Field(default=[], description="what a person can do about them")
    dual_write_lag: int | None = Field(default=None, description="records that ZooKeeper lacks; none: not known")
    migration_state: str = Field(description="what the metadata log says of the migration")
    log_problem: str = Field(description="why the metadata log is not observed; empty when it is")
    leader: int | None = Field(description="the active controller, ours or stock")
    kraft: list[int] = Field(description="brokers registered in KRaft mode")
    zookeeper: list[int] = Field(description="brokers registered in ZooKeeper mode")
    under_replicated: int = Field(description="partitions whose ISR lacks a replica")
    drifted: list[str] = Field(description="files that are not as rendered")
    not_read: list[str] = Field(description="files that could not be read")
    soak_s: float | None = Field(description="for how long the soak has lasted, as far as it was observed")
    elections: int = Field(description="elections in the soak")
    snapshots: list[int] = Field(description="stock controllers that wrote a snapshot")
    led: list[int] = Field(description="controllers that led in the soak")
    approval: ApprovalView | None = Field(description="the last approval")
    digest: str = Field(description="SHA-256 of the plan and the evidence as they are now")
    intent: str = Field(description="what stands in ZooKeeper since the finalize was begun; empty before")
    back: WayBackView | None = Field(description="readiness, cost and loss of a rollback")
    backups: list[str] = Field(description="what was kept before each gate")
    guards: list[GuardView] = Field(description="the guard on each controller's host")
    waivers: list[WaiverView] = Field(description="accepted exceptions of the inventory")


class ZooKeeperEndView(BaseModel):
    """ZooKeeper after COMPLETED, as the service reaches it from its host with its login."""

    says: str = Field(description="all of this in words")
    reachable: bool | None = Field(description="whether it answers; none while that is not known")
    problem: str = Field(description="how it does not answer; empty while it does")
    observed_at: float = Field(description="when it was observed last; once a minute")
    unreachable_since: float | None = Field(description="the first observation of those since when it never answered")
    unobserved_s: float = Field(description="seconds since then in which the service did not run; they do not count")
    kept_days: float = Field(description="`zookeeper_kept_days`")
    may_delete_from: float | None = Field(description="from when its data may be deleted")


class MigrationView(BaseModel):
    """Everything about one migration; the page shows this object, and nothing else."""

    id: int = Field(description="number of the migration")
    name: str = Field(description="name of the cluster")
    version: int = Field(description="moves with every transition; name it as expected_version")
    phase: Phase = Field(description="where the migration is")
    since: float = Field(description="since when")
    waiting: str = Field(description="why nothing happens now, or what is happening")
    outcome: OutcomeKind | None = Field(description="the kind of `waiting`; none before the first round")
    paused: str | None = Field(description="who paused steps forward, and why; none when it is not paused")
    observed_at: float | None = Field(description="time of the last observation")
    now: float = Field(description="when this was put together")
    active_controller: ActiveControllerView = Field(description="who is controller of the cluster")
    without_controller_s: float = Field(description="seconds without a controller up to now; 0 while there is one")
    last_window_ms: int | None = Field(
        description="time without controller at the last takeover, measured by the driver"
    )
    last_gap_s: float | None = Field(description="the last time in which observations found no controller, in seconds")
    standing: VerdictView = Field(description="conditions of every phase; one that is not True means blocked")
    steps: list[StepView] = Field(description="the way forward, and where the migration is on it")
    gates: list[EdgeView] = Field(description="every step from here with its conditions")
    undo: UndoView = Field(description="how to go back from here, and what it costs")
    brokers: list[BrokerView] = Field(description="readiness of every broker")
    quorum: list[ControllerView] = Field(description="the controllers of the inventory, ours and stock")
    features: FeaturesView | None = Field(
        default=None, description="who supports which metadata.version; none: a service of an earlier release"
    )
    dual_write: DualWriteView | None = Field(description="how far ZooKeeper is behind; none before dual-write")
    findings: list[FindingView] = Field(description="open findings, at most 200")
    finding_groups: list[FindingGroupView] = Field(description="all open findings, by code, with the first few of each")
    audits: list[AuditView] = Field(description="the last audits, newest first")
    audit_schedule: AuditScheduleView | None = Field(description="audits by a schedule; none outside dual-write")
    events: list[EventView] = Field(description="every transition, oldest first")
    operations: list[OperationView] = Field(description="operations, newest first")
    backups: list[str] = Field(description="ZooKeeper exports taken before a claim")
    road: RoadView | None = Field(description="the way from dual-write to the end; none before dual-write")
    zookeeper_end: ZooKeeperEndView | None = Field(
        default=None, description="whether ZooKeeper is still reachable; none before COMPLETED"
    )
    zookeeper: str = Field(description="connect string")
    bootstrap_servers: str = Field(description="addresses of brokers")
    audit_engine: str = Field(description="engine of its rehearsals")
    engine: ControllerEngine = Field(description="whose controllers take over")
    links: dict[str, str] = Field(description="where to go from here")


class MigrationLine(BaseModel):
    """One migration in a list."""

    id: int = Field(description="number of the migration")
    name: str = Field(description="name of the cluster")
    phase: Phase | Literal["UNREADABLE"] = Field(description="where it is; UNREADABLE: its row is damaged (Z2K-4102)")
    since: float = Field(description="since when")
    version: int = Field(description="moves with every transition")
    waiting: str = Field(description="why nothing happens now")
    outcome: OutcomeKind | None = Field(description="the kind of `waiting`; none before the first round")
    link: str = Field(description="its address")


class Accepted(BaseModel):
    """The operation is recorded; the service carries it out."""

    operation: OperationView = Field(description="the operation, as it is now")
    link: str = Field(description="address of the operation; poll it until its state is final")
    event: str = Field(description="address of the history")


class DryRun(BaseModel):
    """The gate is open; nothing was recorded."""

    edge: EdgeView = Field(description="the step, with every condition")
    version: int = Field(description="version of the migration")


class PhaseStayView(BaseModel):
    phase: Phase = Field(description="the phase")
    entered_at: float = Field(description="when it was entered")
    seconds: float = Field(description="how long it lasted; of the last one, until now")


class Report(BaseModel):
    """A migration in figures, for a file or a ticket."""

    migration: MigrationView = Field(description="everything that is known now")
    window_ms: int | None = Field(description="time without controller at the last takeover, measured by the driver")
    takeover_s: float | None = Field(description="from entering TAKEOVER to DUAL_WRITE, by the driver's clock")
    phases: list[PhaseStayView] = Field(description="seconds spent in each phase, in order")
    audits: list[AuditView] = Field(description="all audits that were kept")
    not_verified: list[str] = Field(description="what was not checked or did not pass")


class Page(BaseModel, Generic[Item]):
    """A list. next: the address of what follows, none at the end."""

    items: list[Item]
    next: str | None = None
