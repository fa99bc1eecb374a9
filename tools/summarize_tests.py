#!/usr/bin/env python3
"""Prints what tools/test.sh left in its results folder: seconds per step, skipped tests by reason, failed tests, and as
the last line the count. Exits with 1 if a test failed or none ran.

A GoogleTest program counts as its test cases (gtest_<preset>/), and as one failed test if it died before it could report
them; everything else that ctest ran counts as one."""
import collections
import pathlib
import sys
import xml.etree.ElementTree as tree


def cases_of(path):
    """(name, "passed" | "failed" | "skipped", why) of a report."""
    for case in tree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        failed = any(case.find(kind) is not None for kind in ("failure", "error"))
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if failed or case.get("status") == "fail":
            yield name, "failed", ""
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            why = (skipped.get("message") if skipped is not None else None) or "disabled"
            yield name, "skipped", why.strip().splitlines()[-1]
        else:
            yield name, "passed", ""


def all_cases(results):
    for path in sorted(results.glob("*.xml")):
        programs = {}
        if path.stem.startswith("ctest_"):
            programs = {p.stem: p for p in (results / path.stem.replace("ctest", "gtest")).glob("*.xml")}
        for name, outcome, why in cases_of(path):
            program = name.split(".")[-1]
            reported = list(cases_of(programs[program])) if program in programs else []
            if programs and outcome == "failed" and not any(o == "failed" for _, o, _ in reported):
                reported.append(("it died", "failed", ""))
            for case, case_outcome, case_why in reported:
                yield f"{path.stem}: {program}: {case}", case_outcome, case_why
            if not reported:
                yield f"{path.stem}: {name}", outcome, why


def main():
    results = pathlib.Path(sys.argv[1])
    steps = [line.split("\t") for line in (results / "seconds.tsv").read_text().splitlines()]
    print("\n== seconds")
    for name, seconds in [*steps, ("all", sum(int(seconds) for _, seconds in steps))]:
        print(f"{seconds:>6} {name}")
    cases = list(all_cases(results))
    skipped = collections.Counter(why for _, outcome, why in cases if outcome == "skipped")
    if skipped:
        print("\n== skipped")
        for why, count in skipped.most_common():
            print(f"{count:>6} {why}")
    failed = [name for name, outcome, _ in cases if outcome == "failed"]
    if failed:
        print("\n== failed\n" + "\n".join(failed))
    passed = sum(outcome == "passed" for _, outcome, _ in cases)
    print(f"\n{passed} passed, {len(failed)} failed, {sum(skipped.values())} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
