"""A directory of `--out` at an address of a Hadoop file system, such as `s3a://bucket/audits`, with pathlib's names.

In:   an address; Spark's configuration (`spark-defaults.conf`), with what the file system needs: jars, credentials.
Out:  `HadoopPath`: what an audit keeps beside its rows, and reads again. Executors write the rows themselves.
Elsewhere: what is an address (spark/addresses.py), the JVM (spark/session.py), the rows (spark/kept_rows.py).
Why so: Hadoop's own client, in the JVM that Spark needs anyway, knows every address that executors know, by the same
keys. Another client would want its own credentials, and would know fewer addresses.
Errors: FileNotFoundError and FileExistsError as of pathlib; Z2K-5016 for whatever else the file system answers.
Source: Hadoop 3.5 `FileSystem`, `FSDataOutputStream`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from migrator.findings.audit import ADDRESS_UNUSABLE

OWNER_ONLY: Final = "700"
REASON_MAX: Final = 300
"""Characters of what a file system says; some answer with a page."""


@dataclass(frozen=True, slots=True)
class HadoopPath:
    """A file or directory at an address. java: gives the JVM, once it is needed. Raises what keeps it from that."""

    address: str
    java: Callable[[], Any] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(f"{self.address}/{name}", self.java)

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    @property
    def parent(self) -> HadoopPath:
        return HadoopPath(self.address.rpartition("/")[0], self.java)

    def absolute(self) -> HadoopPath:
        return self

    def exists(self) -> bool:
        with self._told() as (files, at):
            return bool(files.exists(at))

    def is_file(self) -> bool:
        with self._told() as (files, at):
            return bool(files.exists(at)) and bool(files.getFileStatus(at).isFile())

    def iterdir(self) -> Iterator[HadoopPath]:
        """What is directly in it. Raises FileNotFoundError."""
        with self._told() as (files, at):
            found = [str(each.getPath().getName()) for each in files.listStatus(at)]
        return (self / name for name in sorted(found))

    def make_directory(self) -> None:
        """Make it for its owner alone, where the file system knows of that. One that is there stays as it is."""
        with self._told() as (files, at):
            files.mkdirs(at, self.java().org.apache.hadoop.fs.permission.FsPermission(OWNER_ONLY))

    def read_bytes(self) -> bytes:
        with self._told() as (files, at):
            stream = files.open(at)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write_bytes(self, data: bytes, *, new: bool = False) -> None:
        """new: raises FileExistsError in place of writing over a file."""
        with self._told() as (files, at):
            stream = files.create(at, not new)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()

    def written_at(self) -> float:
        """Seconds since 1970 in UTC."""
        with self._told() as (files, at):
            return int(files.getFileStatus(at).getModificationTime()) / 1_000

    @contextmanager
    def _told(self) -> Iterator[tuple[Any, Any]]:
        """The file system and the path in it. What they answer is told as this module's errors."""
        java = self.java()
        from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

        try:
            at = java.org.apache.hadoop.fs.Path(self.address)
            yield at.getFileSystem(_configuration(java)), at
        except Py4JJavaError as error:
            thrown = error.java_exception
            kind = str(thrown.getClass().getName()).rpartition(".")[2]
            if kind == "FileNotFoundException":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.address) from error
            if kind == "FileAlreadyExistsException":
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.address) from error
            words = " ".join(f"{kind}: {thrown.getMessage()}".split())
            raise ADDRESS_UNUSABLE.error(address=self.address, reason=words[:REASON_MAX]) from error
        except Py4JError as error:
            raise ADDRESS_UNUSABLE.error(address=self.address, reason=str(error)[:REASON_MAX]) from error


KeptPath = Path | HadoopPath
"""Of a kept audit: both know the same names."""


def write_new(file: KeptPath, data: bytes) -> None:
    """Write a file that is not there yet. Raises FileExistsError."""
    if isinstance(file, HadoopPath):
        file.write_bytes(data, new=True)
        return
    with file.open("xb") as opened:
        opened.write(data)


def written_at(file: KeptPath) -> float:
    """Seconds since 1970 in UTC."""
    return file.written_at() if isinstance(file, HadoopPath) else file.stat().st_mtime


def _configuration(java: Any) -> Any:
    """Hadoop's, with every `spark.hadoop.*` of Spark's, as executors have it."""
    return java.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(java.org.apache.spark.SparkConf())
