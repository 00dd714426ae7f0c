"""script/campaign: rounds of random faults on real services, judged; see docs/reliability.md.

  script/campaign --driver redis --minutes 40 --lanes 10     seeds from 1 on, but those that the ledger has
  script/campaign --driver zookeeper --seed 77 --runs 1      one round again
  script/campaign --report                                   the table, of the ledger's runs of these lines
"""
import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time

import plan
import report
import services
from round import Round

import told  # the folder of which services adds

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STARTS = 3  # of a lane's service
STARVES, ROUNDS_FOR_A_SHARE = 3, 5  # times as many grants; faults hit processes at random, so a few rounds say nothing
FAILED = ("broken", "unjudged")


def options():
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=sorted(plan.SETUPS), action="append")
    parser.add_argument("--setup", choices=list(plan.KINDS), action="append",
                        help="only this sort of service; the seeds are other plans then")
    parser.add_argument("--fault", action="append", help="only this kind of fault; likewise")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--again", action="store_true", help="seeds that the ledger has, too")
    parser.add_argument("--lanes", type=int, default=4, help="how many rounds at once, each with servers of its own")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--ledger", help="else campaign-ledger.jsonl in the build folder")
    parser.add_argument("--evidence", help="folder for what a round that failed leaves; else campaign-evidence there")
    parser.add_argument("--worker", help="another program in the worker's place")
    parser.add_argument("--beside", metavar="DIRECTORY",
                        help="folder of another version's liblocker, which every second process runs (script/mixed)")
    parser.add_argument("--report", action="store_true")
    chosen = parser.parse_args()
    chosen.build = os.path.abspath(chosen.build)
    name = "mixed-ledger.jsonl" if chosen.beside else "campaign-ledger.jsonl"
    chosen.ledger = chosen.ledger or os.path.join(chosen.build, name)
    chosen.evidence = chosen.evidence or os.path.join(chosen.build, "campaign-evidence")
    chosen.driver = chosen.driver or sorted(plan.SETUPS)
    if chosen.minutes is None and chosen.runs is None:
        chosen.runs = 10
    return chosen


def seeds(chosen, driver, lines):
    """From the first on, without end."""
    done = set() if chosen.again else {run["seed"] for run in report.read(chosen.ledger)
                                       if run["driver"] == driver and run["lines"] == lines}
    seed = chosen.seed
    while True:
        if seed not in done:
            yield seed
        seed += 1


class Lane:
    """A process with servers of its own, and a network if it may."""

    def __init__(self, chosen, number, scratch):
        self.chosen, self.number = chosen, number
        self.scratch = os.path.join(scratch, "lane-%d" % number)
        self.services = {}
        missing = services.enter_a_network_of_our_own()
        self.setups = None if missing is None else tuple(s for d in plan.SETUPS.values() for s in d
                                                           if s not in plan.NEED_NETWORKS)
        if chosen.setup:
            self.setups = tuple(chosen.setup)
        if missing and number == 0:
            told.report_skip("campaign: ensembles", missing)

    def service(self, setup):
        """A server that doesn't start, as on a busy machine, is no lane's end: it is begun anew a few times."""
        for left in reversed(range(STARTS)):
            if setup in self.services:
                break
            try:
                self.services[setup] = services.make(setup, os.path.join(self.scratch, setup), self.chosen.build)
            except services.NoService as error:
                kept = self.keep(os.path.join(self.scratch, "no-%s-%d" % (setup, self.number)), setup)
                print("campaign: no %s%s: %s\n  kept in %s" % (setup, ", once more" if left else "", error, kept),
                      file=sys.stderr, flush=True)
                if left:
                    told.report_rerun("campaign.%s" % setup, "the service did not start: %s" % error)
                shutil.rmtree(os.path.join(self.scratch, setup), True)
                if not left:
                    raise
        return self.services[setup]

    def run(self, driver, seed):
        the_plan = plan.make(driver, seed, self.setups, self.chosen.fault)
        directory = os.path.join(self.scratch, "%s-%d" % (driver, seed))
        tools = {"worker": self.chosen.worker or os.path.join(self.chosen.build, "tests/campaign/campaign_worker"),
                 "locker": os.path.join(self.chosen.build, "tools/locker"),
                 "beside": self.chosen.beside}
        the_round = Round(tools, self.service(the_plan["setup"]), the_plan, directory)
        result = the_round.play()
        if result["verdict"] in FAILED:
            result["evidence"] = self.keep(directory, the_plan["setup"])
            self.services.pop(the_plan["setup"]).close()  # what it left is not the next round's
            shutil.rmtree(os.path.join(self.scratch, the_plan["setup"]), True)
        shutil.rmtree(directory, True)
        return result

    def keep(self, directory, setup):
        kept = os.path.join(self.chosen.evidence, os.path.basename(directory))
        shutil.rmtree(kept, True)
        if os.path.isdir(directory):
            shutil.copytree(directory, kept)
        os.makedirs(kept, exist_ok=True)
        logs = os.path.join(self.scratch, setup)
        for name in os.listdir(logs) if os.path.isdir(logs) else ():
            if name.endswith(".log"):
                shutil.copy(os.path.join(logs, name), kept)
        return kept

    def close(self):
        for service in self.services.values():
            service.close()


def tell(chosen, result):
    words = "" if result["verdict"] not in FAILED else " ".join(
        ["\n  " + reason for reason in result["reasons"]] +
        ["\n  kept in", result["evidence"], "\n  again: script/campaign --again --runs 1 --lanes 1 --driver",
         result["driver"], "--seed", str(result["seed"])] + ["--setup " + setup for setup in chosen.setup or ()] + ["--fault " + kind for kind in chosen.fault or ()])
    print("%s %s seed %d: %s, %d grants, %d faults, %.1f s%s%s" % (
        result["driver"], result["setup"], result["seed"], result["verdict"], result["grants"],
        len(result["faults"]), result["seconds"], ", " + ", ".join(result["excused"]) if result["excused"] else "",
        words), flush=True)


def write(ledger, result):
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    os.write(file, (json.dumps(result) + "\n").encode())
    os.close(file)


def play(chosen, number, work, scratch, broken):
    lane = Lane(chosen, number, scratch)
    try:
        while True:
            job = work.get()
            if job is None:
                return
            driver, seed, commit, lines = job
            result = dict(lane.run(driver, seed), commit=commit, lines=lines, plans=plan.NAME,
                          at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            if not chosen.worker and result["verdict"] != "unjudged":
                write(chosen.ledger, result)
            tell(chosen, result)
            if result["verdict"] in FAILED:
                with broken.get_lock():
                    broken.value += 1
    except KeyboardInterrupt:
        pass
    except services.NoService:
        sys.exit(1)
    finally:
        lane.close()


def hand_out(chosen, work, lanes):
    """Seeds of each driver in turn, as long as there is time."""
    end = time.monotonic() + 60 * chosen.minutes if chosen.minutes else None
    commit = report.commit(ROOT)
    lines = {driver: report.lines(ROOT, driver) for driver in chosen.driver}
    rows = {driver: seeds(chosen, driver, lines[driver]) for driver in chosen.driver}
    given = 0
    while (chosen.runs is None or given < chosen.runs) and (end is None or time.monotonic() < end):
        for driver in chosen.driver:
            work.put((driver, next(rows[driver]), commit, lines[driver]))
        given += 1
        while end is not None and work.qsize() > 0 and time.monotonic() < end and any(lane.is_alive() for lane in lanes):
            time.sleep(0.1)
    for _ in lanes:
        work.put(None)


def starved(chosen, began):
    """Print what each version was granted in the ledger's rounds from the line `began` on. True: one version starved the other."""
    found = False
    for driver in chosen.driver:
        shares = [run["shares"] for run in report.read(chosen.ledger)[began:] if run["driver"] == driver and "shares" in run]
        rates = [sum(share[side][0] for share in shares) / max(1, sum(share[side][1] for share in shares)) for side in (0, 1)]
        print("%s: %.0f grants a process of this version, %.0f of the other, in %d rounds" % (driver, *rates, len(shares)))
        if len(shares) >= ROUNDS_FOR_A_SHARE and STARVES * min(rates) < max(rates):
            print("campaign: one version starves the other: more than %d times as many grants" % STARVES, file=sys.stderr)
            found = True
    return found


def campaign(chosen):
    scratch = tempfile.mkdtemp(prefix="locker-campaign-")
    work, broken = multiprocessing.Queue(), multiprocessing.Value("i", 0)
    began = len(report.read(chosen.ledger))
    lanes = [multiprocessing.Process(target=play, args=(chosen, i, work, scratch, broken))
             for i in range(chosen.lanes)]
    for lane in lanes:
        lane.start()
    try:
        hand_out(chosen, work, lanes)
        for lane in lanes:
            lane.join()
    except KeyboardInterrupt:
        for lane in lanes:
            lane.join()
    failed = sum(lane.exitcode != 0 for lane in lanes)
    shutil.rmtree(scratch, True)
    if failed:
        print("campaign: %d lanes failed" % failed, file=sys.stderr)
    return 1 if broken.value or failed or (chosen.beside and starved(chosen, began)) else 0


if __name__ == "__main__":
    words = options()
    sys.exit(report.show(ROOT, words.ledger, words.driver) if words.report else campaign(words))
