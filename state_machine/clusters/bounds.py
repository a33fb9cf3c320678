"""What the service may read for an inventory, and whom a control file may name.

In:   paths of an inventory; the address in a control file.
Out:  why not, in words; None when it may.
Elsewhere: which roots and hosts are allowed (settings.py), refusing a request (api), refusing to read (control.py).
Why:  who may create a migration names files, and a file names an address: without bounds the service would read any
file, start a program with it, and ask any address on this network.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from migrator.findings.finding import Occurrence
from migrator.findings.service import PATH_OUTSIDE
from state_machine.clusters.inventory import ClusterInventory, ControllerEntry

EVERYWHERE: Final = (Path("/"),)


@dataclass(frozen=True, slots=True)
class Bounds:
    """roots: below which files and directories of controllers lie.

    hosts: HOST of control files that are not on loopback, and HOST:PORT of controllers on other hosts.
    """

    roots: tuple[Path, ...] = EVERYWHERE
    hosts: Collection[str] = ()

    def outside(self, inventory: ClusterInventory) -> dict[int, Occurrence]:
        """The first path of each controller that lies below no root, by node id."""
        found = {entry.node_id: self.outside_of(entry) for entry in inventory.controllers}
        return {node: occurrence for node, occurrence in found.items() if occurrence is not None}

    def outside_of(self, entry: ControllerEntry) -> Occurrence | None:
        """Links are followed first: what counts is where the file is now."""
        for path in (entry.properties,) if entry.is_remote else (entry.properties, entry.data):
            real = Path(os.path.realpath(path))
            if not any(real.is_relative_to(os.path.realpath(root)) for root in self.roots):
                allowed = ", ".join(map(str, self.roots))
                return PATH_OUTSIDE.found(path=path, node=entry.node_id, roots=allowed)
        return None

    def undeclared(self, inventory: ClusterInventory) -> tuple[int, str] | None:
        """The first controller on another host whose address is not asked, and why."""
        said = (
            (each.node_id, self.why_foreign(each.control, "https")) for each in inventory.controllers if each.control
        )
        return next(((node, reason) for node, reason in said if reason is not None), None)

    def why_foreign(self, url: str, scheme: str = "http") -> str | None:
        """Why the address in a control file, or with https that of a controller on another host, is not asked."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return "its address is no address"
        if parts.scheme != scheme or host is None or not port or parts.username is not None:
            return f"its address is not {scheme}://HOST:PORT"
        if parts.path or parts.query or parts.fragment:
            return "its address has more than a host and a port"
        if scheme == "https":  # it is shown the token that all of them have
            declared = parts.netloc in self.hosts
            return None if declared else f"{parts.netloc} is not in control_hosts"
        if is_loopback(host) or host in self.hosts:
            return None
        return f"its host {host} is neither on loopback nor in control_hosts"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
