#!/usr/bin/env bash
# Builds our code with sanitizers and with clang, runs the unit tests, and drives each build's own
# service from many clients (tests/service/driver.cc).
#   scripts/sanitize.sh              all: asan (with ubsan), tsan, clang (with its lock annotations)
#   scripts/sanitize.sh tsan         some
#   scripts/sanitize.sh tsan -R vm   … only the unit tests that ctest's flags pick
. "$(dirname "$0")/lib.sh"

presets=()
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do presets+=("$1"); shift; done
[ ${#presets[@]} -gt 0 ] || presets=(asan tsan clang)

# A finding ends a program with a status of its own.
export ASAN_OPTIONS=detect_stack_use_after_return=1:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp:second_deadlock_stack=1:exitcode=99

# drive PRESET: the preset's service on a port of its own choice, and its clients.
drive() {
  local folder log=$PWD/build/log/drive-$1.log status=0 port= tries=0
  folder=$(mktemp -d)
  "build/$1/torus" serve --backend=fake --listen=127.0.0.1:0 --data-dir="$folder/data" 2>"$log" &
  local service=$!
  while [ -z "$port" ] && [ $((tries += 1)) -le 300 ]; do
    sleep 0.1
    port=$(sed -n 's/.*listening on 127.0.0.1:\([0-9]*\).*/\1/p' "$log")
  done
  "build/$1/tests/service/torus_driver" --address "127.0.0.1:$port" --threads 16 --nodes 4 || status=$?
  kill -TERM $service
  wait $service || status=$?
  rm -rf "$folder"
  [ $status = 0 ] && ! grep -q 'Sanitizer' "$log" && return
  tail -n 60 "$log"
  echo "error: the service of build/$1, or its clients, failed (its log: $log)"
  return 1
}

check() { # PRESET [ctest's flags…]
  local preset=$1
  shift
  scripts/build.sh "$preset" || return
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@" || return
  say "driving $preset's service"
  drive "$preset"
}

failed=()
install_for_tests
for preset in "${presets[@]}"; do
  [ "$preset" != clang ] || scripts/deps.sh clang
  check "$preset" "$@" || failed+=("$preset")
done
[ ${#failed[@]} = 0 ] || die "not clean: ${failed[*]}"
say "clean: ${presets[*]}"
