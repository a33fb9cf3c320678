"""An object store that speaks S3, of a test's own: moto's server on a thread of this process, on loopback.

Out:  `ObjectStore`: its buckets, and what Spark's configuration has to say for `s3a://` addresses of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

KEY, SECRET_KEY, REGION = "audits", "of-the-object-store", "us-east-1"


@dataclass(frozen=True)
class ObjectStore:
    """endpoint: where it listens."""

    endpoint: str

    def make_bucket(self, name: str) -> None:
        self._client().create_bucket(Bucket=name)

    def object(self, bucket: str, key: str) -> bytes:
        found: bytes = self._client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return found

    def _client(self) -> Any:
        login = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET_KEY}
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION, **login)

    def settings(self, jars: Sequence[Path]) -> dict[str, str]:
        """For `spark-defaults.conf`. jars: Hadoop's client of S3, which the driver sends to executors."""
        client = "spark.hadoop.fs.s3a"
        return {
            "spark.jars": ",".join(map(str, jars)),
            f"{client}.endpoint": self.endpoint,
            f"{client}.endpoint.region": REGION,
            f"{client}.path.style.access": "true",
            f"{client}.access.key": KEY,
            f"{client}.secret.key": SECRET_KEY,
        }


@contextmanager
def an_object_store() -> Iterator[ObjectStore]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield ObjectStore(f"http://{host}:{port}")
    finally:
        server.stop()
