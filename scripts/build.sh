#!/usr/bin/env bash
# Builds a preset (default: release) into build/<preset>; further arguments are targets for ninja.
. "$(dirname "$0")/lib.sh"
preset=${1:-release}
shift || true
[ -e "build/$preset/build.ninja" ] || quietly "configure-$preset" cmake --preset "$preset"
say "building $preset (the first time takes about ten minutes on two cores)"
ninja -C "build/$preset" -j "$(nproc)" "$@"
