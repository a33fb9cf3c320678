"""A cluster's whole tree in words that two clusters share when the same was done to both.

In:   a session.
Out:  path to what the znode says; apart from it the data versions of partitions' states, and the notifications.
What is left out, and why: znodes of processes and of the claim; epochs of a controller; ids that a controller draws
(of topics, of tokens), which are checked to be there; times; producer ids (a margin); the order in which an ISR or the
ACLs of a resource are listed; sequence numbers of notifications; an entity without values, which stock leaves where
ours, as Kafka in ZooKeeper mode, takes it away; notifications about tokens, which stock does not write (K-13).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from migrator.zk import paths
from migrator.zk.session import ZkSession

OF_NO_INTEREST: Final = (
    "/admin/delete_topics",
    "/brokers/ids",
    "/brokers/seqid",
    "/cluster/id",
    "/consumers",
    "/controller",
    "/controller_epoch",
    "/delegation_token/token_changes",
    "/feature",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/migration",
    "/zookeeper",
)
NOTIFICATIONS: Final = ("/config/changes", "/kafka-acl-changes", "/kafka-acl-extended-changes")
EMPTY: Final = {"version": 1, "config": {}}
TOKENS: Final = "/delegation_token/tokens/"

Tree = dict[str, Any]


def whole_tree(session: ZkSession) -> Tree:
    found = dict(_updated(session))
    for path in sorted(found, key=len, reverse=True):  # what is below comes first
        says_nothing = re.match("/config/(users|clients|ips)/", path) and found[path] in ("", EMPTY)
        if says_nothing and not any(other.startswith(f"{path}/") for other in found):
            del found[path]
    return found


def notifications(session: ZkSession) -> dict[str, Counter[str]]:
    """What brokers were told to look at, by queue; how often is not the same where commits are joined."""
    found: dict[str, Counter[str]] = {}
    for root in NOTIFICATIONS:
        queue = [f"{root}/{name}" for name in session.children(root) or []]
        found[root] = Counter(_canonical((each.data or b"").decode()) for each in session.get_many(queue) if each)
    return found


def state_versions(session: ZkSession) -> dict[str, int]:
    """The data version of each partition's state, which is its partition epoch."""
    topics = session.children("/brokers/topics") or []
    parents = [f"/brokers/topics/{name}/partitions" for name in topics]
    below = zip(parents, session.children_many(parents), strict=True)
    states = [f"{parent}/{number}/state" for parent, numbers in below for number in numbers or ()]
    return {path: each.version for path, each in zip(states, session.get_many(states), strict=True) if each is not None}


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True) if text.startswith("{") else text


def _counts(path: str) -> bool:
    is_a_process = path.startswith(f"{paths.CLUSTER}/{paths.PRESENCE_PREFIX}")
    return not is_a_process and path not in OF_NO_INTEREST and path not in NOTIFICATIONS


def _updated(session: ZkSession) -> Iterator[tuple[str, Any]]:
    below = ["/" + name for name in session.children("/") or []]
    while below:
        wanted = [path for path in below if _counts(path)]
        for path, znode in zip(wanted, session.get_many(wanted), strict=True):
            if znode is not None:
                yield _said(path, (znode.data or b"").decode())
        below = [
            f"{path}/{name}"
            for path, names in zip(wanted, session.children_many(wanted), strict=True)
            for name in sorted(names or ())
        ]


def _said(path: str, text: str) -> tuple[str, Any]:
    if not text.startswith("{"):
        return path, text
    found = json.loads(text)
    if re.fullmatch("/brokers/topics/[^/]+", path):
        assert len(found.pop("topic_id")) == 22, path
    elif path.endswith("/state"):
        del found["controller_epoch"]
        found["isr"] = sorted(found["isr"])
        return path, found
    elif path.startswith(TOKENS):
        assert found.pop("tokenId") == path.removeprefix(TOKENS)
        lives = found.pop("maxTimestamp") - found.pop("issueTimestamp")
        del found["expiryTimestamp"]
        return TOKENS + found["owner"], {**found, "lives_ms": lives}
    elif "acls" in found:
        found["acls"] = sorted(found["acls"], key=str)
    return path, found
