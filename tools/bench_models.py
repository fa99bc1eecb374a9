#!/usr/bin/env python3
"""Whole models as a user runs them, torch.compile(model, backend="cinn_like") with nothing else set, beside eager and
Inductor: paired ratios, errors against float64, first calls. Worst first.

python3 tools/bench_models.py [--set quick|full|gpu|zoo] [--only WORDS] [--dtype f32,bf16] [--json FILE] [--compare FILE]

Every first call is that of a fresh process with empty caches; aot_eager's is what the framework's own tracing takes. Calls
are timed in rounds in which all take turns; a ratio is the median over the rounds. A model that fails or dies is a row
with its message. The library: the installed package, or CINN_LIKE_LIBRARY. On a GPU a time is the wall time of calls in a
row until the device is done. Ends with 1 if a row of ours failed or is wrong.
"""

import argparse
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from bench import results

HERE = pathlib.Path(__file__).resolve().parent


def run_child(task, limit_s, cache):
    """(facts in order, how it ended: "" or a message)."""
    env = {**os.environ, "FLAGS_cinn_cache_dir": f"{cache}/{task.get('cache', 'shared')}/cinn_like",
           "TORCHINDUCTOR_CACHE_DIR": f"{cache}/{task.get('cache', 'shared')}/inductor",
           "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONFAULTHANDLER": "1",
           "PYTHONPATH": os.pathsep.join(p for p in (str(HERE), os.environ.get("PYTHONPATH")) if p)}  # fmt: skip
    if task.get("threads"):
        env["OMP_NUM_THREADS"] = str(task["threads"])
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # A group of its own: compilers that it started end with it.
        child = subprocess.Popen([sys.executable, "-m", "bench.child", json.dumps(task)], env=env, stdout=out, stderr=err,
                                 start_new_session=True)  # fmt: skip
        ended = ""
        try:
            code = child.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            code, ended = 0, f"stopped after {limit_s:.0f} s"
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        out.seek(0)
        err.seek(0)
        facts = [json.loads(line[6:]) for line in out.read().splitlines() if line.startswith("BENCH ")]
        said = [line for line in err.read().splitlines() if line.strip()]
    if code:
        given = [fact["error"] for fact in facts if "error" in fact]
        died = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        # What a library said as it gave up comes before the interpreter's own traceback.
        fatal = next((i for i, line in enumerate(said) if line.startswith("Fatal Python error")), len(said) - 1)
        ended = given[0] if given else f"{died}: {said[max(fatal - 1, 0)][:300] if said else 'no message'}"
    return facts, ended


class Budget:
    """Splits what is left of the seconds evenly over the rows that are left."""

    def __init__(self, total_s, rows):
        self.until, self.left = time.monotonic() + total_s, rows

    def start_row(self):
        share = (self.until - time.monotonic()) / max(self.left, 1)
        self.left -= 1
        return share


def measure(row, args, share_s, cache):
    """One row: a process for each first call, then one for errors and rounds."""
    found = {"row": row, "failed": {}}
    task = {"row": row, "device": args.device, "threads": args.threads, "batch": args.batch}
    contenders = args.contenders.split(",")
    if args.first_calls:
        # Inductor takes longest and goes last; it gets half of the row's time.
        for name in sorted({"aot_eager", *contenders}, key=lambda n: (n == "inductor", n)):
            limit = min(args.limit_seconds, max(60.0, share_s / 2)) if name == "inductor" else args.limit_seconds
            facts, ended = run_child({**task, "task": "first", "contender": name, "cache": name}, limit, cache)
            for fact in facts:
                for key, value in fact.items():
                    if key in ("report", "check_second", "missing"):
                        found[key] = value
                    elif key != "error":
                        found.setdefault(key, {})[name] = round(value, 3)
            if "missing" in found:
                return found
            if ended:
                found["failed"][name] = ended
                if "first_s" not in found or name not in found["first_s"]:
                    contenders = [c for c in contenders if c != name]
        # The rounds find what the first calls left on the disk.
        shared = pathlib.Path(cache, "shared")
        shared.mkdir(exist_ok=True)
        for name in ("cinn_like", "inductor"):
            if pathlib.Path(cache, name, name).exists():
                pathlib.Path(cache, name, name).rename(shared / name)
    if "cinn_like" not in contenders:
        return found
    facts, ended = run_child({**task, "task": "rounds", "contenders": contenders, "seen": args.seen, "seconds": args.round_seconds,
                              "clock": "process_time" if args.processor_time else "perf_counter"},
                             args.limit_seconds + args.round_seconds, cache)  # fmt: skip
    for fact in facts:
        for key, value in fact.items():
            if key == "round":
                found.setdefault("rounds", []).append(value)
            elif key in ("failed", "cached_first_s", "peak_gpu_mib"):
                found.setdefault(key, {}).update(value)
            elif key != "error":
                found[key] = value
    if ended:
        found["failed"]["rounds"] = ended
    if not args.first_calls:
        found.pop("cached_first_s", None)  # nothing was in the cache
    results.figures(found)
    return found


def chosen_rows(args):
    from bench import models

    words = args.only.split(",") if args.only else [""]
    return [row.key for row in models.rows(args.set)
            if any(w in row.key for w in words) and (not args.dtype or row.dtype in args.dtype.split(","))
            and (not args.mode or row.model.training == (args.mode == "training"))]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=["quick", "full", "gpu", "zoo", "tiny"], default="quick", help="which rows; tiny is a test's")
    parser.add_argument("--only", help="rows whose name holds one of these words, separated by commas")
    parser.add_argument("--dtype", help="f32, bf16 or both; training in bf16 is autocast")
    parser.add_argument("--mode", choices=["inference", "training"])
    parser.add_argument("--device", choices=["cpu", "cuda"], help="without it: cuda for the set gpu, else cpu")
    parser.add_argument("--batch", type=int, help="the first batch size; without it each model's own")
    parser.add_argument("--threads", type=int, help="threads of every process; without it what PyTorch takes")
    parser.add_argument("--processor-time", action="store_true",
                        help="of the calls, where others keep the machine busy; with --threads 1")  # fmt: skip
    parser.add_argument("--contenders", default="cinn_like,inductor", help="beside eager")
    parser.add_argument("--seen", type=int, choices=[1, 2, 3], default=1,
                        help="batch sizes that are called, of which the last is timed: from the second on the batch is a symbol")  # fmt: skip
    parser.add_argument("--no-first-calls", dest="first_calls", action="store_false", help="rounds and errors alone")
    parser.add_argument("--budget-seconds", type=float, help="of the whole run; quick 900, else none; what is left is not run")
    parser.add_argument("--round-seconds", type=float, help="of the rounds of a row; without it 8 in quick, else 20")
    parser.add_argument("--limit-seconds", type=float, help="of one process; without it 120 in quick, else 600")
    parser.add_argument("--json", help="writes the results there, after every row")
    parser.add_argument("--compare", help="the JSON of an earlier run")
    parser.add_argument("--show", help="prints the JSON of an earlier run, and runs nothing")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends the process of the row, too
    args.device = args.device or ("cuda" if args.set == "gpu" else "cpu")
    if args.processor_time and (args.threads != 1 or args.device != "cpu"):
        parser.error("--processor-time counts what threads wait for one another: it wants --threads 1 and the CPU")
    args.limit_seconds = args.limit_seconds or (120 if args.set == "quick" else 600)
    args.round_seconds = args.round_seconds or (8 if args.set == "quick" else 20)
    earlier = json.loads(pathlib.Path(args.compare).read_text()) if args.compare else None
    if args.show:
        result = json.loads(pathlib.Path(args.show).read_text())
    else:
        result = run(args)
    print(results.table(result))
    if earlier:
        print("\n" + results.compare(result, earlier))
    return 1 if any(results.problem(row) for row in result["rows"]) else 0


def run(args):
    facts, ended = run_child({"task": "machine", "device": args.device, "threads": args.threads}, 120, os.devnull)
    if ended:
        sys.exit(f"bench_models: {ended}")
    rows = chosen_rows(args)
    if not rows:
        sys.exit("bench_models: no row has that name, dtype and mode")
    result = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "machine": facts[0]["machine"],
              "settings": {k: v for k, v in vars(args).items() if k not in ("json", "compare", "show")}, "rows": []}  # fmt: skip
    budget = Budget(args.budget_seconds or (900 if args.set == "quick" else 1e9), len(rows))
    for row in rows:
        share = budget.start_row()
        if share <= 1:
            found = {"row": row, "not_run": "the budget was spent"}
        else:
            with tempfile.TemporaryDirectory(prefix="bench_models") as cache:
                start = time.monotonic()
                found = measure(row, args, share, cache)
                found["wall_s"] = round(time.monotonic() - start, 1)
                found["load"] = round(os.getloadavg()[0], 1)
        result["rows"].append(found)
        print(results.line(found), results.problem(found), *results.notes(found), file=sys.stderr, flush=True)
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    return result


if __name__ == "__main__":
    sys.exit(main())
