import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Options;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Runs mqadmin commands in one virtual machine, which takes longer to start than they do. Half of
 * them sleep three seconds when they end, so those of one stage run beside each other.
 */
public class Mqadmin {
    /** Two admin clients that are made in the same millisecond have the same name. */
    private static final long APART_MS = 40;

    /** What the second of them says. */
    private static final String COLLIDED = "The adminExt group";

    /** What one says that asks a busy machine, and may ask again. */
    private static final String TIMED_OUT = "RemotingTimeoutException";

    private static final ThreadLocal<PrintStream> SAID = new ThreadLocal<>();

    private static RPCHook hook;

    /**
     * Arguments: a NameServer; a file with a command a line, its words in base64 with blanks
     * between them, and an empty line between two stages; if there is one, a file such as
     * `conf/tools.yml` with the name and the password of whoever asks. Prints what each command printed, in
     * base64, a line each.
     */
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setProperty(MixAll.NAMESRV_ADDR_PROPERTY, args[0]);
        System.setOut(new PrintStream(new Routed(out), true));
        System.setErr(new PrintStream(new Routed(System.err), true));
        hook = args.length > 2 ? AclUtils.getAclRPCHook(args[2]) : null;
        MQAdminStartup.initCommand();
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<byte[]>> stage = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(args[1]))) {
            if (line.isEmpty()) {
                finish(stage, out);
                continue;
            }
            stage.add(threads.submit(command(line.split(" "))));
            Thread.sleep(APART_MS);
        }
        finish(stage, out);
        System.exit(0);
    }

    private static void finish(List<Future<byte[]>> stage, PrintStream out) throws Exception {
        for (Future<byte[]> one : stage) {
            out.println(Base64.getEncoder().encodeToString(one.get()));
        }
        out.flush();
        stage.clear();
    }

    private static Callable<byte[]> command(String[] encoded) {
        String[] words = new String[encoded.length];
        for (int i = 0; i < words.length; i++) {
            words[i] = new String(Base64.getDecoder().decode(encoded[i]), StandardCharsets.UTF_8);
        }
        return () -> {
            byte[] said = run(words);
            while (isToRepeat(words[0], new String(said, StandardCharsets.UTF_8))) {
                Thread.sleep(APART_MS);
                said = run(words);
            }
            return said;
        };
    }

    private static boolean isToRepeat(String command, String said) {
        boolean onlyLooks = command.startsWith("get") || command.startsWith("list");
        return said.contains(COLLIDED) || onlyLooks && said.contains(TIMED_OUT);
    }

    private static byte[] run(String[] words) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        SAID.set(new PrintStream(bytes, true, "UTF-8"));
        try {
            SubCommand found = null;
            for (SubCommand one : commands()) {
                if (one.commandName().equalsIgnoreCase(words[0])) {
                    found = one.getClass().getDeclaredConstructor().newInstance();
                }
            }
            Options options = ServerUtil.buildCommandlineOptions(new Options());
            found.buildCommandlineOptions(options);
            String[] rest = java.util.Arrays.copyOfRange(words, 1, words.length);
            CommandLine line = new DefaultParser().parse(options, rest);
            found.execute(line, options, hook);
        } catch (Exception failure) {
            failure.printStackTrace();
        }
        SAID.get().flush();
        return bytes.toByteArray();
    }

    @SuppressWarnings("unchecked")
    private static List<SubCommand> commands() throws Exception {
        java.lang.reflect.Field field = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        field.setAccessible(true);
        return (List<SubCommand>) field.get(null);
    }

    /** Gives each thread its own output; threads that clients start write to the real one. */
    private static class Routed extends OutputStream {
        private final PrintStream other;

        Routed(PrintStream other) {
            this.other = other;
        }

        @Override
        public void write(int one) {
            PrintStream said = SAID.get();
            if (said != null) {
                said.write(one);
            } else {
                other.write(one);
            }
        }
    }
}
