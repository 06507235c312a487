"""What the programs of tests import: only the process that they fork from imports this module."""

# ruff: noqa: F401

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
from pathlib import Path

import langchain.agents
import langchain_openai
import psycopg_pool  # is imported when a storage connects
import pymongo
import redis.asyncio
import typer.main

import tests.capture.world
import tests.checkpoints.checkpoints
import threadkeep.cli.service
import threadkeep.mcp_server.stdio
import threadkeep.storage.mongodb.storage
import threadkeep.storage.postgres.storage
import threadkeep.storage.redis.storage
import threadkeep.storage.sqlite.storage
from tests.command_line import built_command
from tests.conftest import OTHERS, PREFIXES
from threadkeep.cli.main import app
from threadkeep.gateway.serve import _require_usable
from threadkeep.gateway.settings import GatewaySettings

for name in [*os.environ]:  # those of the developer, or of the test that is the first to start a program
    if name.startswith(PREFIXES) or name in OTHERS:
        del os.environ[name]
os.environ.update(LANGGRAPH_STORE_TYPE="memory", EMBEDDINGS_PROVIDER="none", THREADKEEP_SINGLE_USER="ana")
with tempfile.TemporaryDirectory() as folder:
    agent = "def graph(tk):\n    return tk.per_run_owner().graph(model=ScriptedModel())\n"
    Path(folder, "preloaded_agent.py").write_text(f"from threadkeep.testing import ScriptedModel\n\n{agent}")
    sys.path.insert(0, folder)
    asyncio.run(_require_usable("preloaded_agent:graph", GatewaySettings.load()))
    sys.path.remove(folder)
typer.main.get_command = built_command  # to build all commands takes a program a tenth of a second
built_command(app)
gc.collect()
gc.freeze()
