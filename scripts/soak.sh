#!/usr/bin/env bash
# What takes too long for every change: run before a release, and before hardening is called done.
# Needs root. Prints the minutes of each stage; the names of some pick just those.
#   scripts/soak.sh             all, about three hours and a half
#   scripts/soak.sh faults fuzz
#
#   sanitize    asan, tsan and clang builds: unit tests, whole VMs among them, and many clients
#   faults      kill -9 at every fault point of every change; hosts, disks and clocks that fail
#   durability  64 clients for a minute while the service is killed 20 times
#   leaks       100 TPU VMs in a row and 12 at once: what is left of them on the host
#   isolation   a VM's root against the host and its neighbours
#   libtpu      300 random programs beside native CPU, 10,000 programs in flat memory, five versions of JAX
#   tensorflow  200 rounds of training in flat memory; TPU VMs of four versions of TensorFlow (4 GB each)
#   fuzz        each target for an hour, two at a time
#   bench       every benchmark with its bars
. "$(dirname "$0")/lib.sh"

pytest() { TORUS_SOAK=1 build/venv/bin/python -m pytest -ra "$@"; }
sanitize() { scripts/sanitize.sh; }
faults() { pytest tests/service/test_faults.py tests/service/test_bad_host.py tests/vm/test_faults_vm.py tests/vm/test_bad_host_vm.py tests/vm/test_crashes.py; }
durability() { pytest tests/service/test_durability.py; }
leaks() { pytest tests/vm/test_leaks.py; }
isolation() { pytest tests/vm/test_isolation_*.py; }
fuzz() { scripts/fuzz.sh --seconds 3600; }
libtpu() {
  pytest tests/libtpu/test_differential.py &&
    TORUS_SOAK=1 TORUS_API_TEST=libtpu build/release/src/tpu/pjrt_api_test --gtest_filter='Rounds.*' &&
    scripts/skew.sh
}
tensorflow() { pytest tests/tensorflow/test_rounds.py tests/vm/test_tensorflow_vm.py; }
bench() { scripts/bench.sh; }

all=(sanitize faults durability leaks isolation libtpu tensorflow fuzz bench)
chosen=("$@")
[ ${#chosen[@]} -gt 0 ] || chosen=("${all[@]}")
for name in "${chosen[@]}"; do
  [[ " ${all[*]} " = *" $name "* ]] || die "no stage \"$name\"; there are: ${all[*]}"
done
[ "$(id -u)" = 0 ] || die "TPU VMs need root: run scripts/soak.sh as root"
stage install install_for_tests
stage build scripts/build.sh release
failed=()
for name in "${chosen[@]}"; do stage "$name" "$name" || failed+=("$name"); done
print_stages
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
