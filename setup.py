"""Puts the native files (the C API library, the call extension, the runtime of exported libraries with its headers) into
the package and names the wheel: one file for every CPython from 3.10 on. CINN_LIKE_BUILD_DIR names a finished build to take them from; else the portable one is
built."""
import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent


def dlpack_header(build):
    """The one that the build found."""
    folder = re.search(r"^CINN_DLPACK_INCLUDE:.*=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    return pathlib.Path(folder) / "dlpack/dlpack.h"


class BuildWithNative(build_py):
    def run(self):
        super().run()
        if "CINN_LIKE_BUILD_DIR" in os.environ:
            build = pathlib.Path(os.environ["CINN_LIKE_BUILD_DIR"])
        else:
            build = ROOT / "build/portable"
            subprocess.run([ROOT / "tools/build.sh", "portable"], check=True)
        package = pathlib.Path(self.build_lib) / "cinn_like"
        # The runtime of exported libraries under the name that they ask for.
        for name in ("libcinn_like.so", "_call.abi3.so", "libcinn_runtime.so.0"):
            shutil.copyfile(build / "lib" / name, package / name)
        # Wheels hold no links: this is how a linker is told of another file.
        (package / "libcinn_runtime.so").write_text("INPUT(libcinn_runtime.so.0)\n")
        names = ("runtime/call.h", "runtime/global_functions.h", "runtime/library.h", "cinn_like/c_api.h")
        headers = {ROOT / name: name for name in names}
        headers[dlpack_header(build)] = "dlpack/dlpack.h"
        for header, name in headers.items():
            (package / "include" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(header, package / "include" / name)


class Abi3Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        # The native files need nothing but glibc, of this machine's version at most.
        glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
        return "cp310", "abi3", f"manylinux_{glibc}_{os.uname().machine}"


class NativeDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=re.search(r"VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text().split("project(")[1])[1],
    cmdclass={"build_py": BuildWithNative, "bdist_wheel": Abi3Wheel},
    distclass=NativeDistribution,
)
