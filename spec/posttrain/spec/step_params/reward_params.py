"""Reward graphs and environments in the parameters of a step."""

from collections.abc import Mapping
from typing import Literal

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items, Pair
from posttrain.spec.step_params.generation_params import EndpointIdentity
from posttrain.spec.step_params.step_parameters import Number, omitted


class RewardNode(Document):
    """A node of a reward graph. The op's own class validates `params`."""

    id: str
    op: str
    # By name: {read: COLUMN}, {node: ID} or {value: CONSTANT}, or a list of them.
    operands: Mapping[str, Json]
    params: Mapping[str, Json]


class RewardGraphParams(Document):
    """A reward graph. The nodes are in dependency order."""

    # The types of the columns that the graph reads, by name.
    reads: Mapping[str, str]
    nodes: Items[RewardNode]
    # The node whose value is the reward.
    returns: str
    endpoints: Mapping[str, EndpointIdentity]


class EnvironmentParams(Document):
    """An environment. The environment's own class validates `params`."""

    type: str
    params: Mapping[str, Json]
    max_turns: int
    max_turn_tokens: int | None
    observation_template: str
    # The role of results of tool calls, in environments with tools.
    observation_role: Literal["tool", "user"] | None = omitted()
    timeout_seconds: float
    on_error: Literal["abstain", "fail"] | float
    # The columns of the data that an episode reads.
    columns: Items[str]
    # The smallest interval that contains every score of an episode.
    range: Pair[Number]
