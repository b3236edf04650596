#!/bin/sh
# Every fuzz target for so many seconds (default 60), from its corpus. What is found lies in
# build-fuzz/found/NAME; the exit status is 1 if anything was.
#   tests/fuzz/run.sh [SECONDS] [NAME]…
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# -eq 0 ] || shift

cmake -G Ninja -S . -B build-fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DBSTUNE_FUZZ=ON -DBSTUNE_SANITIZE=address,undefined -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link >/dev/null
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^bst_fuzz(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
fi
failed=
for name in "$@"; do
    cmake --build build-fuzz --target "fuzz_$name" >build-fuzz/build.log 2>&1 || {
        tail -n 30 build-fuzz/build.log >&2
        exit 1
    }
    new=build-fuzz/corpus/$name
    found=build-fuzz/found/$name
    mkdir -p "$new" "$found"
    set -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$found/"
    dict=tests/fuzz/corpus/$name.dict
    [ ! -f "$dict" ] || set -- "$@" -dict="$dict"
    if build-fuzz/fuzz/"fuzz_$name" "$@" "$new" "tests/fuzz/corpus/$name" 2>"build-fuzz/$name.log"; then
        printf '%s: %s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: */executed /p' "build-fuzz/$name.log")"
    else
        printf '%s: FAILED, see build-fuzz/%s.log and %s\n' "$name" "$name" "$found"
        failed=yes
    fi
done
[ -z "$failed" ]
