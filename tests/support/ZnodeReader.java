import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.controller.ReplicaAssignment;
import kafka.server.ClientIdConfigHandler;
import kafka.server.IpConfigHandler;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory;
import kafka.network.ConnectionQuotas;
import kafka.utils.Json;
import kafka.zk.ClusterIdZNode;
import kafka.zk.ConfigEntityZNode;
import kafka.zk.ControllerEpochZNode;
import kafka.zk.ControllerZNode;
import kafka.zk.DelegationTokenInfoZNode;
import kafka.zk.FeatureZNode;
import kafka.zk.KafkaZkClient;
import kafka.zk.MigrationZNode;
import kafka.zk.ProducerIdBlockZNode;
import kafka.zk.ReassignPartitionsZNode;
import kafka.zk.TopicPartitionStateZNode;
import kafka.zk.TopicZNode;
import kafka.zk.ZKControllerRegistration;
import kafka.zk.migration.ZkConfigMigrationClient;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.migration.ConfigMigrationClient.ClientQuotaVisitor;
import org.apache.kafka.metadata.migration.ZkMigrationLeadershipState;
import org.apache.kafka.security.PasswordEncoder;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.common.ProducerIdsBlock;
import org.apache.zookeeper.data.Stat;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Kafka's own readers of znodes for the tests: one text for each line of the file that is given, one answer each.
 *
 * <p>A line has the kind and the bytes (base64), with a tab between them. An answer is the value as JSON; "refused"
 * where Kafka throws; "nothing" where it takes bytes that are no JSON for a znode without content, or says that there
 * is no value.
 */
class ZnodeReader {
    private static final JsonMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static final String NAME = "a";
    private static QuotaFactory.QuotaManagers managers;
    private static ConnectionQuotas connections;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("broker.id", "1");
        settings.put("zookeeper.connect", "127.0.0.1:1");
        KafkaConfig config = KafkaConfig.fromProps(settings, false);
        managers = QuotaFactory.instantiate(config, new Metrics(), Time.SYSTEM, "");
        connections = new ConnectionQuotas(config, Time.SYSTEM, new Metrics());
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split("\t", -1);
            answers.append(answer(words[0], Base64.getDecoder().decode(words[1])).replace('\n', ' ')).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
        Runtime.getRuntime().halt(0);  // the threads of the quotas have nothing to finish
    }

    private static String answer(String kind, byte[] data) {
        try {
            boolean json = !List.of("controller epoch", "password").contains(kind);
            if (json && Json.parseBytes(data).isEmpty()) {
                return "nothing";
            }
            Object found = read(kind, data);
            return found == null ? "nothing" : JSON.writeValueAsString(found);
        } catch (Throwable error) {
            return "refused " + error;
        }
    }

    private static Object read(String kind, byte[] data) throws Exception {
        switch (kind) {
            case "topic": return topic(data);
            case "state": return state(data);
            case "configuration": return new TreeMap<>(ConfigEntityZNode.decode(data));
            case "user": return entity("users", data);
            case "address": return entity("ips", data);
            case "ACLs": return acls(data);
            case "token": return token(data);
            case "producer ids": return block(data);
            case "cluster id": return ClusterIdZNode.fromJson(data);
            case "controller": return controller(data);
            case "controller epoch": return ControllerEpochZNode.decode(data);
            case "migration": return migration(data);
            case "features": return features(data);
            case "ordered moves": return moves(data);
            case "password": return password(new String(data, UTF_8));
            default: throw new IllegalArgumentException(kind);
        }
    }

    private static Object topic(byte[] data) {
        TopicZNode.TopicIdReplicaAssignment found = TopicZNode.decode("t", data);
        Map<String, Object> partitions = new TreeMap<>();
        for (Map.Entry<TopicPartition, ReplicaAssignment> each : CollectionConverters.asJava(found.assignment()).entrySet()) {
            ReplicaAssignment replicas = each.getValue();
            partitions.put(
                String.valueOf(each.getKey().partition()),
                List.of(list(replicas.replicas()), list(replicas.addingReplicas()), list(replicas.removingReplicas())));
        }
        Map<String, Object> told = new TreeMap<>();
        told.put("id", found.topicId().isDefined() ? found.topicId().get().toString() : null);
        told.put("partitions", partitions);
        return told;
    }

    private static Object state(byte[] data) {
        LeaderIsrAndControllerEpoch found = TopicPartitionStateZNode.decode(data, new Stat()).get();
        return List.of(
            found.leaderAndIsr().leader(),
            found.leaderAndIsr().leaderEpoch(),
            list(found.leaderAndIsr().isr()),
            (int) found.leaderAndIsr().leaderRecoveryState().value(),
            found.controllerEpoch());
    }

    /** What a broker in ZooKeeper mode makes of it (the handlers of notifications), and what the migration makes of it. */
    private static Object entity(String root, byte[] data) {
        Properties values = ConfigEntityZNode.decode(data);
        if (root.equals("ips")) {
            new IpConfigHandler(connections).processConfigChanges("10.0.0.1", values);
        } else {
            new ClientIdConfigHandler(managers).processConfigChanges(NAME, values);
        }
        Map<String, Object> quotas = new TreeMap<>();
        Map<String, Object> scram = new TreeMap<>();
        new ZkConfigMigrationClient(new OneEntity(root, values), PasswordEncoder.NOOP).iterateClientQuotas(
            new ClientQuotaVisitor() {
                @Override
                public void visitClientQuota(
                    List<org.apache.kafka.common.metadata.ClientQuotaRecord.EntityData> entity, Map<String, Double> found) {
                    found.forEach((key, value) -> quotas.put(key, value.toString()));
                }

                @Override
                public void visitScramCredential(String user, ScramMechanism mechanism, ScramCredential found) {
                    scram.put(mechanism.mechanismName(), List.of(found.salt(), found.storedKey(), found.serverKey(), found.iterations()));
                }
            });
        return Map.of("quotas", quotas, "scram", scram);
    }

    private static Object acls(byte[] data) throws Exception {
        List<List<Object>> found = new ArrayList<>();
        for (AclEntry each : AclEntry.fromBytes(data)) {
            found.add(List.of((int) each.permissionType().code(), (int) each.operation().code(), each.principal(), each.host()));
        }
        return found;
    }

    private static Object token(byte[] data) {
        Option<TokenInformation> told = DelegationTokenInfoZNode.decode(data);
        if (told.isEmpty()) {
            return null;
        }
        TokenInformation found = told.get();
        return List.of(
            found.tokenId(),
            found.ownerAsString(),
            found.tokenRequesterAsString(),
            found.renewersAsString().stream().sorted().toList(),
            found.issueTimestamp(),
            found.maxTimestamp(),
            found.expiryTimestamp());
    }

    private static Object block(byte[] data) {
        ProducerIdsBlock found = ProducerIdBlockZNode.parseProducerIdBlockData(data);
        return List.of(found.assignedBrokerId(), found.nextBlockFirstId(), found.size());
    }

    private static Object controller(byte[] data) {
        ZKControllerRegistration found = ControllerZNode.decodeController(data, 0);
        return List.of(found.broker(), found.kraftEpoch().isDefined() ? found.kraftEpoch().get() : -1);
    }

    private static Object migration(byte[] data) {
        ZkMigrationLeadershipState found = MigrationZNode.decode(data, 0, 0);
        return List.of(
            found.kraftControllerId(),
            found.kraftControllerEpoch(),
            found.kraftMetadataOffset(),
            found.kraftMetadataEpoch());
    }

    private static Object features(byte[] data) {
        FeatureZNode found = FeatureZNode.decode(data);
        return List.of(found.status().id(), CollectionConverters.asJava(found.features()));
    }

    private static Object moves(byte[] data) throws Exception {
        var decoded = ReassignPartitionsZNode.decode(data);
        if (decoded.isLeft()) {
            throw decoded.swap().toOption().get();
        }
        List<Object> found = new ArrayList<>();
        CollectionConverters.asJava(decoded.toOption().get()).forEach(
            (partition, replicas) -> found.add(List.of(partition.topic(), partition.partition(), list(replicas))));
        return found;
    }

    private static Object password(String text) throws Exception {
        PasswordEncoder encoder =
            PasswordEncoder.encrypting(new Password("secret"), "PBKDF2WithHmacSHA512", "AES/CBC/PKCS5Padding", 128, 4096);
        return encoder.decode(text).value();
    }

    private static Collection<?> list(scala.collection.Seq<?> found) {
        return new ArrayList<>(CollectionConverters.asJava(found));
    }

    /** A ZooKeeper that has one entity, and nobody connects to. */
    private static class OneEntity extends KafkaZkClient {
        private final String root;
        private final Properties values;

        OneEntity(String root, Properties values) {
            super(null, false, Time.SYSTEM, false);
            this.root = root;
            this.values = values;
        }

        @Override
        public scala.collection.Seq<String> getAllEntitiesWithConfig(String type) {
            List<String> names = !type.equals(root) ? List.of() : List.of(root.equals("ips") ? "10.0.0.1" : NAME);
            return CollectionConverters.asScala(names).toSeq();
        }

        @Override
        public Properties getEntityConfigs(String type, String name) {
            Properties given = new Properties();
            given.putAll(values);
            return given;
        }
    }
}
