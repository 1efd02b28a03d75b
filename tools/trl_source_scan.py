"""Scans the sources of TRL, transformers and torch for the keys that they read from mappings.

For `trl_nested_table.py`. Finds the keys that a function reads from a mapping by name.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tools.nested_types import Keys, key_entry, keys_of_signature
from tools.trl_table import doc_sentence

_ROLLOUTS = ("trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer")
# The conversions from text to a value in the handler of an optimizer.
_CONVERSIONS = {"int": "integer", "float": "number", "bool": "text", "strtobool": "boolean"}
_TRUE = "in ('true', '1', 'yes')"


def _tree(part: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(part)))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def popped_keys(tree: ast.AST, mapping: str, by: Sequence[str] = ("pop",)) -> list[str]:
    """The keys that are read from a mapping: `mapping.pop("key", ...)`."""
    asked = {f"{mapping}.{verb}" for verb in by}
    return [
        call.args[0].value
        for call in _calls(tree)
        if ast.unparse(call.func) in asked and call.args and isinstance(call.args[0], ast.Constant)
    ]


def generation_keys(within: Mapping[str, str]) -> Keys:
    """The keys are in the constructor of GenerationConfig, their types in its docstring."""
    from transformers import GenerationConfig

    names = popped_keys(_tree(GenerationConfig.__init__), "kwargs")
    documented = _documented_arguments(inspect.getdoc(GenerationConfig) or "")
    return {
        name: key_entry(_documented_type(kind), doc_sentence({"help": words}), within.get(name))
        for name in names
        if not name.startswith("_")
        for kind, words in [documented.get(name, ("", ""))]
    }


def _documented_arguments(text: str) -> dict[str, tuple[str, str]]:
    """The type and the description of each documented key: `key (type):` and the following text."""
    heads = list(re.finditer(r"^ +(\w+) \(([^\n]*)\):?\n", text, re.MULTILINE))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head[1]: (head[2], text[head.end() : end]) for head, end in zip(heads, ends, strict=True)}


def _documented_type(words: str) -> Any:
    """Parse a documented type: `int` or `list[int]`, *optional*."""
    known: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "dict": dict[str, Any]}
    if not words or "dict[tuple" in words:  # a list of pairs is also valid
        return inspect.Parameter.empty
    lists = {"list[list[int]]": list[list[int]], "list[int]": list[int], "list[str]": list[str]}
    kinds = [kind for name, kind in lists.items() if name in words and f"[{name}" not in words]
    kinds += [list[float]] if "tuple(" in words else []
    plain = re.sub(r"list\[.*?\]+|tuple\(.*?\)|, defaults? to .*", "", words)
    kinds += [kind for name, kind in known.items() if re.search(rf"\b{name}\b", plain)]
    made: Any = None
    for kind in kinds:
        made = kind if made is None else made | kind
    optional = "*optional*" in words and made is not None
    return made | None if optional else made if made is not None else type


def chat_template_keys() -> Keys:
    """The template arguments that the trainers pass in addition to the variables, and the render options."""
    from transformers import PreTrainedTokenizerBase

    own = keys_of_signature(PreTrainedTokenizerBase.apply_chat_template)
    given = {
        keyword.arg
        for module in _ROLLOUTS
        for call in _calls(_tree(importlib.import_module(module)))
        if any(one.arg is None and "chat_template_kwargs" in ast.unparse(one.value) for one in call.keywords)
        for keyword in call.keywords
        if keyword.arg is not None
    }
    return {**{name: key_entry(inspect.Parameter.empty) for name in given}, **own}


def gradient_checkpointing_keys(configuration: type) -> Keys:
    """The keys of `gradient_checkpointing_kwargs`: some are for transformers, the others for torch. A trainer
    that disables checkpointing temporarily enables it again with the keys for torch only."""
    from torch.utils import checkpoint
    from transformers import PreTrainedModel

    module = configuration.__module__.replace("_config", "_trainer")
    source = _tree(importlib.import_module(module))
    torchs = keys_of_signature(checkpoint.checkpoint, without=("function", "context_fn"))
    torchs["determinism_check"]["choices"] = sorted(checkpoint._allowed_determinism_checks_to_fns)
    torchs |= {name: key_entry(bool) for name in popped_keys(_tree(checkpoint.checkpoint), "kwargs")}
    if any(_forwards_checkpointing_kwargs(call) for call in _calls(source)):
        return torchs
    enabled = keys_of_signature(
        PreTrainedModel.gradient_checkpointing_enable, without=("gradient_checkpointing_kwargs",)
    )
    words = {node.value for node in ast.walk(source) if isinstance(node, ast.Constant)}
    return {**torchs, **enabled, **({"selective": key_entry(bool)} if "selective" in words else {})}


def _forwards_checkpointing_kwargs(call: ast.Call) -> bool:
    if ast.unparse(call.func) not in ("disable_gradient_checkpointing", "unwrap_model_for_generation"):
        return False
    return any("gradient_checkpointing_kwargs" in ast.unparse(one) for one in (*call.args, *call.keywords))


def optimizer_keys() -> dict[str, Keys]:
    """The keys of `optim_args` that the handler of each optimizer reads."""
    from transformers.trainer_optimizer import _OPTIMIZER_HANDLERS as HANDLERS

    return {str(name.value): dict(_handler_keys(name.value, handler)) for name, handler in HANDLERS.items()}


def _handler_keys(optimizer: str, handler: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for statement in _reachable_statements(_tree(handler).body[0], optimizer):
        source = ast.unparse(statement)
        names = popped_keys(statement, "ctx.optim_args", ("pop", "get"))
        names += [
            node.slice.value
            for node in ast.walk(statement)
            if isinstance(node, ast.Subscript)
            and ast.unparse(node.value) == "ctx.optim_args"
            and isinstance(node.slice, ast.Constant)
        ]
        if isinstance(statement, ast.For) and "ctx.optim_args[key]" in source:
            names += ast.literal_eval(statement.iter)
        for name in names:
            yield name, _converted_type(statement, name)


def _reachable_statements(node: ast.AST, optimizer: str) -> Iterator[ast.stmt]:
    """The statements that run for an optimizer, by the conditions on its name."""
    for statement in ast.iter_child_nodes(node):
        if isinstance(statement, ast.If | ast.Try):
            test = ast.unparse(statement.test) if isinstance(statement, ast.If) else "True"
            named = re.fullmatch(r"'(\w+)' in optim_name", test)
            taken = statement.body if named is None or named[1] in optimizer else statement.orelse
            yield from _reachable_statements(ast.Module(body=taken, type_ignores=[]), optimizer)
            if named is None and isinstance(statement, ast.If):
                yield from _reachable_statements(
                    ast.Module(body=statement.orelse, type_ignores=[]), optimizer
                )
        elif isinstance(statement, ast.stmt):
            yield statement


def _converted_type(statement: ast.stmt, name: str) -> dict[str, Any]:
    """The type to which a handler converts the text of a key. `bool` of any text is true."""
    for call in _calls(statement):
        made = ast.unparse(call.func)
        inner = ast.unparse(call.args[0]) if call.args else ""
        of_it = f"'{name}'" in inner or "optim_args[key]" in inner
        if made in _CONVERSIONS and of_it and inner.startswith("ctx.optim_args"):
            return (
                {"type": ["text"], "choices": ["true"]} if made == "bool" else {"type": [_CONVERSIONS[made]]}
            )
    closed = _TRUE in ast.unparse(statement)
    return {"type": ["boolean"] if closed else ["text"]}
