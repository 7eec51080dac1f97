#!/usr/bin/env bash
# Pins, with hashes, what tests need (tests/requirements.in -> .txt), the Python peers of the
# benchmarks (bench/peers.in -> .txt), what makes the wheel, and each TensorFlow (without libtpu, which
# is ours; pip-compile warns of that).
. "$(dirname "$0")/lib.sh"
apt_install python3-venv
python3 -m venv build/lock
build/lock/bin/pip install -q pip-tools==7.5.3
tensorflows=(packaging/tensorflow/requirements-*.in)
for list in tests/requirements tests/conformance/requirements bench/peers bench/tensorflow packaging/libtpu/requirements \
  "${tensorflows[@]%.in}"; do
  build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
    --no-emit-find-links --no-emit-trusted-host --no-header \
    --unsafe-package libtpu --unsafe-package pip --unsafe-package setuptools --output-file $list.txt $list.in
done
