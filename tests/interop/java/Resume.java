import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Has it asked about again how the transaction of a message ended; no command of mqadmin does that. */
public final class Resume {
    private Resume() {}

    /** Arguments: a NameServer, the topic and the offset id of the message. Prints whether it was done. */
    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(60_000);
        admin.setNamesrvAddr(args[0]);
        admin.start();
        System.out.println(admin.resumeCheckHalfMessage(args[1], args[2]));
        System.exit(0); // the client leaves threads behind
    }
}
