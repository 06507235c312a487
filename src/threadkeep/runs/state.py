"""The state that a job's graph shares: parallel nodes may write any of its fields at once."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages


def last_value(_: Any, new: Any) -> Any:
    """Let the last writer win; of parallel nodes that is the one that the graph runs last."""
    return new


class JobState(TypedDict, total=False):
    """What the nodes of a job read and write.

    Attributes:
        messages: The conversation; grows.
        extras: What one node hands to another; the last value wins.
        responses: What agents answered; grows, from parallel nodes, too.
        input_data: What the job was given; the last value wins.
        data: What tools and models brought; the last value wins.
        execution_variables: ``org_id``, ``workflow_id``, ``ticket_id``, the customer; the last value wins.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    extras: Annotated[dict[str, Any], last_value]
    responses: Annotated[list[dict[str, Any]], operator.add]
    input_data: Annotated[dict[str, Any], last_value]
    data: Annotated[dict[str, Any], last_value]
    execution_variables: Annotated[dict[str, Any], last_value]
