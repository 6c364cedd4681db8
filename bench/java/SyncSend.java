import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Sends one message after the other, each after the answer to the one before, and prints `p50_us N`. */
final class SyncSend {
    private static final int BODY_BYTES = 1024;
    private static final int TIMEOUT_MS = 20_000;

    private SyncSend() {}

    /** Arguments: the NameServer, the topic, sends to warm up with, sends to measure. */
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int warm = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
        byte[] body = "x".repeat(BODY_BYTES).getBytes(StandardCharsets.UTF_8);
        long[] tookNs = new long[count];
        for (int number = -warm; number < count; number++) {
            Message message = new Message(topic, "", "key-" + number, body);
            long began = System.nanoTime();
            SendResult sent = producer.send(message);
            long ended = System.nanoTime();
            if (sent.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("send " + number + ": " + sent);
            }
            if (number >= 0) {
                tookNs[number] = ended - began;
            }
        }
        producer.shutdown();
        Arrays.sort(tookNs);
        System.out.printf("p50_us %.1f%n", tookNs[count / 2] / 1000.0);
    }
}
