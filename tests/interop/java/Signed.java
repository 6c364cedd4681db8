import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * The official Java client with its own hook that signs: for each user it sends and pulls, and tells what came of it.
 * The first user also consumes until it got COUNT messages. It compiles against 4.9.8 and 5.3.3.
 *
 * <pre>NAMESERVER TOPIC GROUP COUNT OUT [NAME SECRET]...</pre>
 *
 * A line tells who did what, and the code and text of the refusal, 0 and the bodies without one.
 */
public final class Signed {
    private static final int TIMEOUT_MS = 30_000;
    private static final int MESSAGES = 3;

    public static void main(String[] arguments) throws Exception {
        int code = 0;
        try (PrintStream out = Lines.open(Path.of(arguments[4]))) {
            for (int at = 5; at < arguments.length; at += 2) {
                String user = arguments[at];
                RPCHook hook = new AclClientRPCHook(new SessionCredentials(user, arguments[at + 1]));
                String instance = "signed" + at;
                tell(out, at, user, "send", () -> send(arguments[0], arguments[1], instance, hook));
                tell(out, at, user, "pull", () -> pull(arguments[0], arguments[1], arguments[2], instance, hook));
                if (at == 5) {
                    int count = Integer.parseInt(arguments[3]);
                    tell(out, at, user, "consume", () -> consume(arguments, count, instance, hook));
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        System.exit(code); // the client leaves threads behind
    }

    private interface Deed {
        List<String> run() throws Exception;
    }

    private static void tell(PrintStream out, int at, String user, String deed, Deed run) throws Exception {
        JSONObject line = new JSONObject(true);
        line.put("number", (at - 5) / 2);
        line.put("user", user);
        line.put("deed", deed);
        line.put("code", 0);
        try {
            line.put("bodies", run.run());
        } catch (MQBrokerException error) {
            line.put("code", error.getResponseCode());
            line.put("text", error.getErrorMessage());
        } catch (MQClientException error) {
            line.put("code", error.getResponseCode());
            line.put("text", error.getMessage() + " " + error.getCause());
        }
        Lines.print(out, line);
    }

    private static List<String> send(String nameserver, String topic, String instance, RPCHook hook) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("signed_producer", hook);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(instance + "send");
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        List<String> sent = new ArrayList<>();
        try {
            for (int number = 0; number < MESSAGES; number++) {
                String body = instance + " " + number;
                producer.send(new Message(topic, "tag", "key" + number, body.getBytes(StandardCharsets.UTF_8)));
                sent.add(body);
            }
        } finally {
            producer.shutdown();
        }
        return sent;
    }

    private static List<String> pull(String nameserver, String topic, String group, String instance, RPCHook hook)
            throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, hook);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(instance + "pull");
        consumer.start();
        List<String> found = new ArrayList<>();
        try {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                PullResult pulled = consumer.pull(queue, "*", 0, 32, TIMEOUT_MS);
                if (pulled.getMsgFoundList() != null) {
                    for (MessageExt message : pulled.getMsgFoundList()) {
                        found.add(new String(message.getBody(), StandardCharsets.UTF_8));
                    }
                }
            }
        } finally {
            consumer.shutdown();
        }
        return found;
    }

    private static List<String> consume(String[] arguments, int count, String instance, RPCHook hook) throws Exception {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(arguments[2], hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setInstanceName(instance + "consume");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        List<String> found = new ArrayList<>();
        CountDownLatch open = new CountDownLatch(count);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            synchronized (found) {
                for (MessageExt message : messages) {
                    found.add(new String(message.getBody(), StandardCharsets.UTF_8));
                    open.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            open.await(60, TimeUnit.SECONDS);
        } finally {
            consumer.shutdown();
        }
        synchronized (found) {
            return new ArrayList<>(found);
        }
    }
}
