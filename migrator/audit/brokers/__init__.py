"""The third side of an audit: what brokers themselves say, beside what ZooKeeper and the log say."""
