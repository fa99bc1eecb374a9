"""python -m cinn_like --cflags | --libs: what a C compiler needs for programs that load exported libraries."""

import argparse

from . import get_include, get_library_dir


def main():
    parser = argparse.ArgumentParser(prog="python -m cinn_like", description=__doc__)
    parser.add_argument("--cflags", action="store_true", help="where the headers are")
    parser.add_argument("--libs", action="store_true", help="where libcinn_runtime.so is, to link and to run with")
    args = parser.parse_args()
    if not (args.cflags or args.libs):
        parser.error("expected --cflags or --libs")
    words = [f"-I{get_include()}"] if args.cflags else []
    if args.libs:
        words += [f"-L{get_library_dir()}", "-lcinn_runtime", f"-Wl,-rpath,{get_library_dir()}"]
    print(" ".join(words))


if __name__ == "__main__":
    main()
