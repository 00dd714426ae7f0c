import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;

/**
 * A client of Curator's locks, spoken to line by line: CuratorLock HOSTS. Of its InterProcessMutex:
 *
 * <p>lock PATH SECONDS: "ok", or "busy" when it was not granted in that time. wait PATH: "ok" at the grant.
 * release: "ok". grants PATH FILE N: "ok", after N locks of PATH, each noted in FILE by the number of its
 * node's creation.
 *
 * <p>read PATH SECONDS, write PATH SECONDS: the same with its InterProcessReadWriteLock. semaphore PATH PERMITS SECONDS: with
 * its InterProcessSemaphoreV2; leave gives that back.
 */
public final class CuratorLock {
    /** Curator's mutex, which tells the path of its node. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    private static void grants(CuratorFramework client, String path, String file, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            Mutex mutex = new Mutex(client, path);
            mutex.acquire();
            long number = client.checkExists().forPath(mutex.node()).getCzxid();
            Files.write(Paths.get(file), (number + " curator\n").getBytes(StandardCharsets.US_ASCII),
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            mutex.release();
        }
    }

    private static String answer(boolean granted) {
        return granted ? "ok" : "busy";
    }

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], 20000, 10000, new RetryNTimes(5, 200));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        InterProcessMutex mutex = null;
        Lease lease = null;
        String line;

        client.start();
        client.blockUntilConnected();
        System.out.println("open");
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            String answer = "ok";
            switch (words[0]) {
                case "lock":
                    mutex = new Mutex(client, words[1]);
                    if (!mutex.acquire(Long.parseLong(words[2]), TimeUnit.SECONDS)) {
                        answer = "busy";
                    }
                    break;
                case "wait":
                    mutex = new Mutex(client, words[1]);
                    mutex.acquire();
                    break;
                case "read":
                    mutex = new InterProcessReadWriteLock(client, words[1]).readLock();
                    answer = answer(mutex.acquire(Long.parseLong(words[2]), TimeUnit.SECONDS));
                    break;
                case "write":
                    mutex = new InterProcessReadWriteLock(client, words[1]).writeLock();
                    answer = answer(mutex.acquire(Long.parseLong(words[2]), TimeUnit.SECONDS));
                    break;
                case "semaphore":
                    lease = new InterProcessSemaphoreV2(client, words[1], Integer.parseInt(words[2]))
                            .acquire(Long.parseLong(words[3]), TimeUnit.SECONDS);
                    answer = answer(lease != null);
                    break;
                case "leave":
                    lease.close();
                    break;
                case "release":
                    mutex.release();
                    break;
                case "grants":
                    grants(client, words[1], words[2], Integer.parseInt(words[3]));
                    break;
                default:
                    answer = "what is '" + line + "'";
            }
            System.out.println(answer);
            System.out.flush();
        }
        client.close();
    }
}
