import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What a user of the Java client does beyond sending and receiving, a scenario each, all at once.
 *
 * A scenario has topics and groups of its own (PREFIX and its name; the topics are there when it
 * starts) and writes one line for each thing that happened: its name, the event, the time, details.
 * A scenario that fails writes the event `failed`, and the others go on. Judging is up to the tests.
 */
final class Scenarios {
    private static final int API_TIMEOUT_MS = 30_000;
    private static final int WAIT_SECONDS_MAX = 150;
    private static final int SETTLE_MS = 1_500; // what would come too much comes within this time

    private interface Scenario {
        void run() throws Exception;
    }

    private final String nameserver;
    private final String prefix;
    private final Path killed;
    private final PrintStream out;

    private Scenarios(String nameserver, String prefix, Path killed, PrintStream out) {
        this.nameserver = nameserver;
        this.prefix = prefix;
        this.killed = killed;
        this.out = out;
    }

    /** Run every scenario; `killed` is a file that appears when the victim has been killed. */
    static void show(String nameserver, String prefix, Path killed, Path results) throws Exception {
        try (PrintStream out = Lines.open(results)) {
            Scenarios all = new Scenarios(nameserver, prefix, killed, out);
            List<Thread> threads = new ArrayList<>();
            threads.add(all.start("OneWay", all::oneWay));
            threads.add(all.start("Tags", all::tags));
            threads.add(all.start("Broadcast", all::broadcast));
            threads.add(all.start("Delay", all::delay));
            threads.add(all.start("Retry", all::retry));
            threads.add(all.start("Suspend", all::suspend));
            threads.add(all.start("LitePull", all::litePull));
            threads.add(all.start("Reset", all::reset));
            threads.add(all.start("Reply", all::reply));
            threads.add(all.start("Crash", all::crash));
            for (Thread thread : threads) {
                thread.join();
            }
        }
    }

    /** Consume a topic in order until killed. */
    static void victim(String nameserver, String topic, String group, Path results) throws Exception {
        PrintStream out = Lines.open(results);
        Scenarios told = new Scenarios(nameserver, "", null, out);
        told.orderly(group, topic, (messages, context) -> {
            messages.forEach(message -> told.tell("Crash", "victim", message));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        new CountDownLatch(1).await();
    }

    private Thread start(String name, Scenario scenario) {
        Thread thread = new Thread(() -> {
            try {
                scenario.run();
                tell(name, "finished", new JSONObject(true));
            } catch (Throwable error) {
                JSONObject line = new JSONObject(true);
                line.put("error", error.toString());
                tell(name, "failed", line);
                error.printStackTrace();
            }
        }, name);
        thread.start();
        return thread;
    }

    // ---- the scenarios

    /** Forty messages for which no answer is awaited. */
    private void oneWay() throws Exception {
        DefaultMQProducer producer = producer("OneWay");
        for (int number = 0; number < 40; number++) {
            producer.sendOneway(message("OneWay", "", number));
        }
        consumeAll("OneWay", "*", 40).shutdown();
        producer.shutdown();
    }

    /** A subscription to two of three tags. */
    private void tags() throws Exception {
        DefaultMQProducer producer = producer("Tags");
        for (int number = 0; number < 60; number++) {
            producer.send(message("Tags", List.of("red", "green", "blue").get(number % 3), number));
        }
        consumeAll("Tags", "red || blue", 40).shutdown();
        producer.shutdown();
    }

    /** Two members each get everything; one that comes back goes on from its own file of offsets. */
    private void broadcast() throws Exception {
        DefaultMQProducer producer = producer("Broadcast");
        for (int number = 0; number < 30; number++) {
            producer.send(message("Broadcast", "", number));
        }
        AtomicInteger first = new AtomicInteger();
        AtomicInteger second = new AtomicInteger();
        AtomicInteger again = new AtomicInteger();
        DefaultMQPushConsumer one = listening("one", first, "one");
        DefaultMQPushConsumer two = listening("two", second, "two");
        until(() -> first.get() >= 30 && second.get() >= 30, "both members to get all");
        Thread.sleep(SETTLE_MS);
        one.shutdown();
        for (int number = 30; number < 36; number++) {
            producer.send(message("Broadcast", "", number));
        }
        until(() -> second.get() >= 36, "the one that stayed");
        one = listening("one", again, "one again");
        until(() -> again.get() >= 6, "the one that came back");
        Thread.sleep(SETTLE_MS);
        one.shutdown();
        two.shutdown();
        producer.shutdown();
    }

    private DefaultMQPushConsumer listening(String instance, AtomicInteger count, String event) throws Exception {
        DefaultMQPushConsumer consumer = consumer("Broadcast");
        consumer.setInstanceName(prefix + instance);
        consumer.setMessageModel(named(consumer.getMessageModel(), "BROADCASTING"));
        consumer.subscribe(prefix + "Broadcast", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> tell("Broadcast", event, message));
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    /** Messages with delay levels 1 and 2 among ones without. */
    private void delay() throws Exception {
        DefaultMQProducer producer = producer("Delay");
        for (int number = 0; number < 9; number++) {
            Message message = message("Delay", "", number);
            message.setDelayTimeLevel(number % 3);
            long before = System.currentTimeMillis();
            SendResult sent = producer.send(message);
            JSONObject line = new JSONObject(true);
            line.put("number", number);
            line.put("status", sent.getSendStatus().name());
            line.put("sent_at_ms", before);
            tell("Delay", "sent", line);
        }
        consumeAll("Delay", "*", 9).shutdown();
        producer.shutdown();
    }

    /** Message 0 always fails at the shortest delay, message 1 fails once at the usual one. */
    private void retry() throws Exception {
        DefaultMQProducer producer = producer("Retry");
        for (int number = 0; number < 4; number++) {
            producer.send(message("Retry", "", number));
        }
        AtomicInteger successes = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer("Retry");
        consumer.setMaxReconsumeTimes(2);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(prefix + "Retry", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            tell("Retry", "attempt", message);
            boolean isPoison = message.getKeys().equals("key-0");
            if (isPoison) {
                context.setDelayLevelWhenNextConsume(1);
            }
            if (isPoison || (message.getKeys().equals("key-1") && message.getReconsumeTimes() == 0)) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            successes.incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        deadLetters("Retry", 1);
        until(() -> successes.get() >= 3, "the message that failed once");
        Thread.sleep(SETTLE_MS);
        consumer.shutdown();
        producer.shutdown();
    }

    /** In order: message 4 fails twice in place; message 7 always, until it is a dead letter. */
    private void suspend() throws Exception {
        DefaultMQProducer producer = producer("Suspend");
        for (int number = 0; number < 10; number++) {
            producer.send(message("Suspend", "", number), (queues, message, key) -> queues.get(0), null);
        }
        Set<String> passed = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer("Suspend");
        consumer.setMaxReconsumeTimes(3);
        consumer.setSuspendCurrentQueueTimeMillis(200);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(prefix + "Suspend", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt message = messages.get(0);
            tell("Suspend", "attempt", message);
            boolean isPoison = message.getKeys().equals("key-7");
            if (isPoison || (message.getKeys().equals("key-4") && message.getReconsumeTimes() < 2)) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            passed.add(message.getKeys());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        until(() -> passed.size() >= 9, "all but the one that always fails");
        deadLetters("Suspend", 1);
        Thread.sleep(SETTLE_MS);
        consumer.shutdown();
        producer.shutdown();
    }

    /** Assigned queues with seek, pause and commit; then a group that subscribes. */
    private void litePull() throws Exception {
        DefaultMQProducer producer = producer("LitePull");
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(prefix + "LitePull");
        queues.sort(null);
        long middleAtMs = 0;
        for (int number = 0; number < 40; number++) {
            producer.send(message("LitePull", "", number), queues.get(number % 2));
            if (number == 19) {
                Thread.sleep(100);
                middleAtMs = System.currentTimeMillis();
                Thread.sleep(100);
            }
        }
        DefaultLitePullConsumer consumer = liteConsumer("LitePull_assigned");
        consumer.setAutoCommit(false);
        consumer.setPersistConsumerOffsetInterval(200);
        consumer.start();
        Collection<MessageQueue> found = consumer.fetchMessageQueues(prefix + "LitePull");
        consumer.assign(found);
        poll(consumer, "from the start", 40);
        consumer.seek(queues.get(0), 5);
        poll(consumer, "seek 5", 15);
        consumer.seekToBegin(queues.get(1));
        poll(consumer, "seek to begin", 20);
        JSONObject line = new JSONObject(true);
        line.put("queues", found.size());
        line.put("middle", consumer.offsetForTimestamp(queues.get(0), middleAtMs));
        tell("LitePull", "by time", line);
        consumer.seek(queues.get(1), 10);
        consumer.seekToEnd(queues.get(1));
        consumer.pause(List.of(queues.get(0)));
        consumer.seek(queues.get(0), 18); // drops the pull that the broker may hold
        producer.send(message("LitePull", "", 40), queues.get(0));
        producer.send(message("LitePull", "", 41), queues.get(1));
        poll(consumer, "one queue paused, one at its end", 1);
        consumer.resume(List.of(queues.get(0)));
        poll(consumer, "resumed at 18", 3);
        consumer.commitSync();
        Thread.sleep(SETTLE_MS); // the client tells the broker some time later, and is not answered
        consumer.shutdown();
        DefaultLitePullConsumer subscriber = liteConsumer("LitePull_subscribed");
        subscriber.subscribe(prefix + "LitePull", "*");
        subscriber.start();
        poll(subscriber, "subscribed", 42);
        subscriber.shutdown();
        producer.shutdown();
    }

    private DefaultLitePullConsumer liteConsumer(String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(prefix + group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    /** Poll until `count` messages came and nothing follows; a seek needs a moment to take hold. */
    private void poll(DefaultLitePullConsumer consumer, String phase, int count) throws Exception {
        long deadline = System.currentTimeMillis() + WAIT_SECONDS_MAX * 1000L;
        int seen = 0;
        boolean isQuiet = false;
        while (seen < count || !isQuiet) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("polled " + seen + " of " + count + ": " + phase);
            }
            List<MessageExt> messages = consumer.poll(SETTLE_MS);
            for (MessageExt message : messages) {
                tell("LitePull", phase, message);
            }
            seen += messages.size();
            isQuiet = messages.isEmpty();
        }
    }

    /** A running group is set back to a time by a request to the broker; the member learns of it when it pulls. */
    private void reset() throws Exception {
        DefaultMQProducer producer = producer("Reset");
        for (int number = 0; number < 20; number++) {
            producer.send(message("Reset", "", number));
        }
        Thread.sleep(100);
        long middleAtMs = System.currentTimeMillis();
        Thread.sleep(100);
        for (int number = 20; number < 40; number++) {
            producer.send(message("Reset", "", number));
        }
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer("Reset");
        consumer.subscribe(prefix + "Reset", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> tell("Reset", "received", message));
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> count.get() >= 40, "everything once");
        Thread.sleep(SETTLE_MS);
        MQClientInstance instance = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        String broker = consumer.fetchSubscribeMessageQueues(prefix + "Reset").iterator().next().getBrokerName();
        JSONObject line = new JSONObject(true);
        line.put("queues", instance.getMQClientAPIImpl().invokeBrokerToResetOffset(
                instance.findBrokerAddressInPublish(broker), prefix + "Reset", prefix + "Reset",
                middleAtMs, true, API_TIMEOUT_MS).size());
        tell("Reset", "reset", line);
        until(() -> count.get() >= 60, "the second half again");
        Thread.sleep(SETTLE_MS);
        consumer.shutdown();
        producer.shutdown();
    }

    /** Requests that are answered, awaited and with a callback; and one to nobody. */
    private void reply() throws Exception {
        DefaultMQProducer answering = producer("Reply_answering");
        DefaultMQPushConsumer consumer = consumer("Reply");
        consumer.subscribe(prefix + "Reply", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] body = ("answer to " + text(message)).getBytes(StandardCharsets.UTF_8);
                    answering.send(MessageUtil.createReplyMessage(message, body), API_TIMEOUT_MS);
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = producer("Reply_asking");
        for (int number = 0; number < 5; number++) {
            try {
                tellAnswer("awaited", number, producer.request(message("Reply", "", number), API_TIMEOUT_MS));
            } catch (RequestTimeoutException error) {
                tell("Reply", "given up", new JSONObject(true));
            }
        }
        CountDownLatch open = new CountDownLatch(5);
        for (int number = 5; number < 10; number++) {
            int asked = number;
            producer.request(message("Reply", "", number), new RequestCallback() {
                @Override
                public void onSuccess(Message answer) {
                    tellAnswer("called back", asked, answer);
                    open.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    JSONObject line = new JSONObject(true);
                    line.put("error", error.toString());
                    tell("Reply", "failed", line);
                    open.countDown();
                }
            }, API_TIMEOUT_MS);
        }
        if (!open.await(WAIT_SECONDS_MAX, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no answer to some requests with a callback");
        }
        JSONObject line = new JSONObject(true);
        try {
            producer.request(message("Nobody", "", 0), 1_500);
            line.put("outcome", "answered");
        } catch (Exception error) {
            line.put("outcome", error.getClass().getSimpleName());
        }
        tell("Reply", "nobody", line);
        consumer.shutdown();
        answering.shutdown();
        producer.shutdown();
    }

    private void tellAnswer(String event, int number, Message answer) {
        JSONObject line = new JSONObject(true);
        line.put("number", number);
        line.put("body", new String(answer.getBody(), StandardCharsets.UTF_8));
        tell("Reply", event, line);
    }

    /** The survivor of two ordered consumers, and the producer that both live on. */
    private void crash() throws Exception {
        Set<Integer> ended = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer survivor = orderly(prefix + "Crash", prefix + "Crash", (messages, context) -> {
            for (MessageExt message : messages) {
                tell("Crash", "survivor", message);
                if ("end".equals(message.getTags())) {
                    ended.add(message.getQueueId());
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        DefaultMQProducer producer = producer("Crash");
        int number = 0;
        int last = Integer.MAX_VALUE;
        while (number < last) {
            String key = "customer " + number % 13;
            SendResult sent = producer.send(message("Crash", "", number),
                    (queues, message, wanted) -> queues.get(Math.floorMod(wanted.hashCode(), queues.size())), key);
            JSONObject line = new JSONObject(true);
            line.put("number", number);
            line.put("queue_id", sent.getMessageQueue().getQueueId());
            line.put("queue_offset", sent.getQueueOffset());
            tell("Crash", "sent", line);
            number += 1;
            if (last == Integer.MAX_VALUE && Files.exists(killed)) {
                last = number + 200;
            }
            Thread.sleep(10);
        }
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(prefix + "Crash");
        for (MessageQueue queue : queues) {
            producer.send(message("Crash", "end", number++), queue);
        }
        until(() -> ended.size() == queues.size(), "the last message of each queue");
        survivor.shutdown();
        producer.shutdown();
    }

    // ---- shared

    private DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(prefix + group + "_producer");
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(API_TIMEOUT_MS);
        producer.setMqClientApiTimeout(API_TIMEOUT_MS);
        producer.start();
        return producer;
    }

    private DefaultMQPushConsumer consumer(String name) {
        return member(prefix + name);
    }

    private DefaultMQPushConsumer member(String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setMqClientApiTimeout(API_TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        return consumer;
    }

    private DefaultMQPushConsumer orderly(String group, String topic, MessageListenerOrderly listener)
            throws Exception {
        DefaultMQPushConsumer consumer = member(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    /** Consume a scenario's topic until `count` messages came and nothing follows. */
    private DefaultMQPushConsumer consumeAll(String name, String expression, int count) throws Exception {
        AtomicInteger seen = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer(name);
        consumer.subscribe(prefix + name, expression);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> tell(name, "received", message));
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> seen.get() >= count, count + " messages");
        Thread.sleep(SETTLE_MS);
        return consumer;
    }

    /** Pull the dead letters of a scenario's group once there are `count`. */
    private void deadLetters(String name, int count) throws Exception {
        DefaultMQPullConsumer reader = new DefaultMQPullConsumer(prefix + name + "_reader");
        reader.setNamesrvAddr(nameserver);
        reader.setMqClientApiTimeout(API_TIMEOUT_MS);
        reader.start();
        String topic = "%DLQ%" + prefix + name;
        until(() -> {
            try {
                return reader.fetchSubscribeMessageQueues(topic).stream().mapToLong(queue -> {
                    try {
                        return reader.maxOffset(queue);
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                }).sum() >= count;
            } catch (Exception error) {
                return false; // the topic is made by its first message, and its route takes a while
            }
        }, count + " dead letters");
        for (MessageQueue queue : reader.fetchSubscribeMessageQueues(topic)) {
            PullResult pulled = reader.pull(queue, "*", 0, 32);
            if (pulled.getMsgFoundList() != null) {
                pulled.getMsgFoundList().forEach(message -> tell(name, "dead letter", message));
            }
        }
        reader.shutdown();
    }

    private Message message(String name, String tag, int number) {
        return new Message(prefix + name, tag, "key-" + number,
                ("body " + number).getBytes(StandardCharsets.UTF_8));
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** Return the constant `name` of the enumeration that `any` belongs to, whose package moved in 5.x. */
    static <E extends Enum<E>> E named(E any, String name) {
        return Enum.valueOf(any.getDeclaringClass(), name);
    }

    private static void until(BooleanSupplier holds, String what) throws InterruptedException {
        long deadline = System.currentTimeMillis() + WAIT_SECONDS_MAX * 1000L;
        while (!holds.getAsBoolean()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("waited " + WAIT_SECONDS_MAX + " s for " + what);
            }
            Thread.sleep(50);
        }
    }

    private void tell(String scenario, String event, MessageExt message) {
        tell(scenario, event, Lines.describe(message));
    }

    private void tell(String scenario, String event, JSONObject line) {
        line.put("scenario", scenario);
        line.put("event", event);
        line.put("at_ms", System.currentTimeMillis());
        Lines.print(out, line);
    }
}
