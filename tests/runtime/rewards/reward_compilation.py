"""Compiles a reward in YAML, and scores rows with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from posttrain.compiler.rewards.graph import RewardGraph as Compiled
from posttrain.compiler.rewards.standalone_reward import CompiledReward, compile_reward
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.rewards.engine.graph import Graph, Scores

LIBRARY = Path(__file__).parents[3] / "recipes"


def compile_yaml_reward(
    reward: Mapping[str, Any], files: Mapping[str, bytes] | None = None, **sections: Any
) -> CompiledReward:
    """Compile a reward. `sections` are further sections of the recipe."""
    import io

    text = io.StringIO()
    YAML(typ="safe").dump({**sections, "rewards": {"it": dict(reward)}}, text)
    source = SourceFile("recipe.yaml", text.getvalue().encode())
    return compile_reward(CompileRequest(source=source, catalog=CATALOG, read=dict(files or {}).get), "it")


def compiled_graph(reward: Mapping[str, Any], **sections: Any) -> Compiled:
    found = compile_yaml_reward(reward, **sections)
    assert found.graph is not None, found.diagnostics
    return found.graph


def codes(found: CompiledReward) -> list[str]:
    return [diagnostic.code for diagnostic in found.diagnostics]


def evaluate_graph(
    graph: Compiled, columns: Mapping[str, Sequence[Any]], groups: Sequence[int] | None = None
) -> Scores:
    ready = Graph.from_plan(graph.step_params(), {}, graph.endpoint_access())
    return ready.evaluate({name: list(column) for name, column in columns.items()}, groups)


def library_reward(file: str, name: str, *settings: tuple[str, str]) -> Compiled:
    """A reward of the library, used with `extends`."""
    text = f"recipe: 1\nname: user\nextends: shared/{file}\n"
    files = {f"shared/{file}": (LIBRARY / file).read_bytes()}
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=files.get, overrides=settings
    )
    found = compile_reward(request, name)
    assert found.diagnostics == ()
    assert found.graph is not None
    return found.graph
