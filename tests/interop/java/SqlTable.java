import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.FilterSpi;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.util.BitsArray;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * Says what RocketMQ's own filter makes of expressions and messages. Reads one JSON object from the
 * standard input and prints one.
 *
 * In: `blocks`, of `messages`, a map of properties each, and `expressions`; `names`, texts that are
 * hashed, and `sizes`, pairs of error rate in percent and number of names. Or, to be timed: `message`,
 * `expressions`, and `seconds` for each of them.
 *
 * Out: `truth`, for each block and expression a letter a message (T, F, N for null, E for an error),
 * or P if it cannot be parsed; `bloom`, for each size what its filter is. Or: `rates`, evaluations of
 * each expression a second.
 */
public class SqlTable {
    private static final int AT_ONCE = 10_000;

    public static void main(String[] args) throws Exception {
        byte[] input = System.in.readAllBytes();
        JSONObject asked = JSON.parseObject(new String(input, StandardCharsets.UTF_8));
        JSONObject answer = new JSONObject(true);
        if (asked.containsKey("seconds")) {
            answer.put("rates", rates(asked));
        } else {
            List<Object> truth = new ArrayList<>();
            for (Object block : asked.getJSONArray("blocks")) {
                truth.add(rows((JSONObject) block));
            }
            answer.put("truth", truth);
            answer.put("bloom", bloom(texts(asked, "names"), asked.getJSONArray("sizes")));
        }
        System.out.write(JSON.toJSONString(answer).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static List<String> texts(JSONObject from, String name) {
        return from.getJSONArray(name).toJavaList(String.class);
    }

    private static List<String> rows(JSONObject block) {
        List<Message> messages = new ArrayList<>();
        for (Object one : block.getJSONArray("messages")) {
            messages.add(new Message((JSONObject) one));
        }
        List<String> rows = new ArrayList<>();
        for (String text : texts(block, "expressions")) {
            rows.add(row(text, messages));
        }
        return rows;
    }

    private static List<Long> rates(JSONObject asked) throws Exception {
        Message message = new Message(asked.getJSONObject("message"));
        double seconds = asked.getDoubleValue("seconds");
        List<Long> rates = new ArrayList<>();
        for (String text : texts(asked, "expressions")) {
            Expression expression = compile(text);
            rate(expression, message, seconds); // until Java has compiled it
            rates.add(rate(expression, message, seconds));
        }
        return rates;
    }

    private static Expression compile(String text) throws MQFilterException {
        FilterSpi filter = FilterFactory.INSTANCE.get("SQL92");
        return filter.compile(text);
    }

    private static String row(String text, List<Message> messages) {
        Expression expression;
        try {
            expression = compile(text);
        } catch (MQFilterException error) {
            return "P";
        }
        StringBuilder row = new StringBuilder();
        for (Message message : messages) {
            row.append(cell(expression, message));
        }
        return row.toString();
    }

    private static char cell(Expression expression, Message message) {
        try {
            Object value = expression.evaluate(message);
            return value == null ? 'N' : (Boolean) value ? 'T' : 'F';
        } catch (Exception error) {
            return 'E';
        }
    }

    private static List<JSONObject> bloom(List<String> names, JSONArray sizes) {
        List<JSONObject> filters = new ArrayList<>();
        for (int at = 0; at < sizes.size(); at++) {
            JSONArray size = sizes.getJSONArray(at);
            BloomFilter filter = BloomFilter.createByFn(size.getIntValue(0), size.getIntValue(1));
            BitsArray map = BitsArray.create(filter.getM());
            JSONObject positions = new JSONObject(true);
            for (String name : names) {
                positions.put(name, filter.calcBitPositions(name));
                filter.hashTo(name, map);
            }
            StringBuilder hex = new StringBuilder();
            for (byte one : map.bytes()) {
                hex.append(String.format("%02x", one));
            }
            JSONObject found = new JSONObject(true);
            found.put("hashes", filter.getK());
            found.put("bits", filter.getM());
            found.put("positions", positions);
            found.put("bit_map", hex.toString());
            filters.add(found);
        }
        return filters;
    }

    private static long rate(Expression expression, Message message, double seconds) throws Exception {
        long start = System.nanoTime();
        long end = start + (long) (seconds * 1e9);
        long count = 0;
        long matched = 0;
        while (System.nanoTime() < end) {
            for (int at = 0; at < AT_ONCE; at++) {
                matched += Boolean.TRUE.equals(expression.evaluate(message)) ? 1 : 0;
            }
            count += AT_ONCE;
        }
        if (matched != 0 && matched != count) {
            throw new IllegalStateException("one message, two answers");
        }
        return (long) (count / ((System.nanoTime() - start) / 1e9));
    }

    /** The properties of a message, as the broker hands them to an expression. */
    private static final class Message implements EvaluationContext {
        private final Map<String, Object> properties;

        Message(Map<String, Object> properties) {
            this.properties = properties;
        }

        @Override
        public Object get(String name) {
            return properties.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return properties;
        }
    }
}
