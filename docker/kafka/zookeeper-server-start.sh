#!/bin/sh
# zookeeper-server-start.sh FILE: one ZooKeeper server.
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData \
  -Dlog4j.configuration=file:/opt/kafka/config/log4j.properties -cp '/opt/kafka/libs/*' \
  org.apache.zookeeper.server.quorum.QuorumPeerMain "$@"
