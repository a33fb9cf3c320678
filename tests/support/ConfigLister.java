import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;

/**
 * Prints every public key that a topic or a node may have in this Kafka: whose, name, default, what is allowed.
 * Separated by tabs; "-" where there is none.
 */
class ConfigLister {
    public static void main(String[] unused) throws Exception {
        print("topic", definition("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"));
        print("node", definition("kafka.server.KafkaConfig", "configDef"));
    }

    private static ConfigDef definition(String name, String method) throws Exception {
        return (ConfigDef) Class.forName(name).getMethod(method).invoke(null);
    }

    private static void print(String whose, ConfigDef definition) {
        for (Map.Entry<String, ConfigKey> each : new TreeMap<>(definition.configKeys()).entrySet()) {
            ConfigKey key = each.getValue();
            if (!key.internalConfig) {
                System.out.println(String.join("\t", whose, key.name, text(key.defaultValue), text(key.validator)));
            }
        }
    }

    private static String text(Object value) {
        String words = value == null ? "" : value.toString().replaceAll("\\s+", " ").trim();
        return words.isEmpty() ? "-" : words;
    }
}
