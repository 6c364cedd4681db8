package interop;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * A Spring Boot application that sends, consumes by tag and by SQL92, and ends transactions.
 *
 * Writes a line for each message that a listener gets, and for each question: the listener, the body.
 */
@Configuration
@EnableAutoConfiguration
public class Shop {
    private static final int MESSAGES = 30;
    private static final int LATER = 3; // one that is delayed, two that are committed
    private static final int WAIT_SECONDS_MAX = 120;
    private static final int SETTLE_SECONDS = 2;
    private static final CountDownLatch open = new CountDownLatch(MESSAGES + LATER);
    private static PrintStream out;

    /** Gets everything. */
    @RocketMQMessageListener(topic = "${interop.topic}", consumerGroup = "${interop.topic}_all")
    public static class All implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            tell("all", message);
            open.countDown();
        }
    }

    /** Gets what has one of two tags. */
    @RocketMQMessageListener(
            topic = "${interop.topic}", consumerGroup = "${interop.topic}_tag", selectorExpression = "red || blue")
    public static class Tagged implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            tell("tag", message);
        }
    }

    /** Gets what passes a condition. */
    @RocketMQMessageListener(
            topic = "${interop.topic}",
            consumerGroup = "${interop.topic}_sql",
            selectorType = SelectorType.SQL92,
            selectorExpression = "amount > 20.0 AND TAGS = 'green'")
    public static class Chosen implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            tell("sql", message);
        }
    }

    /** Ends transactions as their word says, at once or when it is asked. */
    @RocketMQTransactionListener
    public static class Ends implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object word) {
            switch (word.toString()) {
                case "commit":
                    return RocketMQLocalTransactionState.COMMIT;
                case "rollback":
                    return RocketMQLocalTransactionState.ROLLBACK;
                default:
                    return RocketMQLocalTransactionState.UNKNOWN;
            }
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            String word = message.getHeaders().get("word", String.class);
            out.println("asked " + word);
            return "commit-check".equals(word)
                    ? RocketMQLocalTransactionState.COMMIT
                    : RocketMQLocalTransactionState.ROLLBACK;
        }
    }

    /** Arguments: a NameServer, a topic and a file for what happens. */
    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(Files.newOutputStream(Path.of(arguments[2])), true, StandardCharsets.UTF_8);
        SpringApplication application =
                new SpringApplication(Shop.class, All.class, Tagged.class, Chosen.class, Ends.class);
        application.setWebApplicationType(WebApplicationType.NONE);
        application.setDefaultProperties(Map.of(
                "rocketmq.name-server", arguments[0],
                "rocketmq.producer.group", arguments[1] + "_producer",
                "rocketmq.producer.send-message-timeout", "30000",
                "interop.topic", arguments[1]));
        try (ConfigurableApplicationContext context = application.run()) {
            send(context.getBean(RocketMQTemplate.class), arguments[1]);
            if (!open.await(WAIT_SECONDS_MAX, TimeUnit.SECONDS)) {
                throw new IllegalStateException(open.getCount() + " messages have not come");
            }
            TimeUnit.SECONDS.sleep(SETTLE_SECONDS); // what would come too much comes within this time
        }
        System.exit(0); // the client leaves threads behind
    }

    private static void send(RocketMQTemplate template, String topic) {
        List<String> tags = List.of("red", "green", "blue");
        for (int number = 0; number < MESSAGES; number++) {
            template.syncSend(
                    topic + ":" + tags.get(number % 3),
                    MessageBuilder.withPayload(String.valueOf(number)).setHeader("amount", number + ".5").build());
        }
        template.syncSendDelayTimeMills(topic, "delayed", 1500);
        for (String word : List.of("commit", "rollback", "commit-check", "rollback-check")) {
            template.sendMessageInTransaction(
                    topic, MessageBuilder.withPayload(word).setHeader("word", word).build(), word);
        }
    }

    private static void tell(String listener, MessageExt message) {
        out.println(listener + " " + new String(message.getBody(), StandardCharsets.UTF_8));
    }
}
