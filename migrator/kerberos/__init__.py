"""Kerberos logins by the host's MIT library, each by a process of its own; to ZooKeeper, to brokers and controllers."""
