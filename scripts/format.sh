#!/usr/bin/env bash
# Formats our C++ by .clang-format; with --check only says which files it would change.
. "$(dirname "$0")/lib.sh"
apt_install clang-format
[ $# = 0 ] || [ "$*" = --check ] || die "usage: scripts/format.sh [--check]"
files=$(git ls-files --cached --others --exclude-standard '*.cc' '*.h' | sort -u)
if [ "${1:-}" = --check ]; then
  clang-format --dry-run -Werror $files
else
  clang-format -i $files
fi
