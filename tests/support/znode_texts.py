"""Texts of znodes, some hundreds of each kind: as every Kafka writes them, and with one thing changed.

In:   `LAYOUTS`: of each kind what Kafka of some release writes, as JSON values.
Out:  `texts()`: kind, bytes. Nothing in them is long: Kafka's limits of lengths and depths are just passed.
Elsewhere: who reads them (tests/support/znode_reader.py, tests/e2e/test_kafkas_own_readers.py).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

from migrator.zk.passwords import EncoderSettings, PasswordEncoder

Json = Any
Place = tuple[str | int, ...]

ENTRY: Final = {"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"}
SCRAM: Final = "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"

LAYOUTS: Final[dict[str, tuple[Json, ...]]] = {
    "topic": (
        {"version": 1, "partitions": {"0": [1, 2], "1": [2, 3]}},
        {"version": 2, "partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}, "removing_replicas": {}},
        {
            "removing_replicas": {"1": [3]},
            "partitions": {"0": [1, 2], "1": [2, 3]},
            "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "adding_replicas": {"0": [2]},
            "version": 3,
        },
    ),
    "state": (
        {"controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1, 2]},
        {"controller_epoch": 7, "leader": -1, "version": 1, "leader_epoch": 5, "isr": [1], "leader_recovery_state": 1},
    ),
    "configuration": (
        {"version": 1, "config": {}},
        {"version": 1, "config": {"retention.ms": "7", "cleanup.policy": "compact"}},
    ),
    "user": ({"version": 1, "config": {"producer_byte_rate": "1024", "request_percentage": "50.5"}},),
    "address": ({"version": 1, "config": {"connection_creation_rate": "7"}},),
    "ACLs": ({"version": 1, "acls": [ENTRY, {**ENTRY, "operation": "ClusterAction", "permissionType": "Deny"}]},),
    "token": (
        *(
            {
                "version": version,
                "owner": "User%3Aa",
                "renewers": ["User%3Ab", "User%3Ac"],
                "issueTimestamp": 1,
                "maxTimestamp": 3,
                "expiryTimestamp": 2,
                "tokenId": "abc",
                **({"tokenRequester": "User%3Ad"} if version == 3 else {}),
            }
            for version in (1, 2, 3)
        ),
    ),
    "producer ids": ({"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},),
    "cluster id": ({"version": "1", "id": "kafkas-own-id_0123456A"},),
    "controller": (
        {"version": 1, "brokerid": 1, "timestamp": "1700000000000"},
        {"version": 2, "brokerid": 3000, "timestamp": "1700000000000", "kraftControllerEpoch": 4},
    ),
    "migration": (
        {
            "version": 0,
            "kraft_controller_id": 3000,
            "kraft_controller_epoch": 4,
            "kraft_metadata_offset": 5000,
            "kraft_metadata_epoch": 4,
        },
    ),
    "features": (
        {"version": 1, "status": 0, "features": {}},
        {"version": 1, "status": 1, "features": {"f": {"min_version_level": 1, "max_version_level": 2}}},
        {"version": 2, "status": 1, "features": {"f": {"max_version_level": 2}}},
    ),
    "ordered moves": ({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]},),
}

TOKENS: Final = (
    "null", "true", "false", "TRUE", "0", "1", "2", "4", "-1", "-0", "7", "7.0", "7e0", "7E+0", "7.5", "0.0", "1e400",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "4294967297", "07", "+7", "-",
    "7.", ".7", "7e", "1_000", "0x7", "NaN", "Infinity", "-Infinity", "undefined", "'7'", "x", "", "[]", "{}", "[7]",
    "[1,1]", "[1,2,]", "[,1]", "[1,,2]", '["1"]', "[1.0]", "[1e0]", "[null]", "[true]", "[2147483648]", "[[1]]",
    '{"0":[1]}', '{"a":1}', '{"a":"b"}', '{"0":null}', '[{"topic":"t"}]', '""', '"7"', '" 7"', '"7.0"', '"x"',
    '"null"', '"\\u0037"', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u066000"', '"\\x41"', '"\\/"', '"a\tb"',
    '"a\nb"', '"\x7f"', '"\u0661"', '"\U0001f600"', '"\U0001d7d9"',
)  # fmt: skip
"""What stands in the place of a value, as it is written."""

WHOLE: Final = (
    "1000", "0", "-1", "-0", "+7", "007", "", " ", " 7", "7 ", "7\t", "1_000", "1,000", "7.0", "7.", ".7", "1e3",
    "1E3", "0x7", "7L", "7d", "7f", "--7", "+-7", "+", "-", "NaN", "Infinity", "null", "true", "\u0661\u0660",
    "\uff17", "\U0001d7d9", "\u00b2", "\u2160", "\u4e00", "\u0bef", "2147483647", "2147483648", "-2147483648",
    "-2147483649", "4294967297", "9007199254740993", "9223372036854775806", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "00000000000000000000000000007", "1" * 60,
    "7\x00", "\ufeff7",
)  # fmt: skip
DOUBLES: Final = (
    *WHOLE, "50.5", "+50.5", "-50.5", " 1.5e1d ", "1.5F", "1.5D", "1.5dd", "1.5fd", "1.5l", "1e400", "-1e400",
    "1e-400", "4.9e-324", "1.7976931348623157e308", "1.7976931348623159e308", "1e+3", "1e", "1e+", "e3", "1e3.0",
    "1e 3", "1 e3", "0.1", "0.30000000000000004", "1.000000000000000000001", "100." + "0" * 40, ".", "..", "1..2",
    "1.2.3", "nan", "NAN", "inf", "infinity", "INFINITY", "+NaN", "-NaN", "+Infinity", "-Infinity", "NaNd",
    "Infinityf", " NaN ", "\u00a07", "\x007", "\x1f7\x1f", "\u20287", "0x1p3", "0X1P3", "0x1.8p1", "0x.8p1", "0x1.p1",
    "0x1p", "0x1", "0xp1", "0x1p3d", "0x1p+3", "0x1p-3", "-0x1p3", "0x1p9999", "0x1p-9999", "0x1p1_0", "0x1.8",
    "1e1_0", "1_0.5", "1e\u0663", "1e99999999999", "1e-99999999999", "0e99999999999", "2.2250738585072012e-308",
    "9007199254740993.0", "123456789012345678",
)  # fmt: skip
CREDENTIALS: Final = (
    SCRAM, *(SCRAM.replace("4096", each) for each in WHOLE),
    *(
        SCRAM.replace("c2FsdA==", each)
        for each in (
            "", "=", "==", "====", "c2FsdA", "c2FsdA=", "c2FsdA===", "c2FsdA==c2Fs", "c2FsdB==", "c2Fsd", "c2Fs dA==",
            "c2FsdA==\n", " c2FsdA==", "c2Fsd-==", "c2Fsd_==", "+/+/", "-_-_", "c2FsdA= =", "c2FsdA==,", "\u00e9A==",
            "YQ==", "YR==", "YQ", "Y", "Y===", "YWI=", "YWJ=", "YWI", "YWI==", "YWJj", "YWJj=", "YWJjZ", "A=B=",
            "\u0661\u0661\u0661\u0661",
        )
    ),
    "", ",", "=", "salt", "salt=", "=c2FsdA==", "x=1", SCRAM + ",", "," + SCRAM, SCRAM + ",more=1",
    SCRAM + ",salt=YQ==", SCRAM + ",,", SCRAM + ",more", SCRAM + ",=1", SCRAM + ", ", SCRAM.replace(",", ", "),
    SCRAM.replace(",", ";"), SCRAM.replace("salt", "Salt"), SCRAM.replace("salt", " salt"),
    SCRAM.replace("salt=", "salt ="), SCRAM.replace(",iterations=4096", ""), "iterations=4096," + SCRAM,
    "salt=YQ==," + SCRAM, "iterations=x," + SCRAM, ",".join(reversed(SCRAM.split(","))), SCRAM + "=",
    SCRAM.replace("c2FsdA==", "c2Fs=dA=="), SCRAM + ",iterations=8192",
)  # fmt: skip
PRINCIPALS: Final = (
    "User:a", "User:", ":a", ":", "a", "", "User:a:b", "user:a", " User:a", "User: a", "User:*", "*", "Group:g",
    "User::", "User:\u00e9", "User:\ud800", "User:a\x00", "User:CN=a,OU=b", "\u0130:x", "User:" + "a" * 300,
    "User:a%3A", "User:+",
)  # fmt: skip
ESCAPED: Final = (
    *PRINCIPALS, "User%3Aa", "User%3aa", "User%3A", "%3Aa", "%3A", "User%3Aa+b", "User%3Aa%20b", "User%3Aa%2Bb",
    "User%3A%2A", "User%3Aa*", "User%3A%C3%A9", "User%3A%FF", "User%3A%C3", "User%3A%C3%28", "User%3A%ED%A0%80",
    "User%3A%F0%9F%98%80", "User%3A%E2%82", "User%3A%", "User%3A%4", "User%3A%zz", "User%3A%-1", "User%3A%+1",
    "User%3A% 1", "User%3A%\u0661\u0660", "User%3Aa%25", "%", "%%", "User%3A%00", "User%3A%F4%90%80%80",
    "User%3A%C0%80", "User%3A%E0%80%80", "User%3A%F0%9F%98", "User%3A%80%80", "User%3A\u00e9", "User%3A\u00e9%C3%A9",
    "User%3A%C3\u00e9%A9", "User%3A%F0%9F%98x", "User%3A%FF%FE", "User%3A%ED%A0%80x",
)  # fmt: skip
WORDS: Final = (
    "Read", "READ", "read", "rEAD", " Read", "Read ", "Reads", "", "All", "Any", "Unknown", "UNKNOWN", "None", "2",
    "3", "ClusterAction", "CLUSTERACTION", "CLUSTER_ACTION", "cluster_action", "Cluster_Action", "CreateTokens",
    "createtokens", "CREATE_TOKENS", "DescribeTokens", "IdempotentWrite", "AlterConfigs", "DescribeConfigs",
    "deſcribe", "Alter", "Delete", "CreateTo\u212aens", "Wr\u0131te", "WR\u0130TE", "Cluſteraction", "Create",
    "Write", "Describe", "Allow", "allow", "ALLOW", "Deny", "DENY", "deny", "TwoPhaseCommit", "TWOPHASECOMMIT",
    "A\ufb02low",
)  # fmt: skip
IDS: Final = (
    "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAQ==", "AAAAAAAAAAAAAAAAAAAAAQ=", "AAAAAAAAAAAAAAAAAAAAAR", "",
    "=", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAA",
    "-_-_-_-_-_-_-_-_-_-_-Q", "+/+/+/+/+/+/+/+/+/+/+A", " AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAQ ",
    "AAAAAAAAAAAAAAAAAAAAAQ\n", "AAAAAAAAAAA=AAAAAAAAAQ", "AAAAAAAA-AAAA-AAAA-AAAA-AAAAAAAAAAAA",
    "00000000000000000000000000000001", "AAAAAAAAAAAAAAAAAAAA\u00e9Q", "null", "AAAAAAAAAAAAAAAAAAAAAQ=\n",
)  # fmt: skip
PARTITIONS: Final = (
    "0", "1", "-1", "-0", "+0", "00", "01", "", " 0", "0 ", "0.0", "1e0", "x", "0x0", "2147483647", "2147483648",
    "4294967296", "\u0660", "\U0001d7ce", "\uff10", "9223372036854775808", "1_0", "9" * 30, "\u00b2", "\x00",
)  # fmt: skip

STRINGS: Final[dict[str, tuple[tuple[int, Place, tuple[str, ...]], ...]]] = {
    "topic": ((2, ("topic_id",), IDS),),
    "producer ids": ((0, ("block_start",), WHOLE), (0, ("block_end",), WHOLE)),
    "user": (
        (0, ("config", "producer_byte_rate"), WHOLE),
        (0, ("config", "consumer_byte_rate"), WHOLE),
        (0, ("config", "request_percentage"), DOUBLES),
        (0, ("config", "controller_mutation_rate"), DOUBLES),
        (0, ("config", "another"), DOUBLES),
        (0, ("config", "SCRAM-SHA-256"), CREDENTIALS),
        (0, ("config", "SCRAM-SHA-512"), (SCRAM, SCRAM + "x")),
        (0, ("config", "SCRAM-SHA-1"), (SCRAM, "7")),
        (0, ("config", "scram-sha-256"), (SCRAM, "7")),
    ),
    "address": ((0, ("config", "connection_creation_rate"), WHOLE), (0, ("config", "another"), DOUBLES)),
    "ACLs": (
        (0, ("acls", 0, "principal"), PRINCIPALS),
        (0, ("acls", 0, "operation"), WORDS),
        (0, ("acls", 0, "permissionType"), WORDS),
    ),
    "token": ((2, ("owner",), ESCAPED), (2, ("tokenRequester",), ESCAPED), (2, ("renewers", 0), ESCAPED)),
}  # fmt: skip
"""Of which layout, where, what."""

TEXTS: Final = (
    b"", b" ", b"\n", b"null", b"true", b"7", b'"x"', b"[]", b"{}", b"[{}]", b"\x00", b"\xff", b"{", b"}", b"abc",
)  # fmt: skip
"""Instead of a znode."""

BEHIND: Final = (
    b" ", b"\n", b"\r\n", b"\t", b"\x0b", b"\x0c", b"\x00", b"}", b"{}", b",", b"x", b"null", b" {\"version\":1}",
    b"//x", b"#x", b"\xc2\xa0", b"\xef\xbb\xbf", b"\xff", b"\x1a",
)  # fmt: skip
BEFORE: Final = (
    b" ", b"\n", b"\x00", b"x", b",", b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b"/**/", b"//\n", b"\xc2\xa0",
    b")]}',\n",
)  # fmt: skip

UNKNOWN: Final = (
    b'"more":1', b'"more":null', b'"more":{"a":[1,{"b":"c"}]}', b'"more":1e400', b'"more":NaN', b'"more":01',
    b'"more":1.', b'"more":TRUE', b'"more":"\\q"', b'"more":"\\ud800"', b'"more":"\\udc00\\ud800"', b'"more":"\xff"',
    b'"more":"\xc0\x80"', b'"more":"\xed\xa0\x80"', b'"more":"\xf4\x90\x80\x80"', b'"more":"\xe2\x82"', b'"\xff":1',
    b'"mo\\u0072e":1', b'"":1', b'"more":"\x01"', b'"more":"\t"', b'"more":"\x7f"', b'"more":[1,]',
    b'"more":{"a":1,}', b'"more":{"a" 1}', b'"more":[1 2]', b"more:1", b"'more':1", b'"more":1 "x":2', b'"more"',
    b'"more":', b":1", b",", b'/*x*/"more":1', b'"more":1//x\n',
    *(b'"more":' + b"1" * size for size in (999, 1_000, 1_001)),
    *(b'"more":1e-' + b"0" * size + b"1" for size in (900, 1_100)),
    *(b'"more":' + b"[" * depth + b"]" * depth for depth in (100, 498, 900, 998, 999, 1_000, 1_001)),
    *(b'"more":' + b'{"a":' * depth + b"1" + b"}" * depth for depth in (100, 498, 900, 998, 999, 1_000)),
    *(b'"' + b"m" * size + b'":1' for size in (49_000, 50_001)), b'"more":' + b"[" * 100_000,
    b'"more":"' + b"x" * 200_000 + b'"',
)  # fmt: skip
"""One more pair at the end of an object."""


def texts() -> list[tuple[str, bytes]]:
    """Every text once, by kind."""
    found: dict[tuple[str, bytes], None] = {}
    for kind, layouts in LAYOUTS.items():
        for layout in layouts:
            found |= dict.fromkeys((kind, each) for each in _changed(layout))
        for number, place, values in STRINGS.get(kind, ()):
            found |= dict.fromkeys((kind, _with(layouts[number], place, json.dumps(each))) for each in values)
        found |= dict.fromkeys((kind, each) for each in TEXTS)
    found |= dict.fromkeys(("topic", each) for each in _partition_ids())
    found |= dict.fromkeys(("ACLs", each) for each in _lists_of_acls())
    found |= dict.fromkeys(("controller epoch", each.encode("utf-8", "surrogatepass")) for each in WHOLE)
    found |= dict.fromkeys(
        ("controller epoch", each) for each in (b"\xff", b"7\xff", b"\xef\xbb\xbf7", b"\xd9\xa1", b'"7"')
    )
    found |= dict.fromkeys(("password", each.encode()) for each in _passwords())
    return list(found)


def _changed(layout: Json) -> Iterator[bytes]:
    text = as_text(layout)
    yield text
    yield json.dumps(layout, indent=2).encode()
    yield from (text + each for each in BEHIND)
    yield from (each + text for each in BEFORE)
    yield from (text[:-1] + b"," + each + b"}" for each in UNKNOWN)
    yield from (
        text.decode().encode(each) for each in ("utf-16-be", "utf-16-le", "utf-16", "utf-32-be", "utf-32-le", "utf-32")
    )
    yield from (text[:size] for size in range(1, len(text), 5))
    yield text.replace(b'"', b"'")
    yield text.replace(b":", b"=", 1)
    yield text.replace(b",", b",,", 1)
    yield text.upper()
    for place in _places(layout):
        yield from (_with(layout, place, token) for token in TOKENS)
        yield from _keys_changed(layout, place)


def _keys_changed(layout: Json, place: Place) -> Iterator[bytes]:
    """Without the pair, with its key in another form, and with the key twice."""
    *above, last = place
    parent = layout
    for step in above:
        parent = parent[step]
    without = copy.deepcopy(layout)
    spot = without
    for step in above:
        spot = spot[step]
    del spot[last]
    yield as_text(without)
    if isinstance(last, int):
        return
    value, mark = _dumped(parent[last]), "@@"
    marked = _with(layout, place, mark)
    key, escaped = json.dumps(last), "".join(f"\\u{ord(sign):04x}" for sign in last)
    for changed in (
        f"{key}:7,{key}:{value}", f"{key}:{value},{key}:7", f'{key}:"x",{key}:{value}', f"{key}:{value},{key}:null",
        f"{key}:null,{key}:{value}", f"{json.dumps(last.upper())}:{value}", f"{json.dumps(' ' + last)}:{value}",
        f'"{escaped}":{value}', f"{last}:{value}", f"{key} :\t{value}",
    ):  # fmt: skip
        yield marked.replace(f"{key}:{mark}".encode(), changed.encode())


def _partition_ids() -> Iterator[bytes]:
    layout = LAYOUTS["topic"][2]
    for each in PARTITIONS:
        yield as_text({**layout, "partitions": {each: [1]}})
        yield as_text(
            {**layout, "partitions": {"0": [1], each: [2]}, "adding_replicas": {"0": [1]}, "removing_replicas": {}}
        )
        yield as_text({**layout, "adding_replicas": {each: [1]}})
        yield as_text({**layout, "removing_replicas": {each: "no list"}})
    yield as_text({**layout, "partitions": {}})
    yield as_text({**layout, "adding_replicas": {"7": "nobody reads it"}})
    yield as_text({**layout, "partitions": {"0": []}})


def _lists_of_acls() -> Iterator[bytes]:
    for acls in ([], [ENTRY, ENTRY], [ENTRY, {**ENTRY, "operation": "READ"}], [{**ENTRY, "more": 1}], [ENTRY, {}]):
        yield as_text({"version": 1, "acls": acls})
    for host in ("", "h", "127.0.0.1", "*", " "):
        yield as_text({"version": 1, "acls": [{**ENTRY, "host": host}]})


def _passwords() -> Iterator[str]:
    """What broker 1 may find in place of an encrypted password. No text here wants many iterations."""
    text = PasswordEncoder(EncoderSettings("secret", iterations=16), bytes).encode("a value")
    yield text
    pairs = text.split(",")
    for number, pair in enumerate(pairs):
        name, _, value = pair.partition(":")
        others = [pair for place, pair in enumerate(pairs) if place != number]
        for changed in (
            "", name, f"{name}:", f":{value}", f"{name}={value}", f" {name} : {value} ", f"{name}:x:{value}",
            f"{name}::{value}", f"{name.upper()}:{value}", f"{name}:{value}x", f"{name}:{value}=",
            f"{name}:{value.rstrip('=')}", f"{name}:+{value}", f"{name}:-{value}", f"{name}:0{value}", f"{name}:0",
            f"{name}:1", f"{name}: {value}", f"{name}:{value}\n", f"{name}:\u0661", f"{name}:{value}.0",
            f"{name}:99999999999", f"{name}:x", f"{name}:{value},{name}:x", f"{name}:x,{name}:{value}",
        ):  # fmt: skip
            yield ",".join([*others, changed])
    yield from (text + each for each in (",", ",x", ",x:1", ",:", " ", "\n", ",,", ", ", " , ,\t", ",,x:1"))
    yield from (
        "",
        " ",
        ",",
        ":",
        "a value",
        text.replace(",", " ,\t"),
        text.replace(":", " : "),
        text.replace(",", ";"),
    )
    yield ",".join(reversed(pairs))


# --- writing JSON ------------------------------------------------------------------------------------------


def _places(layout: Json, above: Place = ()) -> Iterator[Place]:
    pairs = layout.items() if isinstance(layout, dict) else enumerate(layout) if isinstance(layout, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from _places(value, (*above, key))


def _with(layout: Json, place: Place, token: str) -> bytes:
    """The layout with this text in place of a value."""
    found = copy.deepcopy(layout)
    spot = found
    for step in place[:-1]:
        spot = spot[step]
    spot[place[-1]] = "\x02"
    return as_text(found).replace(b'"\\u0002"', token.encode("utf-8"))


def as_text(value: Json) -> bytes:
    """As znodes are written: without blanks."""
    return _dumped(value).encode()


def _dumped(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))
