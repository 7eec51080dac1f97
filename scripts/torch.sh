#!/usr/bin/env bash
# Runs tests/libtpu/test_torch.py and examples/mnist_torch.py with each PyTorch that reaches TPUs, in
# a virtual environment of its own in build/torch; writes the table in docs/conformance.md. Needs
# root, for what looks for chips on the PCI bus. Fails where a test or the example does.
#   scripts/torch.sh             both (6 GB each: torch brings CUDA; three minutes to fetch)
#   scripts/torch.sh torch_tpu   one
# TORUS_LIBTPU names the library (default: build/release/libtpu.so).
. "$(dirname "$0")/lib.sh"

frameworks=("$@")
[ $# -gt 0 ] || frameworks=(torch_xla torch_tpu)
libtpu=$(realpath "${TORUS_LIBTPU:-build/release/libtpu.so}")
apt_install dataset-fashion-mnist

packages() {
  case $1 in
    torch_xla) echo torch==2.9.0 torch_xla==2.9.0 ;;
    torch_tpu) echo torch==2.15.0 torch_tpu==0.2.0 ;;
    *) die "no framework \"$1\"; there are: torch_xla torch_tpu" ;;
  esac
}

# example FRAMEWORK ENGINE: "works", or the line that says why not.
example() {
  local out
  out=$(env PJRT_DEVICE=TPU TPU_LIBRARY_PATH="$libtpu" TPU_ACCELERATOR_TYPE=v5litepod-1 \
    TPU_SKIP_MDS_QUERY=1 TORUS_ENGINE="$PWD/build/deps/$2" timeout 900 tests/libtpu/with_chips.sh 0x0063 1 \
    "build/torch/$1/bin/python" examples/mnist_torch.py --limit 2048 --batch 64 2>&1) || true
  if grep -q '^test accuracy .*, loaded$' <<<"$out"; then echo works; return; fi
  grep -E 'Error|^F[0-9]{4} ' <<<"$out" | tail -1 | tr '|' '/' | cut -c1-300 | grep . || echo "said nothing"
}

failed=()
table="| framework | tests, engine/xla_cpu.so | example, engine_openxla/xla_cpu_pjrt.so |
|-|-|-|"
for framework in "${frameworks[@]}"; do
  read -ra wanted <<<"$(packages "$framework")"
  if [ "$(cat "build/torch/$framework/.done" 2>/dev/null)" != "${wanted[*]}" ]; then
    say "installing ${wanted[*]}"
    python3 -m venv --clear "build/torch/$framework"
    quietly "torch-$framework" "build/torch/$framework/bin/pip" install "${wanted[@]}" numpy pytest
    echo "${wanted[*]}" >"build/torch/$framework/.done"
  fi
  tests=$(TORUS_LIBTPU="$libtpu" "build/torch/$framework/bin/python" -m pytest -ra \
    tests/libtpu/test_torch.py | tee "build/log/$framework.log" | tail -1 | tr -d '=' | sed 's/ in .*//; s/^ *//') ||
    failed+=("$framework: $tests; see build/log/$framework.log")
  second=$(example "$framework" engine_openxla/xla_cpu_pjrt.so)
  [ "$second" = works ] || failed+=("$framework on the second engine: $second")
  row="| ${wanted[*]//==/ } | $tests | $second |"
  echo "$row"
  table+=$'\n'$row
done
[ $# -gt 0 ] || python3 tests/conformance/page.py scripts/torch.sh <<<"$table"
[ ${#failed[@]} = 0 ] || die "$(printf '%s\n' "${failed[@]}")"
