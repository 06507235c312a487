"""``make release``: what is published is complete, has one version, and is told of in the changelog."""

from __future__ import annotations

import re
import shutil
import tomllib
from datetime import date
from pathlib import Path

import pytest

from tests.web.conftest import assets  # noqa: F401 - a fixture
from tools import docs_parity, release
from tools.finding import ROOT

NEWS = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-01-01\n\n- It begins.\n"
TODAY = date(2026, 11, 25)


class TestVersion:
    def test_every_package_and_pin_gets_it(self, tmp_path: Path):
        """The changelog gets an entry of that day; what is unreleased is empty again."""
        for folder in release.PACKAGES.values():
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / folder / "pyproject.toml", tmp_path / folder)
        for name in release.VERSIONED:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
        (tmp_path / "CHANGELOG.md").write_text(NEWS)

        release.set_version(tmp_path, "0.2.0rc1", today=TODAY)

        assert release.the_version(tmp_path) == "0.2.0rc1"
        for folder in release.PACKAGES.values():
            text = (tmp_path / folder / "pyproject.toml").read_text()
            assert set(re.findall(r"threadkeep[\w-]*(?:\[[\w,]+\])?==([\w.]+)", text)) <= {"0.2.0rc1"}
        for name in release.VERSIONED:
            assert '"0.2.0rc1"\n' in (tmp_path / name).read_text()
        assert "## [Unreleased]\n\n## [0.2.0rc1] - 2026-11-25\n\n### Added" in (tmp_path / "CHANGELOG.md").read_text()

    @pytest.mark.parametrize("version", ["0.1.0", "2", "0.2.0; rm"])
    def test_another_one_is_refused_and_changes_nothing(self, tmp_path: Path, version: str):
        (tmp_path / "CHANGELOG.md").write_text(NEWS)

        with pytest.raises(release.ReleaseError):
            release.set_version(tmp_path, version, today=TODAY)

        assert (tmp_path / "CHANGELOG.md").read_text() == NEWS

    def test_a_version_without_news_is_refused(self):
        with pytest.raises(release.ReleaseError, match="nothing under"):
            release.with_entry(NEWS.replace("### Added\n\n- A thing.\n", ""), "0.2.0", today=TODAY)
        with pytest.raises(release.ReleaseError, match="no entry"):
            release.require_entry(NEWS, "0.2.0")


class TestMetadata:
    @pytest.mark.parametrize("folder", release.PACKAGES.values(), ids=release.PACKAGES)
    def test_it_is_complete(self, folder: Path):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]

        assert project["authors"] == [{"name": "Threadkeep contributors"}]
        assert project["urls"]["Repository"] == docs_parity.REPOSITORY
        assert {"Documentation", "Changelog", "Issues"} <= project["urls"].keys()
        assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= {*project["classifiers"]}


@pytest.mark.slow
def test_a_distribution_without_the_web_page_is_refused(tmp_path: Path):
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    ignored = shutil.ignore_patterns("assets", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    dist = release.build(tmp_path, tmp_path / "dist", ["threadkeep"])

    with pytest.raises(release.ReleaseError, match="lacks the web page; run make web"):
        release.check_contents(dist, release.the_version(ROOT))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("assets")
def test_distributions_have_what_they_must_have(tmp_path: Path):
    """A source distribution has the modules of the wheel, without tests and tools; another version is refused."""
    dist = release.build(ROOT, tmp_path / "dist", ["threadkeep", "threadkeep-evals"])
    version = release.the_version(ROOT)

    release.check_contents(dist, version)
    source = release.files_in(dist / f"threadkeep-{version}.tar.gz")
    wheel = release.files_in(dist / f"threadkeep-{version}-py3-none-any.whl")

    modules = {name.removeprefix("src/") for name in source if name.startswith("src/threadkeep/") and "." in name}
    assert modules == {name for name in wheel if name.startswith("threadkeep/")}
    with pytest.raises(release.ReleaseError, match="is not of version"):
        release.check_contents(dist, "9.9.9")
