"""What a Redis server does with what it has acknowledged: pure rules over what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping


def told(text: bytes) -> dict[str, str]:
    """Read a reply to ``INFO``."""
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines if name}


def advice(info: Mapping[str, str], config: Mapping[str, str]) -> list[str]:
    """Return what should be changed so that nothing acknowledged is lost, one sentence or two each.

    Args:
        info: What ``INFO`` says.
        config: What ``CONFIG GET`` says of ``appendfsync`` and ``save``; empty where the server does not tell.
    """
    return [sentence for sentence in (_role(info), _persistence(info, config), _eviction(info)) if sentence]


def _role(info: Mapping[str, str]) -> str | None:
    if info.get("role") != "slave" or info.get("slave_read_only") != "1":
        return None
    return "Redis is a read-only replica, and nothing can be remembered there. Give the address of the primary."


def _persistence(info: Mapping[str, str], config: Mapping[str, str]) -> str | None:
    if info.get("aof_enabled") == "0":
        lost = (
            "Redis keeps nothing on disk: a restart loses every memory."
            if config.get("save") == ""
            else "Redis writes snapshots only: a crash loses what was acknowledged since the last one."
        )
        return f"{lost} Set appendonly yes and appendfsync always."
    if "aof_enabled" not in info or "appendfsync" not in config:
        return "Redis does not say how it keeps data; see to appendonly yes and appendfsync always where it is run."
    lost = {
        "everysec": "Redis syncs its append-only file once a second: a power cut loses what was acknowledged in the "
        "last one or two.",
        "no": "Redis leaves it to the system when its append-only file is synced: a power cut loses what was "
        "acknowledged in the last half minute or so.",
    }.get(config["appendfsync"])
    return f"{lost} Set appendfsync always." if lost else None


def _eviction(info: Mapping[str, str]) -> str | None:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return None
    lost = (
        "Redis evicts any key once it has reached maxmemory, memories among them"
        if policy.startswith("allkeys-")
        else "Redis evicts keys with a time to live once it has reached maxmemory; memories have none, but threads may"
    )
    return f"{lost} (maxmemory-policy {policy}). Set maxmemory-policy noeviction."
