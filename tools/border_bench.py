#!/usr/bin/env python3
"""What a border between the framework's kernels and compiled regions costs on a CPU.

    border_bench.py [--threads 2] [--rounds 15] [--json FILE]

Convolutions of the framework alternate with small compiled pointwise regions, relu(conv(x) * s + b + x), of the sizes of a
ResNet-50. One process for each way to run the regions (eager; compiled, on our own pool of threads; compiled, on the
framework's), which take turns round by round; times are medians of the rounds in microseconds, ratios of rounds that lie side by
side. For each way also: a region alone in a loop, page faults of a call, and a call that computes almost nothing.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

WAYS = ("eager", "own", "auto")
SHAPES = ((64, 56), (128, 28), (256, 14), (512, 7))
REPEATS = 10
REGION = """graph @region(%x: f32[1,{c},{n},{n}], %s: f32[1,{c},1,1], %b: f32[1,{c},1,1], %r: f32[1,{c},{n},{n}]) {{
  %0 = mul(%x, %s) : f32[1,{c},{n},{n}]
  %1 = add(%0, %b) : f32[1,{c},{n},{n}]
  %2 = add(%1, %r) : f32[1,{c},{n},{n}]
  %3 = relu(%2) : f32[1,{c},{n},{n}]
  return %3
}}
"""


def child(way, threads):
    import torch

    torch.set_num_threads(threads)
    cpu = torch.device("cpu")

    def region(c, n):
        if way == "eager":
            return lambda x, s, b, r: torch.relu(x * s + b + r)
        from cinn_like import emit, function

        signature = emit.Signature((False,) * 4, (None,) * 4, 0, 1)
        f = function.compile_function(REGION.format(c=c, n=n), function.default_target(cpu), cpu, signature)
        return lambda *args: f.call(*args)[0]

    def microseconds(f, repeats=REPEATS):
        begin = time.perf_counter()
        for _ in range(repeats):
            f()
        return (time.perf_counter() - begin) / repeats * 1e6

    cases = []
    for c, n in SHAPES:
        x, w = torch.randn(1, c, n, n), torch.randn(c, c, 3, 3) / (3 * c**0.5)
        s, b = torch.rand(1, c, 1, 1), torch.rand(1, c, 1, 1)
        cases.append((f"{c}x{n}x{n}", x, w, s, b, region(c, n)))
    tiny = region(1, 1)
    one = torch.ones(1, 1, 1, 1)

    def measure():
        r = {}
        for name, x, w, s, b, f in cases:
            r["conv+region " + name] = microseconds(lambda: f(torch.conv2d(x, w, padding=1), s, b, x))
            r["conv " + name] = microseconds(lambda: torch.conv2d(x, w, padding=1))
            r["region " + name] = microseconds(lambda: f(x, s, b, x))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(REPEATS):
                f(torch.conv2d(x, w, padding=1), s, b, x)
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            r["faults " + name] = faults / REPEATS
        r["call"] = microseconds(lambda: tiny(one, one, one, one), 200)
        return r

    with torch.no_grad():
        measure()
        print("ready", flush=True)
        for _ in sys.stdin:
            print(json.dumps(measure()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.threads)
    processes = {}
    for way in WAYS:
        env = dict(os.environ, FLAGS_cinn_thread_pool="own" if way == "own" else "auto")
        command = [sys.executable, __file__, "--child", way, "--threads", str(args.threads)]
        processes[way] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    for p in processes.values():
        if p.stdout.readline() != "ready\n":
            sys.exit("a way failed to start")
    rounds = []
    for _ in range(args.rounds):
        now = {}
        for way, p in processes.items():
            p.stdin.write("\n")
            p.stdin.flush()
            now[way] = json.loads(p.stdout.readline())
        rounds.append(now)
    for p in processes.values():
        p.stdin.close()
        p.wait()

    def median(f):
        return statistics.median(map(f, rounds))

    print(f"{'':28}" + "".join(f"{way:>10}" for way in WAYS) + f"{'own/eager':>11}{'auto/eager':>11}{'auto/own':>10}")
    report = {}
    for key in rounds[0]["eager"]:
        row = report[key] = {way: median(lambda r: r[way][key]) for way in WAYS}
        for a, b in (("own", "eager"), ("auto", "eager"), ("auto", "own")):
            row[f"{a}/{b}"] = median(lambda r: r[a][key] / max(r[b][key], 1e-9))
        print(f"{key:28}" + "".join(f"{row[w]:10.1f}" for w in WAYS)
              + f"{row['own/eager']:11.2f}{row['auto/eager']:11.2f}{row['auto/own']:10.2f}")  # fmt: skip
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
