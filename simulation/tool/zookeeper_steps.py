"""The steps of a run with ZooKeeper, as events of models/queue.pml.

Servers apply transactions one after the other, each in its own time, and a client may be answered by one that is behind. So what
happens is put in the order of the transactions: what a server has carried out stands at its transaction; what it answered, at the
last one that it had applied; what a client does, at the last one of which it has read."""
import dataclasses
import re

from places import Event
from redis_steps import changed

MODEL = "queue"
CLIENTS = 24
SEQUENCE = re.compile(r"/(_c_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4})-([0-9a-f]{4}-[0-9a-f]{12})-.*?(\d{10})?$")
NO_NODE, OK = -101, 0
LONG_AGO_US = 1000000000


class Client:
    """A session, as far as its client knows."""

    def __init__(self, pid):
        self.pid = pid
        self.seen = [(-1, 0)]  # transactions: the line at which it has read that, and the latest
        self.heard = None  # when the latest request was sent that this connection has answered, ns
        self.asked = {}  # requests without an answer, by their numbers
        self.deleted = None  # whose delete was answered last

    def saw(self, line, zxid):
        if zxid > self.seen[-1][1]:
            self.seen.append((line, zxid))

    def seen_at(self, line):
        return next(zxid for at, zxid in reversed(self.seen) if at <= line)


class Place:
    def __init__(self, locker, session):
        self.locker, self.session = locker, session
        self.asked_line = None
        self.deleted_at = 0  # the transaction


class Reader:
    def __init__(self):
        self.events, self.of = [], {}
        self.clients, self.places = {}, {}
        self.lockers, self.sessions = {}, {}  # numbers of both
        self.locker_of = {}  # by a session
        self.queue = None  # its path
        self.began, self.ended = {}, {}  # sessions: their transactions
        self.answers, self.sent, self.tokens = {}, {}, {}
        self.there, self.made = {}, 0

    def add(self, order, at, kind, claim, **values):
        self.events.append(Event(at, kind, claim, after=order, **values))

    def client(self, session, pid):
        return self.clients.setdefault(session, Client(int(pid)))

    @staticmethod
    def name(path):
        """The claim's, its locker's and its number."""
        found = SEQUENCE.search(path)
        return (found[1] + found[2], found[1], int(found[3] or -1)) if found else (None, None, -1)

    def number_of(self, session):
        return self.sessions.setdefault(session, len(self.sessions) + 1)

    def find_lockers(self, lines):
        """Whose each session is: by the names that it asks for; else by the first of its process' names that it has deleted."""
        asked = [(words[1], words[2], self.name(words[6])[1], words[5]) for _, words in lines if words[0] == "asked"]
        self.locker_of = {session: locker for _, session, locker, what in asked if what == "create" and locker}
        process = {locker: pid for pid, _, locker, what in asked if what == "create"}
        for pid, session, locker, what in asked:
            if what == "delete" and process.get(locker) == pid:
                self.locker_of.setdefault(session, locker)

    def latest(self, session, line):
        """The place that the session's locker has asked for last."""
        locker = self.locker_of.get(session)
        mine = [(p.asked_line, claim) for claim, p in self.places.items() if p.locker == locker and p.asked_line <= line]
        return max(mine, default=(0, None))[1]

    # -------------------------------------------------------------- what each line says ----

    def asks(self, pid, session, number, piece, what, path):
        client = self.client(session, pid)
        when, line = self.sent[piece]
        client.asked[number] = (what, path, when)
        order, (claim, locker, _) = (client.seen_at(line), line), self.name(path)
        if what == "create" and claim:
            self.queue = path.rpartition("/")[0]
            self.of[claim] = int(pid)
            place = self.places.setdefault(claim, Place(locker, session))
            place.asked_line = place.asked_line or line
            self.add(order, when, "ASKS", claim, about=self.lockers.setdefault(locker, len(self.lockers) + 1),
                     left=self.number_of(session))
        elif what == "delete" and claim in self.places:
            self.add(order, when, "LEAVES", claim, about=self.lockers.get(self.locker_of.get(session), 0))

    def carried_out(self, line, when, zxid, session, number, what, path):
        order, (claim, _, sequence) = (zxid, line), self.name(path)
        if what == "begins":
            self.began[session] = zxid
        elif what == "ends" and path == "-":
            self.ended[session] = zxid
        elif what == "refused":
            asked = self.clients[session].asked.get(number) if session in self.clients else None
            if asked and asked[0] == "create" and self.name(asked[1])[0]:
                self.add(order, when, "REFUSED", self.name(asked[1])[0])
        elif what == "creates":
            grows = sequence > max(self.there.values(), default=-1)
            self.made += 1
            self.there[claim] = sequence
            self.tokens[zxid] = claim
            self.add(order, when, "CREATED", claim, about=self.made if grows else 0)
        else:
            self.there.pop(claim, None)
            self.places[claim].deleted_at = zxid
            self.add(order, when, "DELETED" if what == "deletes" else "VANISHES", claim)

    def reads(self, line, when, answer):
        kind, given_line, given_when, pid, session, rest = answer
        client = self.client(session, pid)
        if kind == "welcomed":
            client.heard = None
            client.saw(line, self.began.get(session, 0) if rest[0] != "0" else self.ended.get(session, 0))
            if self.latest(session, line):
                self.add((client.seen_at(line), line), when, "CONNECTS", self.latest(session, line), left=self.number_of(session))
        elif kind == "told":
            if rest[0] == "2":
                self.told(line, when, client, session, self.name(rest[1])[0])
        else:
            self.answer_read(line, when, client, session, given_line, given_when, rest)

    def told(self, line, when, client, session, gone):
        """By an event, or by the answer to the read that would have asked for it."""
        who = self.latest(session, line)
        if gone not in self.places or who in (gone, None):
            return
        client.saw(line, self.places[gone].deleted_at)
        ago = (when - client.heard) // 1000 if client.heard is not None else LONG_AGO_US
        self.add((client.seen_at(line), line), when, "TOLD", who, heir=gone, left=ago)

    def answer_read(self, line, when, client, session, given_line, given_when, rest):
        number, zxid, _, error = rest[0], int(rest[1]), rest[2], int(rest[3])
        what, path, sent = client.asked.pop(number, ("other", "-", client.heard or 0))
        client.saw(line, zxid)
        if int(number) > 0:  # else by the library itself
            client.heard = max(client.heard or 0, sent)
        order, claim = (client.seen_at(line), line), self.name(path)[0]
        if what == "list" and error == OK and path == self.queue:
            who = self.latest(session, line)
            if who:
                shown = tuple(self.name("/" + name)[0] for name in rest[4:])
                self.add((zxid, given_line), given_when, "LISTS", who, shown=shown)
                self.add(order, when, "READS", who)
        elif claim not in self.places:
            return
        elif what == "create" and error == OK:
            self.add(order, when, "ENTERS", claim)
        elif what == "delete" and error in (OK, NO_NODE):
            self.add(order, when, "GONE", claim, about=int(error == OK))
            client.deleted = claim
        elif what == "get" and error == OK and client.deleted and self.places[claim].locker == self.locker_of.get(session):
            self.add(order, when, "CHECKS", claim, heir=client.deleted)
        elif what == "watch" and error == NO_NODE:
            self.told(line, when, client, session, claim)
        elif what == "watch" and error == OK and self.places[claim].locker == self.locker_of.get(session):
            self.add(order, when, "GUARDS", claim)

    def granted(self, line, when, token, left):
        claim = self.tokens.get(token, "?")
        client = self.clients.get(self.places[claim].session) if claim in self.places else None
        self.add((client.seen_at(line) if client else 0, line), when, "GRANTED", claim, left=left // 1000)


def read(lines):
    """The events, and the process of each claim."""
    r = Reader()
    r.find_lockers(lines)
    for line, (when, (kind, *words)) in enumerate(lines):
        if kind == "sent":
            r.sent[words[0]] = (when, line)
        elif kind == "asked":
            pid, session, number, piece, what, path = words
            r.asks(pid, session, number, piece, what, path)
        elif kind == "txn":
            r.carried_out(line, when, int(words[0]), words[1], words[2], words[3], words[4])
        elif kind in ("welcomed", "told", "answered"):
            r.answers[words[0]] = (kind, line, when, words[1], words[2], words[3:])
        elif kind == "read":
            r.reads(line, when, r.answers.pop(words[0]))
        elif kind == "granted":
            r.granted(line, when, int(words[1]), int(words[2]))
    for claim in r.there:  # at the end of a run none is left; no model has such a step
        r.add((float("inf"), 0), lines[-1][0], "STAYS", claim)
    return r.events, r.of


# ------------------------------------------------------------------ planted: no model can take these ----


def ordered(events):
    return sorted(events, key=lambda e: (e.after, e.at))


def middle(found):
    found = list(found)
    return found[len(found) // 2] if found else None


def drop(events, which):
    """Without those; None: there are none."""
    kept = [e for e in events if not which(e)]
    return kept if len(kept) < len(events) else None


def once(events, kind):
    """Of a claim that has one of that kind alone."""
    mine = [e for e in events if e.kind == kind]
    claims = [e.claim for e in mine]
    return middle(e for e in mine if claims.count(e.claim) == 1)


def before_grants(events):
    """Of each claim that is granted, what its locker has read meanwhile that may say so, the last one last."""
    events = ordered(events)
    lockers = {e.claim: e.about for e in events if e.kind == "ASKS"}
    for i, e in enumerate(events):
        if e.kind == "GRANTED":
            entered = max((k for k in range(i) if events[k].claim == e.claim and events[k].kind == "ENTERS"), default=i)
            yield e.claim, [o for o in events[entered:i] if lockers.get(o.claim) == lockers[e.claim]
                            and (o.kind in ("READS", "TOLD") or (o.kind == "CHECKS" and o.claim == e.claim))]


def granted_by(events, kind):
    """A claim that is granted behind such an event, and all that was read before."""
    return middle((claim, read) for claim, read in before_grants(events) if read and read[-1].kind == kind) or (None, [])


def without_lists(events):
    read = granted_by(events, "READS")[1]
    return drop(events, lambda e: e.kind == "READS" and e in read)


def without_last(events, kind):
    read = granted_by(events, kind)[1]
    return drop(events, lambda e: e in read[-1:])


def with_old_word(events):
    read = granted_by(events, "TOLD")[1]
    return [dataclasses.replace(e, left=60000) if e in read[-1:] else e for e in events] if read else None


def without_guard(events):
    claim = granted_by(events, "TOLD")[0]
    return drop(events, lambda e: e.kind == "GUARDS" and e.claim == claim)


def with_vain_delete(events):
    """Of the one that it succeeds."""
    read = granted_by(events, "CHECKS")[1]
    ahead = read[-1].heir if read else None
    return [dataclasses.replace(e, about=0) if e.kind == "GONE" and e.claim == ahead else e for e in events] if read else None


def behind(e, **values):
    """Another event right behind that one."""
    return dataclasses.replace(e, at=e.at + 1, **values)


def granted_behind(events):
    """One that waits is granted as soon as it has read that."""
    waits = [read[0] for _, read in before_grants(events) if len(read) > 1 and read[0].kind == "READS"]
    e = middle(waits)
    return [*events, behind(e, kind="GRANTED")] if e else None


def hidden(events):
    """A list does not show one of two."""
    e = middle(e for e in events if e.kind == "LISTS" and len(e.shown) > 1)
    return [dataclasses.replace(o, shown=o.shown[1:]) if o is e else o for o in events] if e else None


def gone_early(events):
    """What was sent to be deleted counts as gone at once."""
    e = once(events, "LEAVES")
    return [*events, behind(e, kind="GONE")] if e else None


def without_one(events, kind):
    e = once(events, kind)
    return drop(events, lambda o: o is e)


def second(events, kind):
    """That happens once more."""
    e = middle(e for e in events if e.kind == kind)
    return [*events, behind(e)] if e else None


PLANTED = {
    "a place is granted that no list has shown": without_lists,
    "a place is granted that waits, without a word of its predecessor": lambda e: without_last(e, "TOLD"),
    "a place is granted that was not read behind the delete of its locker's own": lambda e: without_last(e, "CHECKS"),
    "a place succeeds one of its locker whose delete found nothing": with_vain_delete,
    "a place is granted by a word of its predecessor's end that is old": with_old_word,
    "a place is granted by such a word of a server that need not tell its own end": without_guard,
    "a place is granted that a list has shown behind another one": granted_behind,
    "a place is granted twice": lambda e: second(e, "GRANTED"),
    "a list does not show a node that is there": hidden,
    "a node is created that nobody asked for": lambda e: without_one(e, "ASKS"),
    "a node is created twice": lambda e: second(e, "CREATED"),
    "a node has a number below that of an earlier one": lambda e: changed(e, "CREATED", about=lambda number: number - 2),
    "a node is deleted by another locker": lambda e: changed(e, "LEAVES", about=lambda locker: locker + 1),
    "a node is deleted and no delete was sent": lambda e: without_one(e, "LEAVES"),
    "a node counts as gone before it is": gone_early,
}
