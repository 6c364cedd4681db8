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
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** One half of a talk by request and reply; another client is the other half. */
final class Replies {
    private static final int TIMEOUT_MS = 30_000;
    private static final int WAIT_SECONDS_MAX = 120;

    private Replies() {}

    /** Ask `count` times, one after the other, and write down each reply. */
    static void ask(String nameserver, String topic, int count, Path results) throws Exception {
        DefaultMQProducer producer = producer(nameserver, topic + "_asking");
        try (PrintStream out = Lines.open(results)) {
            for (int number = 0; number < count; number++) {
                byte[] body = ("Java asks " + number).getBytes(StandardCharsets.UTF_8);
                Message reply = producer.request(new Message(topic, "", "key-" + number, body), TIMEOUT_MS);
                JSONObject line = new JSONObject(true);
                line.put("body", new String(reply.getBody(), StandardCharsets.UTF_8));
                line.put("tag", reply.getTags());
                line.put("mood", reply.getProperty("mood"));
                Lines.print(out, line);
            }
        }
        producer.shutdown();
    }

    /** Reply to what comes to `topic`, until `count` replies were sent, and write down what was asked. */
    static void answer(String nameserver, String topic, int count, Path results) throws Exception {
        DefaultMQProducer producer = producer(nameserver, topic + "_answering");
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "_group");
        consumer.setNamesrvAddr(nameserver);
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        try (PrintStream out = Lines.open(results)) {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    Lines.print(out, Lines.describe(message));
                    String text = "Java replies to " + new String(message.getBody(), StandardCharsets.UTF_8);
                    try {
                        Message reply = MessageUtil.createReplyMessage(message, text.getBytes(StandardCharsets.UTF_8));
                        producer.send(reply, TIMEOUT_MS);
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                    open.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            if (!open.await(WAIT_SECONDS_MAX, TimeUnit.SECONDS)) {
                throw new IllegalStateException(open.getCount() + " of " + count + " requests did not come");
            }
            consumer.shutdown();
        }
        producer.shutdown();
    }

    private static DefaultMQProducer producer(String nameserver, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.start();
        return producer;
    }
}
