import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer and a consumer that note what they do with a message. */
final class Traced {
    private static final int TIMEOUT_MS = 30_000;
    private static final int WAIT_SECONDS_MAX = 120;

    private Traced() {}

    /** Send two messages and consume them; the second fails once. Writes their ids. */
    static void trace(String nameserver, String topic, String group, Path results) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group + "_producer", true, null);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.start();
        CountDownLatch open = new CountDownLatch(2);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, true, null);
        consumer.setNamesrvAddr(nameserver);
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                boolean fails = new String(message.getBody(), StandardCharsets.UTF_8).equals("1");
                if (fails && message.getReconsumeTimes() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                open.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try (PrintStream out = Lines.open(results)) {
            for (int number = 0; number < 2; number++) {
                byte[] body = String.valueOf(number).getBytes(StandardCharsets.UTF_8);
                JSONObject line = new JSONObject(true);
                line.put("id", producer.send(new Message(topic, "new", "key-" + number, body)).getMsgId());
                Lines.print(out, line);
            }
            consumer.start();
            if (!open.await(WAIT_SECONDS_MAX, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not consumed after " + WAIT_SECONDS_MAX + " s");
            }
            new CountDownLatch(1).await(3, TimeUnit.SECONDS); // traces are sent each half second
        }
        consumer.shutdown();
        producer.shutdown();
    }
}
