"""The steps of a run with Redis, as events of models/lease.pml."""
import dataclasses

from places import Event

MODEL = "lease"
CLIENTS = 12
UNKNOWN_LEASE_US = 1000000  # of an attempt that never arrived


class Numbers:
    """Of grants, in the order in which the server made them: the model counts them one by one."""

    def __init__(self):
        self.given = []

    def grant(self, number):
        """0: it is not known which number it has. One that is no greater than those before is none of the model's."""
        is_next = number == 0 or number > max(self.given, default=0)
        self.given.append(number)
        return (len(self.given) if number else 0) if is_next else -1

    def of(self, number):
        return self.given.index(number) + 1 if number in self.given else -1

    def counted(self, number):
        return max((i for i, given in enumerate(self.given, 1) if 0 < given <= number), default=0)


def number_behind(lines, i):
    """Of the SET there, by its process' INCR behind it, which may arrive later; "0": that was lost."""
    pid = lines[i][1][1]
    for _, words in lines[i + 1:]:
        if words[0] in ("asked", "numbered") and words[1] == pid:
            return words[2] if words[0] == "numbered" else "0"
    return "0"


def with_numbers(lines):
    for i, (when, words) in enumerate(lines):
        if words[0] == "asked" and words[5:] == ["taken", "0"]:
            words = [*words[:6], number_behind(lines, i)]
        yield when, words


def asked_first(lines):
    """Of each claim, when it sent the first attempt that arrived, and its process."""
    first = {}
    for _, words in lines:
        if words[0] == "asked":
            at, claim = int(words[2]), words[3]
            first[claim] = min((at, int(words[1])), first.get(claim, (at, int(words[1]))))
    return first


def holder(first, pid, began, ended):
    """The claim of a call: the last one that its process began to ask for in that time. A process has one call at a time."""
    mine = [(at, claim) for claim, (at, of) in first.items() if of == pid and began <= at <= ended]
    return max(mine, default=(0, "?"))[1]


def read(lines):
    """The events, and the process of each claim."""
    events, numbers, began, held, of = [], Numbers(), {}, {}, {}
    first = asked_first(lines)

    def sent(kind, words, claim, about=0):
        if claim not in of and kind != "ASKS":  # its attempts were lost
            events.append(Event(int(words[1]), "ASKS", claim, UNKNOWN_LEASE_US))
        of[claim] = int(words[0])
        events.append(Event(int(words[1]), kind, claim, about))

    for when, (kind, *words) in with_numbers(lines):
        if kind == "asked":
            claim, what, number = words[2], words[4], int(words[5])
            sent("ASKS", words, claim, int(words[3]) * 1000)
            if what == "taken":
                events.append(Event(when, "TAKES", claim, numbers.grant(number)))
            elif what == "found":
                events.append(Event(when, "FINDS", claim, numbers.counted(number)))
        elif kind == "renewed":
            sent("RENEWS", words, words[2])
            events.append(Event(when, "EXTENDS", words[2], int(words[3]), sent=int(words[1])))
        elif kind == "released":
            claim, heir = words[2], "" if words[4] == "-" else words[4]
            sent("LEAVES", words, claim)
            if words[3] == "1":
                events.append(Event(when, "FREES", claim, numbers.grant(int(words[5])) if heir else 0, heir=heir))
            else:
                events.append(Event(when, "KEEPS", claim))
        elif kind == "expired":
            events.append(Event(when, "EXPIRES", words[0]))
        elif kind == "calls":
            began[int(words[0])] = when
        elif kind == "granted":
            pid, token = int(words[0]), int(words[1])
            held[pid, token] = holder(first, pid, began[pid], when)
            events.append(Event(when, "GRANTED", held[pid, token], numbers.of(token), int(words[2]) // 1000))
        elif kind == "moved":
            events.append(Event(when, "MOVES", held[int(words[0]), int(words[1])], 1, int(words[2]) // 1000))
        elif kind == "lost":
            events.append(Event(when, "LOSES", held[int(words[0]), int(words[1])], 0))
        elif kind == "other":
            events.append(Event(when, "OTHER", "?"))
    return events, of


# ------------------------------------------------------------------ planted: no model can take these ----


def changed(events, kind, **values):
    """In the middle one of that kind some values are others, or added to."""
    at = [i for i, e in enumerate(events) if e.kind == kind]
    if not at:
        return None
    i = at[len(at) // 2]
    new = {name: value(getattr(events[i], name)) for name, value in values.items()}
    return [*events[:i], dataclasses.replace(events[i], **new), *events[i + 1:]]


def without(events, kind):
    at = [i for i, e in enumerate(events) if e.kind == kind]
    return [e for i, e in enumerate(events) if i != at[len(at) // 2]] if at else None


def with_another(events, kind, of, later_ns):
    """Behind the middle one of that kind comes one of another kind."""
    at = [i for i, e in enumerate(events) if e.kind == kind]
    if not at:
        return None
    e = events[at[len(at) // 2]]
    return [*events, dataclasses.replace(e, kind=of, at=e.at + later_ns)]


PLANTED = {
    "D counts from when the attempt was carried out": lambda e: changed(e, "GRANTED", left=lambda us: us + 50),
    "D of a renewal counts from when it was carried out": lambda e: changed(e, "MOVES", left=lambda us: us + 50),
    "a renewal moves D though its answer was no": lambda e: changed(e, "EXTENDS", about=lambda _: 0),
    "a renewal moves D that was never carried out": lambda e: without(e, "EXTENDS"),
    "a grant has the number of another one": lambda e: changed(e, "GRANTED", about=lambda number: number - 1),
    "a lock is granted twice": lambda e: with_another(e, "GRANTED", "GRANTED", 1000),
    "a lease ends at the server before its time": lambda e: with_another(e, "TAKES", "EXPIRES", 1000),
    "an attempt takes the lock without being sent": lambda e: without(e, "ASKS"),
    "a lock is granted that nobody has taken": lambda e: without(e, "TAKES"),
    "a lock is taken from its holder": lambda e: without(e, "FREES"),
}
