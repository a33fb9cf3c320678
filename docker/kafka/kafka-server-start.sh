#!/bin/sh
# kafka-server-start.sh FILE [--override KEY=VALUE]: a broker or a controller, as FILE says. Java takes this process's
# place, so that SIGTERM reaches it.
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData \
  -Dlog4j.configuration=file:/opt/kafka/config/log4j.properties -cp '/opt/kafka/libs/*' kafka.Kafka "$@"
