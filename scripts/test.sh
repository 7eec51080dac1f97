#!/usr/bin/env bash
# Installs what tests need, builds, runs every test, fuzzes each reader for a minute, and ends with a
# plain count of the tests.
#   scripts/test.sh             everything
#   scripts/test.sh -k gcloud   … of the end-to-end tests, those that pytest's -k picks
. "$(dirname "$0")/lib.sh"

unit_tests() {
  ctest --test-dir build/release --output-on-failure --no-tests=error \
    --output-junit "$PWD/build/unit.xml" >build/log/unit.log || { cat build/log/unit.log; return 1; }
  tail -n 4 build/log/unit.log
}

end_to_end() {
  build/venv/bin/python -m pytest tests -ra --durations=10 --junitxml=build/end_to_end.xml "$@"
}

rm -f build/unit.xml build/end_to_end.xml
stage install install_for_tests
stage tensorflow scripts/tensorflow.sh  # before the build, which makes an adapter for it
stage build scripts/build.sh release
failed=0
stage unit unit_tests || failed=1
[ $# -gt 0 ] || stage fuzz scripts/fuzz.sh || failed=1
stage end-to-end end_to_end "$@" || failed=1

print_stages
python3 scripts/count_tests.py build/unit.xml build/end_to_end.xml
exit $failed
