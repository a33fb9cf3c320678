"""Znodes of users, clients and addresses: their quotas, and users' SCRAM credentials, which share a znode.

In:   bytes and paths from ZooKeeper, or values of the model.
Out:  the other one of the two. Strict: a key or a value that Kafka does not write raises Z2K-1001 with its path, and no
      secret ever stands in the reason.
Elsewhere: plain configurations (znodes.py), which znodes exist (driver.mirror).
Rules: the znode `<default>` is everybody, in the model the name None; other names are sanitised. Whole numbers are
written without a fraction where Kafka's key is a LONG or an INT, all others as Java prints a double.
Source: Kafka 3.9 `ConfigEntityZNode`, `Sanitizer`, `ScramCredentialUtils`, `DynamicConfig`, `QuotaConfigs`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from migrator.findings.content import MALFORMED_ZNODE
from migrator.model.names import RELATIVE
from migrator.model.values import QuotaEntity, ScramCredential, ScramMechanism
from migrator.zk import paths
from migrator.zk.znodes import INT32_MAX, RECORD_TEXT_BYTES_MAX, config_data, parse_config

INT64_MAX: Final = 2**63 - 1
_WHOLE_MAX: Final = {
    "producer_byte_rate": INT64_MAX,
    "consumer_byte_rate": INT64_MAX,
    "connection_creation_rate": INT32_MAX,
}
"""Quotas that are whole numbers, and the largest that Kafka's type holds."""

_CLIENT_KEYS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
QUOTA_KEYS: Final = {
    ("user",): _CLIENT_KEYS,
    ("client-id",): _CLIENT_KEYS,
    ("user", "client-id"): _CLIENT_KEYS,
    ("ip",): frozenset({"connection_creation_rate"}),
}
"""Which quotas an entity may have, by its types. Entities of other types have no znode."""

SCRAM_NAMES: Final = {ScramMechanism.SHA_256: "SCRAM-SHA-256", ScramMechanism.SHA_512: "SCRAM-SHA-512"}
_SCRAM_MECHANISMS: Final = {name: mechanism for mechanism, name in SCRAM_NAMES.items()}

EPSILON: Final = 1e-6
"""As far as this from a whole number Kafka takes a quota for one."""

_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
"""What a broker in ZooKeeper mode reads a LONG or an INT from: `1E3` and `1000.0` end its reading.
Source: Kafka 3.9 `QuotaConfigHandler.updateQuotaConfig`, `IpConfigHandler`.
"""

Limits = dict[str, float]
Credentials = dict[ScramMechanism, ScramCredential]


# --- names and places -------------------------------------------------------------------------------------


def sanitise(name: str) -> str:
    """A name as Kafka puts it into paths: every byte but letters, digits, `.`, `-` and `_` is escaped."""
    return "".join(chr(byte) if _PLAIN.fullmatch(chr(byte)) else f"%{byte:02X}" for byte in name.encode())


_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]")
_SANITISED: Final = re.compile(r"(?:[A-Za-z0-9._-]|%[0-9A-F]{2})+")


def desanitise(path: str, text: str) -> str:
    """The name behind a part of a path. Raises Z2K-1001 when Kafka would write that name in another way."""
    if _SANITISED.fullmatch(text):
        raw = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            name = ""
        if name and sanitise(name) == text and len(raw) <= RECORD_TEXT_BYTES_MAX:
            return name
    raise MALFORMED_ZNODE.error(path=path, reason=f"{text[:60]!r} is not a name as Kafka writes it")


_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_ROOTS: Final = {type_: root for root, type_ in _TYPES.items()}


def entity_of(path: str) -> QuotaEntity:
    """Whom a znode below `/config/users`, `/config/clients` or `/config/ips` is about."""
    words = path.removeprefix(paths.CONFIG + "/").split("/")
    pairs = zip(words[::2], words[1::2], strict=True)
    return QuotaEntity(
        tuple((_TYPES[root], None if name == paths.DEFAULT_ENTITY else desanitise(path, name)) for root, name in pairs)
    )


def entity_path(entity: QuotaEntity) -> str | None:
    """Where Kafka keeps an entity; None for one that has no form in ZooKeeper."""
    if entity.types not in QUOTA_KEYS or any(name in RELATIVE for _, name in entity.parts):
        return None
    words = [
        f"{_ROOTS[type_]}/{paths.DEFAULT_ENTITY if name is None else sanitise(name)}" for type_, name in entity.parts
    ]
    return "/".join([paths.CONFIG, *words])


def user_path(user: str) -> str:
    return f"{paths.USER_CONFIGS}/{sanitise(user)}"


# --- contents ---------------------------------------------------------------------------------------------


def parse_entity(path: str, entity: QuotaEntity, data: bytes | None) -> tuple[Limits, Credentials]:
    """Quotas and credentials of one entity. Only users have credentials, and not all users together."""
    limits: Limits = {}
    credentials: Credentials = {}
    for key, value in parse_config(path, data).items():
        mechanism = _SCRAM_MECHANISMS.get(key)
        if mechanism is not None:
            if entity.types != ("user",) or entity.parts[0][1] is None:
                raise MALFORMED_ZNODE.error(path=path, reason=f"{key} belongs to one user, and this is not one")
            credentials[mechanism] = parse_scram(path, key, value)
        elif key in QUOTA_KEYS[entity.types]:
            limits[key] = _limit(path, key, value)
        else:
            raise MALFORMED_ZNODE.error(path=path, reason=f"{key[:60]!r} is neither a quota nor a credential")
    return limits, credentials


def _limit(path: str, key: str, text: str) -> float:
    largest = _WHOLE_MAX.get(key)
    value = float(text) if (_NUMBER if largest is None else _WHOLE).fullmatch(text) else math.nan
    if not math.isfinite(value) or (largest is not None and abs(int(text)) > largest):
        raise MALFORMED_ZNODE.error(path=path, reason=f"{key} is {text[:40]!r}, which is no number of its kind")
    return value


def entity_data(limits: Mapping[str, float], credentials: Mapping[ScramMechanism, ScramCredential]) -> bytes:
    """An entity as Kafka 3.9 writes it."""
    values = {key: limit_text(key, value) for key, value in limits.items()}
    values |= {SCRAM_NAMES[mechanism]: scram_text(kept) for mechanism, kept in credentials.items()}
    return config_data(dict(sorted(values.items())))


def limit_text(key: str, value: float) -> str:
    largest = _WHOLE_MAX.get(key)
    return double_text(value) if largest is None else str(min(int(value + EPSILON), largest))


def double_text(value: float) -> str:
    """A double as Java prints it: the shortest digits, from 1.0E7 on and below 0.001 with an exponent."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), value
    text, point = "".join(map(str, digits)), len(digits) + exponent
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if not -3 < point <= 7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


# --- credentials ------------------------------------------------------------------------------------------

_SCRAM_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


def parse_scram(path: str, key: str, text: str) -> ScramCredential:
    """`salt=…,stored_key=…,server_key=…,iterations=…`, in any order."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    found = {name: value for name, _, value in pairs}
    if len(pairs) != len(_SCRAM_FIELDS) or set(found) != set(_SCRAM_FIELDS):
        raise MALFORMED_ZNODE.error(path=path, reason=f"{key} has not the four parts of a credential")
    try:
        salt, stored, server = (_decoded(found[name]) for name in _SCRAM_FIELDS[:3])
    except (binascii.Error, ValueError):
        raise MALFORMED_ZNODE.error(path=path, reason=f"a part of {key} is not base64") from None
    if not re.fullmatch("[0-9]{1,10}", found["iterations"]) or int(found["iterations"]) > INT32_MAX:
        raise MALFORMED_ZNODE.error(path=path, reason=f"the iterations of {key} are not a number of 32 bits")
    return ScramCredential(salt, stored, server, int(found["iterations"]))


def _decoded(text: str) -> bytes:
    """Python also takes padding that is too much, and Kafka throws for it."""
    if len(text) % 4:
        raise ValueError("it is not base64")
    return base64.b64decode(text, validate=True)


def scram_text(kept: ScramCredential) -> str:
    salt, stored, server = (base64.b64encode(each).decode() for each in (kept.salt, kept.stored_key, kept.server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={kept.iterations}"
