"""Real ZooKeeper, real Kafka brokers of both kinds and stock controllers as child processes on loopback.

In:   Java 17 or later; Kafka's jars, brought once (artifacts.py) or found in `KAFKA_HOME`.
Out:  `classes.prepared()` -> `laboratory.Laboratory` -> `cluster.Cluster`; `python -m migrator.lab` for hands.
Elsewhere: everything of ours that the laboratory is there to be compared with; nothing of it is imported here.
"""

from __future__ import annotations

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())
"""Clients talk much when a broker is stopped on purpose; whoever wants to hear them configures logging."""
