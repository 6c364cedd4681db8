import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** How this program reads its orders and tells what happened: files of one JSON object a line. */
final class Lines {
    private Lines() {}

    static List<JSONObject> read(Path path) throws Exception {
        List<JSONObject> lines = new ArrayList<>();
        for (String text : Files.readAllLines(path, StandardCharsets.UTF_8)) {
            lines.add(JSON.parseObject(text));
        }
        return lines;
    }

    /** Open a file; each line is in it when `print` returns, so that a killed process leaves what it told. */
    static PrintStream open(Path path) throws Exception {
        return new PrintStream(Files.newOutputStream(path), true, StandardCharsets.UTF_8);
    }

    static void print(PrintStream out, JSONObject line) {
        String text = JSON.toJSONString(line, SerializerFeature.WriteMapNullValue);
        synchronized (out) {
            out.println(text);
        }
    }

    /** Return all that the client says of a message that it hands out. */
    static JSONObject describe(MessageExt message) {
        JSONObject line = new JSONObject(true);
        line.put("topic", message.getTopic());
        line.put("queue_id", message.getQueueId());
        line.put("queue_offset", message.getQueueOffset());
        line.put("physical_offset", message.getCommitLogOffset());
        line.put("id", message.getMsgId());
        line.put("offset_id", message instanceof MessageClientExt
                ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId());
        line.put("tag", message.getTags());
        line.put("keys", message.getKeys());
        line.put("flag", message.getFlag());
        line.put("sys_flag", message.getSysFlag());
        line.put("reconsume_times", message.getReconsumeTimes());
        line.put("store_host", message.getStoreHost().toString());
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        line.put("properties", properties);
        byte[] body = message.getBody();  // null where there is none
        line.put("body", Base64.getEncoder().encodeToString(body == null ? new byte[0] : body));
        return line;
    }
}
