"""Proof that ZooKeeper, the metadata log and the brokers agree.

Both sides are read (`zk_source.py`; `log_plan.py`, `log_source.py`) and told as the same facts without
the copy's own parsers (`normalise.py`); `compare.py` says what differs. `quick.py` does it in process. The Spark job
(`job.py`, and the modules it names) does it in tasks, with its inputs kept. `fingerprints.py` hides what is secret.
"""
