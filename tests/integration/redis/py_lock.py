"""py_lock.py: redis-py's Lock, told what to do line by line; the other side of clients.c.

lock NAME TTL_S|none WAIT_S|none   ok, busy
release                            ok, lost
poll NAME COUNT                    ok: it has had the lock so often, asking every 5 ms by SET NX PX
"""
import sys
import time

try:
    import redis
except ImportError:
    print("no redis-py: install python3-redis", flush=True)
    sys.exit(1)

FREE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def poll(name, count):
    while count > 0:
        if client.set(name, "a-foreign-value", nx=True, px=5000):
            time.sleep(0.001)
            count -= client.eval(FREE, 1, name, "a-foreign-value")
        time.sleep(0.005)


client = redis.Redis(port=int(sys.argv[1]))
lock = None
print("open", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "lock":
        ttl = None if words[2] == "none" else float(words[2])
        wait = None if words[3] == "none" else float(words[3])
        lock = client.lock(words[1], timeout=ttl, sleep=0.01)
        taken = lock.acquire(blocking=wait != 0, blocking_timeout=wait)
        print("ok" if taken else "busy", flush=True)
    elif words[0] == "poll":
        poll(words[1], int(words[2]))
        print("ok", flush=True)
    elif words[0] == "release":
        try:
            lock.release()
            print("ok", flush=True)
        except redis.exceptions.LockError:
            print("lost", flush=True)
