import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends messages in transactions, and says of each how it ended, at once or when it is asked. */
final class Transactions {
    private static final int TIMEOUT_MS = 30_000;

    private Transactions() {}

    /**
     * Send a message for each of the words in `plan`, then answer questions until killed.
     *
     * A word says how the transaction ends: `commit`, `rollback` and `throw` by the local work;
     * `commit-check` and `rollback-check` when the broker asks. A producer that is `silent` does not
     * know it even then. Another one of the group may be asked too, so the message carries its word.
     */
    static void transact(String nameserver, String topic, String group, String plan, String silent, Path results)
            throws Exception {
        PrintStream out = Lines.open(results);
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object word) {
                switch (word.toString()) {
                    case "commit":
                        return LocalTransactionState.COMMIT_MESSAGE;
                    case "rollback":
                        return LocalTransactionState.ROLLBACK_MESSAGE;
                    case "throw":
                        throw new IllegalStateException("the work failed");
                    default:
                        return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                tell(out, "checked", message.getUserProperty("word"), message.getMsgId(), message.getTransactionId());
                if (silent.equals("silent")) {
                    return LocalTransactionState.UNKNOW;
                }
                return message.getUserProperty("word").equals("commit-check")
                        ? LocalTransactionState.COMMIT_MESSAGE
                        : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        for (String word : plan.split(",")) {
            if (!word.isEmpty()) {
                Message message = new Message(topic, "", "", word.getBytes(StandardCharsets.UTF_8));
                message.putUserProperty("word", word);
                SendResult sent = producer.sendMessageInTransaction(message, word);
                tell(out, "sent", word, sent.getMsgId(), sent.getTransactionId());
            }
        }
        tell(out, "ready", "", "", "");
        new CountDownLatch(1).await();
    }

    private static void tell(PrintStream out, String event, String word, String id, String transaction) {
        JSONObject line = new JSONObject(true);
        line.put("event", event);
        line.put("word", word);
        line.put("id", id);
        line.put("transaction", transaction);
        Lines.print(out, line);
    }
}
