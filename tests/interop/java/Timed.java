import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Sends three messages that come at a time, and a fourth that it takes back. */
public final class Timed {
    private Timed() {}

    /** Arguments: a NameServer and a topic. Prints the id of the fourth, and the one that was taken back. */
    public static void main(String[] args) {
        try {
            run(args[0], args[1]);
            System.exit(0); // the client leaves threads behind
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String nameserver, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("timed");
        producer.setNamesrvAddr(nameserver);
        producer.setMqClientApiTimeout(60_000);
        producer.setSendMsgTimeout(60_000);
        producer.start();
        Message[] messages = new Message[4];
        for (int number = 0; number < messages.length; number++) {
            messages[number] = new Message(topic, String.valueOf(number).getBytes(StandardCharsets.UTF_8));
        }
        messages[0].setDelayTimeMs(1500);
        messages[1].setDelayTimeSec(2);
        messages[2].setDeliverTimeMs(System.currentTimeMillis() + 2500);
        messages[3].setDelayTimeMs(20_000);
        SendResult sent = null;
        for (Message message : messages) {
            sent = producer.send(message);
        }
        System.out.println(sent.getMsgId() + " " + producer.recallMessage(topic, sent.getRecallHandle()));
    }
}
