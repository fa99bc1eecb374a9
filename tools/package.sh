#!/bin/bash
# Makes dist/cinn_like-<version>-linux-x86_64.tar.xz out of the portable build and checks the promises made for it: the
# library exports the C API alone, needs glibc alone, and the archive is at most 20 MB; so does the runtime of exported
# libraries, which has at most 1 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh portable
version=$(sed -n 's/^project(cinn_like VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=cinn_like-$version-linux-x86_64
rm -rf "build/portable/package"
cmake --install build/portable --prefix "build/portable/package/$name" > /dev/null
library=build/portable/package/$name/lib/libcinn_like.so

fail() { echo "package: $*"; exit 1; }
exported=$(nm -D --defined-only "$library" | awk '{print $3}')
extra=$(grep -v '^Cinn[A-Z]' <<< "$exported" || true)
[ -z "$extra" ] || fail "exports more than the C API: $extra"
for function in $(grep -oh 'Cinn[A-Za-z]*(' cinn_like/c_api.h runtime/global_functions.h | tr -d '(' | sort -u); do
  grep -qx "$function" <<< "$exported" || fail "$function is declared but not exported"
done
runtime=build/portable/package/$name/lib/libcinn_runtime.so
exported=$(nm -D --defined-only "$runtime" | awk '{print $3}')
for function in $(grep -oh 'Cinn[A-Za-z]*(' runtime/library.h runtime/global_functions.h | tr -d '(' | sort -u); do
  grep -qx "$function" <<< "$exported" || fail "$function is declared but not exported"
done
size=$(stat -L -c %s "$runtime")
[ "$size" -le 1000000 ] || fail "$runtime has $size bytes, more than 1 MB"
for file in "$library" "$runtime" build/portable/package/"$name"/bin/*; do
  needed=$(objdump -p "$file" | awk '/NEEDED/ {print $2}' | grep -vE '^(libc|libm|ld-linux-x86-64)\.so\.[0-9]+$' || true)
  [ -z "$needed" ] || fail "$file needs $needed"
  # Ubuntu 24.04 has glibc 2.39.
  glibc=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
  [ "$(printf '%s\n2.39\n' "$glibc" | sort -V | tail -1)" = 2.39 ] || fail "$file needs glibc $glibc"
done

# The dictionary spans all files: the tools share most of their code with the library.
mkdir -p dist
tar -C build/portable/package -c "$name" | xz --x86 --lzma2=preset=6,dict=128MiB > "dist/$name.tar.xz"
size=$(stat -c %s "dist/$name.tar.xz")
[ "$size" -le 20000000 ] || fail "dist/$name.tar.xz has $size bytes, more than 20 MB"
echo "dist/$name.tar.xz: $((size / 1000)) kB"
