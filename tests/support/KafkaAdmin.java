// What the Python client cannot ask of Kafka: access rights, quotas, partitions, leaders. One command a line on
// standard input, words separated by tabs; "ok" or "error TAB why" a line goes out.
//
//   java -cp 'build/servers/kafka/lib/*' KafkaAdmin.java BROKERS

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

public class KafkaAdmin {
  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    try (var admin = Admin.create(Map.<String, Object>of("bootstrap.servers", arguments[0]))) {
      for (String line; (line = input.readLine()) != null;) {
        try {
          run(admin, line.split("\t", -1)).get(30, TimeUnit.SECONDS);
          output.println("ok");
        } catch (Exception problem) {
          output.println("error\t" + String.valueOf(problem).replaceAll("\\s+", " "));
        }
      }
    }
  }

  private static KafkaFuture<?> run(Admin admin, String[] words) {
    return switch (words[0]) {
      case "allow" -> admin.createAcls(List.of(acl(words))).all();
      case "revoke" -> admin.deleteAcls(List.of(acl(words).toFilter())).all();
      case "quota" -> admin.alterClientQuotas(List.of(quota(words))).all();
      case "partitions" ->
          admin.createPartitions(Map.of(words[1], NewPartitions.increaseTo(Integer.parseInt(words[2])))).all();
      case "replicas" -> admin.alterPartitionReassignments(
          Map.of(partition(words), Optional.of(new NewPartitionReassignment(numbers(words[3]))))).all();
      case "elect" -> admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(words))).all();
      default -> throw new IllegalArgumentException("unknown command " + words[0]);
    };
  }

  // allow|revoke USER RESOURCE_TYPE NAME OPERATION
  private static AclBinding acl(String[] words) {
    return new AclBinding(new ResourcePattern(ResourceType.valueOf(words[2]), words[3], PatternType.LITERAL),
        new AccessControlEntry("User:" + words[1], "*", AclOperation.valueOf(words[4]), AclPermissionType.ALLOW));
  }

  // quota CLIENT_ID BYTES_PER_SECOND|none
  private static ClientQuotaAlteration quota(String[] words) {
    Double limit = words[2].equals("none") ? null : Double.valueOf(words[2]);
    return new ClientQuotaAlteration(new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, words[1])),
        List.of(new ClientQuotaAlteration.Op("producer_byte_rate", limit)));
  }

  private static TopicPartition partition(String[] words) {
    return new TopicPartition(words[1], Integer.parseInt(words[2]));
  }

  private static List<Integer> numbers(String words) {
    return Arrays.stream(words.split(",")).map(Integer::valueOf).toList();
  }
}
