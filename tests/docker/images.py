"""The images of `docker/`: zk2kraft's, and Kafka 3.9's with ZooKeeper.

In:   an engine; the jars of the laboratory.
Out:  images by name. `python -m tests.docker.images` makes them for a person (`make docker-images`).
Elsewhere: what is in them (docker/Dockerfile, docker/kafka/Dockerfile).
The base is the one that the Dockerfile names. Where that cannot be pulled, it is made from Debian's packages, from the
mirror that apt uses here, with the certificates that this machine trusts. Either is made once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from migrator.lab.servers.artifacts import KAFKA_VERSION, kafka_artifacts
from tests.docker.engine import Engine, EngineTrouble, opened, why_none

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKER: Final = ROOT / "docker"
OURS: Final = "zk2kraft"
KAFKA: Final = f"zk2kraft-kafka:{KAFKA_VERSION}"
SUITE: Final = "bookworm"
PACKAGES: Final = ("ca-certificates", "openjdk-17-jre-headless", "python3", "python3-pip", "tini")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
CHANGES: Final = (
    f"ENV SSL_CERT_FILE={CERTIFICATES} PIP_CERT={CERTIFICATES} LANG=C.UTF-8",
    'CMD ["python3"]',
)
PULL_LIMIT_S: Final = 300.0
BUILD_LIMIT_S: Final = 1800.0
_SOURCE: Final = re.compile(rf"\d+ (https?://\S+) {SUITE}/main ")


def make_images(engine: Engine) -> None:
    """Both; the engine's cache makes a second time quick. Raises EngineTrouble."""
    base = base_image(engine)
    build(engine, OURS, DOCKER / "Dockerfile", ROOT, base)
    with tempfile.TemporaryDirectory(prefix="zk2kraft-kafka-") as place:
        context = Path(place)
        shutil.copytree(DOCKER / "kafka", context, dirs_exist_ok=True)
        shutil.copytree(kafka_artifacts(KAFKA_VERSION).libs, context / "libs")
        build(engine, KAFKA, context / "Dockerfile", context, base)


def build(engine: Engine, name: str, dockerfile: Path, context: Path, base: str) -> None:
    """In the network of this host, where the mirrors are reached that this host reaches."""
    print(f"building {name} on {base}", file=sys.stderr, flush=True)
    words = ("build", "--network", "host", "--build-arg", f"BASE={base}", "-t", name)
    engine.docker(*words, "-f", dockerfile, context, limit_s=BUILD_LIMIT_S)


def base_image(engine: Engine) -> str:
    """The pinned one, or one of Debian's packages. Raises EngineTrouble."""
    pinned = pinned_base()
    if engine.has_image(pinned):
        return pinned
    ours = own_base_name()
    if engine.has_image(ours):
        return ours
    try:
        engine.docker("pull", pinned, limit_s=PULL_LIMIT_S)
    except (EngineTrouble, subprocess.TimeoutExpired) as error:
        print(f"{pinned} cannot be pulled, so a base is made of Debian's packages: {error}", file=sys.stderr)
    else:
        return pinned
    make_base(engine, ours)
    return ours


def pinned_base() -> str:
    """What docker/Dockerfile builds on."""
    found = re.search(r"(?m)^ARG BASE=(\S+)$", (DOCKER / "Dockerfile").read_text())
    assert found is not None, "docker/Dockerfile names its base in `ARG BASE=`"
    return found[1]


def own_base_name() -> str:
    """Follows from what is in it, so that another recipe is another image."""
    recipe = "\n".join((SUITE, *PACKAGES, *CHANGES))
    return f"zk2kraft-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def mirror_of(policy: str) -> str | None:
    """The first mirror of this suite that `apt-cache policy` names."""
    found = _SOURCE.search(policy)
    return None if found is None else found[1]


def make_base(engine: Engine, name: str) -> None:
    """By debootstrap, in a directory that is removed again. Needs root. Raises EngineTrouble."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise EngineTrouble("debootstrap and root are needed to make a base of Debian's packages")
    policy = subprocess.run(["apt-cache", "policy"], capture_output=True, text=True, check=False).stdout
    mirror = mirror_of(policy) or "http://deb.debian.org/debian"
    with tempfile.TemporaryDirectory(prefix="zk2kraft-base-") as place:
        root = Path(place) / "root"
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), mirror]
        print(f"making {name}: {' '.join(words)}", file=sys.stderr, flush=True)
        made = subprocess.run(words, capture_output=True, timeout=BUILD_LIMIT_S, check=False)
        if made.returncode != 0:
            raise EngineTrouble(f"debootstrap: {made.stdout.decode(errors='replace')[-2000:]}")
        if CERTIFICATES.is_file():
            shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
        for archive in (root / "var/cache/apt/archives").glob("*.deb"):
            archive.unlink()
        changes = [word for change in CHANGES for word in ("--change", change)]
        with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
            imported = subprocess.run(
                ["docker", "import", *changes, "-", name],
                stdin=tar.stdout,
                capture_output=True,
                env={**os.environ, **engine.environment},
                timeout=BUILD_LIMIT_S,
                check=False,
            )
        if imported.returncode != 0 or tar.returncode != 0:
            raise EngineTrouble(f"docker import: {imported.stderr.decode(errors='replace')}")


def main() -> int:
    none = why_none()
    if none is not None:
        print(none, file=sys.stderr)
        return 1
    with opened() as engine:
        make_images(engine)
        if engine.log is not None:
            print(
                "an engine was started for this and is ended again; `make docker-test` uses the images", file=sys.stderr
            )
    print(f"{OURS}\n{KAFKA}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
