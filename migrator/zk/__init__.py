"""ZooKeeper as Kafka uses it.

Core, values in and out: `paths.py` (where things are), `znodes.py` (bytes to values and back), `multi.py`
(operations of one transaction). Shell, the only user of kazoo: `session.py`, with `pipeline.py` (many reads at once)
`kazoo_calls.py` (one call) and `tls_sockets.py` (TLS). Both: `files`, the tree in a server's snapshots and logs.
"""
