"""A flaw of Kafka's brokers that a change between ZooKeeper and KRaft controllers can meet, as their logs show it.

In:   the logs of brokers. Out: which of them an operator has to restart.
Source: docs/undo.md, "A flaw of Kafka's brokers"; the runbook of Z2K-2043.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

THREAD_ENDED: Final = re.compile(r"-channel-manager\]: Error due to.*\n.*")
BROKER_FLAW: Final = "IllegalArgumentException: A metric named "
"""Why it ended, in the flaw: the broker forwards nothing any more, or changes no ISR."""
STARTED: Final = "Registered kafka:type=kafka.Log4jController MBean"
"""The first line of a process, in ZooKeeper and in KRaft mode."""


def flawed_brokers(logs: Mapping[str, str]) -> list[str]:
    """The name of the broker that met the flaw since its last start; none or one. logs: by name, whole.

    Raises RuntimeError when a thread ended for another reason, or in more than one broker: a flaw that few restarts
    meet is not all that is wrong then.
    """
    ended = {name: THREAD_ENDED.findall(log, max(log.rfind(STARTED), 0)) for name, log in logs.items()}
    flawed = [name for name, threads in ended.items() if threads]
    other = [each for threads in ended.values() for each in threads if BROKER_FLAW not in each]
    if other or len(flawed) > 1:
        raise RuntimeError(f"threads to the controller ended in {flawed}: {other}")
    return flawed
