#!/usr/bin/env bash
# Runs other people's own tests, unmodified, on libtpu.so, prints passed, failed and skipped of each
# file, and writes the table in docs/conformance.md. Fails on a failure that no list knows.
#   scripts/conformance.sh jax --source DIR                 JAX's, all groups (hours)
#   scripts/conformance.sh jax --source DIR --only pjit     … one; may be repeated
#   scripts/conformance.sh jax --source DIR --every 5       … one in five tests of each file
#   scripts/conformance.sh tensorflow --source DIR          TensorFlow's (half an hour); also --only
#   scripts/conformance.sh jax --table                      runs nothing; writes the table again
# jax: beside it on JAX's native CPU backend, 8 devices each. DIR is a checkout of
#   github.com/jax-ml/jax at the tag of the version in tests/conformance/requirements.in.
#   Known failures: tests/conformance/jax_expected.toml.
# tensorflow: with tensorflow-tpu 2.20.0 (scripts/tensorflow.sh). DIR is a checkout of
#   github.com/tensorflow/tensorflow; its tensorflow/python is enough. Which files:
#   tests/conformance/tensorflow_files.toml; known failures: tensorflow_expected.toml.
# What has a result is not run again: --fresh forgets it.
# TORUS_LIBTPU names the library (default: build/release/libtpu.so).
. "$(dirname "$0")/lib.sh"

usage="usage: scripts/conformance.sh jax|tensorflow --source DIR [--only GROUP]"
suite=${1:-}
[[ $suite =~ ^(jax|tensorflow)$ ]] || die "$usage"
shift
if [[ " $* " != *" --source"* && " $* " != *" --table "* ]]; then
  say "SKIPPED: $suite's own tests need a checkout of its source: --source DIR"
  exit 0
fi

if [ "$suite" = tensorflow ]; then
  venv=build/tensorflow/2.20.0
  scripts/tensorflow.sh 2.20.0
else
  venv=build/conformance/venv
  stamp=$(sha256sum <tests/conformance/requirements.txt)
  if [ "$(cat build/conformance/.stamp 2>/dev/null)" != "$stamp" ]; then
    say "installing JAX and what its tests need into $venv"
    python3 -m venv --clear $venv
    quietly conformance-pip $venv/bin/pip install --require-hashes -r tests/conformance/requirements.txt
    echo "$stamp" >build/conformance/.stamp
  fi
fi
exec $venv/bin/python "tests/conformance/${suite}_suite.py" "$@"
