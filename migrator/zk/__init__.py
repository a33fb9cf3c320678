"""ZooKeeper as Kafka uses it.

Core, values in and out: `paths.py` (where things are), `znodes.py` (bytes to values and back), `multi.py`
(operations of one transaction). Shell: `session.py`, the only user of kazoo.
"""
