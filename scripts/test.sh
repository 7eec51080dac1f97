#!/usr/bin/env bash
# Installs what tests need, builds, runs every test, fuzzes each reader for a minute, and ends with a
# plain count of the tests.
#   scripts/test.sh             everything
#   scripts/test.sh -k gcloud   … of the end-to-end tests, those that pytest's -k picks
. "$(dirname "$0")/lib.sh"

started=$(date +%s)
times=()
# stage NAME COMMAND…: runs it and notes its minutes; its exit status is its own.
stage() {
  local name=$1 from status=0
  shift
  from=$(date +%s)
  say "$name"
  "$@" || status=$?
  times+=("$(printf '%-12s %5.1f min' "$name" "$(echo "($(date +%s) - $from) / 60" | bc -l)")")
  return $status
}

install() {
  scripts/deps.sh
  apt_install bc curl iputils-ping dataset-fashion-mnist
  local stamp
  stamp=$(sha256sum <tests/requirements.txt)
  if [ "$(cat build/venv/.stamp 2>/dev/null)" != "$stamp" ]; then
    python3 -m venv --clear build/venv
    quietly pip build/venv/bin/pip install --require-hashes -r tests/requirements.txt
    echo "$stamp" >build/venv/.stamp
  fi
}

unit_tests() {
  ctest --test-dir build/release --output-on-failure --no-tests=error \
    --output-junit "$PWD/build/unit.xml" >build/log/unit.log || { cat build/log/unit.log; return 1; }
  tail -n 4 build/log/unit.log
}

end_to_end() {
  build/venv/bin/python -m pytest tests -ra --durations=10 --junitxml=build/end_to_end.xml "$@"
}

command -v bc >/dev/null || apt_install bc
mkdir -p build/log
rm -f build/unit.xml build/end_to_end.xml
stage install install
stage build scripts/build.sh release
failed=0
stage unit unit_tests || failed=1
[ $# -gt 0 ] || stage fuzz scripts/fuzz.sh || failed=1
stage end-to-end end_to_end "$@" || failed=1

printf '\n%s\n' "${times[@]}"
printf '%-12s %5.1f min\n\n' "in all" "$(echo "($(date +%s) - $started) / 60" | bc -l)"
python3 scripts/count_tests.py build/unit.xml build/end_to_end.xml
exit $failed
