#!/bin/sh
# Runs `make test` on every interpreter of $PYTHONS that is on PATH or that pyenv has, each with its own environment.
set -u
failed=""
found=0
for version in $PYTHONS; do
  python=""
  for candidate in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
    # A pyenv shim is on PATH for versions that are not active, and fails.
    if [ -x "$candidate" ] && "$candidate" -c '' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  if [ -z "$python" ]; then
    echo "== Python $version: skipped, no interpreter found"
    continue
  fi
  echo "== Python $version: $python"
  found=$((found + 1))
  CARGO_TARGET_DIR="target/python$version" "${MAKE:-make}" test PYTHON="$python" VENV=".venv-$version" || failed="$failed $version"
done
if [ "$found" -eq 0 ]; then
  echo "no interpreter found among: $PYTHONS" >&2
  exit 1
fi
if [ -n "$failed" ]; then
  echo "failed on:$failed" >&2
  exit 1
fi
echo "passed on $found interpreters"
