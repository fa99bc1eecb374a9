"""Figures from what the processes of the bench said, the table, and the comparison with an earlier run."""

import math
import statistics

CONTENDERS = ("aot_eager", "cinn_like", "inductor")


def short(value):
    return float(f"{value:.4g}")


def middle(values):
    """[lower quartile, median, upper quartile]."""
    if len(values) < 2:
        return [short(v) for v in values * 3]
    return [short(q) for q in statistics.quantiles(values, n=4, method="inclusive")]


def figures(row):
    """Adds to a row what follows from its rounds: medians in ms, quartiles of the paired ratios of ours to each of the
    others, and the ratio of the fastest samples, which a busy machine disturbs least."""
    rounds = row.get("rounds", [])
    if not rounds:
        return
    row["ms"] = {name: short(statistics.median(r[name] for r in rounds) * 1e3) for name in rounds[0]}
    if "cinn_like" in rounds[0]:
        row["ratio"] = {name: middle([r["cinn_like"] / r[name] for r in rounds])
                        for name in rounds[0] if name != "cinn_like"}  # fmt: skip
        least = {name: min(r[name] for r in rounds) for name in rounds[0]}
        row["ratio_of_fastest"] = {n: short(least["cinn_like"] / t) for n, t in least.items() if n != "cinn_like"}


def ratio(row, name):
    found = row.get("ratio", {}).get(name)
    return found[1] if found else None


def wrong(row):
    """[(contender, size, error)] of results that are clearly worse than eager's."""
    return [(name, size, entry["error"], entry["where"]) for size, part in (("", "check"), ("second size", "check_second"))
            for name, entry in row.get(part, {}).items() if entry["wrong"] and name != "eager"]  # fmt: skip


def problem(row):
    """Why our row does not stand, or "". What happens to other contenders is a note."""
    failed = {**row.get("failed", {})}
    ours = [f"{name}: {why}" for name, why in failed.items() if name in ("cinn_like", "rounds")]
    ours += [f"WRONG {size} {error:.1e} in {where}" if isinstance(error, float) else f"WRONG {size} {error} in {where}"
             for name, size, error, where in wrong(row) if name == "cinn_like"]  # fmt: skip
    return "; ".join(ours)


def notes(row):
    r = [f"{name}: {why}" for name, why in row.get("failed", {}).items() if name not in ("cinn_like", "rounds")]
    r += [f"{name} wrong {size} ({error})" for name, size, error, where in wrong(row) if name != "cinn_like"]
    r += [row[k] for k in ("missing", "not_run", "unchecked") if k in row]
    report = row.get("report") or row.get("cached_report") or {}
    r += [f"region failed: {why}" for why in report.get("failures", [])[:2]]
    return r


def rank(row):
    """Worst first: what has a problem, then by the ratio to eager; what was not run comes last."""
    if problem(row):
        return (0, 0.0)
    found = ratio(row, "eager")
    return (1, -found) if found else (2, 0.0)


def geomean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def show(value, width, digits=2):
    return f"{value:>{width}.{digits}f}" if isinstance(value, (int, float)) else f"{'-':>{width}}"


def error_of(row, name):
    found = row.get("check", {}).get(name)
    return f"{float(found['error']):>9.1e}" if found else f"{'-':>9}"


HEAD = (f"{'worst first':28}{'eager':>9}{'induct.':>9}{'ours ms':>9}{'/ eager':>9}{'/ ind.':>8} |"
        f"{'aot':>6}{'ours':>6}{'cached':>7}{'ind.':>6} |{'aot':>6}{'ours':>6}{'ind.':>6} |"
        f"{'eager':>9}{'ours':>9}{'induct.':>9} |{'graphs':>7}{'ops':>6}{'left':>5}")  # fmt: skip


def line(row):
    ms, first, second = (row.get(k, {}) for k in ("ms", "first_s", "second_s"))
    report = row.get("report") or row.get("cached_report") or {}
    return (f"{row['row']:28}" + "".join(show(ms.get(n), 9) for n in ("eager", "inductor", "cinn_like"))
            + show(ratio(row, "eager"), 9, 3) + show(ratio(row, "inductor"), 8, 3) + " |"
            + show(first.get("aot_eager"), 6, 1) + show(first.get("cinn_like"), 6, 1)
            + show(row.get("cached_first_s", {}).get("cinn_like"), 7, 1) + show(first.get("inductor"), 6, 1) + " |"
            + "".join(show(second.get(n), 6, 1) for n in CONTENDERS) + " |"
            + "".join(error_of(row, n) for n in ("eager", "cinn_like", "inductor"))
            + f" |{report.get('subgraphs', '-'):>7}{report.get('ops', '-'):>6}{len(report.get('left', {})):>5}")  # fmt: skip


def table(result):
    machine = result["machine"]
    where = f"{machine['gpu']}, " if "gpu" in machine else ""
    lines = [f"{where}{machine['cpu']}, {machine['threads']} threads of {machine['cores']} cores, "
             f"PyTorch {machine['torch']}, {result['date']}",
             f"{'':28}{'per call':>27}{'medians of':>17} |{'first call, s':^25} |{'second size, s':^18} |"
             f"{'error against float64':^27} |", HEAD]  # fmt: skip
    for row in sorted(result["rows"], key=rank):
        lines.append(line(row) + ("  " + problem(row) if problem(row) else ""))
        lines += [f"    {note}" for note in notes(row)]
    for name in ("eager", "inductor"):
        found = geomean([ratio(row, name) for row in result["rows"]])
        if found:
            lines.append(f"geomean of ours / {name}: {found:.3f}")
    return "\n".join(lines)


def compare(now, earlier):
    """Each row's ratios and first call beside those of an earlier run, what became worse first."""
    was = {row["row"]: row for row in earlier["rows"]}
    lines, moved = [f"{'now / earlier':28}{'/ eager':>18}{'change':>8}{'/ inductor':>18}{'first call, s':>18}"], []
    for name in ("gpu", "cpu", "threads", "torch"):
        if now["machine"].get(name) != earlier["machine"].get(name):
            lines.insert(0, f"another {name}: {now['machine'].get(name)}, earlier {earlier['machine'].get(name)}")
    if now["settings"]["processor_time"] != earlier["settings"]["processor_time"]:
        lines.insert(0, "one run has processor time, the other wall time")
    if now["settings"].get("seen", 1) != earlier["settings"].get("seen", 1):
        lines.insert(0, "the runs are of different batch sizes (--seen)")
    for row in now["rows"]:
        old = was.get(row["row"])
        if old is None:
            continue
        a, b = ratio(row, "eager"), ratio(old, "eager")
        change = a / b if a and b else None
        text = f"{row['row']:28}{show(b, 8, 3)} -> {show(a, 6, 3)}{show(change, 8)}"
        text += f"{show(ratio(old, 'inductor'), 8, 3)} -> {show(ratio(row, 'inductor'), 6, 3)}"
        text += f"{show(old.get('first_s', {}).get('cinn_like'), 8, 1)} -> {show(row.get('first_s', {}).get('cinn_like'), 6, 1)}"
        if problem(row) != problem(old):
            text += f"  {problem(old) or 'stood'} -> {problem(row) or 'stands'}"
        moved.append((-(change or 0.0), text))
    changes = geomean([-c for c, _ in moved if c])
    return "\n".join(lines + [t for _, t in sorted(moved)] + ([f"geomean of the changes: {changes:.3f}"] if changes else []))
