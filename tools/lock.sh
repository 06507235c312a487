#!/bin/sh
# Resolve pyproject.toml anew and write requirements.lock: versions, hashes and markers, but no registry's address.
# uv's own lock file names the registry in every line, so it is a by-product that git ignores (docs/decisions/0001).
set -eu
cd "$(dirname "$0")/.."
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"
.venv/bin/uv lock --quiet --upgrade --python .venv/bin/python
.venv/bin/uv export --quiet --frozen --format requirements.txt --all-extras --all-groups \
    --no-emit-workspace --no-header --no-annotate --output-file .venv/requirements.lock
{
    echo "# Written by \`make lock\`: every version of every platform and Python, with the hashes that may be installed."
    cat .venv/requirements.lock
} >requirements.lock
rm .venv/requirements.lock
echo "lock: $(grep -c '==' requirements.lock) packages in requirements.lock"
.venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --output-file tests/langgraph_dev/project/requirements.lock \
    pyproject.toml tests/langgraph_dev/project/requirements.in
echo "lock: $(grep -c '==' tests/langgraph_dev/project/requirements.lock) packages for langgraph dev"
