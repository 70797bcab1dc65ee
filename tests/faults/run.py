#!/usr/bin/python3
"""Runs fault scenarios and prints a verdict for each.

    tests/faults/run.py --list
    tests/faults/run.py --rows 15,16 --seed 7 --cycles 10
    tests/faults/run.py --file rows_kafka
    tests/faults/run.py --soak 30        # minutes of them at random

The relay is $OUTBOX_RELAY_BINARY. The exit code is 1 after any violation; --all also wants a scenario for each row.
"""

import argparse
import importlib
import json
import random
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from faults.scenario import SCENARIOS, KnownGap, Servers, World  # noqa: E402
from support.relay import relay_binary  # noqa: E402

ROWS = range(1, 75)


@dataclass
class Result:
    row: int
    scenario: str
    title: str
    mode: str
    seed: int
    verdict: str  # "holds", "known gap" or "VIOLATED".
    seconds: float
    text: str


def load(wanted):
    """The scenarios of rows_*.py, or of those that are named."""
    for path in sorted(HERE.glob("rows_*.py")):
        if not wanted or path.stem in wanted:
            importlib.import_module(f"faults.{path.stem}")
    # One file may use another's helpers, and thereby know its scenarios.
    mine = [each for each in SCENARIOS if not wanted or each.run.__module__.rpartition(".")[2] in wanted]
    return sorted(mine, key=lambda each: each.row)


def run(scenario, servers, seed, cycles):
    print(f"row {scenario.row}, {scenario.name} ({scenario.mode}), seed {seed}: {scenario.title}", file=sys.stderr,
          flush=True)
    started = time.monotonic()
    with World(servers, seed, cycles) as world:
        try:
            text = scenario.run(world) or "; ".join(world.notes)
            verdict = "holds"
        except KnownGap as gap:
            verdict, text = "known gap", str(gap)
        except Exception:  # Whatever it is, the row does not hold.
            verdict, text = "VIOLATED", traceback.format_exc().strip().splitlines()[-1]
            traceback.print_exc()
            servers.forget()
    seconds = time.monotonic() - started
    print(f"    {verdict} after {seconds:.1f} s: {text}", file=sys.stderr, flush=True)
    return Result(scenario.row, scenario.name, scenario.title, scenario.mode, seed, verdict, round(seconds, 1), text)


def table(results):
    lines = ["| row | scenario | mode | seed | verdict | s | |", "|---:|---|---|---:|---|---:|---|"]
    for each in results:
        lines.append(f"| {each.row} | {each.scenario}: {each.title} | {each.mode} | {each.seed} | {each.verdict} | "
                     f"{each.seconds} | {each.text} |")
    return "\n".join(lines)


def soak(scenarios, servers, minutes, chance, cycles):
    """At random until the time is over or one does not hold."""
    end = time.monotonic() + minutes * 60
    results = []
    while time.monotonic() < end:
        results.append(run(chance.choice(scenarios), servers, chance.randrange(1 << 31), cycles))
        if results[-1].verdict == "VIOLATED":
            last = results[-1]
            print(f"to repeat it: tests/faults/run.py --scenario {last.scenario} --seed {last.seed} --cycles {cycles}",
                  file=sys.stderr)
            break
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rows", default="", help="numbers with commas")
    parser.add_argument("--file", action="append", default=[], help="rows_relay, rows_kafka, …")
    parser.add_argument("--scenario", action="append", default=[], help="by name")
    parser.add_argument("--mode", help="at_least_once or exactly_once")
    parser.add_argument("--all", action="store_true", help="and fail where a row has none")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--cycles", type=int, default=1)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    rows = {int(row) for row in options.rows.split(",") if row}
    scenarios = [each for each in load(options.file)
                 if (not rows or each.row in rows) and (not options.scenario or each.name in options.scenario)
                 and options.mode in (None, each.mode)]
    if options.list:
        for each in scenarios:
            print(f"{each.row:3} {each.name} ({each.mode}): {each.title}")
        return 0
    if not scenarios:
        parser.error("no such scenario; --list shows them")
    relay_binary()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"seed {seed}", file=sys.stderr)
    with Servers() as servers:
        if options.soak:
            results = soak(scenarios, servers, options.soak, random.Random(seed), options.cycles)
        else:
            results = [run(each, servers, seed, options.cycles) for each in scenarios]
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in results], indent=1))
    missing = sorted(set(ROWS) - {each.row for each in SCENARIOS}) if options.all else []
    if missing:
        print(f"rows without a scenario: {missing}", file=sys.stderr)
    return 1 if missing or any(each.verdict == "VIOLATED" for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
