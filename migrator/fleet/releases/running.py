"""The release of Kafka that a node runs, read from its running command line and the jars that it names.

In:   an actuator. Out: the release, such as "2.8.2", or why it is not known.
Elsewhere: what the inventory says (`kafka` of a node), jars beside a start command (guard.py).
Rules: it reads only. Confluent's own numbers (-ccs, -ce) are told as Kafka's: 6.2 is 2.8, 7.9 is 3.9, 8.0 is 4.0.
Source: https://docs.confluent.io/platform/current/installation/versions-interoperability.html
"""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from typing import Final

import msgspec

from migrator.findings.finding import FindingError
from migrator.fleet.actuator import Actuator
from migrator.fleet.guard import places_of

_JAR: Final = re.compile(r"(?:kafka_2\.1\d|kafka-server)-(\d+)\.(\d+)\.(\d+)(-ccs|-ce)?(?:-[\w.]+)?\.jar\Z")
_MINOR_OF_6: Final = 6
"""Confluent 6.0 is Kafka 2.6."""


class RunningRelease(msgspec.Struct, frozen=True):
    """release: empty where it is not known. reason: why, in words, or what shows it."""

    release: str = ""
    reason: str = ""


def running_release(actuator: Actuator) -> RunningRelease:
    """Blocks on the host. Raises nothing that a host can cause."""
    try:
        command = actuator.status().command
        if not command:
            return RunningRelease(reason="its process does not run, or its template has no act `command`")
        words = [each for word in command for each in word.split(":")]
        jars = [posixpath.basename(each) for each in words]
    except FindingError as error:
        return RunningRelease(reason=f"{error.code} {error.occurrence.text}")
    for place in places_of(" ".join(command), ""):
        with suppress(FindingError):  # a directory that is not there, such as one beside the command of Java
            jars += actuator.list(place) or ()
    found = sorted({(each, name) for name in jars if (each := release_of_jar(name))})
    releases = sorted({each for each, _ in found})
    if len(releases) == 1:
        return RunningRelease(releases[0], found[0][1])
    if releases:
        return RunningRelease(reason=f"its class path has jars of {', '.join(releases)}")
    return RunningRelease(reason="no jar of Kafka's server is seen on its class path")


def release_of_jar(name: str) -> str:
    """Return the release of a jar of Kafka's server; empty for another file."""
    match = _JAR.match(name)
    if match is None:
        return ""
    major, minor, patch = int(match[1]), int(match[2]), match[3]
    if match[4]:
        major, minor = (2, minor + _MINOR_OF_6) if major == _MINOR_OF_6 else (major - 4, minor)
    return f"{major}.{minor}.{patch}"
