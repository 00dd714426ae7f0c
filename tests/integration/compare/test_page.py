"""The HTML page of locker compare: it needs nothing but itself, says all, and is written whole or not at all."""
import base64
import html.parser
import json
import os
import re
import unittest
import xml.etree.ElementTree

from clitest import timely
from comparetest import CompareCase

VOID = {"meta", "img", "br"}
OPTIONAL = {"th", "td", "tr"}  # HTML lets their end tags out


class Page(html.parser.HTMLParser):
    """The text, the pictures and the addresses of a page; `wrong` says where its elements don't nest."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.open, self.wrong, self.pictures, self.addresses, self.ids = [], [], [], [], []
        self.words = []
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.feed(self.source)
        self.close()
        self.wrong += [tag for tag in self.open if tag not in OPTIONAL]
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.addresses += [attributes[name] for name in ("src", "href", "srcset", "action", "data") if name in attributes]
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "img":
            self.pictures.append(attributes)
        if tag in ("script", "iframe", "link", "object", "embed"):
            self.wrong.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL:
            self.open.pop()
        if not self.open or self.open.pop() != tag:
            self.wrong.append("/" + tag)

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def drawing(picture):
    kind, _, data = picture["src"].partition(",")
    assert kind == "data:image/svg+xml;base64", kind
    return base64.b64decode(data, validate=True).decode()


class Pages(CompareCase):
    def setUp(self):
        super().setUp()
        self.page = os.path.join(self.directory, "page.html")

    def compared(self, *arguments):
        self.found = self.compare("--html", self.page, *arguments)
        return Page(self.page)

    def assert_stands_alone(self, page):
        self.assertEqual(page.wrong, [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        for address in page.addresses:
            self.assertRegex(address, r"^(#|data:image/svg\+xml;base64,)")
            if address.startswith("#"):
                self.assertIn(address[1:], page.ids)
        self.assertNotRegex(page.source, r"@import|url\(")
        for picture in page.pictures:
            self.assertTrue(picture["alt"])
            svg = drawing(picture)
            self.assertTrue(xml.etree.ElementTree.fromstring(svg.encode()).tag.endswith("svg"))
            self.assertNotRegex(svg, r"href=['\"][^#]|url\((?!#)|<script")

    def lanes(self, page, title):
        """Of one run; of several, the page has the worst."""
        found = [drawing(p) for p in page.pictures if re.match(r"Lanes over time: %s\." % title, p["alt"])]
        self.assertEqual(len(found), 1, [p["alt"] for p in page.pictures])
        return found[0]

    @timely
    def test_all_is_on_it(self):
        scenarios = ("counter", "uncontended", "throughput", "crash", "stall", "failover")
        page = self.compared("--spawn=file,redis", "--backend", "memory:", "--runs", "2",
                             *["--scenario=" + name for name in scenarios])
        self.assert_stands_alone(page)
        for word in scenarios + ("file", "redis", "given-memory"):
            self.assertIn(word, page.text)
        told = self.found.comparison
        self.assertIn(told["command"], page.text)
        self.assertIn(told["machine"], page.text)
        self.assertIn("each scenario was run 2 times", page.text)
        self.assertIn(told["load"], page.text)
        self.assertRegex(page.text, r"Which to choose given-memory : a service of yours.* file when all processes run on one host.* redis when ")
        for backend in told["backends"]:
            self.assertIn(backend["version"], page.text)
        for result in self.found.results.values():
            for text in (result["figure"], result["why"], result["promise"]):
                self.assertIn(" ".join(text.split()), page.text)
        self.assertRegex(page.text, r"uncontended.*lock, ms file \d+ \d")
        self.assertLess(os.path.getsize(self.page), 1000000)
        for name in ("holder", "next", "the server", "stop", "seconds"):
            self.assertIn(">%s<" % name, self.lanes(page, "stall on redis, run 1"))
        self.assertIn("It was run on no service", page.text)
        self.assertIn("lanes-stall-1", page.ids)
        self.assertIn("#lanes-stall-1", page.addresses)
        self.assertNotRegex(page.source, "lanes-(throughput|failover)")
        axes = {max(float(tick) for tick in re.findall(r">\s*([0-9.]+)\s*</text>",
                                                       self.lanes(page, "stall on %s, run 1" % name)))
                for name in ("file", "redis")}
        self.assertEqual(len(axes), 1, axes)
        self.code(0, "check-history", "-q", self.json)
        self.assertTrue(any("distribution" in p["alt"] for p in page.pictures))

    @timely
    def test_lanes_show_modes_and_slots(self):
        page = self.compared("--spawn=file", "-s", "readers", "-s", "permits")
        self.assert_stands_alone(page)
        shared = r"<polygon[^>]*rgb\( *99, *183, *214\)"
        readers, permits = (self.lanes(page, "%s on file, run 1" % name) for name in ("readers", "permits"))
        self.assertRegex(readers, shared)
        self.assertNotRegex(permits, shared)
        for slot in "012":
            self.assertIn("<text>%s<" % slot, permits)
            self.assertNotIn("<text>%s<" % slot, readers)

    @timely
    def test_two_holders_are_red(self):
        """A holder that is connected to the new master before its rival hears in time: seldom three times in a row."""
        page = self.compared("--spawn=redis-replica", "-s", "failover", "-s", "failover-wait", "--runs", "3")
        overlap = self.found.sample("failover", "redis-replica", "overlap")
        self.assertGreater(overlap, 0)
        self.assertRegex(self.lanes(page, r"failover on redis-replica, run \d"), r"rgb\( *212, *0, *0\)")
        alone = self.lanes(page, r"failover-wait on redis-replica, run \d")
        self.assertNotRegex(alone, r"<polygon[^>]*rgb\( *212, *0, *0\)")
        self.assertIn("documented exception", page.text)
        judged = json.loads(self.code(0, "check-history", "--json", self.json).stdout)
        self.assertEqual(judged["checks"]["overlap"]["result"], "allowed")

    def test_html_characters_are_escaped(self):
        uri = "file://" + os.path.join(self.directory, "%3Cb%3E&'locks")
        self.json = os.path.join(self.directory, "<b>\"&'found")
        page = self.compared("--backend", uri, "-s", "counter")
        self.assert_stands_alone(page)
        self.assertIn(self.found.comparison["backends"][0]["uri"], page.text)
        self.assertIn(self.json, page.text)
        self.assertNotIn("<b>\"", page.source)

    def test_long_texts_are_whole(self):
        """A URI as long as may be, a command line that is longer than a screen, and table columns that hold every word."""
        begin = "file://%s/" % self.directory
        deep = os.path.join(self.directory, *["long" * 40] * 2)
        os.makedirs(deep)
        uri = "file://%s/%s" % (deep, "x" * (511 - len("file:///" + deep)))
        self.assertEqual((len(uri), uri.startswith(begin)), (511, True))
        page = self.compared("--backend", uri, "--backend", "memory:", *["-s", "counter"] * 300)
        self.assert_stands_alone(page)
        self.assertEqual(self.found.comparison["backends"][0]["uri"], uri)
        self.assertIn(uri, page.text)
        self.assertIn("-s counter" + " -s counter" * 299, page.text)
        self.assertIn(" ".join(["-s", "counter"] * 300), " ".join(self.output.split()))
        self.assertEqual(re.findall(r'<table class="results" style="min-width: (\d+)rem">', page.source), ["29"] * 2)

    def test_a_missing_plot_program(self):
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        self.wrong(69, "install the package gnuplot-nox", "compare", "-q", "--spawn=file", "-s", "counter", "--html",
                   self.page, env=dict(self.env, PATH=empty))
        self.assertFalse(os.path.exists(self.page))

    def test_a_failing_plot_program_leaves_the_old_page(self):
        false = os.path.join(self.directory, "gnuplot")
        with open(false, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'it broke' >&2\nexit 3\n")
        os.chmod(false, 0o755)
        with open(self.page, "w", encoding="utf-8") as file:
            file.write("the old page")
        done = self.code(71, "compare", "-q", "--quick", "--spawn=file", "-s", "counter", "--html", self.page,
                         env=dict(self.env, PATH=self.directory + ":" + os.environ["PATH"]))
        self.assertRegex(done.stderr, r"^locker: .*gnuplot failed: it broke\n$")
        with open(self.page, encoding="utf-8") as file:
            self.assertEqual(file.read(), "the old page")
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("page.html.")], [])

    def test_files_that_can_not_be_written(self):
        missing = os.path.join(self.directory, "missing", "page.html")
        self.wrong(71, missing, "compare", "-q", "--spawn=file", "-s", "counter", "--html", missing)


if __name__ == "__main__":
    unittest.main()
