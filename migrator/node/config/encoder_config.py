"""`password.encoder.*`: how brokers in ZooKeeper mode encrypt the passwords of their dynamic configuration.

In:   the keys of a controller's properties file, the same that brokers have.
Out:  `EncoderSettings`, None without a secret: then no password can be copied (Z2K-1010).
Elsewhere: encoding and decoding (zk.passwords).
Errors: Z2K-3010 for settings with which no password could be written; Kafka finds out when it writes the first one.
Source: Kafka 3.9 `PasswordEncoderConfigs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from migrator.zk.passwords import ITERATIONS_MAX, EncoderSettings, PasswordEncoder, why_not_usable

ITERATIONS_MIN: Final = 1_024
KEY_LENGTH_MIN: Final = 8

ReadInt = Callable[[str, int, int, int], int]
"""Key, default, lowest, highest; refuses what is not such a number."""


def read_encoder(
    given: Mapping[str, str], read_int: ReadInt, refuse: Callable[[str, str], NoReturn]
) -> EncoderSettings | None:
    """refuse: raises Z2K-3010 for a key and a reason."""
    secret = given.get("password.encoder.secret")
    if not secret:
        return None
    default = EncoderSettings(secret)
    settings = EncoderSettings(
        secret,
        given.get("password.encoder.old.secret") or None,
        given.get("password.encoder.keyfactory.algorithm") or default.key_factory,
        given.get("password.encoder.cipher.algorithm") or default.cipher,
        read_int("password.encoder.key.length", default.key_length, KEY_LENGTH_MIN, 4_096),
        read_int("password.encoder.iterations", default.iterations, ITERATIONS_MIN, ITERATIONS_MAX),
    )
    fault = why_not_usable(settings)
    if fault is not None:
        refuse(*fault)
    return settings


def encoder_of(settings: EncoderSettings | None) -> PasswordEncoder | None:
    """The encoder for these settings; this machine's randomness makes its salts. None without settings."""
    return None if settings is None else PasswordEncoder(settings, os.urandom)
