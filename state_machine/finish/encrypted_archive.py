"""A directory as one encrypted file, and back: what a backup is when the service has a key for it.

In:   a directory, and the secret that the key is made of. Out: one file with mode 0600, its SHA-256 and size.
Elsewhere: what is backed up (backups.py), where the secret comes from (migrator.fleet.secrets).
Form: magic, salt, blocks: length, AES-256-GCM of up to 1 MiB. The nonce counts blocks, and the last block is marked
in what is authenticated with it: a file that was cut, mixed or changed is refused. The key is scrypt of the secret.
Errors: Z2K-4221. Nothing is written outside of the target, whatever the archive names.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from migrator.findings.finding import words_of
from migrator.findings.road import BACKUP_NOT_OPENED
from migrator.fleet.secrets import Secret

MAGIC: Final = b"zk2kraft backup 1\n"
SALT_BYTES: Final = 16
BLOCK_BYTES: Final = 1 << 20
TAG_BYTES: Final = 16
SCRYPT_N: Final = 1 << 15


def write_archive(directory: Path, file: Path, secret: Secret) -> tuple[str, int]:
    """Complete or absent. Returns SHA-256 of the file in hexadecimal digits, and its size."""
    salt = os.urandom(SALT_BYTES)
    part = file.with_name(file.name + ".part")
    digest, size = hashlib.sha256(), 0
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as out:
        for piece in _encrypted(_tar_of(directory), _key(secret, salt), salt):
            out.write(piece)
            digest.update(piece)
            size += len(piece)
        out.flush()
        os.fsync(handle)
    os.replace(part, file)
    return digest.hexdigest(), size


def read_archive(file: Path, target: Path, secret: Secret) -> tuple[str, ...]:
    """Into a directory that does not exist yet. Returns the names of its files. Raises Z2K-4221."""
    try:
        with file.open("rb") as content:
            tar = b"".join(_decrypted(content, secret))
        target.mkdir(parents=True, mode=0o700)
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(target, filter="data")
            return tuple(sorted(each.name for each in archive.getmembers() if each.isfile()))
    except (OSError, ValueError, InvalidTag, tarfile.TarError) as error:
        reason = "the key is another one, or the file was changed" if isinstance(error, InvalidTag) else words_of(error)
        raise BACKUP_NOT_OPENED.error(file=str(file), reason=reason) from error


def _key(secret: Secret, salt: bytes) -> AESGCM:
    return AESGCM(Scrypt(salt=salt, length=32, n=SCRYPT_N, r=8, p=1).derive(secret.reveal().encode()))


def _tar_of(directory: Path) -> IO[bytes]:
    """Pack a directory into a file without a name, so that nothing readable is left when the service dies."""
    whole = tempfile.TemporaryFile(dir=directory.parent)  # noqa: SIM115 - its reader closes it
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for each in sorted(directory.rglob("*")):
            archive.add(each, arcname=str(each.relative_to(directory)), recursive=False)
    whole.seek(0)
    return whole


def _encrypted(content: IO[bytes], key: AESGCM, salt: bytes) -> Iterator[bytes]:
    yield MAGIC + salt
    with content:
        block, number = content.read(BLOCK_BYTES), 0
        while True:
            following = content.read(BLOCK_BYTES)
            block_bytes = key.encrypt(_nonce(number), block, _about(number, last=not following))
            yield struct.pack(">I", len(block_bytes)) + block_bytes
            if not following:
                return
            block, number = following, number + 1


def _decrypted(content: IO[bytes], secret: Secret) -> Iterator[bytes]:
    head = content.read(len(MAGIC) + SALT_BYTES)
    if not head.startswith(MAGIC) or len(head) != len(MAGIC) + SALT_BYTES:
        raise ValueError("it is no backup of zk2kraft")
    key, number = _key(secret, head[len(MAGIC) :]), 0
    block_bytes = _block(content)
    while block_bytes:
        following = _block(content)
        yield key.decrypt(_nonce(number), block_bytes, _about(number, last=not following))
        block_bytes, number = following, number + 1
    if not number:
        raise ValueError("it ends after its head")


def _block(content: IO[bytes]) -> bytes:
    head = content.read(4)
    if not head:
        return b""
    size = struct.unpack(">I", head)[0] if len(head) == 4 else 0
    if not TAG_BYTES <= size <= BLOCK_BYTES + TAG_BYTES:
        raise ValueError("a block has a wrong length")
    block = content.read(size)
    if len(block) != size:
        raise ValueError("it was cut")
    return block


def _nonce(number: int) -> bytes:
    """Never twice for one key: the key has a salt of its own in each file."""
    return struct.pack(">IQ", 0, number)


def _about(number: int, *, last: bool) -> bytes:
    return struct.pack(">Q?", number, last)
