#!/usr/bin/env bash
# Makes the wheel torus-libtpu in build/wheel/dist: `pip install` of it, and JAX sees a TPU with nothing
# else set. It runs where glibc is 2.28 or newer: libtpu.so is built by zig (PyPI) against that.
. "$(dirname "$0")/lib.sh"

scripts/deps.sh
venv=build/wheel/venv
if [ ! -x $venv/bin/python ] || [ "$(cat build/wheel/.stamp 2>/dev/null)" != "$(sha256sum <packaging/libtpu/requirements.txt)" ]; then
  python3 -m venv --clear $venv
  quietly wheel-pip $venv/bin/pip install --require-hashes -r packaging/libtpu/requirements.txt
  sha256sum <packaging/libtpu/requirements.txt >build/wheel/.stamp
fi
[ -e build/wheel/lib/build.ninja ] || quietly wheel-configure cmake -S packaging/libtpu -B build/wheel/lib \
  -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE=zig.cmake
say "building libtpu.so for glibc 2.28 (two minutes the first time)"
ninja -C build/wheel/lib -j "$(nproc)" tpu

# What the wheel holds, laid out.
tree=build/wheel/tree
rm -rf $tree build/wheel/dist
mkdir -p $tree/libtpu/engine $tree/libtpu/sdk
cp packaging/libtpu/pyproject.toml packaging/libtpu/README.md LICENSE $tree/
cp packaging/libtpu/libtpu/__init__.py build/wheel/lib/libtpu.so build/wheel/lib/torus-verify $tree/libtpu/
cp packaging/libtpu/libtpu/sdk/*.py $tree/libtpu/sdk/
cp -l build/deps/engine/* $tree/libtpu/engine/
strip $tree/libtpu/libtpu.so $tree/libtpu/torus-verify
say "packing the wheel"
quietly wheel-pack $venv/bin/python -m build --wheel --no-isolation --outdir build/wheel/dist \
  -C--build-option=--plat-name=manylinux_2_28_x86_64 $tree
ls -lh build/wheel/dist
