#!/usr/bin/env bash
# Pins, with hashes, what tests need (tests/requirements.in -> .txt), the Python peers of the
# benchmarks (bench/peers.in -> .txt), and what makes the wheel.
. "$(dirname "$0")/lib.sh"
apt_install python3-venv
python3 -m venv build/lock
build/lock/bin/pip install -q pip-tools==7.5.3
for list in tests/requirements tests/conformance/requirements bench/peers packaging/libtpu/requirements; do
  build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
    --no-emit-find-links --no-emit-trusted-host --no-header --output-file $list.txt $list.in
done
