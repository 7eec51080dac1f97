#!/usr/bin/env bash
# Runs JAX's own tests, unmodified, on libtpu.so and beside it on JAX's native CPU backend, 8 devices
# each; prints passed, failed and skipped of each file for both, and writes the table in
# docs/conformance.md. Fails on a failure that tests/conformance/jax_expected.toml does not list.
#   scripts/conformance.sh jax --source DIR                 all groups (hours)
#   scripts/conformance.sh jax --source DIR --only pjit     … one; may be repeated
#   scripts/conformance.sh jax --source DIR --every 5       … one in five tests of each file
#   scripts/conformance.sh jax --table                      runs nothing; writes the table again
# DIR is a checkout of github.com/jax-ml/jax at the tag of the version in
# tests/conformance/requirements.in. What has a result is not run again: --fresh forgets it.
# TORUS_LIBTPU names the library (default: build/release/libtpu.so).
. "$(dirname "$0")/lib.sh"

[ "${1:-}" = jax ] || die "usage: scripts/conformance.sh jax --source DIR [--only GROUP] [--every N]"
shift
if [[ " $* " != *" --source"* && " $* " != *" --table "* ]]; then
  say "SKIPPED: JAX's own tests need a checkout of JAX's source: --source DIR"
  exit 0
fi
venv=build/conformance/venv
stamp=$(sha256sum <tests/conformance/requirements.txt)
if [ "$(cat build/conformance/.stamp 2>/dev/null)" != "$stamp" ]; then
  say "installing JAX and what its tests need into $venv"
  python3 -m venv --clear $venv
  quietly conformance-pip $venv/bin/pip install --require-hashes -r tests/conformance/requirements.txt
  echo "$stamp" >build/conformance/.stamp
fi
exec $venv/bin/python tests/conformance/jax_suite.py "$@"
