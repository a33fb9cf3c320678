"""What `--out` and the name of a kept audit say: a directory, or an address of a Hadoop file system.

In:   text of the command line. Out: a `KeptPath`.
Elsewhere: what is done there (history/hadoop_path.py).
Errors: Z2K-5016 for an address that would not mean what it says, at once; without Spark, once it is used.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from migrator.audit.engines import HOW_TO_INSTALL_SPARK, spark_is_installed
from migrator.audit.history.hadoop_path import HadoopPath, KeptPath
from migrator.findings.audit import ADDRESS_UNUSABLE

LOCAL: Final = "local[*]"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""A scheme of one letter would be a drive."""


def kept_path(text: str, master: str = LOCAL) -> KeptPath:
    """Take a directory's name, or an address. Raises Z2K-5016.

    text: `file:` addresses are directories of this machine, and need no Spark. master: with whose settings the JVM
    starts, where this process has none yet.
    """
    if not _ADDRESS.match(text):
        return Path(text)
    parts = urlsplit(text)
    if parts.password is not None:
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        raise ADDRESS_UNUSABLE.error(address=shown, reason="it has a password in it, which reports would show")
    if parts.query or parts.fragment:
        raise ADDRESS_UNUSABLE.error(address=text, reason="it has a ? or a # in it")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ADDRESS_UNUSABLE.error(address=text, reason=f"it names the host {parts.netloc}; write file:///...")
        return Path(unquote(parts.path))
    return HadoopPath(text.rstrip("/"), partial(_java, text, master))


def _java(address: str, master: str) -> Any:
    """Raises Z2K-5016 without Spark, Z2K-5003."""
    if not spark_is_installed():
        raise ADDRESS_UNUSABLE.error(address=address, reason=HOW_TO_INSTALL_SPARK)
    from migrator.audit.spark.session import java_of

    return java_of(master)
