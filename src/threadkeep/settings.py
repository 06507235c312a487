"""Reads the settings from the environment, and derives durations and paths from them. No other module reads it.

Imported lazily: pydantic-settings alone takes longer than ``import threadkeep`` may.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_origin

import platformdirs
from pydantic import AliasChoices, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource
from pydantic_settings import SettingsError as PydanticSettingsError
from typing_extensions import override

from threadkeep.errors import SettingsError
from threadkeep.settings_fields import SettingsFields

_TRUTHY: Final = frozenset({"1", "true", "yes", "on"})
_FALSY: Final = frozenset({"", "0", "false", "no", "off", "n", "f"})

AnySettings = TypeVar("AnySettings", bound=BaseSettings)

SECRET_FILE: Final = re.compile(r"_(DSN|KEYS?|SECRET|UR[IL])_FILE$")
"""What the variable of a secret's file ends with; other programs have variables of other files."""

ENV_FILE: Final = Path(".env")
"""The file of the working directory that the command line reads beside the environment."""


class Settings(SettingsFields):
    """The settings in force, with defaults that work for one person on one machine."""

    _env_file: Path | None = PrivateAttr(default=None)

    def __init__(self, **given: Any) -> None:
        if fields := [name for name in given if name in type(self).model_fields]:
            msg = f"Settings() takes variables, not fields, and would not see {fields[0]}; use Settings.load()."
            raise SettingsError(msg)
        super().__init__(**given)

    @classmethod
    @override
    def settings_customise_sources(cls, *args: Any, **sources: Any) -> tuple[Any, ...]:
        return with_secret_files(super().settings_customise_sources(*args, **sources), cls)

    @field_validator("*", mode="before")
    @classmethod
    def _read_loosely(cls, value: object, info: ValidationInfo) -> object:
        """Remove white space around *value*; a choice of several words is taken in any case, and blanks are unset."""
        if not isinstance(value, str):
            return value
        text = value.strip()
        field = cls.model_fields[str(info.field_name)]
        if not text and value:
            return field.default
        return _choices(field.annotation).get(text.casefold(), text)

    @field_validator("enable_fact_extraction", mode="before")
    @classmethod
    def _require_true(cls, value: object) -> object:
        """Read "true" alone as true: extraction asks a paid model."""
        if not isinstance(value, str):
            return value
        text = value.strip().casefold()
        if text in _FALSY:
            return False
        if text != "true":
            msg = "only true turns it on"
            raise ValueError(msg)
        return True

    @field_validator("store_sqlite_path", "checkpoint_sqlite_path", mode="before")
    @classmethod
    def _refuse_url(cls, path: object) -> object:
        """Refuse a URL: as a path it would be a file in a folder called ``sqlite:``."""
        if isinstance(path, str) and "://" in path:
            msg = "a path is required, not a URL"
            raise ValueError(msg)
        return path

    @classmethod
    def load(cls, *, env_file: Path | None = None, **given: Any) -> Settings:
        """Read the environment (and *env_file*, which it overrides); *given* fields win over both.

        Raises:
            SettingsError: One sentence that names the variable, or the file where that cannot be read.
        """
        by_variable = {_variables(field)[0]: value for field, value in given.items() if value is not None}
        with _one_sentence(cls, env_file):
            settings = cls(_env_file=env_file, **by_variable)
        settings._env_file = env_file
        return settings

    def variable_of(self, field: str, environment: Mapping[str, str] | None = None) -> str:
        """Return the variable of *field*: the one that is set, else the first of its names."""
        return _set_by(field, self.variables_in_force(environment)) or _variables(field)[0]

    def variables_in_force(self, environment: Mapping[str, str] | None) -> dict[str, str | None]:
        """Return the variables of the ``.env`` file, overridden by those of *environment*."""
        return _environment(self._env_file, environment)

    @property
    def ttl(self) -> timedelta | None:
        """After how long memories expire; ``None``: never."""
        return timedelta(minutes=self.store_ttl_minutes) if self.store_ttl_minutes else None

    @property
    def proposal_lifetime(self) -> timedelta:
        """After how long a proposal expires."""
        return timedelta(days=self.proposal_days)

    @property
    def tombstone_lifetime(self) -> timedelta | None:
        """How long rejected and forgotten statements are not learnt again; ``None``: for ever."""
        return timedelta(days=self.tombstone_days) if self.tombstone_days else None

    @property
    def checkpoint_ttl(self) -> timedelta | None:
        """After how long checkpoints expire; ``None``: never."""
        return timedelta(minutes=self.checkpoint_ttl_minutes) if self.checkpoint_ttl_minutes else None

    @property
    def allowed_type_names(self) -> tuple[tuple[str, str], ...]:
        """Module and name of the classes that checkpoints may keep.

        Raises:
            SettingsError: One is not written as ``module:Name``.
        """
        pairs = [text.partition(":") for text in self.allowed_types.replace(",", " ").split()]
        for module, _, name in pairs:
            if not module or not name:
                msg = f"THREADKEEP_ALLOWED_TYPES has {module[:60]!r}; write each class as module:Name."
                raise SettingsError(msg, variable="THREADKEEP_ALLOWED_TYPES")
        return tuple((module, name) for module, _, name in pairs)

    @property
    def checkpoint_timeout(self) -> timedelta:
        """Timeout of a checkpoint's write or read."""
        return timedelta(seconds=self.checkpoint_timeout_seconds)

    @property
    def workers(self) -> int:
        """How many workers this process runs."""
        if self.capture_workers is None:
            return 4 if self.queue == "embedded" else 0
        return self.capture_workers

    @property
    def lease_time(self) -> timedelta:
        """How long a lease on a thread lasts without renewal."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def queue_time(self) -> timedelta:
        """How long an input waits for the run in progress."""
        return timedelta(seconds=self.queue_seconds)

    @property
    def reflect_after(self) -> timedelta | None:
        """From which age on episodes are summarized in the background; ``None``: never."""
        return timedelta(days=self.reflect_days) if self.reflect_days else None

    @property
    def personal_kinds(self) -> tuple[str, ...]:
        """Which kinds of personal data are redacted."""
        return tuple(dict.fromkeys(self.redact.replace(",", " ").split()))

    @property
    def sealed(self) -> bool:
        """Whether items are encrypted."""
        return self.master_key is not None or self.master_key_file is not None

    def master_keys(self) -> tuple[str, str]:
        """Return the master keys as text, and the variable that they come from.

        Raises:
            SettingsError: Both variables are set, or the file cannot be read.
        """
        variable = "THREADKEEP_MASTER_KEY_FILE"
        if self.master_key is not None and self.master_key_file is not None:
            msg = f"THREADKEEP_MASTER_KEY and {variable} are both set; set one of them."
            raise SettingsError(msg, variable=variable)
        if self.master_key_file is None:
            return self.master_key.get_secret_value() if self.master_key else "", "THREADKEEP_MASTER_KEY"
        try:
            return self.master_key_file.expanduser().read_text("utf-8"), variable
        except (OSError, ValueError) as error:
            msg = f"{variable} names a file that cannot be read ({type(error).__name__}); name a file with the key."
            raise SettingsError(msg, variable=variable) from error

    @property
    def recall_timeout(self) -> timedelta:
        """Timeout of recall in a turn."""
        return timedelta(milliseconds=self.recall_timeout_ms)

    @property
    def under_langgraph_server(self) -> bool:
        """Whether a LangGraph server runs this process, with its own checkpointer and store."""
        return self.langgraph_dev.strip().lower() in _TRUTHY or self.langgraph_api_variant == "local_dev"

    @property
    def traced(self) -> bool:
        """Whether LangChain sends prompts and replies to LangSmith."""
        return self.tracing.strip().lower() in _TRUTHY

    @property
    def data_folder(self) -> Path:
        """Folder of the SQLite files."""
        return (self.data_dir or Path(platformdirs.user_data_dir("threadkeep", appauthor=False))).expanduser()

    @property
    def sqlite_path(self) -> Path:
        """The SQLite file of the memories."""
        return (self.store_sqlite_path or self.data_folder / "memory.sqlite3").expanduser()

    @property
    def unused_server(self) -> str | None:
        """A sentence about a server that is named but not used, as no storage type is set; ``None``: there is none."""
        servers = {"redis": "store_redis_url", "postgres": "store_postgres_dsn", "mongodb": "store_mongodb_uri"}
        named = [kind for kind, field in servers.items() if getattr(self, field) is not None]
        if self.store_type is not None or not named:
            return None
        variable = self.variable_of(servers[named[0]])
        return (
            f"{variable} is set and LANGGRAPH_STORE_TYPE is not, so this server is not used: "
            f"set LANGGRAPH_STORE_TYPE to {named[0]}, or to sqlite to keep memories in a file."
        )

    @property
    def vectors_path(self) -> Path:
        """The folder of FAISS's indexes."""
        return (self.vectors_folder or self.data_folder / "vectors").expanduser()

    @property
    def erasure_path(self) -> Path | None:
        """The file of the receipts of erasures; ``None``: memories in RAM need no receipts."""
        if self.erasure_log is not None:
            return self.erasure_log.expanduser()
        if self.store_type == "memory":
            return None
        if self.store_type in (None, "sqlite"):
            return self.sqlite_path.with_name(f"{self.sqlite_path.stem}-erasures.jsonl")
        return self.data_folder / "erasures.jsonl"

    @property
    def earlier_checkpoint_path(self) -> Path:
        """The SQLite file in which earlier versions kept the threads, unless the settings name another one."""
        return self.sqlite_path.with_name(f"{self.sqlite_path.stem}-checkpoints.sqlite3")

    @property
    def thread_path(self) -> Path | None:
        """The SQLite file of the threads; ``None``: they are kept elsewhere."""
        if (self.checkpoint_type or self.store_type or "sqlite") != "sqlite":
            return None
        if self.checkpoint_sqlite_path is not None:
            return self.checkpoint_sqlite_path.expanduser()
        if self.checkpoint_key is not None:
            return self.sqlite_path.with_name(f"{self.sqlite_path.stem}-threads.sqlite3")
        return self.sqlite_path


@dataclass(frozen=True, slots=True)
class Resolved:
    """One setting in force.

    Attributes:
        variable: The environment variable that sets it; the first of several.
        value: As text, secrets masked.
        origin: The variable that it came from, or ``default``.
        description: Its meaning and its values.
    """

    variable: str
    value: str
    origin: str
    description: str


def resolved(settings: Settings, *others: BaseSettings) -> list[Resolved]:
    """Return every setting with its value and its origin; those that are not the defaults come first.

    Args:
        settings: The settings of the library.
        others: Further settings from the same environment, such as the gateway's.
    """
    in_force = settings.variables_in_force(None)
    rows: list[Resolved] = []
    for each in (settings, *others):
        kind = type(each)
        for name, field in kind.model_fields.items():
            value = getattr(each, name)
            origin = _set_by(name, in_force, kind) or ("given" if name in each.model_fields_set else "default")
            rows.append(Resolved(variables_of(kind, name)[0], _shown(value), origin, field.description or ""))
    return sorted(rows, key=lambda row: row.origin == "default")


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return "********"
    return ",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)


def disable_onnxruntime_telemetry() -> None:
    """Switch the telemetry of ONNX Runtime off; call it before the package is imported.

    From 1.29 on it sends data to its maker and writes an id of this machine unless this variable is set at import;
    its own function to switch that off comes too late.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def named_variables(names: Iterable[str], environment: Mapping[str, str] | None = None) -> dict[str, SecretStr]:
    """Return the environment variables of *names* that are set and not empty: a TOML file's credentials."""
    environment = os.environ if environment is None else environment
    return {name: SecretStr(value) for name in names if (value := environment.get(name))}


def variables() -> list[tuple[str, ...]]:
    """Return the environment variables of every setting; of several names the first one wins."""
    return [_variables(name) for name in Settings.model_fields]


def variables_of(settings: type[BaseSettings], field: str) -> tuple[str, ...]:
    """Return the environment variables of *field*; the first one that is set wins."""
    alias = settings.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(map(str, alias.choices))
    return (str(alias) if alias else f"{settings.model_config.get('env_prefix', '')}{field}".upper(),)


def secret_file_variables(settings: type[BaseSettings]) -> dict[str, str]:
    """Return the variables that name the file of a secret, each with the variable of the secret itself."""
    fields = settings.model_fields
    secrets = [name for name, field in fields.items() if "SecretStr" in str(field.annotation)]
    own = {variable for name in fields if name.endswith("_file") for variable in variables_of(settings, name)}
    files = {f"{variable}_FILE": variable for name in secrets for variable in variables_of(settings, name)}
    return {name: variable for name, variable in files.items() if name not in own}


def load_settings(settings: type[AnySettings]) -> AnySettings:
    """Read *settings* from the environment, and from ``.env``, which the environment overrides.

    Raises:
        SettingsError: One sentence that names the variable, or the file where that cannot be read.
    """
    env_file = ENV_FILE if ENV_FILE.is_file() else None
    with _one_sentence(settings, env_file):
        return settings(_env_file=env_file)


def with_secret_files(sources: tuple[Any, ...], settings: type[BaseSettings]) -> tuple[Any, ...]:
    """Return the *sources* of a settings class, with the files of secrets behind the environment and ``.env``."""
    given, _, dotenv, *_ = sources
    in_file = () if dotenv.env_file is None else (dotenv,)
    return given, _Environment(settings), *in_file, _SecretFiles(settings, dotenv.env_file)


class _Environment(EnvSettingsSource):
    """Reads the variables that are set; the base class examines the type of every field, which takes milliseconds."""

    @override
    def __call__(self) -> dict[str, Any]:
        fields, known = self.settings_cls.model_fields, _fields_by_variable(self.settings_cls)
        values: dict[str, Any] = {}
        for name, key in set(map(known.__getitem__, known.keys() & self.env_vars.keys())):
            value, _, is_complex = self.get_field_value(fields[name], name)
            try:
                value = self.prepare_field_value(name, fields[name], value, is_complex)
            except ValueError as error:
                msg = f'The value of the field "{name}" cannot be parsed.'
                raise PydanticSettingsError(msg) from error
            values[key] = value
        return values


@cache
def _fields_by_variable(settings: type[BaseSettings]) -> dict[str, tuple[str, str]]:
    """Return, for each variable, its field and the key that pydantic takes the value by.

    Variables are in lower case unless case matters.
    """
    exact = settings.model_config.get("case_sensitive", False)
    known: dict[str, tuple[str, str]] = {}
    for name, field in settings.model_fields.items():
        variables = variables_of(settings, name)
        key = variables[0] if field.validation_alias else name
        known |= {variable if exact else variable.lower(): (name, key) for variable in variables}
    return known


class _SecretFiles(PydanticBaseSettingsSource):
    """Reads each secret ``X`` from the file that ``X_FILE`` names."""

    def __init__(self, settings: type[BaseSettings], env_file: Path | None) -> None:
        super().__init__(settings)
        self._env_file = env_file

    @override
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False  # fields are read by their files instead

    @override
    def __call__(self) -> dict[str, Any]:
        in_force = _environment(self._env_file)
        named = [name for name, path in in_force.items() if path and SECRET_FILE.search(name)]
        if not named:
            return {}
        files = secret_file_variables(self.settings_cls)
        return dict(self._read(files[name], name, in_force) for name in named if name in files)

    def _read(self, variable: str, file: str, in_force: Mapping[str, str | None]) -> tuple[str, str]:
        """Return the key and the value of the secret *variable*, which *file* names the file of."""
        fields = self.settings_cls.model_fields
        name = next(name for name in fields if variable in variables_of(self.settings_cls, name))
        for other in variables_of(self.settings_cls, name):
            if in_force.get(other):
                msg = f"{other} and {file} are both set; set one of them."
                raise SettingsError(msg, variable=file)
        secret = _read_secret(Path(in_force[file] or ""), file)
        return variable if fields[name].validation_alias else name, secret


def _read_secret(path: Path, variable: str) -> str:
    try:
        text = path.expanduser().read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        msg = f"{variable} names a file that cannot be read ({type(error).__name__}); name a file with the secret."
        raise SettingsError(msg, variable=variable) from error
    if not text:
        msg = f"{variable} names an empty file; write the secret into it."
        raise SettingsError(msg, variable=variable)
    return text


def _environment(env_file: Path | None, environment: Mapping[str, str] | None = None) -> dict[str, str | None]:
    from dotenv import dotenv_values

    in_file = dotenv_values(env_file) if env_file else {}
    return {**in_file, **(os.environ if environment is None else environment)}


@contextmanager
def _one_sentence(settings: type[BaseSettings], env_file: Path | None) -> Generator[None]:
    """Raise one error of ours for what the environment or the file has wrong."""
    try:
        yield
    except (ValidationError, PydanticSettingsError) as error:
        raise _to_settings_error(settings, error, _environment(env_file)) from None
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{env_file} cannot be read ({type(error).__name__}); save it as UTF-8 where this user may read it."
        raise SettingsError(msg) from error


@cache
def _choices(annotation: object) -> dict[str, object]:
    """Return the values of a Literal by their folded text, also of an optional one; otherwise nothing."""
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            return {str(choice).casefold(): choice for choice in get_args(part)}
    return {}


def _is_secret(field: FieldInfo) -> bool:
    return "SecretStr" in str(field.annotation)


def _variables(field: str) -> tuple[str, ...]:
    return variables_of(Settings, field)


def _set_by(field: str, in_force: Mapping[str, str | None], settings: type[BaseSettings] = Settings) -> str | None:
    files, own = secret_file_variables(settings), variables_of(settings, field)
    names = [name for variable in own for name in (variable, f"{variable}_FILE")]
    return next((name for name in names if (name in own or name in files) and in_force.get(name)), None)


def _to_settings_error(
    settings: type[BaseSettings], error: ValidationError | PydanticSettingsError, in_force: Mapping[str, str | None]
) -> SettingsError:
    if isinstance(error, PydanticSettingsError):  # JSON that cannot be parsed; its text names the field
        named = re.search(r'field "(\w+)"', str(error))
        place, shown, value = named[1] if named else "", "", None
    else:
        first = error.errors(include_url=False, include_context=False)[0]
        place, shown, value = str(first["loc"][0]), f" {str(first.get('input'))[:80]!r}", first.get("input")
    for name, field in settings.model_fields.items():
        names = variables_of(settings, name)
        if place == name or place in names:
            given = "" if _is_secret(field) else shown
            # Pydantic names the first of several variables, also if another one is set.
            holding = (one for one in names if value is not None and in_force.get(one) == value)
            variable = next(holding, place if place in names else names[0])
            return SettingsError(f"{variable} cannot be{given}. {field.description}", variable=variable)
    return SettingsError(f"{place}: {error}", variable=place)
