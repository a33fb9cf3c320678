"""The bench in namespaces of its own, so that the kernel clears everything away, however it ends.

In:   a command. Out: the same command as the first process of a network, mount and process namespace.
Elsewhere: the hosts, which have further namespaces inside of these (hosts.py).
Rules: no name is given outside. When the first process ends, or is killed, its hosts, networks and mounts are gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

INSIDE: Final = "ZK2KRAFT_ESTATE_INSIDE"
SSHD: Final = "/usr/sbin/sshd"
TOOLS: Final = ("unshare", "nsenter", "ip", "mount", "ssh", "ssh-keygen", "setsid", "sha256sum")
OWN: Final = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL")


def why_not() -> str:
    """Why this machine cannot have an estate; empty when it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts are network namespaces, which need Linux and root"
    missing = [each for each in TOOLS if shutil.which(each) is None]
    missing += [] if os.access(SSHD, os.X_OK) else [SSHD]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: iproute2, openssh-client, openssh-server)"
    probe = "ip link add v0 type veth peer name v1 && mount -t tmpfs tmpfs /mnt"
    tried = subprocess.run([*OWN, "sh", "-c", probe], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces are not allowed here: {tried.stderr.strip()[-200:]}"


def is_inside() -> bool:
    return os.environ.get(INSIDE) == "1"


def go_inside(words: Sequence[str]) -> NoReturn:
    """Becomes `words` inside."""
    os.execvpe(OWN[0], [*OWN, *words], {**os.environ, INSIDE: "1"})


def settle_in() -> None:
    """As the first process of a machine: loopback works, and nobody's dead children are kept."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
