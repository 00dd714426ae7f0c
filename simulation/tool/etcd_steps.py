"""The steps of a run with etcd, as events of models/etcd.pml."""
import bisect
import dataclasses

from places import Event
from redis_steps import changed, with_another, without

MODEL = "etcd"
CLIENTS = 180  # claims and leases at once; seeds have up to 125
LATE_US = 50
CLOCK_US = 10  # a member counts in ms of its clock, and rounds down


@dataclasses.dataclass
class Use:
    """A place's name, from one claim that takes it to the next: the model has that as a claim."""
    claim: str
    pid: int
    call: int
    sent: int
    created: list = dataclasses.field(default_factory=list)  # revisions
    states: list = dataclasses.field(default_factory=list)  # likewise, of each change
    leaves: int = -1  # a delete was sent


class Trace:
    def __init__(self):
        self.events, self.of = [], {}
        self.calls = {}  # of each process: when, for how long it wants to have the lock, in us, and whether it is to be renewed
        self.left = {}  # of each process, by the number of its calls: when it gave up, or back
        self.uses, self.keys, self.created = {}, {}, {}
        self.lines = {}  # of leases: those of a locker with one time follow each other
        self.changes = {}
        self.done = []  # when each entry of the log was

    # ---------------------------------------------------------------- who it is ----

    def calls_until(self, pid, at):
        return bisect.bisect_right(self.calls.get(pid, []), (at, float("inf")))

    def use_of(self, name, sent):
        return max((use for use in self.uses.get(name, []) if use.sent <= sent), key=lambda use: use.sent, default=None)

    def taken(self, name, pid, sent):
        """The use whose create was sent then: until it is given back, a call takes a name once."""
        call = self.calls_until(pid, sent)
        for use in self.uses.setdefault(name, []):
            if use.call == call and not 0 <= use.leaves < sent:
                use.sent = min(use.sent, sent)
                return use
        use = Use(f"{pid}.{len(self.of):04}", pid, call, sent)
        self.uses[name].append(use)
        self.of[use.claim] = pid
        return use

    def add(self, at, kind, claim, **values):
        self.events.append(Event(at, kind, claim, **values))

    # ---------------------------------------------------------------- keys ----

    def change(self, name, created, modified, lease):
        self.changes[name] = (created, modified, lease) if created else None

    def explained(self, name, when):
        """What has become of the key is of this request; whose it was, and is."""
        if name not in self.changes:
            return None
        before, after = self.keys.get(name), self.changes.pop(name)
        self.keys[name] = after
        return before, after

    def ends(self, lease, when):
        """Keys that are gone with it."""
        for name in [name for name, after in self.changes.items() if after is None]:
            created, _, on = self.keys[name]
            if on == lease:
                self.explained(name, when)
                self.add(when, "GOES", self.created[created][0].claim)

    # ---------------------------------------------------------------- requests ----

    def entered(self, when, pid, sent, name, lease):
        use = self.taken(name, pid, sent)
        self.add(sent, "ASKS", use.claim, about=self.calls[pid][use.call - 1][1], heir=lease)
        change = self.explained(name, when)
        if change is not None and change[1] is not None:
            created = change[1][0]
            use.created.append(created)
            use.states.append(change[1][1])
            self.created[created] = use, len(use.created)
        if change is not None or self.keys.get(name) is not None:  # else it was a try, and there were others
            self.add(when, "ENTERS", use.claim, about=int(change is not None), heir=lease)

    def put(self, when, pid, sent, name, lease, modified):
        use, change = self.use_of(name, sent), self.explained(name, when)
        if use is None:
            return
        guard = use.states.index(modified) + 1 if modified in use.states else 0
        self.add(sent, "PUTS", use.claim, heir=lease)
        if change is None:
            self.add(when, "STAYS", use.claim, about=guard, heir=lease)
        else:
            use.states.append(change[1][1])
            self.add(when, "MOVES", use.claim, about=guard, heir=lease if change[1][2] == int(lease) else "?")

    def deleted(self, when, pid, sent, name, created):
        use, change = self.use_of(name, sent), self.explained(name, when)
        if use is None:
            return
        use.leaves = sent if use.leaves < 0 else min(use.leaves, sent)
        if change is None:
            self.add(when, "KEEPS", use.claim, about=use.created.index(created) + 1 if created in use.created else 0)
        else:
            self.add(when, "FREES", self.created[change[0][0]][0].claim, about=int(self.created[change[0][0]][0] is use))

    def looked(self, when, pid, sent, name, index):
        """Of what the member had: it may be behind."""
        use = self.use_of(name, sent)
        later = bisect.bisect_right(self.done, (index, float("inf")))
        if use is not None:
            self.add(min(when, self.done[later][1] - 1) if later < len(self.done) else when, "LOOKS", use.claim)

    def leased(self, when, pid, sent, lease, seconds):
        self.of[lease] = pid
        self.add(sent, "WANTS", lease)
        self.add(when, "LEASED", lease, left=int(seconds) * 1000000 - CLOCK_US)

    # ---------------------------------------------------------------- all ----

    def step(self, when, kind, words):
        if kind == "change":
            self.change(words[0], *map(int, words[1:]))
        elif kind == "entered":
            self.entered(when, int(words[0]), int(words[1]), words[2], words[3])
        elif kind == "put":
            self.put(when, int(words[0]), int(words[1]), words[2], words[3], int(words[4]))
        elif kind == "deleted":
            self.deleted(when, int(words[0]), int(words[1]), words[2], int(words[3]))
        elif kind == "looked":
            self.looked(when, int(words[0]), int(words[1]), words[2], int(words[4]))
        elif kind == "leased":
            self.leased(when, int(words[0]), int(words[1]), words[2], words[3])
        elif kind == "revoked":
            self.add(int(words[1]), "REVOKES", words[2])
            self.add(when, "REVOKED", words[2])
            self.ends(int(words[2]), when)
        elif kind == "expired":
            self.add(when, "EXPIRES", words[0])
            self.ends(int(words[0]), when)
        elif kind == "done":
            self.done.append((int(words[0]), when))
            for name in list(self.changes):  # that no request explains
                self.explained(name, when)
                self.add(when, "OTHER", "?")
        elif kind == "calls":
            self.calls.setdefault(int(words[0]), []).append((when, int(words[1]) // 1000, words[2] == "1"))
        elif kind == "leaves":
            pid = int(words[0])
            self.left.setdefault((pid, len(self.calls[pid])), when)
        elif kind in ("granted", "moved", "lost"):
            self.held(when, kind, int(words[1]), int(words[2]) // 1000 if len(words) > 2 else 0)

    def held(self, when, kind, token, left):
        use, number = self.created.get(token, (None, 0))
        name = {"granted": "GRANTED", "moved": "RENEWED", "lost": "LOSES"}[kind]
        if kind == "moved" and use is not None:
            number = int(self.calls[use.pid][use.call - 1][2])
        self.add(when, name, use.claim if use is not None else "?", about=number, left=left)

    def leave(self):
        """A claim ends when its caller gives it back, or was told that there is no lock; or, where its locker is closed, when a delete
        was sent."""
        for use in (use for uses in self.uses.values() for use in uses):
            left = self.left.get((use.pid, use.call), -1)
            ends = [at for at in (left, use.leaves) if at >= use.sent]
            if ends:
                self.add(min(ends), "LEAVES", use.claim, about=int(min(ends) == left))

    def last(self, at):
        """Leases that nothing has ended."""
        ended = {e.claim for e in self.events if e.kind in ("EXPIRES", "REVOKED")}
        for lease in [e.claim for e in self.events if e.kind == "LEASED"]:
            if lease not in ended:
                self.add(at, "LASTS", lease)


def read(lines):
    """The events, and the process of each claim and lease."""
    trace = Trace()
    for when, (kind, *words) in lines:
        trace.step(when, kind, words)
    trace.leave()
    trace.last(lines[-1][0])
    return trace.events, trace.of


# ------------------------------------------------------------------ planted: no model can take these ----
def later(events, kind):
    """D of the middle one of those whose D is their lease's, and not their own time. It is up to 20 us before that which the model
    allows, as a request is on the wire a moment after the driver has looked at its clock."""
    renewed = {e.claim for e in events if e.kind == "RENEWED" and e.about}
    moved = {}
    for e in events:
        if e.kind == "MOVES":
            moved.setdefault(e.claim, e.at)
    at = [i for i, e in enumerate(events) if e.kind == kind and e.claim in renewed and
          (kind == "RENEWED" or e.at < moved[e.claim])]
    if not at:
        return None
    i = at[len(at) // 2]
    return [*events[:i], dataclasses.replace(events[i], left=events[i].left + LATE_US), *events[i + 1:]]


def behind(events, kind, of, later_ns):
    """The same of the lease that the middle event of that kind names."""
    at = [e for e in events if e.kind == kind and e.heir and e.about]
    if not at:
        return None
    e = at[len(at) // 2]
    return [*events, Event(e.at + later_ns, of, e.heir)]


def with_kind(events, kind, other):
    """The middle one of that kind is of another one."""
    at = [i for i, e in enumerate(events) if e.kind == kind]
    if not at:
        return None
    i = at[len(at) // 2]
    return [*events[:i], dataclasses.replace(events[i], kind=other), *events[i + 1:]]


def granted_behind(events):
    """Somebody who waits behind a holder is granted, too."""
    places = {}
    for i, e in enumerate(sorted(events, key=lambda e: e.at)):
        if e.kind == "ENTERS" and e.about:
            places[e.claim] = e.at
        elif e.kind in ("LEAVES", "GOES"):
            places.pop(e.claim, None)
        elif e.kind == "GRANTED" and len(places) > 1:
            latest = max(places, key=places.get)
            if latest != e.claim:
                return [*events, dataclasses.replace(e, at=e.at + 1000, claim=latest, about=1, left=1)]
    return None


def stays_behind(events):
    """A lease ends with a place on it, as the place is not told."""
    at = [i for i, e in enumerate(events) if e.kind == "EXPIRES" and i + 1 < len(events) and events[i + 1].kind == "GOES"]
    return [e for i, e in enumerate(events) if i != at[len(at) // 2]] if at else None


PLANTED = {
    "D counts from when the lease was there": lambda e: later(e, "GRANTED"),
    "D of a renewal counts from when its lease was there": lambda e: later(e, "RENEWED"),
    "a renewal moves D though its put has done nothing": lambda e: with_kind(e, "MOVES", "STAYS"),
    "a put is carried out that names another change of its place": lambda e: changed(e, "MOVES", about=lambda n: n + 1),
    "a put is carried out without being sent": lambda e: without(e, "PUTS"),
    "a place is made without being asked for": lambda e: without(e, "ASKS"),
    "a lock is granted to somebody who has no place": lambda e: without(e, "ENTERS"),
    "a lock is granted to somebody who waits behind its holder": granted_behind,
    "a lease ends at the servers before its time": lambda e: with_another(e, "LEASED", "EXPIRES", 1000),
    "a lease is revoked that a claim has its place on": lambda e: behind(e, "ENTERS", "REVOKES", 1000),
    "a place ends, and its lease does not": stays_behind,
    "a release deletes another's place": lambda e: changed(e, "FREES", about=lambda _: 0),
}
