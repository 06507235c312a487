"""The file system of the image, built by the same steps and run without a container engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACE = Path("/opt/threadkeep")

# Runs in namespaces of its own: no network but a loopback, a read-only root, and only /tmp and /data are writable.
CONFINED = """
set -eu
mount --make-rprivate /
mount -t tmpfs none /tmp
if [ -n "$3" ]; then # the interpreter of this machine is in a folder that other users may not enter
    mkdir /tmp/base && mount --bind "$2" /tmp/base
    mount -t tmpfs -o mode=0755 none "$3" && mkdir -p "$2" && mount --move /tmp/base "$2"
fi
mount -t tmpfs -o uid=10001,gid=10001,mode=0700 none /mnt
mount -o remount,bind,ro /
ip link set lo up
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set -all \
    env -i PATH={place}/bin:/usr/bin:/bin HOME=/mnt THREADKEEP_DATA_DIR=/mnt PYTHONDONTWRITEBYTECODE=1 \
    THREADKEEP_SINGLE_USER=ana THREADKEEP_LOG_FORMAT=json {place}/bin/python -c "$1"
"""

PROGRAM = """
import json, os, signal, subprocess, time, urllib.request
for place in ("/", "/etc", "{place}"):
    try:
        open(os.path.join(place, "probe"), "w")
    except OSError:
        continue
    raise SystemExit(place + " is writable")
assert os.getuid() == 10001
server = subprocess.Popen(["threadkeep", "serve", "--host", "127.0.0.1", "--port", "8000"])
for _ in range(600):
    try:
        ready = json.load(urllib.request.urlopen("http://127.0.0.1:8000/readyz", timeout=5))
        break
    except OSError:
        time.sleep(0.2)
else:
    raise SystemExit("the server never answered")
assert ready["ready"] and ready["degraded"] == [], ready
body = json.dumps({"message": "I live in Rome.", "thread_id": "t"}).encode()
request = urllib.request.Request(
    "http://127.0.0.1:8000/api/chat/stream", body, {"Content-Type": "application/json"}
)
assert b"event: done" in urllib.request.urlopen(request, timeout=60).read()
server.send_signal(signal.SIGTERM)
assert server.wait(60) == 0
print("served")
"""


@contextmanager
def place_of_image() -> Iterator[Path]:
    """Yield where the image has its programs; skip where this machine has something there."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs Linux, and root for namespaces")
    if missing := [name for name in ("unshare", "setpriv", "ip", "mount") if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    if PLACE.exists():
        pytest.skip(f"{PLACE} exists on this machine")
    try:
        yield PLACE
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_image_serves_without_network_on_a_read_only_root(tmp_path: Path):
    """Everything is inside, the embedder's model included: a turn is answered, and SIGTERM ends it with 0."""
    for project in (ROOT, ROOT / "packages" / "minilm"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheels")]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    with place_of_image() as place:
        install = ["sh", str(ROOT / "deploy" / "install.sh"), str(place), str(tmp_path / "wheels"), sys.executable]
        subprocess.run(install, check=True)

        script, program = CONFINED.format(place=place), PROGRAM.replace("{place}", str(place))
        confined = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh", program]
        top = Path(*Path(sys.base_prefix).parts[:2])
        confined += [sys.base_prefix, "" if top.stat().st_mode & 0o001 else str(top)]
        done = subprocess.run(confined, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("served\n")
    assert "Traceback" not in done.stderr
