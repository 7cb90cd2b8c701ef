#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare benchmark results with the project's goals.

check_goals.py FILE...: each file holds what one or more benchmark runs printed with --format json.
Prints one line per goal that the results speak of, and exits with 1 when one is missed. A goal in
brackets holds on one MPI only, and is shown for the others without counting.
"""
import json
import sys

OWN_RAIL = "stmpi-shm"
FASTER_MPI = "MPICH 4"  # the one that the goals against plain MPI were set for


def sizes(low, high):
    while low <= high:
        yield low
        low *= 2


class Report:
    def __init__(self):
        self.missed = 0

    def line(self, run, what, value, goal, at_most=True, counts=True):
        good = value <= goal if at_most else value >= goal
        verdict = "ok" if good else "MISSED" if counts else "(above)" if at_most else "(below)"
        self.missed += counts and not good
        print(
            "%-12s %-13s %-11s %-34s %10.3f %s %-6g %s"
            % (run["mpi"], run["provider"], run["benchmark"], what, value,
               "<=" if at_most else ">=", goal, verdict)
        )

    def ratio(self, run, bytes_, mode, base, goal, at_most=True, counts=True):
        for row in run["rows"]:
            if row["bytes"] == bytes_ and row.get(mode) and row.get(base):
                what = "%s / %s, %d B" % (mode, base, bytes_)
                self.line(run, what, row[mode] / row[base], goal, at_most, counts)


def latency(report, run):
    provider = run["provider"]
    if run["stream"] == "cuda":
        for size in sizes(8, 65536):
            report.ratio(run, size, "st", "sync", 0.5)
        return
    if provider == OWN_RAIL:
        counts = run["mpi"].startswith(FASTER_MPI)
        for size, goal in ((8, 0.7), (512, 0.8), (4096, 1), (65536, 1), (1 << 20, 1)):
            report.ratio(run, size, "st", "mpi", goal, counts=counts)
        report.ratio(run, 8, "st", "raw", 2)
        for size in sizes(8, 65536):
            report.ratio(run, size, "st", "sync", 0.5)
        return
    if run["trigger"] == "deferred":
        for size, goal in ((8, 1.5), (65536, 1.2), (1 << 20, 1.1)):
            report.ratio(run, size, "st", "raw", goal)
        return
    goals = {"tcp": 1.3, "sockets": 1.3, "shm": 1.5}
    report.ratio(run, 8, "st", "raw", goals.get(provider.split(";")[0], 1.3))
    if provider.startswith("tcp"):
        for size in (65536, 1 << 20):
            report.ratio(run, size, "st", "raw", 1.2)


def bandwidth(report, run):
    if run["stream"] == "cuda":  # its goal is against two other runs: docs/cuda.md
        return
    for size in sizes(65536, 64 << 20):
        if run["provider"] == OWN_RAIL:
            report.ratio(run, size, "st", "mpi", 0.95, at_most=False)
        elif run["provider"].startswith("tcp"):
            report.ratio(run, size, "st", "raw", 0.9, at_most=False)


def rate(report, run):
    if run["provider"] == OWN_RAIL and run["stream"] == "host":
        report.ratio(run, 8, "st", "mpi", 0.8, at_most=False)


def versus(report, run):
    goals = {
        ("st_latency", "STMPI_TRIGGER=software"): 1.1,
        ("st_rate", "STMPI_TRIGGER_CREDITS=512"): 1.5,
        ("st_latency", "--stream host"): 1.5,
    }
    ratio = run["ratio"]
    if run["of"] == "st_rate":  # messages a second; the goal is one of time
        ratio = 1 / ratio
    report.line(run, "%s / %s" % (run["first"], run["second"]), ratio,
                goals[run["of"], run["second"]])


def flat(report, run):
    goals = (
        ("ns_per_op", 1500 if run["trigger"] == "deferred" else 400),
        ("last_over_first", 1.2),
        ("rss_bytes_per_op", 512),
        ("idle_cpu_percent", 1),
        ("pending_cpu_percent", 5),
    )
    if run["stream"] == "cuda":  # a driver's calls are not ours
        goals = (("last_over_first", 1.2),)
    for key, goal in goals:
        if key in run["result"]:
            report.line(run, key, run["result"][key], goal)


CHECKS = {
    "st_latency": latency,
    "st_bw": bandwidth,
    "st_rate": rate,
    "st_enqueue": flat,
    "st_idle": flat,
    "versus": versus,
}


def documents(name):
    text = open(name).read().strip()
    decoder = json.JSONDecoder()
    while text:
        run, end = decoder.raw_decode(text)
        yield run
        text = text[end:].lstrip()


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) > 1 else 2
    report = Report()
    for name in sys.argv[1:]:
        try:
            for run in documents(name):
                CHECKS[run["benchmark"]](report, run)
        except (OSError, ValueError, KeyError) as error:
            print("check_goals.py: %s: not results: %s" % (name, error), file=sys.stderr)
            return 2
    if report.missed:
        print("%d missed" % report.missed)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
