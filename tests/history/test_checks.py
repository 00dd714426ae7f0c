"""Each check of locker check-history, on histories written by hand: a good one, and its twin that differs from it
in one line (or by one) and is found out, by this check and no other."""
import unittest

from lines import (HistoryCase, allows, asked, at, cycle, ends, got, line, says, unlocked, unlocks)


class Twins(HistoryCase):
    def twins(self, check, good, index, *bad, options=(), also=()):
        """good[index] becomes `bad`: one line, or none."""
        report = self.judge(good, *options)
        self.assertEqual(report["checks"][check]["result"], "kept", report)
        self.assertFalse(report["broken"], report)
        self.assertEqual(report["findings"], [])
        twin = good[:index] + list(bad) + good[index + 1:]
        self.assertEqual(self.broken(twin, *options), sorted([check, *also]))
        report = self.judge(twin, *options, "--allow", ",".join([check, *also]))
        self.assertFalse(report["broken"])
        self.assertEqual(report["checks"][check]["result"], "not promised")
        return report

    def lines_of(self, report, check):
        return [(f["first"]["line"], f["second"] and f["second"]["line"]) for f in report["findings"]
                if f["check"] == check]


class Overlap(Twins):
    def test_a_lease_that_ends(self):
        good = [asked(0, 1), got(10, 1, until=20, ttl=30), asked(5, 2), got(20, 2, until=50), ends(60, 1), ends(60, 2)]
        report = self.twins("overlap", good, 3, got(19.5, 2, until=50))
        self.assertEqual(self.lines_of(report, "overlap"), [(4, 2)])
        overlap = report["checks"]["overlap"]
        self.assertEqual((overlap["total_ms"], overlap["longest_ms"], overlap["pairs"]), (0.5, 0.5, 1))

    def test_an_unlock(self):
        good = [asked(0, 1), got(10, 1), unlocks(20, 1), unlocked(21, 1, phase="info"), asked(5, 2), got(20, 2),
                ends(30, 1), ends(30, 2)]
        self.twins("overlap", good, 2, unlocks(20.001, 1))

    def test_a_notice(self):
        good = [asked(0, 1), got(10, 1, until=40), line(20, 1, "lost", "info", handle=1, until=40), asked(5, 2),
                got(20, 2), ends(30, 1), ends(30, 2)]
        self.twins("overlap", good, 2)

    def test_a_lease_that_was_renewed(self):
        good = [asked(0, 1), got(10, 1, until=20), line(15, 1, "lease", "info", handle=1, until=25), asked(5, 2),
                got(26, 2), ends(30, 1), ends(30, 2)]
        self.twins("overlap", good, 2, line(15, 1, "lease", "info", handle=1, until=28))

    def test_the_deadline_that_unlock_tells_counts(self):
        good = [asked(0, 1), got(10, 1, until=20), unlocks(40, 1, until=20), unlocked(41, 1, phase="info"), asked(5, 2),
                got(25, 2), ends(50, 1), ends(50, 2)]
        self.twins("overlap", good, 2, unlocks(40, 1, until=30))

    def test_a_process_that_was_killed(self):
        good = [asked(0, 1), got(10, 1), ends(20, 1, sent=15), asked(5, 2), got(18, 2), ends(30, 2)]
        self.twins("overlap", good, 2, ends(20, 1))

    def test_for_ever_is_until_the_end(self):
        good = [asked(0, 1), got(10, 1, until=20), asked(5, 2), got(25, 2), ends(35, 99)]
        report = self.judge(good[:1] + [got(10, 1)] + good[2:])
        self.assertEqual(report["checks"]["overlap"]["total_ms"], 10.0)
        # With nothing after it, it has no length, and is an overlap all the same.
        report = self.judge([asked(0, 1), got(10, 1), asked(5, 2), got(25, 2)])
        self.assertEqual(report["checks"]["overlap"]["result"], "broken")
        self.assertEqual(report["checks"]["overlap"]["total_ms"], 0)

    def test_a_moment_counts_once(self):
        lines = []
        for process, begin, end in ((1, 10, 40), (2, 20, 30), (3, 25, 50)):
            lines += [asked(0, process), got(begin, process, until=end), ends(60, process)]
        overlap = self.judge(lines)["checks"]["overlap"]
        self.assertEqual((overlap["total_ms"], overlap["longest_ms"], overlap["pairs"]), (20.0, 15.0, 2))

    def test_a_limit(self):
        lines = [asked(0, 1), got(10, 1, until=20), asked(5, 2), got(16, 2, until=50), ends(60, 1), ends(60, 2)]
        self.assertEqual(self.broken(lines), ["overlap"])
        self.assertEqual(self.broken(lines, "--promise", "overlap=3ms"), ["overlap"])
        report = self.judge(lines, "--promise", "overlap=4ms")
        self.assertEqual((report["checks"]["overlap"]["result"], report["findings"]), ("kept", []))
        self.assertEqual(report["checks"]["overlap"]["total_ms"], 4.0)

    def test_entering_again_is_none(self):
        good = [asked(0, 1), got(10, 1, token=5), asked(11, 1, 2), got(12, 1, 2, token=5), unlocks(15, 1),
                unlocked(16, 1), says(18, True, token=5), unlocks(20, 1, 2), unlocked(21, 1, 2), says(23, False)]
        report = self.judge(good)
        self.assertFalse(report["broken"], report)
        self.assertEqual((report["calls"], report["grants"]), (2, 1))
        # The same token in another process is no such thing.
        twin = good[:2] + [asked(11, 2, 2), got(12, 2, 2, token=5), unlocks(15, 1), unlocked(16, 1, phase="info"),
                           unlocks(20, 2, 2), unlocked(21, 2, 2)]
        self.assertEqual(self.broken(twin), ["overlap", "tokens"])

    def test_each_run_key_backend_and_scenario_by_itself(self):
        for field, value in (("run", 2), ("backend", "redis"), ("scenario", "crash"), ("key", "other")):
            lines = [asked(0, 1), got(10, 1, token=5), asked(11, 2), got(12, 2, token=5)]
            self.assertEqual(self.broken(lines + [ends(20, 1), ends(20, 2)]), ["overlap", "tokens"])
            for one in lines[2:]:
                one[field] = value
            self.assertEqual(self.broken(lines), [])


class Truth(Twins):
    good = cycle(1, 10, 20, token=5, id="a", owner="me") + [says(15, True, token=5)] + cycle(2, 30, 40, token=6) + [says(50, False)]

    def test_another_holds_it(self):
        report = self.twins("truth", self.good, 4, says(15, True, token=4), also=["release"])
        self.assertEqual(self.lines_of(report, "truth"), [(2, 5)])

    def test_nobody_holds_it(self):
        self.twins("truth", self.good, 4, says(15, False), also=["release"])

    def test_an_id(self):
        good = self.good[:4] + [says(15, True, id="a")] + self.good[5:]
        self.twins("truth", good, 4, says(15, True, id="b"), also=["release"])

    def test_an_owner(self):
        good = self.good[:4] + [says(15, True, owner="me")] + self.good[5:]
        self.twins("truth", good, 4, says(15, True, owner="you"), also=["release"])

    def test_only_what_was_asked_and_answered_meanwhile(self):
        for look in (says(15, False, sent=9), says(22, False, sent=19)):
            self.assertEqual(self.broken(self.good[:4] + [look] + self.good[5:]), [])

    def test_past_the_deadline_it_may_say_so(self):
        lines = [asked(0, 1), got(10, 1, until=20), says(22, False), unlocks(30, 1), unlocked(31, 1, phase="fail")]
        self.assertEqual(self.broken(lines), [])

    def test_nothing_in_common_is_no_contradiction(self):
        for look in (says(15, True), says(15, True, owner="x")):
            self.assertEqual(self.broken(cycle(1, 10, 20, token=5) + [look] + cycle(2, 30, 40, token=6) + [says(50, False)]), [])

    def test_handed_on_inside_a_process(self):
        lines = (cycle(1, 10, 20, 1, token=5) + cycle(1, 22, 30, 2, token=6)
                 + [says(25, True, token=5), says(33, False)])
        self.assertEqual(self.broken(lines), [])
        for one in lines[4:8]:
            one["process"] = 2
        self.assertEqual(self.broken(lines), ["release", "truth"])


class Tokens(Twins):
    good = cycle(1, 10, 20, token=5) + cycle(2, 30, 40, token=6)

    def test_a_smaller_one(self):
        report = self.twins("tokens", self.good, 5, got(30, 2, token=4))
        self.assertEqual(self.lines_of(report, "tokens"), [(6, 2)])

    def test_the_same_again(self):
        self.twins("tokens", self.good, 5, got(30, 2, token=5))
        again = cycle(1, 10, 20, 1, token=5) + cycle(1, 30, 40, 2, token=5)
        self.assertEqual(self.broken(again), ["tokens"])

    def test_not_only_the_one_before(self):
        good = cycle(1, 10, 20, token=5) + cycle(2, 30, 40) + cycle(3, 50, 60, token=6)
        self.twins("tokens", good, 9, got(50, 3, token=5))

    def test_a_grant_that_was_over_when_it_returned_proves_nothing(self):
        # Process 1 was stopped between the grant and the return of its call.
        lines = [asked(0, 1), asked(0, 2), got(20, 2, token=6, until=60), got(30, 1, token=5, until=15), ends(70, 1),
                 ends(70, 2)]
        self.assertEqual(self.broken(lines), [])
        lines[3] = got(30, 1, token=5, until=31)
        self.assertEqual(self.broken(lines), ["overlap", "tokens"])

    def test_without_tokens_nothing_is_seen(self):
        report = self.judge(cycle(1, 10, 20) + cycle(2, 30, 40))
        self.assertEqual(report["checks"]["tokens"]["result"], "nothing seen")


class Release(Twins):
    def test_granted_to_another_before(self):
        good = [asked(0, 1), got(10, 1, until=20), asked(5, 2), got(25, 2), unlocks(30, 1),
                unlocked(31, 1, phase="fail", outcome="lost"), unlocks(40, 2), unlocked(41, 2)]
        report = self.twins("release", good, 5, unlocked(31, 1))
        self.assertEqual(self.lines_of(report, "release"), [(6, 4)])

    def test_the_service_had_said_so(self):
        good = [asked(0, 1), got(10, 1, until=20, token=5), says(25, False), unlocks(30, 1),
                unlocked(31, 1, phase="fail")]
        self.twins("release", good, 4, unlocked(31, 1))

    def test_the_service_says_afterwards_that_it_is_held(self):
        good = cycle(1, 10, 20, token=5) + [says(25, False)]
        report = self.twins("release", good, 4, says(25, True, token=5), also=["orphans"])
        self.assertEqual(self.lines_of(report, "release"), [(4, 5)])
        good = cycle(1, 10, 20, id="a") + [says(25, True, id="b"), says(26, False)]
        self.twins("release", good, 4, says(25, True, id="a"))

    def test_unknown_is_nothing_false(self):
        lines = [asked(0, 1), got(10, 1, until=20), asked(5, 2), got(25, 2), unlocks(30, 1),
                 unlocked(31, 1, phase="info"), ends(40, 2)]
        self.assertEqual(self.broken(lines), [])


class Writes(Twins):
    good = [line(10, 1, "write", "ok", token=5, sent=9), line(20, 2, "write", "ok", token=6, sent=19),
            line(30, 1, "write", "fail", token=5, sent=29)]

    def test_a_stale_one(self):
        report = self.twins("writes", self.good, 2, line(30, 1, "write", "ok", token=5, sent=29))
        self.assertEqual(self.lines_of(report, "writes"), [(3, 2)])
        self.assertEqual(report["checks"]["writes"]["accepted"], 3)

    def test_one_that_began_before_may_be_told_later(self):
        self.twins("writes", self.good[:2] + [line(21, 1, "write", "ok", token=5, sent=15)], 2,
                   line(21, 1, "write", "ok", token=5))

    def test_each_resource_by_itself(self):
        self.twins("writes", self.good[:2] + [line(30, 1, "write", "ok", token=5, resource="b")], 2,
                   line(30, 1, "write", "ok", token=5))

    def test_the_same_holder_writes_often(self):
        self.assertEqual(self.broken([line(t, 1, "write", "ok", token=5) for t in range(10, 20)]), [])


class Orphans(Twins):
    def test_of_a_lock_that_was_given_back(self):
        good = cycle(1, 10, 20, id="a") + [says(25, False)]
        report = self.twins("orphans", good, 4, says(25, True, id="a"), also=["release"])
        self.assertEqual(self.lines_of(report, "orphans"), [(5, 2)])

    def test_of_nobody(self):
        good = cycle(1, 10, 20, id="a") + [says(25, False)]
        report = self.twins("orphans", good, 4, says(25, True, id="x"))
        self.assertEqual(self.lines_of(report, "orphans"), [(5, None)])
        self.twins("orphans", good, 4, says(25, True))

    def test_of_a_holder_that_died(self):
        good = [asked(0, 1), got(10, 1, token=5, ttl=30, until=35), ends(20, 1, sent=15), says(50, True, token=5)]
        self.twins("orphans", good, 3, says(52, True, token=5))

    def test_of_a_call_that_failed(self):
        good = [asked(0, 1), line(10, 1, "lock", "info", handle=1), says(20, True, token=5)]
        self.twins("orphans", good, 1, line(10, 1, "lock", "fail", handle=1, outcome="timeout"))

    def test_a_holder_is_none(self):
        lines = [asked(0, 1), got(10, 1, token=5), says(20, True, token=5)]
        self.assertEqual(self.broken(lines), [])

    def test_only_what_it_said_last(self):
        lines = cycle(1, 10, 20, id="a") + [says(25, True, id="x"), says(30, False)]
        self.assertEqual(self.broken(lines), [])

    def test_a_waiter_that_is_no_call(self):
        good = cycle(1, 10, 20) + [asked(12, 2), says(25, False, waiters=1), line(30, 2, "lock", "fail", handle=1)]
        self.twins("orphans", good, 5, says(25, False, waiters=2))


class Waiters(Twins):
    def test_one_that_has_not_returned(self):
        good = [asked(0, 1), ends(10, 1)]
        report = self.twins("waiters", good, 1)
        self.assertEqual(self.lines_of(report, "waiters"), [(1, None)])


class Fifo(Twins):
    asks = [asked(0, 1), got(1, 1), asked(2, 2), asked(3, 3), unlocks(5, 1), unlocked(6, 1)]
    fifo = ("--promise", "fifo")

    def serve(self, first, second):
        return self.asks + [got(7, first), unlocks(8, first), unlocked(9, first), got(10, second),
                            unlocks(11, second), unlocked(12, second)]

    def test_the_order_of_asking(self):
        self.assertEqual(self.broken(self.serve(2, 3), *self.fifo), [])
        self.assertEqual(self.broken(self.serve(3, 2)), [])
        report = self.judge(self.serve(3, 2), *self.fifo)
        self.assertEqual(report["checks"]["fifo"]["result"], "broken")
        self.assertEqual((report["checks"]["fifo"]["breaches"], report["checks"]["fifo"]["most_overtaken"]), (1, 1))
        self.assertEqual(self.lines_of(report, "fifo"), [(7, 4)])
        self.assertEqual(report["checks"]["fifo"]["longest_wait_ms"], 8.0)

    def test_a_limit(self):
        # Process 3 asked 1 ms after process 2.
        self.assertEqual(self.broken(self.serve(3, 2), "--promise", "fifo=1ms"), [])
        late = [asked(3.001, 3) if one == asked(3, 3) else one for one in self.serve(3, 2)]
        self.assertEqual(self.broken(late, "--promise", "fifo=1ms"), ["fifo"])

    def test_a_proof_of_the_place_in_the_queue(self):
        # Both had asked at nearly the same time; only the proof tells who stood there first.
        good = self.serve(3, 2) + [line(4, 2, "queue", "info", handle=1)]
        self.twins("fifo", good, len(good) - 1, line(2.5, 2, "queue", "info", handle=1), options=self.fifo)

    def test_the_numbers_of_the_queue(self):
        good = self.serve(3, 2) + [line(4, p, "queue", "info", handle=1, order=n) for p, n in ((1, 0), (2, 9), (3, 8))]
        self.twins("fifo", good, len(good) - 2, line(4, 2, "queue", "info", handle=1, order=7), options=self.fifo)

    def test_how_many_were_overtaken(self):
        lines = [asked(n, n) for n in range(1, 6)]
        for place, process in enumerate((5, 1, 2, 4, 3)):
            lines += [got(10 + 3 * place, process), unlocks(11 + 3 * place, process), unlocked(12 + 3 * place, process)]
        fifo = self.judge(lines)["checks"]["fifo"]
        self.assertEqual((fifo["result"], fifo["seen"], fifo["breaches"], fifo["most_overtaken"]),
                         ("not promised", 5, 2, 4))

    def test_a_try_does_not_wait_but_may_overtake(self):
        lines = [asked(0, 1, op="try"), asked(1, 2), got(2, 2), unlocks(3, 2), unlocked(4, 2), got(5, 1, op="try"),
                 ends(9, 1)]
        self.assertEqual(self.broken(lines, *self.fifo), [])
        lines[0], lines[1] = asked(1, 1, op="try"), asked(0, 2)
        lines[2], lines[5] = got(6, 2), got(2, 1, op="try", until=3)
        lines[3], lines[4] = unlocks(7, 2), unlocked(8, 2)
        self.assertEqual(self.broken(lines, *self.fifo), ["fifo"])

    def test_evenness(self):
        even = [one for n in range(4) for one in cycle(1 + n % 2, 10 * n + 10, 10 * n + 15, n)]
        self.assertEqual(self.judge(even)["checks"]["fifo"]["jain"], 1.0)
        uneven = [one for n in range(4) for one in cycle(2 if n == 3 else 1, 10 * n + 10, 10 * n + 15, n)]
        self.assertAlmostEqual(self.judge(uneven)["checks"]["fifo"]["jain"], 16 / (2 * 10))


class Notice(Twins):
    notice = ("--promise", "notice")
    good = [asked(0, 1), got(10, 1, until=20), line(70, 1, "lost", "info", handle=1), ends(80, 1)]

    def test_a_late_one(self):
        report = self.twins("notice", self.good, 2, line(70.1, 1, "lost", "info", handle=1), options=self.notice)
        self.assertEqual(self.lines_of(report, "notice"), [(3, 2)])
        self.assertEqual(report["checks"]["notice"]["after_deadline"]["longest_ms"], 50.1)
        late = self.good[:2] + [line(70.1, 1, "lost", "info", handle=1), self.good[3]]
        self.assertEqual(self.broken(late), [])
        self.assertEqual(self.broken(late, "--promise", "notice=51ms"), [])

    def test_none_at_all(self):
        report = self.twins("notice", self.good, 2, options=self.notice)
        self.assertEqual(report["checks"]["notice"]["never_told"], 1)

    def test_unlocked_in_time_needs_none(self):
        good = [asked(0, 1), got(10, 1, until=20), unlocks(70, 1), unlocked(71, 1, phase="fail")]
        self.twins("notice", good, 2, unlocks(70.5, 1), options=self.notice)

    def test_after_the_service_said_so(self):
        lines = [asked(0, 1), got(10, 1, until=90), says(20, False), line(45, 1, "lost", "info", handle=1),
                 ends(100, 1)]
        report = self.judge(lines, *self.notice)
        self.assertEqual(report["checks"]["notice"]["after_server"]["p50_ms"], 25.0)
        self.assertEqual(report["checks"]["notice"]["after_deadline"]["count"], 0)

    def test_percentiles(self):
        lines = []
        for n in range(1, 101):
            lines += [asked(200 * n, 1, n), got(200 * n, 1, n, until=200 * n + 10),
                      line(200 * n + 10 + n / 10, 1, "lost", "info", handle=n)]
        lag = self.judge(lines)["checks"]["notice"]["after_deadline"]
        self.assertEqual((lag["count"], lag["p50_ms"], lag["p99_ms"], lag["longest_ms"]), (100, 5.0, 9.9, 10.0))


class Faults(HistoryCase):
    def test_they_are_counted(self):
        lines = [dict(t=at(1), process=1, op="fault", phase="begin", kind="kill", what="redis"),
                 dict(t=at(2), process=1, op="fault", phase="end", kind="kill", what="redis")]
        self.assertEqual(self.judge(lines)["faults"], 1)


class Allowed(HistoryCase):
    """What the history itself says is done on purpose breaks nothing, in its run, backend and scenario alone."""

    TWO = cycle(1, 10, 30) + cycle(2, 20, 40)  # two hold, and the first unlocks what is the second's
    BOTH = [allows(50, "overlap", what="told so"), allows(1, "release")]

    def test_a_limit_that_the_history_names(self):
        report = self.judge(self.TWO + self.BOTH)
        self.assertFalse(report["broken"])
        overlap = report["checks"]["overlap"]
        self.assertEqual((overlap["result"], overlap["breaches"], overlap["allowed"]), ("allowed", 1, 1))

    def test_another_check_stays_broken(self):
        self.assertEqual(self.broken(self.TWO + self.BOTH[:1]), ["release"])

    def test_another_scenario_stays_broken(self):
        elsewhere = [dict(one, scenario="other") for one in self.TWO + self.BOTH]
        self.assertEqual(self.broken(self.TWO + elsewhere), ["overlap", "release"])


if __name__ == "__main__":
    unittest.main()
