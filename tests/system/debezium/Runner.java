import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Avro;
import io.debezium.engine.format.JsonByteArray;
import java.io.FileReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Properties;

/** Prints the change events of a connector: topic, key, value and headers in base64, a line each; then acknowledges them. */
public class Runner {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static String encoded(byte[] content) {
        return content == null ? "-" : Base64.getEncoder().encodeToString(content);
    }

    private static String headers(ChangeEvent<byte[], byte[]> event) {
        StringBuilder found = new StringBuilder();
        for (Header<Object> header : event.<Object>headers()) {
            found.append(" ").append(header.getKey()).append(":").append(encoded((byte[]) header.getValue()));
        }
        return found.toString();
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader reader = new FileReader(arguments[0], StandardCharsets.UTF_8)) {
            properties.load(reader);
        }
        boolean hasRegistry = properties.containsKey("converter.apicurio.registry.url");
        DebeziumEngine<ChangeEvent<byte[], byte[]>> engine = DebeziumEngine.create(hasRegistry ? Avro.class : JsonByteArray.class)
            .using(properties)
            .using((success, message, error) -> OUT.println("ended " + success + " " + message + " " + error))
            .notifying((List<ChangeEvent<byte[], byte[]>> events, DebeziumEngine.RecordCommitter<ChangeEvent<byte[], byte[]>> committer) -> {
                for (ChangeEvent<byte[], byte[]> event : events) {
                    OUT.println(event.destination() + " " + encoded(event.key()) + " " + encoded(event.value()) + headers(event));
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
            })
            .build();
        engine.run();
    }
}
