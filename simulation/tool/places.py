"""Events of a trace, put in order of time, and on the places that a model has for clients."""
import dataclasses


@dataclasses.dataclass
class Event:
    at: int  # ns
    kind: str  # of those at the model's head; another one is refused
    claim: str
    about: int = 0
    left: int = 0  # us, by the clock of the claim's process
    heir: str = ""
    sent: int = -1  # when its request was; then `left` is for how long it has been under way
    after: tuple = ()  # what orders events before their times do
    shown: tuple = ()  # claims; then `about` has a bit for the place of each
    who: int = 0
    next: int = 0
    passed: tuple = ()  # us, by the server's clock and each place's

    def __str__(self):
        heir = f" to {self.heir[-4:]}" if self.heir else ""
        return f"{self.at / 1e9:.6f} {self.kind} of {self.claim[-4:]} (place {self.who}), {self.about}, {self.left}{heir}"


class Clocks:
    def __init__(self, lines):
        self.rates = {int(words[1]): int(words[2]) for _, words in lines if words[0] == "clock"}

    def shows(self, pid, at):
        """In us, for the time that passes alone."""
        return at * (1000000 + self.rates.get(pid, 0)) // 1000000000


def seat(events, of, clocks, count):
    """Each claim has a place from its first event to its last. What is later in `events` is later, at the same time."""
    events = sorted(events, key=lambda e: (e.after, e.at))
    last = {}
    for i, e in enumerate(events):
        last.update(dict.fromkeys((e.claim, e.heir, *e.shown), i))
    places, before, out = [None] * (count + 1), 0, []

    def emit(e):
        nonlocal before
        pids = (0, *(of.get(claim, 0) for claim in places[1:]))
        e.passed = tuple(clocks.shows(pid, e.at) - clocks.shows(pid, before) for pid in pids)
        before = e.at
        out.append(e)

    def place_of(i, e):
        if e.claim in places:
            return places.index(e.claim)
        free = [n for n in range(1, count + 1) if places[n] is None]
        if not free:
            over = [n for n in range(1, count + 1) if last[places[n]] < i]
            if not over:
                return 0
            free = over[:1]
            emit(Event(e.at, "ENDS", places[over[0]], who=over[0]))
        places[free[0]] = e.claim
        return free[0]

    for i, e in enumerate(events):
        if e.sent >= 0:
            e.left = clocks.shows(of[e.claim], e.at) - clocks.shows(of[e.claim], e.sent)
        e.who = place_of(i, e)
        e.next = places.index(e.heir) if e.heir in places else 255 if e.heir else 0
        if e.kind == "LISTS":
            e.about = sum(1 << places.index(claim) if claim in places else 1 for claim in e.shown)
        emit(e)
    return out
