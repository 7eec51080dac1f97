#!/usr/bin/env bash
# Pins, with hashes, what tests need (tests/requirements.in -> .txt), the Python peers of the
# benchmarks (bench/peers.in -> .txt), what makes the wheel, and each TensorFlow, without libtpu, which
# is ours: some require one that PyPI does not have, which uv can be told to leave out.
. "$(dirname "$0")/lib.sh"
apt_install python3-venv
python3 -m venv build/lock
build/lock/bin/pip install -q pip-tools==7.5.3 uv==0.9.13
for list in tests/requirements tests/conformance/requirements bench/peers bench/tensorflow \
  packaging/libtpu/requirements; do
  build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
    --no-emit-find-links --no-emit-trusted-host --no-header \
    --unsafe-package pip --unsafe-package setuptools --output-file $list.txt $list.in
done
for list in packaging/tensorflow/requirements-*.in; do
  build/lock/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
    --override packaging/tensorflow/without_libtpu.txt --output-file "${list%.in}.txt" "$list"
done
