"""`make lab`: a ZooKeeper and three brokers in ZooKeeper mode, until Ctrl-C.

In:   `python -m migrator.lab [--brokers N] [--chroot /NAME] [--dir D]`.
Out:  addresses on standard output; when it ends, no process is left, and no directory unless `--dir` was given.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from migrator.findings.finding import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m migrator.lab", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--chroot", default="", help='where Kafka\'s tree hangs in ZooKeeper, for instance "/kafka"')
    parser.add_argument("--dir", type=Path, help="keep data and logs here; the default is a directory that is removed")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run(chosen.brokers, chosen.chroot, chosen.dir)
    except FindingError as error:
        print(error, error.occurrence.finding.remedy, sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing is left running")
    return 0


def _run(brokers: int, chroot: str, directory: Path | None) -> None:
    began = time.monotonic()
    with ExitStack() as stack:
        home = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zk2kraft-lab-")))
        laboratory = stack.enter_context(Laboratory(home, prepared()))
        cluster = LabCluster(laboratory, brokers=brokers, chroot=chroot)
        cluster.start()
        print(f"up in {time.monotonic() - began:.1f} s")
        print(f"zookeeper  {cluster.zookeeper_connect}")
        print(f"brokers    {cluster.bootstrap_servers}")
        print(f"directory  {home}")
        print("Ctrl-C stops everything", flush=True)
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
