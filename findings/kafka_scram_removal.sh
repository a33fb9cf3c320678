#!/usr/bin/env bash
# Kafka in KRaft mode forgets SCRAM credentials that a removal shares a delta with: ScramDelta.apply goes through the
# changed users in the order of a HashMap, takes the mechanism's map out of the new image as soon as a removal leaves it
# empty, and puts the users that come later into the map that it took out.
#
# What a migration meets: a cluster without a snapshot yet, one user was removed. A broker that restarts replays the log
# as one delta and knows no user of that mechanism: clients cannot log in to it. A controller that restarts writes the
# same into its next snapshot, and then the credentials are gone for good (seen on 3.9.2 with one controller and one
# broker; the controller answers "a user credential that does not exist"). No log line says so.
# What helps: an empty metadata transaction in front of the removal and behind it, since a Begin ends the delta.
#
# Versions: kafka-metadata 3.5.2, 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0; Java 17, Maven 3. Network: Maven's
# repositories. Leaves nothing behind but what Maven keeps of its downloads.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/Replay.java" <<'JAVA'
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.image.*;

public class Replay {
    static final byte SHA_256 = 1;

    static void set(ScramDelta delta, String user) {
        byte[] bytes = new byte[1];
        delta.replay(new UserScramCredentialRecord().setName(user).setMechanism(SHA_256).setIterations(4096)
            .setSalt(bytes).setStoredKey(bytes).setServerKey(bytes));
    }

    static void remove(ScramDelta delta, String user) {
        delta.replay(new RemoveUserScramCredentialRecord().setName(user).setMechanism(SHA_256));
    }

    static int users(ScramImage image) {
        return image.mechanisms().values().stream().mapToInt(each -> each.size()).sum();
    }

    public static void main(String[] words) {
        ScramDelta one = new ScramDelta(ScramImage.EMPTY);
        for (int number = 1; number <= 8; number++) set(one, "user-" + number);
        for (int number = 1; number <= 4; number++) remove(one, "user-" + number);
        ScramDelta first = new ScramDelta(ScramImage.EMPTY);
        for (int number = 1; number <= 8; number++) set(first, "user-" + number);
        ScramDelta second = new ScramDelta(first.apply());
        for (int number = 1; number <= 4; number++) remove(second, "user-" + number);
        System.out.println("8 set, 4 removed: " + users(one.apply()) + " left of one delta, "
            + users(second.apply()) + " of two");
    }
}
JAVA
for version in 3.5.2 3.9.2 4.0.2 4.1.2 4.2.1 4.3.1 4.4.0; do
    mkdir "$folder/$version"
    cat >"$folder/$version/pom.xml" <<POM
<project><modelVersion>4.0.0</modelVersion><groupId>of</groupId><artifactId>this</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-metadata</artifactId>
<version>$version</version></dependency></dependencies></project>
POM
    mvn -q -B -f "$folder/$version/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$folder/$version/libs" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    seen=$(java -cp "$folder/$version/libs/*" "$folder/Replay.java" 2>/dev/null)
    echo "kafka-metadata $version: $seen"
    [ "$seen" = "8 set, 4 removed: 0 left of one delta, 4 of two" ] || { echo "it changed"; exit 1; }
done
echo "as described"
