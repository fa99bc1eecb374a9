"""Puts the two native files (the C API library and the call extension) into the package and names the wheel: one file
for every CPython from 3.10 on. CINN_LIKE_BUILD_DIR names a finished build to take them from; else the portable one is
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


class BuildWithNative(build_py):
    def run(self):
        super().run()
        if "CINN_LIKE_BUILD_DIR" in os.environ:
            build = pathlib.Path(os.environ["CINN_LIKE_BUILD_DIR"])
        else:
            build = ROOT / "build/portable"
            subprocess.run([ROOT / "tools/build.sh", "portable"], check=True)
        for name in ("libcinn_like.so", "_call.abi3.so"):
            shutil.copyfile(build / "lib" / name, pathlib.Path(self.build_lib) / "cinn_like" / name)


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
