#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run one benchmark under two settings in turns, and compare the medians.

versus.py [--rounds N] [--mode MODE] SETTING SETTING -- COMMAND...

A SETTING is NAME=VALUE[,NAME=VALUE...], variables of the environment, or begins with '-': options,
in one word, that go behind the command. COMMAND prints --format json. A round is one run of each,
the first one first in even rounds. Prints a JSON object that check_goals.py reads.
"""
import json
import os
import statistics
import subprocess
import sys


def value(output, mode):
    run = json.loads(output)
    return run, run["rows"][0][mode] if "rows" in run else run["result"][mode]


def run_once(setting, command):
    env = dict(os.environ)
    if setting.startswith("-"):
        command = command + setting.split()
    else:
        env.update(s.split("=", 1) for s in setting.split(","))
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=300)


def main():
    args = sys.argv[1:]
    options = {"--rounds": "11", "--mode": "st"}
    while len(args) > 1 and args[0] in options:
        options[args[0]] = args[1]
        args = args[2:]
    if len(args) < 4 or args[2] != "--":
        print(__doc__.strip(), file=sys.stderr)
        return 2
    settings, command = args[:2], args[3:]
    values = ([], [])
    for k in range(int(options["--rounds"])):
        for which in (0, 1) if k % 2 == 0 else (1, 0):
            done = run_once(settings[which], command)
            if done.returncode != 0:
                print("versus.py: %s: exit code %d" % (settings[which], done.returncode), file=sys.stderr)
                return 1
            run, v = value(done.stdout, options["--mode"])
            values[which].append(v)
    first, second = (statistics.median(v) for v in values)
    print(json.dumps({
        "benchmark": "versus", "of": run["benchmark"], "mpi": run["mpi"], "provider": run["provider"],
        "trigger": run["trigger"], "first": settings[0], "second": settings[1], "first_median": first,
        "second_median": second, "unit": run.get("unit", ""), "ratio": round(first / second, 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
