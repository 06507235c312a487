#!/bin/sh
# Fill .venv with exactly what requirements.lock names, then with this repository's own packages.
# Needs Python >= 3.11 with venv; everything else is fetched by name from the package registry that is set up.
set -eu
cd "$(dirname "$0")/.."

stop() {
    echo "setup: $*" >&2
    exit 1
}

python_of_this_machine() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    python=$(python_of_this_machine)
    [ -n "$python" ] || stop "Python 3.11 or newer is needed and none was found; install it, or name it: make setup PYTHON=/path/to/python3"
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
        stop "Python $version has no venv module with pip in it; install it (Debian, Ubuntu: apt install python$version-venv) and run this again."
    rm -rf .venv
    echo "setup: making .venv with Python $version"
    "$python" -m venv .venv || stop "$python could not make the virtual environment .venv; what it says stands above."
fi
rm -f .venv/.ready

# uv is in the lock like everything else: its lines, hashes included, are what pip is given.
uv_locked=$(sed -n 's/^uv==\([^ ;]*\).*/\1/p' requirements.lock)
if [ "$(.venv/bin/python -c 'from importlib.metadata import version; print(version("uv"))' 2>/dev/null)" != "$uv_locked" ]; then
    echo "setup: fetching uv $uv_locked"
    awk '/^uv==/ { found = 1 } found { print } found && !/\\$/ { exit }' requirements.lock >.venv/uv.lock
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.lock ||
        stop "uv could not be installed; is the package registry within reach?"
fi

# A registry that this machine's pip was given is also uv's; certificates are the system's, for networks with their own.
index=${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"
uv() {
    # A configuration of some other project, here or in the user's home, has no say.
    env -u VIRTUAL_ENV .venv/bin/uv "$@" --no-config --python .venv/bin/python
}

# sync removes what the lock does not name, so be sure that uv means this folder and no Python that it remembers.
there=$(uv pip show pip 2>/dev/null | sed -n 's/^Location: //p')
case "$there" in
"$(pwd -P)"/.venv/*) ;;
*) stop "uv takes ${there:-nothing} for .venv; run '.venv/bin/uv cache clean', remove .venv and try again." ;;
esac

echo "setup: installing what requirements.lock names"
uv pip sync -q --compile-bytecode --require-hashes requirements.lock || stop "the locked packages could not be installed; the reason stands above."
.venv/bin/python packages/minilm/build_model.py || stop "the embedding model could not be built; the reason stands above."
uv pip install -q --no-deps --no-build-isolation -e packages/minilm -e . -e packages/threadkeep-conformance -e packages/threadkeep-evals ||
    stop "this repository's own packages could not be installed; the reason stands above."
touch .venv/.ready
echo "setup: done"
