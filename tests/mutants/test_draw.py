"""What script/mutate --random draws: each operator finds its sites and no others; a seed draws the same mutants again."""
import itertools
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import draw  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
SAMPLE = """#define LEAST (1 < 2)
/* a < b */ static const char text[] = "a < b";
static int f(int *a, int b)
{
    if (*a < b && b != 3)
        note(a->next, "x, y");
    a[0]++;
    *a = -1;
    b = b + 1;
    return b;
}
static void g(void)
{
    (void)f(NULL, 0);
}
"""


def lines(operator):
    """What each mutant of the sample has instead of a line."""
    source = draw.Source("sample.c", SAMPLE)
    found = [new for i in range(len(source.tokens)) for new in draw.OPERATORS[operator](source, i)]
    return [[line.strip() for line in new.splitlines() if line not in SAMPLE.splitlines()] for new in found]


class Operators(unittest.TestCase):
    def test_comparison(self):
        self.assertEqual(lines("comparison"), [[f"if (*a {c} b && b != 3)"] for c in ("<=", ">", ">=")] + [["if (*a < b && b == 3)"]])

    def test_logic_and_condition(self):
        self.assertEqual(lines("logic"), [["if (*a < b || b != 3)"]])
        self.assertEqual(lines("negated"), [["if (!(*a < b && b != 3))"]])

    def test_numbers(self):
        self.assertEqual(lines("sum"), [["b = b - 1;"]])
        self.assertEqual(lines("step"), [["a[0]--;"]])
        self.assertIn(["if (*a < b && b != 6)"], lines("constant"))
        self.assertEqual(sum(line == ["b = b + 0;"] for line in lines("constant")), 1)

    def test_statements(self):
        self.assertEqual(lines("dropped"), [[";"], [";"], [";"]])  # the calls of note() and f(), and that of b
        self.assertIn(["return 0; if (*a < b && b != 3)"], lines("early return"))
        self.assertIn(["return; (void)f(NULL, 0);"], lines("early return"))
        self.assertEqual(lines("arguments swapped"), [['note("x, y", a->next);'], ["(void)f(0, NULL);"]])


class Pattern(unittest.TestCase):
    def test_code_is_found_whatever_its_layout(self):
        source = draw.Source("sample.c", SAMPLE)
        self.assertEqual([found for _, _, found in source.find("f", "* $  <\n$ && $")], [["a", "b", "b"]])
        self.assertEqual([found for _, _, found in source.find("g", "f $")], [["(NULL, 0)"]])
        self.assertEqual(source.find("g", "b = $"), [])
        self.assertEqual(source.find("note", "$"), [])
        self.assertEqual(len(source.find("f", "b")), 5)


class Drawing(unittest.TestCase):
    def drawn(self, seed):
        found = draw.draw(TOP, seed, "core", draw.AREAS["core"], "x")
        return [(m.path, m.new) for m in itertools.islice(found, 30)]

    def test_a_seed_draws_the_same_again_and_nothing_twice(self):
        first = self.drawn(7)
        self.assertEqual(first, self.drawn(7))
        self.assertNotEqual(first, self.drawn(8))
        self.assertEqual(len(set(first)), 30)

    def test_each_area_has_files(self):
        for area, patterns in draw.AREAS.items():
            self.assertTrue((TOP / "tests" / "mutants" / f"{area}.mutants").exists(), area)
            self.assertTrue(any(TOP.glob(pattern) for pattern in patterns), area)

    def test_each_area_can_be_drawn_from(self):
        for area, patterns in draw.AREAS.items():
            mutant = next(draw.draw(TOP, 1, area, patterns, "x"))
            self.assertNotEqual(mutant.old, mutant.new, area)


unittest.main()
