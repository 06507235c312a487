"""Build what is published, and check it as a user gets it: ``python -m tools.release [--version X.Y.Z]``.

Every package is built into ``dist/``, looked through, checked by twine, and installed into a new environment, where the
demo runs. With ``--version`` the packages get that version first, and the changelog an entry of today.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from tools.finding import ROOT

PACKAGES: Final[Mapping[str, Path]] = {
    "threadkeep": Path(),
    "threadkeep-minilm": Path("packages/minilm"),
    "threadkeep-conformance": Path("packages/threadkeep-conformance"),
    "threadkeep-evals": Path("packages/threadkeep-evals"),
}
"""What is published, by name, and where it stands in the repository."""

VERSIONED: Final = ("src/threadkeep/__init__.py", "deploy/helm/threadkeep/Chart.yaml")
"""Other files that name the version."""

UNRELEASED: Final = "## [Unreleased]"
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_PIN: Final = re.compile(
    r'((?:^version = "|^__version__ = "|^appVersion: "|threadkeep(?:-\w+)?(?:\[[\w,]+\])?==))[\w.]+(?=["])',
    re.MULTILINE,
)
PAGE: Final = "threadkeep/web/assets/index.html"
"""A file of the built web page, which each distribution of ``threadkeep`` has."""

_NO_SOURCE: Final = re.compile(r"(^|/)(tests?|tools|docs|\.github)/|\.onnx$|/tokenizer\.json$|/\.env$")


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def main() -> int:
    """Build and check; return 1 with the reason if something is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--version", help="the version to set first, e.g. 0.2.0")
    parser.add_argument("--no-install", action="store_true", help="leave out the new environment and the demo")
    given = parser.parse_args()
    try:
        if given.version:
            set_version(ROOT, given.version, today=datetime.now(UTC).date())
        _run(sys.executable, "-m", "tools.web")  # the page names the version
        version = the_version(ROOT)
        require_entry((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
        dist = build(ROOT, ROOT / "dist")
        check_contents(dist, version)
        _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(dist.iterdir())))
        if not given.no_install:
            try_out(dist, version)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    names = "\n".join(f"  {path.name}  {path.stat().st_size:,} bytes" for path in sorted(dist.iterdir()))
    sys.stdout.write(f"release: {version} is ready in dist/:\n{names}\n")
    return 0


def the_version(root: Path) -> str:
    """Return the version of all packages.

    Raises:
        ReleaseError: They have several.
    """
    found = {
        name: tomllib.loads((root / folder / "pyproject.toml").read_text("utf-8"))["project"]["version"]
        for name, folder in PACKAGES.items()
    }
    if len(set(found.values())) > 1:
        msg = f"the packages have different versions: {found}; give --version."
        raise ReleaseError(msg)
    return found["threadkeep"]


def set_version(root: Path, version: str, *, today: date) -> None:
    """Give every package and every pin among them *version*, and the changelog its entry.

    Raises:
        ReleaseError: It is no version, or the changelog has no news for it.
    """
    if not _VERSION.fullmatch(version):
        msg = f"{version!r} is no version; write 0.2.0, or 0.2.0rc1."
        raise ReleaseError(msg)
    changelog = root / "CHANGELOG.md"
    changelog.write_text(with_entry(changelog.read_text("utf-8"), version, today=today), "utf-8")
    projects = [root / folder / "pyproject.toml" for folder in PACKAGES.values()]
    for path in (*projects, *(root / name for name in VERSIONED)):
        path.write_text(_PIN.sub(rf"\g<1>{version}", path.read_text("utf-8")), "utf-8")


def with_entry(changelog: str, version: str, *, today: date) -> str:
    """Return the changelog with what is unreleased under the heading of *version*.

    Raises:
        ReleaseError: There is nothing unreleased, or the version has an entry.
    """
    if f"## [{version}]" in changelog:
        msg = f"CHANGELOG.md has an entry for {version} already."
        raise ReleaseError(msg)
    head, heading, news = changelog.partition(f"{UNRELEASED}\n")
    if not heading or not news.partition("\n## [")[0].strip():
        msg = "CHANGELOG.md has nothing under [Unreleased]."
        raise ReleaseError(msg)
    return f"{head}{heading}\n## [{version}] - {today.isoformat()}\n{news}"


def require_entry(changelog: str, version: str) -> None:
    """Check that the changelog tells of *version*: by its entry, or before the first one by what is unreleased.

    Raises:
        ReleaseError: It does not.
    """
    first = not re.search(r"^## \[\d", changelog, re.MULTILINE)
    if f"## [{version}]" not in changelog and not (first and UNRELEASED in changelog):
        msg = f"CHANGELOG.md has no entry for {version}; write one with: make release ARGS='--version {version}'"
        raise ReleaseError(msg)


def build(root: Path, dist: Path, names: Sequence[str] = tuple(PACKAGES)) -> Path:
    """Build source distribution and wheel of each package into an empty *dist*; nothing is fetched."""
    shutil.rmtree(dist, ignore_errors=True)
    for name in names:
        folder = root / PACKAGES[name]
        builder = [sys.executable, "-m", "hatchling", "build", "-d", str(dist), "-t"]
        for target in ("sdist", "wheel"):
            _run(*builder, target, cwd=folder)
    return dist


def check_contents(dist: Path, version: str) -> None:
    """Check that each distribution has what it must have and nothing else.

    Raises:
        ReleaseError: One has not.
    """
    for path in sorted(dist.iterdir()):
        names = files_in(path)
        if f"-{version}" not in path.name:
            msg = f"{path.name} is not of version {version}."
            raise ReleaseError(msg)
        if path.suffix == ".gz" and (wrong := [name for name in names if _NO_SOURCE.search(name)]):
            msg = f"{path.name} holds {wrong[0]}, which does not belong into a source distribution."
            raise ReleaseError(msg)
        if path.name.startswith("threadkeep-") and not any(name.endswith(PAGE) for name in names):
            msg = f"{path.name} lacks the web page; run make web."
            raise ReleaseError(msg)
        kinds = ("", "changes-", "needs-") if "minilm" in path.name else ()
        models = [f"minilm-l6-v2-{kind}int8.onnx" for kind in kinds]
        needed = ["LICENSE", "py.typed", *models]
        if path.suffix == ".whl" and (missing := [one for one in needed if not any(n.endswith(one) for n in names)]):
            msg = f"{path.name} lacks {missing[0]}."
            raise ReleaseError(msg)


def files_in(path: Path) -> list[str]:
    """Return the names of the files in a distribution, in a source distribution without its first folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as source:
        return [name.partition("/")[2] for name in source.getnames()]


def try_out(dist: Path, version: str) -> None:
    """Install the built files into a new environment, and run the program there as a user would.

    Raises:
        ReleaseError: The installed program is another one.
    """
    with tempfile.TemporaryDirectory(prefix="threadkeep-release-") as folder:
        uv, python = str(Path(sys.executable).with_name("uv")), str(Path(folder, "env", "bin", "python"))
        _run(uv, "venv", "--quiet", "--no-config", "--python", sys.executable, str(Path(folder, "env")))
        wheel = next(dist.glob(f"threadkeep-{version}-*.whl"))
        install = (uv, "pip", "install", "--quiet", "--no-config", "--python", python, "--find-links", str(dist))
        _run(*install, f"threadkeep[local] @ {wheel.as_uri()}")
        program = str(Path(folder, "env", "bin", "threadkeep"))
        said = subprocess.run([program, "--version"], cwd=folder, check=True, capture_output=True, text=True).stdout
        if said.strip() != version:
            msg = f"the installed program says that it is {said.strip()!r}."
            raise ReleaseError(msg)
        _run(program, "demo", cwd=Path(folder))


def _run(*command: str, cwd: Path = ROOT) -> None:
    sys.stdout.write(f"== {Path(command[0]).name} {' '.join(command[1:4])}\n")
    sys.stdout.flush()
    subprocess.run(command, cwd=cwd, check=True)


if __name__ == "__main__":
    sys.exit(main())
