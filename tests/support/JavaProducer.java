// Produces with Apache Kafka's own Java client, to compare with: which partition does it choose?
// Keys come one a line on standard input; one "key TAB partition" a line goes out.
//
//   java -cp 'build/servers/kafka/lib/*' JavaProducer.java BROKERS TOPIC

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaProducer {
  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    List<String> keys = input.lines().toList();
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", arguments[0]),
        new StringSerializer(), new StringSerializer())) {
      for (String key : keys) {
        sent.add(producer.send(new ProducerRecord<>(arguments[1], key, "")));
      }
    }
    var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (int i = 0; i < keys.size(); ++i) {
      output.println(keys.get(i) + "\t" + sent.get(i).get().partition());
    }
  }
}
