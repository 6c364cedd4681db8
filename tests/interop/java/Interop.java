import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The official Java client, unmodified, told what to do by files and answering by files, one JSON
 * object a line, so that the tests in Python decide what is right. It compiles against 4.9.8 and 5.3.3.
 *
 * <pre>
 * send    NAMESERVER MESSAGES RESULTS                            send what MESSAGES lists
 * consume NAMESERVER TOPIC TAG GROUP COUNT QUIET_MS MAX_MS OUT   push consumer with a tag, or "sql:" and a condition
 * listen  NAMESERVER TOPIC TAG GROUP COUNT QUIET_MS MAX_MS OUT   the same, and everybody gets everything
 * read    NAMESERVER TOPIC QUESTIONS OUT                         pull every queue, then query
 * show    NAMESERVER PREFIX KILLED OUT                           every scenario, see Scenarios.java
 * victim  NAMESERVER TOPIC GROUP OUT                             an ordered consumer, to be killed
 * ask     NAMESERVER TOPIC COUNT OUT                             send requests, see Replies.java
 * answer  NAMESERVER TOPIC COUNT OUT                             reply to requests
 * transact NAMESERVER TOPIC GROUP PLAN SILENT OUT                see Transactions.java; until it is killed
 * trace   NAMESERVER TOPIC GROUP OUT                            send and consume, noting it, see Traced.java
 * </pre>
 *
 * A message to send: how (sync, async, batch), batch (number; equal neighbours go together), topic,
 * tag, keys, flag, properties, body (base64). COUNT -1 means: until it was quiet for QUIET_MS.
 */
public final class Interop {
    private static final int ASYNC_OUTSTANDING_MAX = 128;

    private static final int API_TIMEOUT_MS = 30_000; // of requests for routes and the like; a busy machine

    public static void main(String[] arguments) {
        int code = 0;
        try {
            run(arguments);
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        System.exit(code); // the client leaves threads behind
    }

    private static void run(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "send" -> send(arguments[1], Path.of(arguments[2]), Path.of(arguments[3]));
            case "consume", "listen" -> consume(arguments);
            case "read" -> read(arguments[1], arguments[2], Path.of(arguments[3]), Path.of(arguments[4]));
            case "show" -> Scenarios.show(arguments[1], arguments[2], Path.of(arguments[3]), Path.of(arguments[4]));
            case "victim" -> Scenarios.victim(arguments[1], arguments[2], arguments[3], Path.of(arguments[4]));
            case "ask" -> Replies.ask(arguments[1], arguments[2], Integer.parseInt(arguments[3]), Path.of(arguments[4]));
            case "answer" ->
                Replies.answer(arguments[1], arguments[2], Integer.parseInt(arguments[3]), Path.of(arguments[4]));
            case "transact" -> Transactions.transact(
                arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], Path.of(arguments[6]));
            case "trace" -> Traced.trace(arguments[1], arguments[2], arguments[3], Path.of(arguments[4]));
            default -> throw new IllegalArgumentException("unknown command " + arguments[0]);
        }
    }

    // ---- send

    private static void send(String nameserver, Path messages, Path results) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interop_producer");
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(API_TIMEOUT_MS);
        producer.setMqClientApiTimeout(API_TIMEOUT_MS);
        producer.start();
        List<JSONObject> lines = Lines.read(messages);
        try (PrintStream out = Lines.open(results)) {
            Semaphore room = new Semaphore(ASYNC_OUTSTANDING_MAX);
            int at = 0;
            while (at < lines.size()) {
                JSONObject line = lines.get(at);
                switch (line.getString("how")) {
                    case "sync" -> {
                        Lines.print(out, result(List.of(at), producer.send(message(line))));
                        at += 1;
                    }
                    case "async" -> {
                        sendAsync(producer, line, at, out, room);
                        at += 1;
                    }
                    case "batch" -> {
                        List<Integer> numbers = new ArrayList<>();
                        List<Message> batch = new ArrayList<>();
                        Integer number = line.getInteger("batch");
                        while (at < lines.size() && number.equals(lines.get(at).getInteger("batch"))) {
                            batch.add(message(lines.get(at)));
                            numbers.add(at);
                            at += 1;
                        }
                        Lines.print(out, result(numbers, producer.send(batch)));
                    }
                    default -> throw new IllegalArgumentException(line.toString());
                }
            }
            if (!room.tryAcquire(ASYNC_OUTSTANDING_MAX, 60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("asynchronous sends without an answer after 60 s");
            }
        }
        producer.shutdown();
    }

    private static void sendAsync(
            DefaultMQProducer producer, JSONObject line, int number, PrintStream out, Semaphore room)
            throws Exception {
        room.acquire();
        producer.send(message(line), new SendCallback() {
            @Override
            public void onSuccess(SendResult sent) {
                Lines.print(out, result(List.of(number), sent));
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                JSONObject line = new JSONObject(true);
                line.put("numbers", List.of(number));
                line.put("status", "FAILED: " + error);
                Lines.print(out, line);
                room.release();
            }
        });
    }

    private static Message message(JSONObject line) {
        Message message = new Message(
                line.getString("topic"),
                line.getString("tag"),
                line.getString("keys"),
                Base64.getDecoder().decode(line.getString("body")));
        message.setFlag(line.getIntValue("flag"));
        JSONObject properties = line.getJSONObject("properties");
        for (String name : properties.keySet()) {
            message.putUserProperty(name, properties.getString(name));
        }
        return message;
    }

    private static JSONObject result(List<Integer> numbers, SendResult sent) {
        JSONObject line = new JSONObject(true);
        line.put("numbers", numbers);
        line.put("status", sent.getSendStatus().name());
        line.put("ids", sent.getMsgId());
        line.put("offset_ids", sent.getOffsetMsgId());
        line.put("broker", sent.getMessageQueue().getBrokerName());
        line.put("queue_id", sent.getMessageQueue().getQueueId());
        line.put("queue_offset", sent.getQueueOffset());
        return line;
    }

    // ---- consume

    private static void consume(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[5]);
        long quietMs = Long.parseLong(arguments[6]);
        long deadline = System.currentTimeMillis() + Long.parseLong(arguments[7]);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[4]);
        consumer.setNamesrvAddr(arguments[1]);
        consumer.setMqClientApiTimeout(API_TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (arguments[0].equals("listen")) {
            consumer.setMessageModel(Scenarios.named(consumer.getMessageModel(), "BROADCASTING"));
        }
        if (arguments[3].startsWith("sql:")) {
            consumer.subscribe(arguments[2], MessageSelector.bySql(arguments[3].substring("sql:".length())));
        } else {
            consumer.subscribe(arguments[2], arguments[3]);
        }
        AtomicLong received = new AtomicLong();
        AtomicLong lastAt = new AtomicLong(System.currentTimeMillis());
        try (PrintStream out = Lines.open(Path.of(arguments[8]))) {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    Lines.print(out, Lines.describe(message));
                    received.incrementAndGet();
                }
                lastAt.set(System.currentTimeMillis());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            System.out.println("started");
            System.out.flush();
            CountDownLatch never = new CountDownLatch(1);
            while (System.currentTimeMillis() < deadline) {
                boolean quiet = System.currentTimeMillis() - lastAt.get() > quietMs;
                if (quiet && received.get() >= count) {
                    break; // what came twice or too much would have come within the quiet time
                }
                never.await(50, TimeUnit.MILLISECONDS);
            }
            consumer.shutdown();
        }
    }

    // ---- read

    private static void read(String nameserver, String topic, Path questions, Path answers)
            throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("interop_reader");
        consumer.setNamesrvAddr(nameserver);
        consumer.setMqClientApiTimeout(API_TIMEOUT_MS);
        consumer.start();
        try (PrintStream out = Lines.open(answers)) {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                pullQueue(consumer, queue, out);
            }
            for (JSONObject question : Lines.read(questions)) {
                Lines.print(out, answer(consumer, topic, question));
            }
        }
        consumer.shutdown();
    }

    private static void pullQueue(DefaultMQPullConsumer consumer, MessageQueue queue, PrintStream out)
            throws Exception {
        long end = consumer.maxOffset(queue);
        long offset = consumer.minOffset(queue);
        while (offset < end) {
            PullResult pulled = consumer.pull(queue, "*", offset, 32);
            if (pulled.getMsgFoundList() != null) {
                for (MessageExt message : pulled.getMsgFoundList()) {
                    Lines.print(out, Lines.describe(message));
                }
            }
            if (pulled.getNextBeginOffset() <= offset) {
                throw new IllegalStateException("no progress at " + queue + " " + offset + ": " + pulled);
            }
            offset = pulled.getNextBeginOffset();
        }
    }

    private static JSONObject answer(DefaultMQPullConsumer consumer, String topic, JSONObject question) {
        JSONObject line = new JSONObject(true);
        line.put("question", question);
        JSONArray found = new JSONArray();
        try {
            if (question.containsKey("id")) {
                found.add(Lines.describe(consumer.viewMessage(topic, question.getString("id"))));
            } else {
                QueryResult result =
                        consumer.queryMessage(topic, question.getString("key"), 64, 0, Long.MAX_VALUE);
                for (MessageExt message : result.getMessageList()) {
                    found.add(Lines.describe(message));
                }
            }
        } catch (Exception error) {
            line.put("error", error.toString());
        }
        line.put("found", found);
        return line;
    }
}
