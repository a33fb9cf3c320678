"""Which release of Kafka each node runs: as the inventory says, or as its host shows it."""
