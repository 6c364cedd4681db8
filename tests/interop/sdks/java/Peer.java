import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The official Java SDK of RocketMQ 5 under orders; what `python/peer.py` says is true of it. */
public class Peer {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final long LIMIT_MS = 90_000;
    static final Duration INVISIBLE = Duration.ofSeconds(15);
    static ClientConfiguration configuration;

    interface Scenario {
        String play(String topic) throws Exception;
    }

    static Producer producer(String topic, boolean checks) throws Exception {
        ProducerBuilder made =
                PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic);
        if (checks) {
            made.setTransactionChecker(view -> TransactionResolution.COMMIT);
        }
        return made.build();
    }

    static SimpleConsumer simple(String topic, FilterExpression wanted) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(topic + "-group")
                .setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Collections.singletonMap(topic, wanted))
                .build();
    }

    static PushConsumer push(String topic, MessageListener listener) throws Exception {
        return PROVIDER.newPushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(topic + "-group")
                .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression()))
                .setMessageListener(listener)
                .build();
    }

    static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder()
                .setTopic(topic)
                .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(MessageView view) {
        ByteBuffer data = view.getBody();
        byte[] found = new byte[data.remaining()];
        data.get(found);
        return new String(found, StandardCharsets.UTF_8);
    }

    static List<MessageView> received(SimpleConsumer consumer, int count, long ms) throws Exception {
        List<MessageView> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + ms;
        while (found.size() < count && System.currentTimeMillis() < deadline) {
            for (MessageView one : consumer.receive(32, INVISIBLE)) {
                consumer.ack(one);
                found.add(one);
            }
        }
        return found;
    }

    static String json(Collection<String> texts) {
        return texts.stream().map(one -> '"' + one + '"').collect(Collectors.joining(", ", "[", "]"));
    }

    static String bodies(Collection<MessageView> found) {
        return json(found.stream().map(Peer::body).sorted().collect(Collectors.toList()));
    }

    static class Noting implements MessageListener {
        final List<MessageView> seen = new CopyOnWriteArrayList<>();
        final Predicate<MessageView> fails;

        Noting(Predicate<MessageView> fails) {
            this.fails = fails;
        }

        public ConsumeResult consume(MessageView view) {
            seen.add(view);
            return fails.test(view) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        }

        void until(Predicate<Noting> holds) throws Exception {
            long deadline = System.currentTimeMillis() + LIMIT_MS;
            while (!holds.test(this) && System.currentTimeMillis() < deadline) {
                Thread.sleep(50);
            }
        }

        boolean has(String text) {
            return seen.stream().anyMatch(one -> body(one).equals(text));
        }
    }

    static String normal(String topic) throws Exception {
        try (Producer producer = producer(topic, false);
                SimpleConsumer consumer = simple(topic, new FilterExpression())) {
            TreeSet<String> ids = new TreeSet<>();
            for (int number = 0; number < 10; number++) {
                Message sent =
                        message(topic, "m" + number)
                                .setTag("A")
                                .setKeys("k" + number)
                                .addProperty("n", "1")
                                .build();
                ids.add(producer.send(sent).getMessageId().toString());
            }
            List<MessageView> found = received(consumer, 10, LIMIT_MS);
            Function<Function<MessageView, String>, String> each =
                    get -> json(found.stream().map(get).collect(Collectors.toCollection(TreeSet::new)));
            boolean same =
                    found.stream()
                            .map(one -> one.getMessageId().toString())
                            .collect(Collectors.toCollection(TreeSet::new))
                            .equals(ids);
            String keys =
                    json(
                            found.stream()
                                    .flatMap(one -> one.getKeys().stream())
                                    .sorted()
                                    .collect(Collectors.toList()));
            return "{\"attempts\": "
                    + each.apply(one -> "" + one.getDeliveryAttempt())
                    + ", \"bodies\": "
                    + bodies(found)
                    + ", \"ids\": "
                    + same
                    + ", \"keys\": "
                    + keys
                    + ", \"properties\": "
                    + each.apply(one -> one.getProperties().get("n"))
                    + ", \"tags\": "
                    + each.apply(one -> one.getTag().orElse(""))
                    + "}";
        }
    }

    static String push(String topic) throws Exception {
        Noting noting = new Noting(one -> false);
        try (PushConsumer consumer = push(topic, noting);
                Producer producer = producer(topic, false)) {
            for (int number = 0; number < 10; number++) {
                producer.send(message(topic, "m" + number).build());
            }
            noting.until(one -> one.seen.size() >= 10);
        }
        return bodies(noting.seen);
    }

    static String fifo(String topic) throws Exception {
        Noting noting = new Noting(one -> false);
        try (PushConsumer consumer = push(topic, noting);
                Producer producer = producer(topic, false)) {
            for (int number = 0; number < 10; number++) {
                for (String group : Arrays.asList("a", "b")) {
                    producer.send(message(topic, group + number).setMessageGroup(group).build());
                }
            }
            noting.until(one -> one.seen.size() >= 20);
        }
        List<String> said = noting.seen.stream().map(Peer::body).collect(Collectors.toList());
        Function<String, String> of =
                group ->
                        json(
                                said.stream()
                                        .filter(one -> one.startsWith(group))
                                        .collect(Collectors.toList()));
        return "{\"a\": " + of.apply("a") + ", \"b\": " + of.apply("b") + "}";
    }

    static String delay(String topic) throws Exception {
        try (Producer producer = producer(topic, false);
                SimpleConsumer consumer = simple(topic, new FilterExpression())) {
            long due = (System.currentTimeMillis() / 1000 + 4) * 1000;
            producer.send(message(topic, "later").setDeliveryTimestamp(due).build());
            List<MessageView> found = received(consumer, 1, LIMIT_MS);
            boolean inTime = System.currentTimeMillis() >= due - 100;
            return "{\"bodies\": " + bodies(found) + ", \"is_in_time\": " + inTime + "}";
        }
    }

    static String transaction(String topic) throws Exception {
        try (Producer producer = producer(topic, true);
                SimpleConsumer consumer = simple(topic, new FilterExpression())) {
            Transaction yes = producer.beginTransaction();
            producer.send(message(topic, "yes").build(), yes);
            yes.commit();
            Transaction no = producer.beginTransaction();
            producer.send(message(topic, "no").build(), no);
            no.rollback();
            return bodies(received(consumer, 2, 12_000));
        }
    }

    static String orphan(String topic) throws Exception {
        try (Producer producer = producer(topic, true);
                SimpleConsumer consumer = simple(topic, new FilterExpression())) {
            producer.send(message(topic, "orphan").build(), producer.beginTransaction());
            return bodies(received(consumer, 1, LIMIT_MS));
        }
    }

    static String nack(String topic) throws Exception {
        try (Producer producer = producer(topic, false);
                SimpleConsumer consumer = simple(topic, new FilterExpression())) {
            producer.send(message(topic, "again").build());
            List<MessageView> found = new ArrayList<>();
            long deadline = System.currentTimeMillis() + LIMIT_MS;
            while (found.isEmpty() && System.currentTimeMillis() < deadline) {
                found.addAll(consumer.receive(1, INVISIBLE));
            }
            consumer.changeInvisibleDuration(found.get(0), Duration.ofSeconds(2));
            found.addAll(received(consumer, 1, LIMIT_MS));
            return found.stream()
                    .map(one -> "[\"" + body(one) + "\", " + one.getDeliveryAttempt() + "]")
                    .collect(Collectors.joining(", ", "[", "]"));
        }
    }

    static String forward(String topic) throws Exception {
        Noting noting = new Noting(one -> body(one).equals("bad"));
        try (PushConsumer consumer = push(topic, noting);
                Producer producer = producer(topic, false)) {
            for (String text : Arrays.asList("bad", "good")) {
                producer.send(message(topic, text).setMessageGroup("g").build());
            }
            noting.until(one -> one.has("good"));
        }
        return json(noting.seen.stream().map(Peer::body).collect(Collectors.toList()));
    }

    static String tags(String topic) throws Exception {
        try (Producer producer = producer(topic, false);
                SimpleConsumer consumer = simple(topic, new FilterExpression("B || C"))) {
            for (String tag : Arrays.asList("A", "B", "C", "D")) {
                producer.send(message(topic, tag.toLowerCase()).setTag(tag).build());
            }
            return bodies(received(consumer, 3, 12_000));
        }
    }

    static String sql(String topic) throws Exception {
        FilterExpression wanted = new FilterExpression("n > 1", FilterExpressionType.SQL92);
        try (Producer producer = producer(topic, false);
                SimpleConsumer consumer = simple(topic, wanted)) {
            for (int number = 0; number < 4; number++) {
                producer.send(message(topic, "m" + number).addProperty("n", "" + number).build());
            }
            return bodies(received(consumer, 3, 12_000));
        }
    }

    static String recall(String topic) throws Exception {
        try (Producer producer = producer(topic, false);
                SimpleConsumer consumer = simple(topic, new FilterExpression())) {
            long due = (System.currentTimeMillis() / 1000 + 8) * 1000;
            SendReceipt first =
                    producer.send(message(topic, "first").setDeliveryTimestamp(due).build());
            producer.send(message(topic, "second").setDeliveryTimestamp(due).build());
            String taken =
                    producer.recallMessage(topic, first.getRecallHandle()).getMessageId().toString();
            List<MessageView> found = received(consumer, 2, 20_000);
            boolean same = taken.equals(first.getMessageId().toString());
            return "{\"bodies\": " + bodies(found) + ", \"is_id\": " + same + "}";
        }
    }

    static String refused(String topic) throws Exception {
        List<String> found = new ArrayList<>();
        try (Producer producer = producer(topic, false)) {
            for (Message wrong :
                    Arrays.asList(
                            message(topic, "x").setMessageGroup("g").build(),
                            message(topic, "x")
                                    .setDeliveryTimestamp(System.currentTimeMillis() + 60_000)
                                    .build(),
                            message(topic + "-missing", "x").build())) {
                try {
                    producer.send(wrong);
                    found.add("sent");
                } catch (Exception error) {
                    found.add(error.getClass().getSimpleName());
                }
            }
        }
        return json(found);
    }

    static String reconnect(String topic) throws Exception {
        Noting noting = new Noting(one -> false);
        List<String> acknowledged = new ArrayList<>();
        try (PushConsumer consumer = push(topic, noting);
                Producer producer = producer(topic, false)) {
            long deadline = System.currentTimeMillis() + LIMIT_MS;
            while (acknowledged.size() < 60 && System.currentTimeMillis() < deadline) {
                String text = "m" + acknowledged.size();
                try {
                    producer.send(message(topic, text).build());
                } catch (Exception away) {
                    Thread.sleep(200);
                    continue;
                }
                acknowledged.add(text);
                if (acknowledged.size() == 20) {
                    System.out.println("{\"begun\": \"reconnect\"}");
                    System.out.flush();
                }
                Thread.sleep(50);
            }
            noting.until(one -> acknowledged.stream().allMatch(one::has));
        }
        TreeSet<String> missing = new TreeSet<>(acknowledged);
        missing.removeIf(noting::has);
        return "{\"acknowledged\": " + acknowledged.size() + ", \"missing\": " + json(missing) + "}";
    }

    static Scenario scenario(String name) {
        switch (name) {
            case "normal":
                return Peer::normal;
            case "push":
                return Peer::push;
            case "fifo":
                return Peer::fifo;
            case "delay":
                return Peer::delay;
            case "transaction":
                return Peer::transaction;
            case "orphan":
                return Peer::orphan;
            case "nack":
                return Peer::nack;
            case "forward":
                return Peer::forward;
            case "tags":
                return Peer::tags;
            case "sql":
                return Peer::sql;
            case "recall":
                return Peer::recall;
            case "refused":
                return Peer::refused;
            case "reconnect":
                return Peer::reconnect;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    public static void main(String[] arguments) {
        configuration =
                ClientConfiguration.newBuilder()
                        .setEndpoints(arguments[0])
                        .enableSsl(false)
                        .build();
        for (String name : Arrays.asList(arguments).subList(2, arguments.length)) {
            String told;
            try {
                told = scenario(name).play(arguments[1] + name);
            } catch (Exception error) {
                String text = (error.getClass().getSimpleName() + ": " + error.getMessage());
                told = '"' + text.replace("\\", "/").replace("\"", "'").replace("\n", " ") + '"';
            }
            System.out.println("{\"scenario\": \"" + name + "\", \"told\": " + told + "}");
            System.out.flush();
        }
        System.exit(0);
    }
}
