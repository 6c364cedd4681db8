import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends one message after the other, each after the answer to the one before. For each number that it
 * reads, a line each, it sends so many and prints `p50_us` and their median; it ends with its input.
 */
final class SyncSend {
    private static final int BODY_BYTES = 1024;
    private static final int TIMEOUT_MS = 20_000;

    private SyncSend() {}

    /** Arguments: the NameServer, the topic. */
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
        BufferedReader turns = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String turn = turns.readLine(); turn != null; turn = turns.readLine()) {
            long[] tookNs = send(producer, arguments[1], Integer.parseInt(turn));
            System.out.printf("p50_us %.1f%n", tookNs[tookNs.length / 2] / 1000.0);
        }
        producer.shutdown();
    }

    /** Return how long each send took, sorted. */
    private static long[] send(DefaultMQProducer producer, String topic, int count) throws Exception {
        byte[] body = "x".repeat(BODY_BYTES).getBytes(StandardCharsets.UTF_8);
        long[] tookNs = new long[count];
        for (int number = 0; number < count; number++) {
            Message message = new Message(topic, "", "key-" + number, body);
            long began = System.nanoTime();
            SendResult sent = producer.send(message);
            tookNs[number] = System.nanoTime() - began;
            if (sent.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("send " + number + ": " + sent);
            }
        }
        Arrays.sort(tookNs);
        return tookNs;
    }
}
