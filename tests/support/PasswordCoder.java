import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import kafka.server.DynamicBrokerConfig;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;
import scala.jdk.javaapi.CollectionConverters;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Kafka's own encoder for the tests: one task for each line of the file that is given, one line of answer each.
 *
 * <p>Fields have a tab between them: "encode" or "decode", secret and value (base64), key factory (or "-"), cipher,
 * key length, iterations. "keys" answers with every key of a broker and whether it is encrypted.
 */
class PasswordCoder {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(line.equals("keys") ? keys() : answer(line.split("\t")));
        }
    }

    private static String answer(String[] task) {
        try {
            PasswordEncoder encoder = PasswordEncoder.encrypting(
                new Password(text(task[1])),
                task[3].equals("-") ? null : task[3],
                task[4],
                Integer.parseInt(task[5]),
                Integer.parseInt(task[6]));
            String value = text(task[2]);
            return task[0].equals("encode")
                ? encoder.encode(new Password(value))
                : Base64.getEncoder().encodeToString(encoder.decode(value).value().getBytes(UTF_8));
        } catch (Exception error) {
            return "refused " + error;
        }
    }

    private static String keys() {
        return String.join(
            ",",
            CollectionConverters.asJava(KafkaConfig.configNames()).stream()
                .sorted()
                .map(name -> name + "=" + DynamicBrokerConfig.isPasswordConfig(name))
                .toList());
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), UTF_8);
    }
}
