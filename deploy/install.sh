#!/bin/sh
# Install what the container image holds into a folder: sh deploy/install.sh FOLDER WHEELS PYTHON
# FOLDER becomes a virtual environment; WHEELS has the wheels of threadkeep and threadkeep-minilm.
# Every other package comes from the registry that pip is set up for, with a hash of deploy/requirements.txt.
set -eu
folder=$1 wheels=$2 python=${3:-python3}
here=$(dirname "$0")

"$python" -m venv "$folder"
"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --only-binary :all: --no-deps \
    --require-hashes -r "$here/requirements.txt"
"$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --no-deps --no-index \
    "$wheels"/threadkeep-*.whl "$wheels"/threadkeep_minilm-*.whl
"$folder/bin/python" -m pip uninstall -q -y --disable-pip-version-check pip setuptools 2>/dev/null || true
"$folder/bin/threadkeep" --version
