#!/bin/sh
# Run the chapters of tests/fundamentals, the documents' functions and the chat with each further Python of this machine.
# Named by version (3.12 3.13); one that is missing is skipped and named, so that nobody takes silence for a test.
set -eu
cd "$(dirname "$0")/.."
failed=0
index=${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"

python_of() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if "$candidate" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

make_environment() {
    "$1" -m venv "$2" &&
        .venv/bin/uv pip sync -q --no-config --python "$2/bin/python" --require-hashes requirements.lock &&
        .venv/bin/uv pip install -q --no-config --python "$2/bin/python" --no-deps --no-build-isolation \
            -e packages/minilm -e . -e packages/threadkeep-conformance -e packages/threadkeep-evals
}

for version in "$@"; do
    python=$(python_of "$version")
    if [ -z "$python" ]; then
        echo "pythons: $version is not on this machine; skipped"
        continue
    fi
    env=.build/python-$version
    if ! cmp -s requirements.lock "$env/requirements.lock"; then
        rm -rf "$env"
        if ! make_environment "$python" "$env"; then
            echo "pythons: the packages could not be installed for $version; skipped"
            continue
        fi
        cp requirements.lock "$env/requirements.lock"
    fi
    echo "pythons: $version"
    "$env/bin/python" -m pytest -q -n 2 -m "not slow and not soak" -p no:cacheprovider \
        tests/fundamentals tests/library/test_documents.py tests/library/test_comforts.py tests/cli/test_chat.py || failed=1
done
exit $failed
