#!/bin/bash
# Builds abseil, glog and gflags from Debian's own sources as position-independent archives in build/deps/lib: the
# archives that Debian ships can't go into a shared library. Headers stay Debian's, so the two must be of one version.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$PWD/build/deps
sources="abseil google-glog gflags"
want=$(dpkg-query -W -f '${Package} ${Version}\n' libabsl-dev libgoogle-glog-dev libgflags-dev)
if [ "$(cat "$prefix/versions" 2>/dev/null)" = "$want" ]; then exit 0; fi
echo "portable_deps: building abseil, glog and gflags from Debian's sources into build/deps"
rm -rf "$prefix"
mkdir -p "$prefix/lib" "$prefix/src" "$prefix/apt/lists/partial"
cd "$prefix/src"

# A list of our own: the machine's sources are left alone.
. /etc/os-release
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
printf 'deb-src [signed-by=%s] http://deb.debian.org/debian %s main\n' \
  $keyring "$VERSION_CODENAME" $keyring "$VERSION_CODENAME-updates" > "$prefix/apt/sources.list"
apt="-o Dir::Etc::SourceList=$prefix/apt/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::lists=$prefix/apt/lists
     -o Dir::Cache=$prefix/apt -o APT::Sandbox::User=root -qq"
apt-get $apt update
apt-get $apt source $sources > "$prefix/log" 2>&1

build() {  # folder, ninja targets, CMake options...
  local folder=$1 targets=$2
  shift 2
  {
    cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_FLAGS="-O2 -ffunction-sections -fdata-sections" \
      -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF "$@"
    ninja -C "$folder/build" $targets
  } >> "$prefix/log" 2>&1 || { tail -50 "$prefix/log"; exit 1; }
  find "$folder/build" -name '*.a' -exec cp {} "$prefix/lib" \;
}
launcher=()
if command -v ccache > /dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
build abseil-* "statusor str_format_internal raw_hash_set hash synchronization" "${launcher[@]}"
build gflags-* all "${launcher[@]}" -DBUILD_STATIC_LIBS=ON
# Without libunwind glog takes its stack traces from the compiler's own unwinder.
build google-glog-* glog "${launcher[@]}" -DWITH_UNWIND=OFF
rm -rf "$prefix/src" "$prefix/apt"
echo "$want" > "$prefix/versions"
