"""Shared locks and permits in histories: what each check of locker check-history makes of them, on histories written by hand."""
import unittest

from lines import asked, ends, got, says, unlocked, unlocks
from test_checks import Twins

SHARED = {"mode": "shared"}


def stay(process, begin, end, kind=None, come=None, handle=1, **more):
    """Asked as `kind` says, got, unlocked, 1 ms for each call."""
    return [asked(begin - 1 if come is None else come, process, handle, **(kind or {})), got(begin, process, handle, **more),
            unlocks(end, process, handle), unlocked(end + 1, process, handle)]


def permit(count, **more):
    return {"permits": count, **more}


class Shared(Twins):
    def test_readers_hold_together_and_a_writer_does_not(self):
        readers = stay(1, 10, 30, SHARED) + stay(2, 12, 20, SHARED)
        good = readers + stay(3, 31, 40, come=13) + stay(4, 41, 50, SHARED, come=32)
        report = self.twins("overlap", good, 9, got(29.5, 3), also=["release"])
        self.assertEqual(self.lines_of(report, "overlap"), [(10, 2)])  # the one that holds longest
        self.twins("overlap", good, 13, got(39.5, 4), also=["release"])

    def test_the_mode_exclusive_is_the_default(self):
        good = stay(1, 10, 20, SHARED) + stay(2, 21, 30, {"mode": "exclusive"}, come=11)
        self.twins("overlap", good, 5, got(19, 2), also=["release"])

    def test_a_readers_token_may_come_late_but_not_for_one_that_came_later(self):
        late = [asked(1, 1, **SHARED), got(20, 1, token=5), unlocks(40, 1), unlocked(41, 1)]
        good = stay(2, 10, 30, SHARED, token=6) + late
        self.twins("tokens", good, 4, asked(10.5, 1, **SHARED))

    def test_a_writers_token_is_greater_than_each_readers(self):
        good = stay(1, 10, 20, SHARED, token=5) + stay(2, 11, 19, SHARED, token=7) + stay(3, 30, 40, token=8)
        self.twins("tokens", good, 9, got(30, 3, token=6))

    def test_two_readers_have_tokens_of_their_own(self):
        good = stay(1, 10, 30, SHARED, come=1, token=5) + stay(2, 12, 30, SHARED, come=2, token=6)
        self.twins("tokens", good, 5, got(12, 2, token=5))

    def test_readers_that_ride_on_one_grant(self):
        lines = stay(1, 10, 30, SHARED, token=5) + stay(2, 11, 30, SHARED, token=6) + \
            stay(1, 12, 40, SHARED, handle=2, token=5) + stay(1, 35, 50, SHARED, handle=3, token=5)
        report = self.judge(lines)
        self.assertFalse(report["broken"], report)
        self.assertEqual((report["calls"], report["grants"]), (4, 2))
        self.assertEqual(self.broken(lines + stay(3, 49, 60, token=9)), ["overlap", "release"])

    def test_a_ride_whose_call_returns_when_the_first_has_unlocked(self):
        good = stay(1, 10, 20, SHARED, token=5) + stay(1, 25, 30, SHARED, come=20.5, handle=2, token=5)
        self.twins("tokens", good, 4, asked(22, 1, 2, **SHARED))
        alone = stay(1, 10, 20, token=5) + stay(1, 25, 30, come=20.5, handle=2, token=5)
        self.assertEqual(self.broken(alone), ["tokens"])

    def test_a_ride_whose_call_returns_first(self):
        """The grant was asked for before the other reader's had come."""
        good = stay(2, 10, 30, SHARED, token=6) + stay(1, 20.2, 40, SHARED, come=5, token=5) + \
            stay(1, 20, 40, SHARED, come=15, handle=2, token=5)
        self.assertEqual(self.judge(good)["checks"]["tokens"]["seen"], 2)
        self.twins("tokens", good, 4, asked(10.5, 1, **SHARED))

    def test_a_ride_whose_grant_another_reader_keeps(self):
        good = stay(1, 10, 20, SHARED, token=5) + stay(1, 30, 40, SHARED, come=28, handle=2, token=5) + \
            stay(1, 35, 36, SHARED, come=15, handle=3, token=5) + stay(1, 34, 38, SHARED, come=32, handle=4, token=5)
        self.assertEqual(self.judge(good)["checks"]["tokens"]["seen"], 1)
        self.twins("tokens", good, 8, asked(27, 1, 3, **SHARED))

    def test_a_ride_that_is_over_when_its_call_returns_keeps_nothing(self):
        good = stay(1, 10, 20, SHARED, token=5) + [asked(15, 1, 2, **SHARED), got(60, 1, 2, token=5, until=50)] + \
            stay(2, 55, 70, come=30, token=6) + [ends(80, 1), ends(80, 2)]
        self.twins("overlap", good, 5, got(49, 1, 2, token=5, until=58))

    def test_show_may_name_another_reader(self):
        good = stay(3, 1, 5, token=4) + stay(1, 10, 30, SHARED, token=5) + stay(2, 11, 40, SHARED, token=6) + \
            [says(25, True, token=6), says(50, False)]
        self.twins("truth", good, 12, says(25, False), also=["release"])
        self.twins("truth", good, 12, says(25, True, token=4), also=["release"])
        named = stay(1, 10, 30, SHARED, owner="a", id="x") + stay(2, 11, 40, SHARED, owner="b", id="y")
        self.assertFalse(self.judge(named + [says(25, True, id="y"), says(26, True, owner="b")])["broken"])
        alone = stay(1, 10, 30, owner="a", id="x") + [says(25, True, id="y"), says(26, True, owner="b")]
        self.assertEqual(self.broken(alone), ["orphans", "release", "truth"])

    def test_unlocked_while_another_reader_holds(self):
        good = stay(1, 10, 30, SHARED, until=20) + stay(2, 25, 40, SHARED)
        self.twins("release", good, 4, asked(24, 2))

    def test_a_reader_that_holds_explains_what_the_service_says(self):
        good = stay(1, 10, 30, SHARED) + [asked(11, 2, **SHARED), got(12, 2), says(40, True), unlocks(50, 2),
                                          unlocked(51, 2), ends(60, 1), ends(60, 2)]
        self.twins("orphans", good, 6, says(55, True))

    def test_readers_overtake_no_writer_that_waits(self):
        options = ("--promise", "fifo=1ms")
        good = stay(1, 10, 30, SHARED) + stay(2, 32, 40, come=15) + stay(3, 42, 50, SHARED, come=20)
        early = stay(1, 10, 30, SHARED) + stay(3, 22, 31, SHARED, come=20) + stay(2, 33, 40, come=15)
        self.assertFalse(self.judge(good, *options)["broken"])
        self.assertEqual(self.broken(early, *options), ["fifo"])

    def test_among_readers_there_is_no_order(self):
        options = ("--promise", "fifo=1ms")
        lines = stay(1, 10, 30, SHARED, come=1) + stay(2, 9, 31, SHARED, come=5) + stay(3, 33, 40, come=8)
        self.assertFalse(self.judge(lines, *options)["broken"])
        self.assertEqual(self.broken(stay(1, 10, 30, SHARED, come=1) + stay(2, 3, 8, come=2.5), *options), ["fifo"])


class Permits(Twins):
    def test_no_more_than_there_are(self):
        two = permit(2)
        good = stay(1, 10, 30, two) + stay(2, 11, 40, two) + stay(3, 31, 60, two, come=13) + stay(4, 41, 50, two, come=32)
        report = self.twins("overlap", good, 9, got(29, 3))
        self.assertEqual(self.lines_of(report, "overlap"), [(10, 2)])  # until the first of them ends
        overlap = report["checks"]["overlap"]
        self.assertEqual((overlap["total_ms"], overlap["pairs"]), (1.0, 1))
        self.twins("overlap", good, 13, got(39, 4))

    def test_all_at_a_time_of_more_than_two(self):
        three = permit(3)
        good = [line for process in range(1, 4) for line in stay(process, 10 + process, 30 + process, three)]
        self.twins("overlap", good + stay(4, 31.5, 50, three, come=14), 13, got(30.5, 4))
        self.twins("overlap", good + stay(4, 31.5, 50, three, come=14), 2, unlocks(31.6, 1))

    def test_each_has_a_slot_of_its_own(self):
        three = permit(3)
        good = stay(1, 10, 30, three, slot=0) + stay(2, 11, 40, three, slot=1) + stay(3, 31, 50, three, slot=0)
        report = self.twins("overlap", good, 9, got(31, 3, slot=1), also=["release"])
        self.assertEqual(self.lines_of(report, "overlap"), [(10, 6)])
        self.twins("overlap", good, 9, got(31, 3, slot=3))
        self.twins("overlap", good, 5, got(11, 2, slot=0), also=["release"])

    def test_a_number_that_changes_while_one_is_held(self):
        good = stay(1, 10, 30, permit(3)) + stay(2, 31, 40, permit(4), come=11)
        self.twins("overlap", good, 5, got(29, 2))

    def test_permits_and_locks_of_one_key(self):
        good = stay(1, 10, 30, permit(2)) + stay(2, 31, 40, come=11) + stay(3, 41, 50, permit(2), come=32) + \
            stay(4, 51, 60, SHARED, come=42)
        self.twins("overlap", good, 5, got(29, 2), also=["release"])
        self.twins("overlap", good, 9, got(39, 3), also=["release"])
        self.twins("overlap", good, 13, got(49, 4), also=["release"])

    def test_tokens(self):
        two = permit(2)
        good = stay(1, 10, 30, two, token=5) + stay(2, 12, 20, two, come=9, token=4) + stay(3, 35, 40, two, token=6)
        self.twins("tokens", good, 4, asked(10.5, 2, **two))
        self.twins("tokens", good, 9, got(35, 3, token=5))

    def test_a_slot_that_was_given_to_another_before_its_release(self):
        two = permit(2)
        good = stay(1, 10, 30, two, slot=0, until=20) + stay(2, 25, 40, two, slot=1)
        self.twins("release", good, 5, got(25, 2, slot=0))

    def test_order_is_not_seen(self):
        lines = stay(1, 10, 30, permit(2), come=1) + stay(2, 5, 8, permit(2), come=4)
        self.assertEqual(self.judge(lines, "--promise", "fifo=1ms")["checks"]["fifo"]["result"], "nothing seen")


if __name__ == "__main__":
    unittest.main()
