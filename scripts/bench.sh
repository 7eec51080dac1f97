#!/usr/bin/env bash
# Builds, and runs the benchmarks: each prints its machine, its figures and its bars, and fails where
# it misses one. Arguments go to bench/service.py. The part on TPU VMs needs root.
. "$(dirname "$0")/lib.sh"

scripts/deps.sh
scripts/build.sh release torus tpu bench_dispatch

failed=0
say "the service (about a minute)"
python3 bench/service.py "$@" || failed=1
say "libtpu.so"
build/release/bench/bench_dispatch build/release/libtpu.so || failed=1
exit $failed
