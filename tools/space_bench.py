#!/usr/bin/env python3
"""How good predictions are: for each graph of benchmarks/spaces, whose only kernel one tactic schedules, what the tactic
chose beside the fastest of --points others of its space, drawn at random (cinn_compile --emit=space --measure).

  tools/space_bench.py [--build=build/release] [--target="x86_64 -mcpu=native -num-threads=2"] [--points=100] [NAME...]
"""
import argparse
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--target", default="x86_64 -mcpu=native -num-threads=2")
    parser.add_argument("--points", type=int, default=100)
    args = parser.parse_args()
    graphs = sorted((ROOT / "benchmarks/spaces").glob("*.graph"))
    unknown = set(args.names) - {g.stem for g in graphs}
    if unknown:
        parser.error(f"no graph {', '.join(sorted(unknown))}; there are {', '.join(g.stem for g in graphs)}")
    print("| case | kernel | choice us | predicted us | fastest us | choice / fastest | points |\n|---|---|---|---|---|---|---|")
    for graph in graphs:
        if args.names and graph.stem not in args.names:
            continue
        text = subprocess.run([f"{args.build}/bin/cinn_compile", "--emit=space", f"--measure={args.points}",
                               f"--target={args.target}", str(graph)], stdout=subprocess.PIPE, text=True, check=True).stdout
        for part in re.split(r"^@", text, flags=re.MULTILINE)[1:]:
            tactic = re.search(r": (\w+) bids", part)[1]
            measured, predicted = re.search(r"^  (\S+)  (\S+)  .*\(the choice\)$", part, re.MULTILINE).groups()
            fastest = re.search(r"measured us, predicted us\n  (\S+)", part)[1]
            ratio, points = re.search(r"the choice takes (\S+) of the fastest of (\d+) points", part).groups()
            print(f"| {graph.stem} | {tactic} | {measured} | {predicted} | {fastest} | {ratio} | {points} |", flush=True)


if __name__ == "__main__":
    main()
