"""Long histories take time in proportion to their length, the worst ones too: what would take the square of it does
not end within the test's time."""
import unittest

from lines import HistoryCase, asked, ends, got, line, says, unlocked, unlocks

GRANTS = 30000


class Scale(HistoryCase):
    def test_all_hold_for_ever(self):
        lines = []
        for n in range(GRANTS):
            lines += [asked(2 * n, n), got(2 * n + 1, n, token=n + 1), says(2 * n + 1.5, True, token=n + 1, sent=2 * n + 1.4)]
        report = self.judge(lines)
        self.assertEqual(report["checks"]["overlap"]["pairs"], GRANTS - 1)
        self.assertEqual(report["checks"]["truth"]["breaches"], GRANTS - 1)

    def test_all_enter_again(self):
        lines = []
        for n in range(GRANTS):
            lines += [asked(2 * n, 1, n), got(2 * n + 1, 1, n, token=5)]
        for n in range(GRANTS):
            lines += [unlocks(10 ** 6 + 2 * n, 1, n), unlocked(10 ** 6 + 2 * n + 1, 1, n)]
        report = self.judge(lines)
        self.assertEqual((report["broken"], report["grants"]), (False, 1))

    def test_the_last_is_always_first(self):
        lines = [asked(n, n) for n in range(GRANTS)]
        for n in range(GRANTS):
            process, begin = GRANTS - 1 - n, GRANTS + 3 * n
            lines += [got(begin, process), unlocks(begin + 1, process), unlocked(begin + 2, process)]
        fifo = self.judge(lines)["checks"]["fifo"]
        self.assertEqual((fifo["breaches"], fifo["most_overtaken"]), (GRANTS - 1, GRANTS - 1))

    def test_all_are_told_and_all_writes_are_stale(self):
        lines = []
        for n in range(GRANTS):
            lines += [asked(4 * n, 1, n), got(4 * n + 1, 1, n, until=4 * n + 2),
                      line(4 * n + 3, 1, "lost", "info", handle=n),
                      line(4 * n + 3.5, 1, "write", "ok", token=GRANTS - n, sent=4 * n + 3.2)]
        report = self.judge(lines + [ends(10 ** 6, 1)])
        self.assertEqual(report["checks"]["notice"]["after_deadline"]["count"], GRANTS)
        self.assertEqual(report["checks"]["writes"]["breaches"], GRANTS - 1)


if __name__ == "__main__":
    unittest.main()
