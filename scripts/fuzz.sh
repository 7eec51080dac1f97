#!/usr/bin/env bash
# Fuzzes our readers of what others send (tests/fuzz), and fails at the first input that breaks one.
#   scripts/fuzz.sh                          every target for a minute, two at a time
#   scripts/fuzz.sh --seconds 3600 rest      some for longer
#   scripts/fuzz.sh --jobs 1                 one at a time
# New inputs of a run stay in build/fuzz/found/<target>; the corpus in the tree is made by hand.
. "$(dirname "$0")/lib.sh"

seconds=60
jobs=2
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    -*) die "unknown flag $1; usage: scripts/fuzz.sh [--seconds N] [--jobs N] [target…]" ;;
    *) targets+=("$1"); shift ;;
  esac
done
corpus=tests/fuzz/corpus
[ ${#targets[@]} -gt 0 ] || targets=($(ls $corpus))
for target in "${targets[@]}"; do
  [ -d "$corpus/$target" ] || die "no fuzz target \"$target\"; there are: $(ls $corpus | xargs)"
done

# fuzz TARGET: runs it for its time; its last line says what it did, or where it broke.
fuzz() {
  local target=$1 found=build/fuzz/found/$1 crash=build/fuzz/crash/$1
  local log=build/log/fuzz-$target.log dictionary=tests/fuzz/$target.dict flags=()
  mkdir -p "$found" "$crash" "build/fuzz/tmp/$target"
  rm -f "$crash"/*
  [ ! -e "$dictionary" ] || flags+=("-dict=$dictionary")
  local status=0
  TMPDIR=$PWD/build/fuzz/tmp/$target build/fuzz/tests/fuzz/"${target}_fuzz" "$found" "$corpus/$target" \
    -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=8192 -print_final_stats=1 \
    -artifact_prefix="$crash/" "${flags[@]}" >"$log" 2>&1 || status=$?
  rm -rf "build/fuzz/tmp/$target"
  if [ $status = 0 ]; then
    printf '%-18s %10s executions, %5s edges covered, %5s inputs\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -c6-)" "$(ls "$found" | wc -l)"
    return
  fi
  grep -m1 -A12 -E '^does not hold|ERROR: |runtime error|terminate called' "$log" || tail -n 12 "$log"
  printf 'error: fuzz target %s broke on %s (log: %s)\n  to see it again: build/fuzz/tests/fuzz/%s_fuzz %s\n' \
    "$target" "$(ls "$crash"/* 2>/dev/null | head -1)" "$log" "$target" "$(ls "$crash"/* 2>/dev/null | head -1)"
  printf '  when it is mended: keep the input in %s/%s, and write a unit test of its kind\n' "$corpus" "$target"
  return 1
}
export -f fuzz
export corpus seconds

scripts/deps.sh clang
mkdir -p build/log
scripts/build.sh fuzz fuzz_targets >build/log/build-fuzz.log || { cat build/log/build-fuzz.log; exit 1; }
say "fuzzing ${#targets[@]} targets, $seconds s each, $jobs at a time"
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz {}' || die "a fuzz target broke; see above"
