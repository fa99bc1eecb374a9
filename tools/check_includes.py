#!/usr/bin/env python3
"""Fails on any #include outside the table in docs/architecture.md. Usage: check_includes.py [repository root]"""
import pathlib
import re
import sys

EVERYWHERE = {"absl", "glog", "gflags", "dlpack"}
SYSTEM = {"sys", "linux", "asm", "bits", "arpa", "netinet"}
# Headers without a folder whose owners are third parties.
FLAT = re.compile(r"^(Python\.h|xxhash\.h|cuda.*\.h|cu[A-Z].*\.h|cublas.*\.h|cudnn.*\.h|nvrtc\.h|nvJitLink\.h)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>]+>|"[^"]+")', re.MULTILINE)
SOURCES = {".h", ".c", ".cc", ".def"}


class Rule:
    def __init__(self, folder, allowed, third_party):
        self.folder, self.allowed, self.third_party = folder, allowed, third_party


def read_table(text):
    """The rows after the marker, as {folder: Rule}."""
    rules = {}
    names = lambda cell: re.findall(r"`([^`]+)`", cell)
    for line in text.split("<!-- include table -->")[1].splitlines()[3:]:
        if not line.startswith("|"):
            break
        folder, _, allowed, third_party = [cell.strip() for cell in line.strip("|").split("|")]
        rules[names(folder)[0]] = Rule(names(folder)[0], set(names(allowed)), set(names(third_party)))
    return rules


def row_of(path, rules):
    """The rule of the longest folder that holds `path`."""
    for folder in path.parents:
        if str(folder) in rules:
            return rules[str(folder)]
    return None


def check_file(root, path, rules):
    """Messages about the includes of one file; `path` is relative to `root`."""
    rule = row_of(path, rules)
    if rule is None:
        return [f"{path}: its folder has no row in docs/architecture.md"]
    messages = []
    text = (root / path).read_text()
    for match in INCLUDE.finditer(text):
        name = match.group(1)[1:-1]
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}: \"{name}\""
        if (root / name).is_file():
            target = row_of(pathlib.Path(name), rules)
            if target is not rule and name not in rule.allowed and (target is None or target.folder not in rule.allowed):
                allowed = ", ".join(sorted(rule.allowed)) or "nothing else of ours"
                messages.append(f"{where}: {rule.folder} may include {allowed}")
            continue
        owner = name.split("/")[0]
        ours = any(folder.split("/")[0] == owner for folder in rules)
        if ours or (match.group(1)[0] == '"' and "/" not in name):
            messages.append(f"{where}: no such file; paths start at the repository root")
        elif (FLAT.match(name) or ("/" in name and owner not in SYSTEM)) and owner not in EVERYWHERE:
            if owner not in rule.third_party:
                messages.append(f"{where}: {rule.folder} may not include {owner}")
            elif path.suffix == ".h" and owner not in ("gtest", "gmock"):
                messages.append(f"{where}: no header includes {owner}")
    return messages


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    rules = read_table((root / "docs/architecture.md").read_text())
    tops = sorted({folder.split("/")[0] for folder in rules})
    files = [p.relative_to(root) for top in tops for p in sorted((root / top).rglob("*")) if p.suffix in SOURCES]
    messages = [message for path in files for message in check_file(root, path, rules)]
    print("\n".join(messages + [f"{len(files)} files checked, {len(messages)} includes outside docs/architecture.md"]))
    return 1 if messages or not files else 0


if __name__ == "__main__":
    sys.exit(main())
