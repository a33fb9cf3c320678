"""The guard of stock controllers: its proof on each host, and the token by which FINALIZING removes it.

In:   an actuator, and where the guard lies. Out: the proof or why there is none; the token's name and content.
Elsewhere: the guard itself (docker/guard/zk2kraft-guard, a POSIX shell script without dependencies).
Errors: none; what cannot be read is not proven (Z2K-7040).
Rules: the proof is the script's checksum, and that the supervisor's loaded start command is the guard. A file on a disk
that nobody uses proves nothing. Jars of a Kafka without ZooKeeper beside that command disprove it (Z2K-7042). Where no
jar is seen from here, that is said: the guard itself looks again at each start.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.fleet import FILE_ABSENT, GUARD_NOT_PROVEN, KAFKA_WITHOUT_ZOOKEEPER
from migrator.fleet.actuator import Actuator
from migrator.fleet.connections.many import read_ahead
from migrator.fleet.files import checksum_of

GUARD_SHA256: Final = "b61e42b7f5ab5c671fa5c338383ab54330ca1381dfc5734208caa8f3d2dff0f8"
"""Of docker/guard/zk2kraft-guard as shipped with this release."""

_PLAN: Final = re.compile(r"[0-9a-f]{64}\Z")
_SYSTEMD_PATH: Final = re.compile(r"\bpath=(\S+)")
_SERVER_JAR: Final = re.compile(
    r"(?:kafka_2\.1\d|kafka-server|kafka-server-common)-(?P<major>\d+)\.[^/]*?(?P<suffix>-ccs|-ce)?(?:-[a-z]+)?\.jar\Z"
)
_WORDS: Final = re.compile(r"[^\s\[\]\"',;{}]+")
PLACES_MAX: Final = 8
"""A class path of single jars is in one or two directories."""
_FIRST_WORD: Final = re.compile(r"[\s\[\"']*([^\s\[\]\"',]+)")


@runtime_checkable
class Launches(Protocol):
    """An actuator that can say how the supervisor starts the process."""

    def launch(self) -> str | None: ...


class Proof(StrEnum):
    """Of a guard on one host. NOT_READ: the host does not say; that is no proof either.

    KAFKA_NOT_SEEN: the guard is proven; which Kafka it starts is not seen from here.
    """

    PROVEN = "proven"
    KAFKA_NOT_SEEN = "proven, but its Kafka is not seen"
    NOT_PROVEN = "not proven"
    NOT_READ = "not read"


@dataclass(frozen=True, slots=True)
class GuardProof:
    """reason: why it is not proven, or what proves it. code: of the finding that it names, if it names one."""

    state: Proof
    reason: str
    code: str = ""


def prove_guard(actuator: Actuator, node: int, guard: str, properties: str) -> tuple[Occurrence, ...]:
    """() when the shipped guard lies at `guard`, and the supervisor starts this node's file through it."""
    proof = guard_proof(actuator, guard, properties)
    proven = proof.state in (Proof.PROVEN, Proof.KAFKA_NOT_SEEN)
    return () if proven else (GUARD_NOT_PROVEN.found(node=node, reason=proof.reason),)


def guard_proof(actuator: Actuator, guard: str | None, properties: str) -> GuardProof:
    """Blocks on the host. guard: where the inventory says that it lies; None: it does not say."""
    if guard is None:
        return GuardProof(Proof.NOT_PROVEN, "the inventory does not say where it lies (`guard` of the controller)")
    try:
        content = actuator.read(guard)
        said = actuator.launch() if isinstance(actuator, Launches) else None
    except FindingError as error:
        state = Proof.NOT_PROVEN if error.code == FILE_ABSENT.code else Proof.NOT_READ
        return GuardProof(state, f"{error.code} {error.occurrence.text}", error.code)
    if content is None:
        return GuardProof(Proof.NOT_READ, f"{guard} cannot be read by this actuator")
    if (found := checksum_of(content)) != GUARD_SHA256:
        return GuardProof(Proof.NOT_PROVEN, f"{guard} has SHA-256 {found}, not that of the shipped guard")
    if said is None:
        return GuardProof(Proof.NOT_READ, "how the supervisor starts the process cannot be read")
    reason = why_not_used(said, guard, properties)
    if reason:
        return GuardProof(Proof.NOT_PROVEN, reason)
    jars = server_jars(actuator, said, guard)
    later = [each for each in jars if is_jar_without_zookeeper(posixpath.basename(each))]
    if later:
        named = KAFKA_WITHOUT_ZOOKEEPER.found(file=properties, jar=later[0])
        return GuardProof(Proof.NOT_PROVEN, f"{named.code} {named.text}", named.code)
    if not jars:
        return GuardProof(Proof.KAFKA_NOT_SEEN, f"{guard} starts {properties}; no jar of Kafka is seen beside it")
    return GuardProof(Proof.PROVEN, f"{guard} starts {properties} with {posixpath.basename(jars[0])}")


def server_jars(actuator: Actuator, said: str, guard: str) -> tuple[str, ...]:
    """Jars of Kafka's server where the start command takes them from, by its own words; () where none is seen."""
    found: list[str] = []
    places = places_of(said, guard)[:PLACES_MAX]
    actuator = read_ahead(actuator, places)
    for place in places:
        try:
            names = actuator.list(place)
        except FindingError:  # there is no such directory, or the host does not say
            continue
        found += [posixpath.join(place, name) for name in names or () if _SERVER_JAR.match(name)]
    return tuple(found)


def places_of(said: str, guard: str) -> tuple[str, ...]:
    """Directories of jars: of the command behind the guard, and of a class path. said: as of `why_not_used`."""
    places: list[str] = []
    for word in _WORDS.findall(re.sub(r"\b(?:argv\[\]|path)=", " ", said)):
        if posixpath.normpath(word) == posixpath.normpath(guard):
            continue
        for each in word.split(":"):
            directory, name = posixpath.split(each)
            if directory.endswith("/bin"):
                home = posixpath.dirname(directory)
                places += [posixpath.join(home, "libs"), posixpath.join(home, "share/java/kafka")]
            elif directory and (name == "*" or name.endswith(".jar")):
                places.append(directory)
    return tuple(dict.fromkeys(places))


def is_jar_without_zookeeper(name: str) -> bool:
    """Confluent's own numbers, with the suffix -ccs or -ce, have 8 for Kafka 4.0."""
    match = _SERVER_JAR.match(name)
    return match is not None and int(match["major"]) >= (8 if match["suffix"] else 4)


def why_not_used(said: str, guard: str, properties: str) -> str | None:
    """said: of systemd, `show --property=ExecStart`; of others, the command and its arguments."""
    if "ExecStart=" in said:
        commands = _SYSTEMD_PATH.findall(said)
    else:
        first = _FIRST_WORD.match(said)
        commands = [] if first is None else [first[1]]
    if not commands:
        return "the supervisor's start command is not understood"
    if others := [each for each in commands if posixpath.normpath(each) != posixpath.normpath(guard)]:
        return f"the supervisor starts {others[0]} and not {guard}"
    if re.search(rf"(?<![^\s\"'=,\[]){re.escape(properties)}(?![^\s\"',;\]])", said) is None:
        return f"the supervisor's start command does not name {properties}"
    if "--check" in said:
        return "the supervisor only checks the file and starts nothing"
    return None


def finalize_token(plan: str, node: int, content: bytes, directory: str) -> tuple[str, bytes]:
    """Path and content of the token that allows exactly this file, without the flag, on this node.

    plan: SHA-256 of plan and evidence, 64 hexadecimal digits. The directory is that of the properties file.
    """
    assert _PLAN.match(plan), f"{plan} is no SHA-256"
    text = f"plan={plan}\nnode={node}\nsha256={checksum_of(content)}\n"
    return posixpath.join(directory, f"finalize-{plan}"), text.encode()
