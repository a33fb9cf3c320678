"""Names and protocols of listeners in a properties file, as Kafka reads them.

In:   the keys of a file of a controller or of a broker, or one value of them.
Out:  names in capitals, the protocol of each, endpoints, the listener between brokers.
Elsewhere: what TLS and SASL on a listener need (node/transport/security.py), who refuses by name of the key
(node/config/properties.py, fleet/render.py).
Errors: `BadListeners` with the key and why, for every file with which stock ends at its start.
Rules: names and protocols are read in any case, except in controller.listener.names, where a controller compares them
as written. The map allows spaces around its names, the lists only around their commas. PLAINTEXT is assumed for
controller listeners alone, and only while the map is not in the file and none of the listeners is called SSL, SASL_SSL
or SASL_PLAINTEXT. One difference from stock: two spellings of a name with two protocols are refused; stock takes the
one that its hash table has last.
Source: Kafka 3.9.2 `KafkaConfig` (effectiveListenerSecurityProtocolMap, controllerListenerNames, validateValues),
`SocketServerConfigs.listenerListToEndPoints`, `CoreUtils`, `Csv`, `ListenerName.normalised`; compared with them by
tests/e2e/test_listener_files.py.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from migrator.model.values import Listener, SecurityProtocol

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
CONTROLLER_NAMES: Final = "controller.listener.names"
INTER_BROKER: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
CONTROL_PLANE: Final = "control.plane.listener.name"
EARLY_START: Final = "early.start.listeners"

DEFAULT_LISTENERS: Final = "PLAINTEXT://:9092"
DEFAULT_MAP: Final = ",".join(f"{name}:{name}" for name in SecurityProtocol.__members__)
PORT_MAX: Final = 65_535
ANY_ADDRESS: Final = "0.0.0.0"
JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Java's `trim` takes off; Python's `strip` takes more."""

_COMMA: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")
_MASK: Final = "$"
_SECURE: Final = frozenset(SecurityProtocol.__members__) - {SecurityProtocol.PLAINTEXT.name}


class BadListeners(ValueError):
    """Stock would not start with it. key: of the file."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
        self.reason = reason


class ControllerListeners(NamedTuple):
    """The listeners of a node that is a controller only.

    names: in their order; the first one is spoken on between voters. advertised: one for each name.
    inter_broker: name and protocol of the listener on which brokers are told things.
    """

    names: tuple[str, ...]
    protocols: Mapping[str, SecurityProtocol]
    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker: tuple[str, SecurityProtocol]


class Mapped(NamedTuple):
    """One entry of a map of protocols, in capitals. None: not there, or only a config provider knows it."""

    name: str | None
    protocol: str | None


def normalised(name: str) -> str:
    """The name in capitals, as Kafka compares it. Raises ValueError for a name that is blank."""
    if not name.strip(JAVA_BLANKS):
        raise ValueError("a listener has no name")
    return name.upper()


def csv_list(text: str) -> list[str]:
    """The values between commas, without the spaces around these. Empty ones are left out."""
    return [each for each in _COMMA.split(text) if each]


def mapped(text: str) -> list[Mapped]:
    """The entries of a map, whatever else is wrong with it: `${...}` of a config provider may stand in it."""
    found = []
    for entry in csv_list(_PLACEHOLDER.sub(_MASK, text)):
        name, _, protocol = (part.strip(JAVA_BLANKS).upper() for part in entry.rpartition(":"))
        found.append(Mapped(None if _MASK in name or not name else name, None if _MASK in protocol else protocol))
    return found


def parse_map(text: str) -> dict[str, SecurityProtocol]:
    """The value of `listener.security.protocol.map`. Raises BadListeners."""
    written = _written_map(text)
    found: dict[str, SecurityProtocol] = {}
    for name, protocol in written.items():
        key = _normalised(PROTOCOL_MAP, name)
        known = _protocol(PROTOCOL_MAP, protocol)
        if found.setdefault(key, known) is not known:
            raise BadListeners(PROTOCOL_MAP, f"{key} has two protocols, {found[key].name} and {known.name}")
    return found


def _written_map(text: str) -> dict[str, str]:
    """Names and protocols as written; of two entries with the same letters the later one counts."""
    entries = _COMMA.split(text) if text else []
    while entries and not entries[-1]:
        entries.pop()  # Java's split leaves them out at the end, and only there
    found = {}
    for entry in entries:
        name, colon, protocol = entry.rpartition(":")
        if not colon:
            raise BadListeners(PROTOCOL_MAP, f"{entry!r} is not NAME:PROTOCOL")
        found[name.strip(JAVA_BLANKS)] = protocol.strip(JAVA_BLANKS)
    return found


def _protocol(key: str, text: str) -> SecurityProtocol:
    if text.upper() not in SecurityProtocol.__members__:
        raise BadListeners(key, f"{text!r} is not a security protocol")
    return SecurityProtocol[text.upper()]


def _normalised(key: str, name: str) -> str:
    try:
        return normalised(name)
    except ValueError as error:
        raise BadListeners(key, str(error)) from error


def controller_names(given: Mapping[str, str]) -> tuple[str, ...]:
    """The values of `controller.listener.names` as written: neither trimmed nor in capitals."""
    names = given.get(CONTROLLER_NAMES, "").split(",")
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def protocols_of(given: Mapping[str, str]) -> dict[str, SecurityProtocol]:
    """The protocol of each listener name, as the file says it or as Kafka assumes it. Raises BadListeners."""
    protocols = parse_map(given.get(PROTOCOL_MAP, DEFAULT_MAP))
    if PROTOCOL_MAP in given or not given.get("process.roles"):
        return protocols
    names = controller_names(given)
    listening = (entry.partition(":")[0].upper() for entry in csv_list(given.get(LISTENERS, DEFAULT_LISTENERS)))
    if _SECURE.intersection((*names, *listening)):
        return protocols
    return {**protocols, **dict.fromkeys(names, SecurityProtocol.PLAINTEXT)}


def endpoints(
    given: Mapping[str, str],
    key: str,
    default: str,
    protocols: Mapping[str, SecurityProtocol],
    *,
    distinct_ports: bool = True,
) -> tuple[Listener, ...]:
    """The value of key: `listeners` or `advertised.listeners`. host: "" is any address.

    Raises BadListeners; with the key of the map where the file has one that lacks a name.
    """
    found = []
    for entry in csv_list(given.get(key, default).strip(JAVA_BLANKS)):
        match = _ENDPOINT.fullmatch(entry)
        if match is None or not 0 <= int(match[3]) <= PORT_MAX:
            raise BadListeners(key, f"{entry!r} is not NAME://host:port with a port from 0 to {PORT_MAX}")
        name = _normalised(key, match[1])
        if name not in protocols:
            if PROTOCOL_MAP in given and name == name.strip(JAVA_BLANKS):
                raise BadListeners(PROTOCOL_MAP, f"it has no protocol for {name}, which is in {key}")
            raise BadListeners(key, f"{name} has no protocol in {PROTOCOL_MAP}")
        found.append(Listener(name, match[2], int(match[3]), protocols[name]))
    if len({listener.name for listener in found}) != len(found):
        raise BadListeners(key, "a listener occurs twice")
    if distinct_ports:
        _refuse_shared_ports(key, found)
    return tuple(found)


def _refuse_shared_ports(key: str, found: Sequence[Listener]) -> None:
    """Two listeners may share a port where one has an IPv4 address and the other an IPv6 address."""
    for port in {listener.port for listener in found} - {0}:
        versions = [_ip_version(listener.host) for listener in found if listener.port == port]
        if len(versions) > 1 and sorted(versions) != [4, 6]:
            raise BadListeners(key, f"two listeners have port {port}")


def _ip_version(host: str) -> int:
    """4 or 6; 0 for a name or none."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def inter_broker_listener(
    given: Mapping[str, str], protocols: Mapping[str, SecurityProtocol]
) -> tuple[str, SecurityProtocol]:
    """Name and protocol: by name; else by protocol, whose name the listener then has, whatever the map says of it.

    Raises BadListeners.
    """
    if INTER_BROKER not in given:
        text = given.get(INTER_BROKER_PROTOCOL, SecurityProtocol.PLAINTEXT.name)
        if text not in SecurityProtocol.__members__:  # in capitals: the only name that Kafka does not read in any case
            raise BadListeners(INTER_BROKER_PROTOCOL, f"it is not one of {', '.join(SecurityProtocol.__members__)}")
        return text, SecurityProtocol[text]
    if INTER_BROKER_PROTOCOL in given:
        raise BadListeners(INTER_BROKER, f"{INTER_BROKER_PROTOCOL} is given as well, and only one of both is possible")
    name = _normalised(INTER_BROKER, given[INTER_BROKER])
    if name not in protocols:
        raise BadListeners(INTER_BROKER, f"{name} is not in {PROTOCOL_MAP}")
    return name, protocols[name]


def controller_listeners(given: Mapping[str, str]) -> ControllerListeners:
    """All of it, of a file with process.roles=controller. Raises BadListeners where stock would not start with it."""
    names = controller_names(given)
    protocols = protocols_of(given)
    listeners = endpoints(given, LISTENERS, DEFAULT_LISTENERS, protocols)
    own = {listener.name: listener for listener in listeners}
    others = [name for name in own if name not in names]
    if others:
        raise BadListeners(LISTENERS, f"{', '.join(others)} is not in {CONTROLLER_NAMES}{_as_written(others, names)}")
    missing = [name for name in names if name not in own]
    if missing:
        raise BadListeners(CONTROLLER_NAMES, f"{_list(missing)} is not in listeners")
    if len(set(names)) != len(names):
        raise BadListeners(CONTROLLER_NAMES, "a listener occurs twice")
    inter_broker = inter_broker_listener(given, protocols)
    _refuse_early_start(given, own)
    if CONTROL_PLANE in given:
        raise BadListeners(CONTROL_PLANE, "KRaft controllers have none (as stock)")
    return ControllerListeners(names, protocols, listeners, _advertised(given, names, protocols, own), inter_broker)


def _advertised(
    given: Mapping[str, str],
    names: Sequence[str],
    protocols: Mapping[str, SecurityProtocol],
    own: Mapping[str, Listener],
) -> tuple[Listener, ...]:
    """One for each controller listener: as advertised, else as it listens."""
    told = endpoints(given, ADVERTISED, "", protocols, distinct_ports=False)
    if any(listener.host == ANY_ADDRESS for listener in told):
        raise BadListeners(ADVERTISED, f"nobody can connect to {ANY_ADDRESS}")
    named = {listener.name: listener for listener in told}
    found = (named.get(name, own[name]) for name in names)
    return tuple(
        Listener(each.name, "", each.port, each.protocol) if each.host == ANY_ADDRESS else each for each in found
    )


def _refuse_early_start(given: Mapping[str, str], own: Collection[str]) -> None:
    names = (name.strip(JAVA_BLANKS) for name in given.get(EARLY_START, "").split(","))
    unknown = [name for name in names if name and name not in own]
    if unknown:
        raise BadListeners(EARLY_START, f"{_list(unknown)} is not in listeners")


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _as_written(others: Sequence[str], names: Sequence[str]) -> str:
    """Capitals and spaces: what a reader overlooks."""
    near = [name for name in names if name.strip(JAVA_BLANKS).upper() in others]
    return f", where {_list(near)} has to be in capitals and without spaces, also for stock" if near else ""
