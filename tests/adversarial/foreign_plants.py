"""Single faults in a tree or a log, made by code that shares nothing with the product: JSON, bytes, and kazoo alone.

In:   a client on the chroot of a tree that `tests/support/seeded_tree.py` made; the directory of its metadata log; a
      random number generator.
Out:  one change of one side, and the keys that an audit has to name for it.
Elsewhere: who runs the audits (plants.py).
Source: Kafka 3.9's record schemas (`metadata/src/main/resources/common/metadata`) and its `DefaultRecordBatch`.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import unquote_plus

from crc32c import crc32c
from kazoo.client import KazooClient

Place = tuple[str, str]
BROKERS: Final = (1, 2, 3)


@dataclass(frozen=True)
class Planted:
    """what: in words. places: families and keys that an audit has to name, and no other."""

    what: str
    places: frozenset[Place]


def planted(what: str, *places: Place) -> Planted:
    return Planted(what, frozenset(places))


# --- the tree ---------------------------------------------------------------------------------------------


def plant_in_tree(client: KazooClient, random: Random) -> Planted:
    """Change one znode, or make one, or delete one."""
    while True:
        path = random.choice(sorted(_walk(client, "/")))
        for pattern, change in _TREE:
            match = re.fullmatch(pattern, path)
            if match is not None:
                found = change(client, random, path, *match.groups())
                if found is not None:
                    return found


def _walk(client: KazooClient, path: str) -> Iterator[str]:
    for name in client.get_children(path):
        below = path.rstrip("/") + "/" + name
        yield below
        yield from _walk(client, below)


def _read(client: KazooClient, path: str) -> Any:
    return json.loads(client.get(path)[0])


def _write(client: KazooClient, path: str, value: Any) -> None:
    client.set(path, json.dumps(value).encode())


def _spoil(client: KazooClient, random: Random, path: str) -> str:
    """What nobody can read: cut off, or not JSON, or another kind of JSON."""
    data = client.get(path)[0]
    cut = random.randrange(1, max(len(data) - 1, 2))
    name, spoiled = random.choice([("cut off", data[:cut]), ("letters", b"spoiled"), ("a list", b"[1,2]")])
    client.set(path, spoiled)
    return f"{path} {name}"


def _state(client: KazooClient, random: Random, path: str, topic: str, partition: str) -> Planted:
    place = ("partitions", f"{topic}-{partition}")
    state = _read(client, path)
    kind = random.choice(["leader", "epoch", "isr", "recovery", "gone", "spoiled", "controller", "touched"])
    match kind:
        case "leader":
            state["leader"] = random.choice([each for each in (*BROKERS, -1) if each != state["leader"]])
        case "epoch":
            state["leader_epoch"] += random.choice([1, 7, 1 << 20])
        case "isr":
            state["isr"] = random.sample(state["isr"], random.randrange(1, len(state["isr"])))
        case "recovery":
            state["leader_recovery_state"] = 1
        case "controller":
            state["controller_epoch"] = 1_000 + random.randrange(1_000)
        case "gone":
            client.delete(path)
            return planted(f"{path} deleted", place)
        case "spoiled":
            return planted(_spoil(client, random, path), place)
    _write(client, path, state)
    return planted(f"{path} {kind}", place)


def _topic(client: KazooClient, random: Random, path: str, topic: str) -> Planted:
    found = _read(client, path)
    partition = random.choice(sorted(found["partitions"]))
    place = ("partitions", f"{topic}-{partition}")
    match random.choice(["id", "no id", "order", "assignment", "more", "adding", "removing", "spoiled", "gone"]):
        case "id":
            found["topic_id"] = base64.urlsafe_b64encode(b"\x11" + random.randbytes(15)).decode().rstrip("=")
            place = ("topics", topic)
        case "no id":
            del found["topic_id"]
            place = ("topics", topic)
        case "order":
            found["partitions"][partition].reverse()
        case "assignment":
            del found["partitions"][partition]
        case "more":
            place = ("partitions", f"{topic}-77")
            found["partitions"]["77"] = list(BROKERS)
        case "adding":
            found["adding_replicas"] = {partition: [3]}
        case "removing":
            found["removing_replicas"] = {partition: [1]}
        case "spoiled":
            return planted(_spoil(client, random, path), ("topics", topic))
        case "gone":
            client.delete(path, recursive=True)
            return planted(f"{path} deleted with all below", ("topics", topic))
    _write(client, path, found)
    return planted(f"{path} says {json.dumps(found)[:150]}", place)


def _config(client: KazooClient, random: Random, path: str, *places: Place) -> Planted:
    found = _read(client, path)
    key = random.choice(sorted(found["config"]))
    match random.choice(["value", "more", "less", "gone", "spoiled"]):
        case "value":
            found["config"][key] = str(random.randrange(10_000, 99_999))
        case "more":
            found["config"][f"planted.{random.randrange(100)}"] = "1"
        case "less":
            del found["config"][key]
        case "gone":
            client.delete(path)
            return planted(f"{path} deleted", *places)
        case "spoiled":
            return planted(_spoil(client, random, path), *places)
    _write(client, path, found)
    return planted(f"{path} says {json.dumps(found)[:150]}", *places)


def _topic_config(client: KazooClient, random: Random, path: str, topic: str) -> Planted:
    return _config(client, random, path, ("topic configs", topic))


def _broker_config(client: KazooClient, random: Random, path: str, broker: str) -> Planted:
    return _config(client, random, path, ("broker configs", "" if broker == "<default>" else broker))


def _entity(client: KazooClient, random: Random, path: str) -> Planted | None:
    """Quotas of users, clients and addresses, and credentials of users."""
    data = client.get(path)[0]
    if not data:
        return None
    of_user = path.startswith("/config/users/") and "/clients" not in path
    both = [("client quotas", path), *([("SCRAM credentials", path)] if of_user else [])]
    if random.random() < 0.2:
        return planted(_spoil(client, random, path), *both)
    found = _read(client, path)
    key = random.choice(sorted(found["config"]))
    family = "SCRAM credentials" if key.startswith("SCRAM") else "client quotas"
    if random.random() < 0.3:
        del found["config"][key]
    elif family == "SCRAM credentials":
        found["config"][key] = found["config"][key].replace(
            "iterations=4096", f"iterations={random.randrange(5, 9)}000"
        )
    else:
        found["config"][key] = str(random.randrange(100, 999))
    _write(client, path, found)
    return planted(f"{path} {key} changed", (family, path))


def _acl(client: KazooClient, random: Random, path: str) -> Planted:
    place = ("ACLs", path)
    found = _read(client, path)
    entry = random.choice(found["acls"])
    match random.choice(["principal", "operation", "host", "permission", "more", "less", "gone", "spoiled"]):
        case "principal":
            entry["principal"] = f"User:planted-{random.randrange(100)}"
        case "operation":
            entry["operation"] = random.choice(
                [each for each in ("Write", "Alter", "All") if each != entry["operation"]]
            )
        case "host":
            entry["host"] = f"10.0.0.{random.randrange(256)}"
        case "permission":
            entry["permissionType"] = "Deny"
        case "more":
            found["acls"].append({**entry, "principal": "User:one-more"})
        case "less":
            found["acls"].remove(entry)
        case "gone":
            client.delete(path)
            return planted(f"{path} deleted", place)
        case "spoiled":
            return planted(_spoil(client, random, path), place)
    _write(client, path, found)
    return planted(f"{path} says {json.dumps(found)[:150]}", place)


def _token(client: KazooClient, random: Random, path: str) -> Planted:
    found = _read(client, path)
    match random.choice(["owner", "end", "renewers", "gone", "spoiled"]):
        case "owner":
            found["owner"] = "User%3Aplanted"
        case "end":
            found["expiryTimestamp"] += 1 + random.randrange(1 << 30)
        case "renewers":
            found["renewers"] = [*found["renewers"], "User%3Aplanted"]
        case "gone":
            client.delete(path)
            return planted(f"{path} deleted", ("delegation tokens", path))
        case "spoiled":
            return planted(_spoil(client, random, path), ("delegation tokens", path))
    _write(client, path, found)
    return planted(f"{path} says {json.dumps(found)[:150]}", ("delegation tokens", path))


def _block(client: KazooClient, random: Random, path: str) -> Planted:
    found = _read(client, path)
    start = 100_000 + random.randrange(1 << 40)
    _write(client, path, {**found, "block_start": str(start), "block_end": str(start + 999)})
    return planted(f"{path} begins at {start}", ("producer ids", "next"))


def _of_cluster(client: KazooClient, random: Random, path: str) -> Planted:
    if random.random() < 0.5:
        client.delete(path)
        return planted(f"{path} deleted", ("cluster", path))
    client.set(path, b"planted")
    return planted(f"{path} spoiled", ("cluster", path))


def _new_topic(client: KazooClient, random: Random, path: str) -> Planted:
    name = f"planted-{random.randrange(1_000)}"
    body = {"version": 3, "topic_id": base64.urlsafe_b64encode(b"\x12" * 16).decode().rstrip("="),
            "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}  # fmt: skip
    client.create(f"{path}/{name}", json.dumps(body).encode())
    return planted(f"{path}/{name} made", ("topics", name))


def _new_partition(client: KazooClient, random: Random, path: str, topic: str) -> Planted:
    client.create(f"{path}/55", b"")
    return planted(f"{path}/55 made", ("partitions", f"{topic}-55"))


Change = Callable[..., Planted | None]
_TREE: Final[tuple[tuple[str, Change], ...]] = (
    (r"/brokers/topics/([^/]+)/partitions/(\d+)/state", _state),
    (r"/brokers/topics/([^/]+)/partitions", _new_partition),
    (r"/brokers/topics/([^/]+)", _topic),
    (r"/brokers/topics", _new_topic),
    (r"/config/topics/([^/]+)", _topic_config),
    (r"/config/brokers/([^/]+)", _broker_config),
    (r"/config/users/[^/]+(?:/clients/[^/]+)?|/config/(?:clients|ips)/[^/]+", _entity),
    (r"/kafka-acl/[^/]+/[^/]+|/kafka-acl-extended/prefixed/[^/]+/[^/]+", _acl),
    (r"/delegation_token/tokens/[^/]+", _token),
    (r"/latest_producer_id_block", _block),
    (r"/cluster/id|/controller_epoch", _of_cluster),
)


# --- the log ----------------------------------------------------------------------------------------------


def plant_in_log(client: KazooClient, random: Random, directory: Path) -> Planted:
    """Append one record to the log of a rehearsal. client: of the tree that it was copied from; it is only read."""
    value, found = random.choice(_LOG)(client, random)
    _append(directory, value)
    return found


def _append(directory: Path, value: bytes) -> None:
    """One batch with one record, in the epoch of the last batch."""
    segment = max((directory / "__cluster_metadata-0").glob("*.log"))
    data = segment.read_bytes()
    position, base, count, epoch = 0, 0, 0, 0
    while position < len(data):
        base, length, epoch = struct.unpack_from(">qii", data, position)
        (delta,) = struct.unpack_from(">i", data, position + 23)
        count, position = delta + 1, position + 12 + length
    record = b"\x00\x00\x00\x01" + _zigzag(len(value)) + value + b"\x00"
    records = _zigzag(len(record)) + record
    after = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + records
    body = struct.pack(">ibI", epoch, 2, crc32c(after)) + after
    segment.write_bytes(data + struct.pack(">qi", base + count, len(body)) + body)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _zigzag(value: int) -> bytes:
    return _varint(value << 1)


def _frame(kind: int, *parts: bytes) -> bytes:
    """Version 0 of a record without tagged fields."""
    return bytes([1, kind, 0]) + b"".join(parts) + b"\x00"


def _text(value: str | bytes | None) -> bytes:
    if value is None:
        return b"\x00"
    data = value.encode() if isinstance(value, str) else value
    return _varint(len(data) + 1) + data


def _names(client: KazooClient) -> list[str]:
    return sorted(client.get_children("/brokers/topics"))


def _id(client: KazooClient, topic: str) -> bytes:
    return base64.urlsafe_b64decode(_read(client, f"/brokers/topics/{topic}")["topic_id"] + "==")


def _log_config(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    broker = random.random() < 0.3
    name = random.choice(["1", "2", ""]) if broker else random.choice(_names(client))
    value = str(random.randrange(10_000, 99_999))
    key = "log.cleaner.threads" if broker else "retention.ms"
    place = ("broker configs" if broker else "topic configs", name)
    record = _frame(4, bytes([4 if broker else 2]), _text(name), _text(key), _text(value))
    return record, planted(f"the log sets {key} of {name or 'all brokers'}", place)


def _log_partition(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    topic = random.choice(_names(client))
    partition = int(random.choice(sorted(client.get_children(f"/brokers/topics/{topic}/partitions"))))
    tag, field = random.choice([
        (0, _varint(3) + struct.pack(">ii", 1, 2)),  # isr
        (1, struct.pack(">i", random.choice(BROKERS))),  # leader
        (2, _varint(4) + struct.pack(">iii", 3, 2, 1)),  # replicas
        (3, _varint(2) + struct.pack(">i", 1)),  # removing
        (4, _varint(2) + struct.pack(">i", 3)),  # adding
        (5, b"\x01"),  # recovery
    ])  # fmt: skip
    record = bytes([1, 5, 0]) + struct.pack(">i", partition) + _id(client, topic) + b"\x01" + bytes([tag])
    return record + _varint(len(field)) + field, planted(
        f"the log changes field {tag} of {topic}-{partition}", ("partitions", f"{topic}-{partition}")
    )


def _log_removal(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    topic = random.choice(_names(client))
    return _frame(9, _id(client, topic)), planted(f"the log removes {topic}", ("topics", topic))


def _log_topic(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    name = f"logged-{random.randrange(1_000)}"
    return _frame(2, _text(name), b"\x13" + random.randbytes(15)), planted(f"the log makes {name}", ("topics", name))


def _log_level(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    level = struct.pack(">h", random.choice([0, 1, 7]))
    return _frame(12, _text("metadata.version"), level), planted("the log's level", ("cluster", "metadata.version"))


def _log_state(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    return _frame(21, b"\x03"), planted("the log is past the migration", ("cluster", "migration state"))


def _log_ids(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    first = (1 << 41) + random.randrange(1 << 20)
    return _frame(15, struct.pack(">iqq", 1, 1, first)), planted("the log's producer ids", ("producer ids", "next"))


def _log_acl(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    name = f"resource-{random.randrange(1_000)}"
    parts = (b"\x14" + random.randbytes(15), b"\x02", _text(name), b"\x03", _text("User:p"), _text("*"), b"\x03\x03")
    return _frame(18, *parts), planted(f"the log has an ACL of {name}", ("ACLs", f"/kafka-acl/Topic/{name}"))


def _log_quota(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    user = random.choice(["alice", f"user{random.randrange(1_000)}"])
    entity = _varint(2) + _text("user") + _text(user) + b"\x00"
    parts = (entity, _text("consumer_byte_rate"), struct.pack(">d", random.randrange(1, 1 << 20)), b"\x00")
    return _frame(14, *parts), planted(f"the log has a quota of {user}", ("client quotas", f"/config/users/{user}"))


def _log_credential(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    user = f"login{random.randrange(1_000)}"
    parts = (
        _text(user),
        b"\x01",
        _text(random.randbytes(8)),
        _text(b"stored"),
        _text(b"server"),
        struct.pack(">i", 4_096),
    )
    return _frame(11, *parts), planted(f"the log has {user}", ("SCRAM credentials", f"/config/users/{user}"))


def _log_token(client: KazooClient, random: Random) -> tuple[bytes, Planted]:
    token = random.choice(["abc", f"token{random.randrange(1_000)}"])
    who = (_text("User:planted"), _text("User:planted"), _varint(1))
    parts = (*who, struct.pack(">qqq", 1, 3, 2), _text(token))
    return _frame(10, *parts), planted(
        f"the log has {token}", ("delegation tokens", f"/delegation_token/tokens/{token}")
    )


_LOG: Final = (
    _log_config, _log_partition, _log_partition, _log_partition, _log_removal, _log_topic, _log_level, _log_state,
    _log_ids, _log_acl, _log_quota, _log_credential, _log_token,
)  # fmt: skip


# --- what a broker says -----------------------------------------------------------------------------------


def plant_on_broker(facts: dict[str, dict[str, Any]], random: Random) -> Planted:
    """Change one value of one key, or add or drop a key. facts: by family and key; they are changed.

    A token that a broker does not show may be one that it does not show to us: none is dropped.
    """
    family = random.choice(sorted(each for each in facts if facts[each]))
    key = random.choice(sorted(facts[family]))
    kind = random.choice(["changed", "added"] if family == "delegation tokens" else ["changed", "dropped", "added"])
    if kind == "dropped":
        del facts[family][key]
        return planted(f"a broker lacks {family} {key}", (family, key))
    if kind == "added":
        key = "planted-7" if family in ("partitions", "logs") else f"planted{random.randrange(100)}"
        if family == "partitions":
            key = f"{random.choice(sorted(facts['topics']))}-7"
        if family == "broker configs":
            key = str(random.randrange(50, 60))
        facts[family][key] = {"planted": 1}
        return planted(f"a broker alone has {family} {key}", (family, key))
    name = random.choice(sorted(facts[family][key]))
    facts[family][key][name] = _other(facts[family][key][name], random)
    return planted(f"a broker says {name} of {family} {key} otherwise", (family, key))


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 + random.randrange(5)
    return [*value, 9] if isinstance(value, list) else f"{unquote_plus(str(value))}-planted"
