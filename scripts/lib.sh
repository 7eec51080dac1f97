# Shell functions that the scripts share. Source it; it changes to the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export TORUS_PROGRAM_CACHE=off  # a test or a benchmark does not load what another one compiled

# A progress line: what is being done, on stderr.
say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root: plainly if we are, by sudo otherwise.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || die "this step needs root: run as root, or install sudo"
  sudo "$@"
}

# Runs a command that talks much: its output goes to build/log/NAME.log and is shown if it fails.
quietly() {
  local name=$1; shift
  mkdir -p build/log
  if ! "$@" >"build/log/$name.log" 2>&1; then
    tail -n 40 "build/log/$name.log" >&2
    die "$name failed (the whole log: build/log/$name.log)"
  fi
}

# Installs those of the named Debian packages that are missing.
apt_install() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  command -v apt-get >/dev/null || die "not a Debian system; install by hand: ${missing[*]}"
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  quietly apt-update as_root apt-get update
  quietly apt-install as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# What the tests need beside a build: their tools, and build/venv with the clients and frameworks.
install_for_tests() {
  scripts/deps.sh
  apt_install curl iputils-ping dataset-fashion-mnist
  local stamp
  stamp=$(sha256sum <tests/requirements.txt)
  if [ "$(cat build/venv/.stamp 2>/dev/null)" != "$stamp" ]; then
    python3 -m venv --clear build/venv
    quietly pip build/venv/bin/pip install --require-hashes -r tests/requirements.txt
    echo "$stamp" >build/venv/.stamp
  fi
}

# stage NAME COMMAND…: runs it and notes its time for print_stages; its exit status is its own.
stage_times=()
stage() {
  local name=$1 from=$SECONDS status=0
  shift
  mkdir -p build/log
  say "$name"
  "$@" || status=$?
  stage_times+=("$(minutes "$name" $((SECONDS - from)))")
  return $status
}

minutes() { printf '%-12s %3d.%d min' "$1" $(($2 / 60)) $(($2 % 60 / 6)); }

print_stages() {
  printf '\n'
  printf '%s\n' "${stage_times[@]}"
  printf '%s\n\n' "$(minutes "in all" "$SECONDS")"
}
