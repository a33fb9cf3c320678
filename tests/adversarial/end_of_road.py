"""Stories of the end of the road that take a minute or more each, with real processes.

`python -m tests.adversarial.end_of_road [--only STORY,...]`: each story has a cluster of its own. Exit code 0 when every
story came to its end with nothing lost. Which story or test of CI shows what: docs/adversarial.md, "The end of the road".
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.controller.replay import LogReplay
from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import Cluster
from migrator.lab.ours import OurController, start_ready_to_migrate
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION
from migrator.lab.servers.controller import Controller, Quorum
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
