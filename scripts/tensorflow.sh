#!/usr/bin/env bash
# Installs a tensorflow-tpu into build/tensorflow/VERSION, without Google's libtpu, which no longer has
# what TensorFlow calls. The next build makes an adapter for each that is there (docs/tensorflow.md).
#   scripts/tensorflow.sh                the one that tests use, 2.20.0 (1.5 GB)
#   scripts/tensorflow.sh 2.19.1 …       those
# Safe to run again: seconds when nothing is missing.
. "$(dirname "$0")/lib.sh"

versions=("$@")
[ $# -gt 0 ] || versions=(2.20.0)
for version in "${versions[@]}"; do
  pins=packaging/tensorflow/requirements-$version.txt
  [ -e "$pins" ] || die "no $pins; write its .in and run scripts/lock.sh. There are: $(ls packaging/tensorflow/*.txt)"
  venv=build/tensorflow/$version
  stamp=$(sha256sum <"$pins")
  [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ] && continue
  say "installing tensorflow-tpu $version into $venv"
  python3 -m venv --clear "$venv"
  # The pins are of all it needs but libtpu: pip must not look for that by itself.
  quietly "tensorflow-$version" "$venv/bin/pip" install --no-deps --require-hashes -r "$pins"
  echo "$stamp" >"$venv/.stamp"
done
