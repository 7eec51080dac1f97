#!/usr/bin/env bash
# Pins what tests need, with hashes: tests/requirements.in -> tests/requirements.txt.
. "$(dirname "$0")/lib.sh"
apt_install python3-venv
python3 -m venv build/lock
build/lock/bin/pip install -q pip-tools==7.5.3
build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
  --no-emit-find-links --no-emit-trusted-host --no-header \
  --output-file tests/requirements.txt tests/requirements.in
