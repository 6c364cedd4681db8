import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.remoting.protocol.EpochEntry;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAService;
import org.apache.rocketmq.store.ha.autoswitch.EpochFileCache;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * The parts of RocketMQ's controller mode that lie beside its log: its file of epochs, and a store
 * that is a master or a slave by order. Each line of the input is an order, each line of the output
 * its answer.
 *
 *   write FILE epoch-start ...    a file, entry by entry        the entries that it has then
 *   read FILE                     a file                        its entries
 *   after FILE OFFSET             cut it there                  its entries
 *   from FILE OFFSET              clean what lies before        its entries
 *   common FILE FILE              a log's and another's         up to where they are equal
 *   open FOLDER HAPORT SIZE       a store, files of SIZE        ok
 *   master EPOCH                  it is the master              its entries
 *   slave EPOCH ID HOST:PORT      it follows                    true or false
 *   put COUNT                     messages into it              where its log ends
 *   end                           nothing                       where its log ends, what is confirmed
 *   close                         it                            ok
 */
public class AutoSwitch {
    private static DefaultMessageStore store;
    private static MessageStoreConfig config;
    private static String epochFile;

    public static void main(String[] args) throws Exception {
        BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream out = new java.io.PrintStream(
            new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        try {
            for (String order = orders.readLine(); order != null; order = orders.readLine()) {
                out.println("= " + answer(order.trim().split(" ")));
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // threads of the store would keep the process
        }
        System.exit(0);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "write": {
                EpochFileCache cache = new EpochFileCache(words[1]);
                for (String entry : Arrays.asList(words).subList(2, words.length)) {
                    String[] parts = entry.split("-");
                    cache.appendEntry(
                        new EpochEntry(Integer.parseInt(parts[0]), Long.parseLong(parts[1])));
                }
                return entries(cache);
            }
            case "read":
                return entries(cache(words[1]));
            case "after": {
                EpochFileCache cache = cache(words[1]);
                cache.truncateSuffixByOffset(Long.parseLong(words[2]));
                return entries(cache);
            }
            case "from": {
                EpochFileCache cache = cache(words[1]);
                cache.truncatePrefixByOffset(Long.parseLong(words[2]));
                return entries(cache);
            }
            case "common": {
                EpochFileCache own = cache(words[1]);
                own.setLastEpochEntryEndOffset(Long.parseLong(words[3]));
                EpochFileCache other = cache(words[2]);
                other.setLastEpochEntryEndOffset(Long.parseLong(words[4]));
                return Long.toString(own.findConsistentPoint(other));
            }
            case "open":
                open(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                return "ok";
            case "master":
                config.setBrokerRole(BrokerRole.SYNC_MASTER);
                store.getHaService().changeToMaster(Integer.parseInt(words[1]));
                service().setSyncStateSet(Collections.singleton(1L));
                return entries(cache(epochFile));
            case "slave": {
                config.setBrokerRole(BrokerRole.SLAVE);
                boolean done = store.getHaService().changeToSlave(
                    "", Integer.parseInt(words[1]), Long.parseLong(words[2]));
                store.getHaService().updateHaMasterAddress(words[3]);
                return Boolean.toString(done);
            }
            case "put":
                for (int count = 0; count < Integer.parseInt(words[1]); count++) {
                    PutMessageResult result = store.putMessage(message());
                    if (!result.isOk()) {
                        throw new IllegalStateException(result.toString());
                    }
                }
                return Long.toString(store.getMaxPhyOffset());
            case "end":
                return store.getMaxPhyOffset() + " " + store.getConfirmOffset();
            case "close":
                store.shutdown();
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static EpochFileCache cache(String file) {
        EpochFileCache cache = new EpochFileCache(file);
        cache.initCacheFromFile();
        return cache;
    }

    private static String entries(EpochFileCache cache) {
        List<EpochEntry> all = new ArrayList<>(cache.getAllEntries());
        all.sort(Comparator.comparingInt(EpochEntry::getEpoch));
        StringBuilder text = new StringBuilder();
        for (EpochEntry entry : all) {
            text.append(entry.getEpoch()).append('-').append(entry.getStartOffset()).append(' ');
        }
        return text.toString().trim();
    }

    private static void open(String folder, int haPort, int size) throws Exception {
        config = new MessageStoreConfig();
        config.setBrokerRole(BrokerRole.SYNC_MASTER);
        config.setStorePathRootDir(folder);
        config.setStorePathCommitLog(folder + "/commitlog");
        epochFile = folder + "/epochFileCheckpoint";
        config.setStorePathEpochFile(epochFile);
        config.setStorePathBrokerIdentity(folder + "/brokerIdentity");
        config.setMappedFileSizeCommitLog(size);
        config.setMappedFileSizeConsumeQueue(2000);
        config.setMaxHashSlotNum(100);
        config.setMaxIndexNum(1000);
        config.setHaListenPort(haPort);
        config.setHaSendHeartbeatInterval(1000);
        config.setTotalReplicas(2);
        config.setInSyncReplicas(1);
        BrokerConfig brokerConfig = new BrokerConfig();
        brokerConfig.setBrokerId(1);
        brokerConfig.setEnableControllerMode(true);
        store = new DefaultMessageStore(
            config, new BrokerStatsManager("c", true), null, brokerConfig,
            new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("the store was not loaded");
        }
        store.start();
        service().setLocalBrokerId(1L);
    }

    private static AutoSwitchHAService service() {
        return (AutoSwitchHAService) store.getHaService();
    }

    private static MessageExtBrokerInner message() throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("FooBar");
        message.setTags("TAG1");
        message.setBody("Once, there was a chance for me!".getBytes(StandardCharsets.UTF_8));
        message.setQueueId(0);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setStoreHost(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 8123));
        message.setBornHost(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 1));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }
}
