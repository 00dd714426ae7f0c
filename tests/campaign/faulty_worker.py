"""A worker of a campaign that is wrong on purpose, on Redis; test_campaign.py has the campaign catch it. FAULT says how:
a fault of tests/history/faulty.py; "shares", it shares the lock now and then, whoever has it alone; "stays", it leaves
a key that never ends; or "crashes". Looking is left to the real
worker."""
import os
import random
import select
import sys
import time
from types import SimpleNamespace
from urllib.parse import parse_qs, urlparse

from faulty import History, RedisClient, now

FAULT = os.environ["FAULT"]
TTL_MS = 60


class Worker(RedisClient):
    """Holds beyond its lease now and then."""

    def share_unasked(self):
        self.handle += 1
        self.note("try", "invoke", mode="shared")
        self.note("try", "ok", valid_until=self.extend(now(), TTL_MS * 1000000), ttl=TTL_MS * 1000000)
        time.sleep(0.005)
        self.note("unlock", "invoke")
        self.note("unlock", "ok")

    def turn(self):
        if FAULT == "shares" and random.random() < 0.5:
            self.share_unasked()
            return
        self.ask("try")
        if not self.attempt():
            self.note("try", "fail", outcome="busy")
            return
        self.granted("try")
        until = now() + random.choice((5, 5, 5, 100)) * 1000000
        while now() < until:
            time.sleep(0.005)
            self.renew()
        self.unlock()

    def quiet(self):
        return bool(select.select([sys.stdin], [], [], random.uniform(0.001, 0.01))[0])


def work(uri, path, seed):
    address = urlparse(uri)
    random.seed(int(seed))
    history = History(path, "")
    history.common = {"key": "key/0"}
    worker = Worker(history, os.getpid(), SimpleNamespace(port=address.port), FAULT, TTL_MS)
    if FAULT == "stays":
        worker.call("SET", parse_qs(address.query)["namespace"][0] + ":forgotten", "1")
    print("works", flush=True)
    while not worker.quiet():
        if FAULT not in ("stays", "crashes"):
            worker.turn()
    sys.stdin.readline()
    print("quiet", flush=True)
    sys.stdin.read()
    worker.end()
    return 3 if FAULT == "crashes" else 0


if sys.argv[1] == "look":
    os.execv(os.environ["CAMPAIGN_WORKER"], sys.argv)
sys.exit(work(sys.argv[2], sys.argv[3], sys.argv[5]))
