import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import kafka.cluster.EndPoint;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.network.ChannelBuilders;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.requests.ApiVersionsResponse;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.security.CredentialProvider;
import scala.jdk.javaapi.CollectionConverters;

/**
 * How Kafka itself reads the listeners of properties files, for the tests: one file named on each line of the argument.
 *
 * <p>A line of answer each: "ok", or "refused" with "parser" or "start" and the reason. Behind "ok": listeners,
 * advertised controller listeners and the listener between brokers, with a tab between them.
 */
class ListenerReader {
    public static void main(String[] arguments) throws Exception {
        for (String file : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(answer(file).replace('\n', ' '));
        }
    }

    private static String answer(String file) throws Exception {
        Properties properties = new Properties();
        try (InputStream stream = new FileInputStream(file)) {
            properties.load(stream);
        }
        KafkaConfig config;
        try {
            config = KafkaConfig.fromProps(properties, false);
        } catch (Exception error) {
            return "refused\tparser\t" + error;
        }
        List<EndPoint> listeners = new ArrayList<>(CollectionConverters.asJava(config.listeners()));
        try {
            for (EndPoint each : listeners) {
                serverSide(config, each);
            }
            if (!config.processRoles().isEmpty()) {
                raftClient(config);
            }
        } catch (Exception error) {
            return "refused\tstart\t" + error + " " + error.getCause();
        }
        String between = config.interBrokerListenerName().value() + ":" + config.interBrokerSecurityProtocol();
        List<EndPoint> advertised = CollectionConverters.asJava(config.effectiveAdvertisedControllerListeners());
        return String.join("\t", "ok", text(listeners), text(advertised), between);
    }

    /** What a socket server makes of a listener before it opens its port. */
    private static void serverSide(KafkaConfig config, EndPoint listener) {
        if (listener.port() < 0 || listener.port() > 65535) {
            throw new IllegalArgumentException("port out of range: " + listener.port());
        }
        DelegationTokenCache tokens = new DelegationTokenCache(ScramMechanism.mechanismNames());
        CredentialProvider credentials = new CredentialProvider(ScramMechanism.mechanismNames(), tokens);
        ChannelBuilders.serverChannelBuilder(
            listener.listenerName(),
            listener.listenerName().equals(config.interBrokerListenerName()),
            listener.securityProtocol(),
            config,
            credentials.credentialCache,
            tokens,
            Time.SYSTEM,
            new LogContext(),
            version -> (ApiVersionsResponse) null).close();
    }

    /** What the Raft client of a controller, or of a broker in migration, makes of the first controller listener. */
    private static void raftClient(KafkaConfig config) {
        ListenerName first = new ListenerName(config.controllerListenerNames().head());
        SecurityProtocol protocol = CollectionConverters.asJava(config.effectiveListenerSecurityProtocolMap()).get(first);
        ChannelBuilders.clientChannelBuilder(
            protocol == null ? SecurityProtocol.forName(first.value()) : protocol,
            JaasContext.Type.SERVER,
            config,
            first,
            config.saslMechanismControllerProtocol(),
            Time.SYSTEM,
            config.saslInterBrokerHandshakeRequestEnable(),
            new LogContext()).close();
    }

    private static String text(List<EndPoint> listeners) {
        return String.join(",", listeners.stream().map(each -> each.connectionString() + "=" + each.securityProtocol()).toList());
    }
}
