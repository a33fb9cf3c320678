"""An encoder with chance from a seed, and texts of it."""

from __future__ import annotations

from random import Random
from typing import Any

from migrator.zk.passwords import EncoderSettings, PasswordEncoder

SECRET = "s3cret of the brokers"
KEY = "listener.name.external.ssl.key.password"
CLEAR = "hunter2"


def an_encoder(secret: str = SECRET, seed: int = 1, **settings: Any) -> PasswordEncoder:
    return PasswordEncoder(EncoderSettings(secret, iterations=1_024, **settings), Random(seed).randbytes)


def encoded(clear: str = CLEAR, **settings: Any) -> str:
    return an_encoder(**settings).encode(clear)
