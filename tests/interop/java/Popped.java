import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Two consumers of a group that pop. Each tenth message is put off once. */
public final class Popped {
    private static final int COUNT = 100;

    private Popped() {}

    /** Arguments: a NameServer, the broker, topic, group. Prints how often each message came, and its last retry. */
    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(60_000);
        admin.setNamesrvAddr(args[0]);
        admin.start();
        admin.setMessageRequestMode(args[1], args[2], args[3], MessageRequestMode.POP, 0, 30_000);
        Map<String, AtomicInteger> times = new ConcurrentHashMap<>();
        Map<String, Integer> retries = new ConcurrentHashMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[3]);
            consumer.setNamesrvAddr(args[0]);
            consumer.setInstanceName("popping" + number);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setClientRebalance(false);
            consumer.subscribe(args[2], "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                boolean again = false;
                for (MessageExt message : messages) {
                    String body = new String(message.getBody());
                    int time = times.computeIfAbsent(body, key -> new AtomicInteger()).incrementAndGet();
                    retries.put(body, message.getReconsumeTimes());
                    again |= body.endsWith("7") && time == 1;
                }
                return again
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        DefaultMQProducer producer = new DefaultMQProducer("popped-producer");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        for (int number = 0; number < COUNT; number++) {
            producer.send(new Message(args[2], "TagA", "key" + number, ("m" + number).getBytes()));
        }
        long until = System.currentTimeMillis() + 60_000;
        while (System.currentTimeMillis() < until) {
            int total = times.values().stream().mapToInt(AtomicInteger::get).sum();
            if (times.size() == COUNT && total >= COUNT + COUNT / 10) {
                break;
            }
            Thread.sleep(50);
        }
        Thread.sleep(1_000); // what comes too often comes now
        for (Map.Entry<String, AtomicInteger> one : times.entrySet()) {
            System.out.println(one.getKey() + " " + one.getValue() + " " + retries.get(one.getKey()));
        }
        System.exit(0); // the client leaves threads behind
    }
}
