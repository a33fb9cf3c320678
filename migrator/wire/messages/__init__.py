"""The declared messages of Kafka 3.9, one file per concept.

In:   nothing but `schema`.
Out:  one class per message and per nested struct; `frames.API_KEYS` and `records.RECORD_TYPES` list them.
Elsewhere: what a value makes a node do (raft, controller, driver).
Names: messages have Kafka's names, fields Kafka's field names in snake_case. A nested struct keeps Kafka's name where
that name says whose it is (UpdateMetadataBroker); otherwise it is <Api><Topic|Partition|...>, and ends in Result
inside a response (VotePartition, VotePartitionResult). Structs of one shape and meaning are one class (`shared`).
Source: Kafka 3.9 message schemas; checked by tests/contract/test_wire_kio.py.
"""
