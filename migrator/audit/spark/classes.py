"""An archive of the classes that an audit's JVM loads, so that they are not parsed and verified at every start.

In:   the user's cache directory, the Java and the PySpark that are installed.
Out:  the options of a JVM that uses the archive; none where there is none.
Elsewhere: what is run once to make it (training.py), the same for Kafka's own processes (lab/classes.py).
Source: JEP 350 (dynamic class-data archives).
It is only ever a matter of speed: without it, or with one that does not fit, an audit takes some seconds longer. An
empty file stands for an archive that could not be made, so that this is not tried at every set-up.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark


def archive_path() -> Path:
    """Where the archive is, or would be: an archive fits one Java and one PySpark."""
    java = _java()
    state = java.stat() if java is not None else None
    words = (
        f"{pyspark.__version__} {Path(pyspark.__file__).parent} {java} {state and (state.st_size, state.st_mtime_ns)}"
    )
    cache = Path(os.environ.get("ZK2KRAFT_CACHE") or "~/.cache/zk2kraft").expanduser().absolute()
    return cache / "spark" / f"classes-{hashlib.sha256(words.encode()).hexdigest()[:16]}.jsa"


def using_archive() -> str:
    """Options of a JVM, with a space in front."""
    archive = archive_path()
    if not archive.is_file() or not archive.stat().st_size or " " in str(archive):
        return ""
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def making_archive(draft: Path) -> str:
    """The same, of the JVM that writes one when it ends."""
    return f" -XX:ArchiveClassesAtExit={draft} -Xlog:cds=off -Xlog:cds+dynamic=off"


def _java() -> Path | None:
    """The one that PySpark starts."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if not home else str(Path(home) / "bin" / "java")
    return Path(found).resolve() if found and Path(found).exists() else None
