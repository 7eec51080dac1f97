#!/usr/bin/env bash
# Runs tests/conformance/skew_smoke.py with older versions of JAX, each in a virtual environment of
# its own in build/skew, on libtpu.so and each of its engines; writes the table in docs/conformance.md.
# Fails where a pair neither works nor says which one would.
#   scripts/skew.sh            all versions (half a gigabyte each, the first time)
#   scripts/skew.sh 0.8.3      some
# TORUS_LIBTPU names the library (default: build/release/libtpu.so).
. "$(dirname "$0")/lib.sh"

# The newest of each minor version for Python 3.11.
versions=("$@")
[ $# -gt 0 ] || versions=(0.6.2 0.7.2 0.8.3 0.9.2 0.10.2)
libtpu=$(realpath "${TORUS_LIBTPU:-build/release/libtpu.so}")
engines=(engine/xla_cpu.so engine_openxla/xla_cpu_pjrt.so)

# smoke VERSION ENGINE: "works", or the line that says why not.
smoke() {
  local out
  out=$(env -u XLA_FLAGS JAX_PLATFORMS=tpu TPU_LIBRARY_PATH="$libtpu" TPU_ACCELERATOR_TYPE=v5litepod-8 \
    TORUS_ENGINE="$PWD/build/deps/$2" timeout 300 "build/skew/$1/bin/python" \
    tests/conformance/skew_smoke.py 2>&1) || true
  grep -E '^works|Error|^F[0-9]{4} ' <<<"$out" | tail -1 | tr '|' '/' | cut -c1-300 | grep . || echo "said nothing"
}

failed=()
table="| jax and jaxlib | ${engines[0]} | ${engines[1]} |
|-|-|-|"
for version in "${versions[@]}"; do
  if [ ! -e "build/skew/$version/.done" ]; then
    say "installing jax $version"
    python3 -m venv --clear "build/skew/$version"
    quietly "skew-$version" "build/skew/$version/bin/pip" install "jax==$version" "jaxlib==$version"
    touch "build/skew/$version/.done"
  fi
  row="| $version |"
  for engine in "${engines[@]}"; do
    said=$(smoke "$version" "$engine")
    [[ $said = works || $said = *FAILED_PRECONDITION* ]] || failed+=("jax $version on $engine: $said")
    row+=" $said |"
  done
  echo "$row"
  table+=$'\n'$row
done
[ $# -gt 0 ] || python3 tests/conformance/page.py scripts/skew.sh <<<"$table"
[ ${#failed[@]} = 0 ] || die "$(printf '%s\n' "${failed[@]}")"
