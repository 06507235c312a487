"""Performs the curl commands of a text with a test client, with the headers that curl sends."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import Any, Final

_COMMAND: Final = re.compile(r"^ +(curl (?:.*\\\n)*.*)$", re.MULTILINE)


def perform_commands(text: str, client: Any) -> list[Any]:
    """Return the responses to the curl commands of *text*, in their order."""
    return [_perform(command, client) for command in _COMMAND.findall(text)]


def _perform(command: str, client: Any) -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data")
    parser.add_argument("url")
    given = parser.parse_args(shlex.split(command.replace("\\\n", " "))[1:])
    headers = {"content-type": "application/x-www-form-urlencoded"} if given.data else {}
    headers |= dict(map(_pair, given.headers))
    path = "/" + given.url.partition("/")[2]
    return client.request("POST" if given.data else "GET", path, headers=headers, content=given.data)


def _pair(header: str) -> tuple[str, str]:
    name, _, value = header.partition(": ")
    return name.lower(), value
