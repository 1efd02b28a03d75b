"""Parses the body of a reward op: which keys are operands, and which are parameters."""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.validation_diagnostics import UNKNOWN_KEY, validate
from posttrain.compiler.rewards.reward_codes import BAD_NODE
from posttrain.compiler.text.yaml_tree import KeyPath, MappingNode, node_at, rename_key
from posttrain.spec.declaration_fields import keys_of
from posttrain.spec.extension import Params, RewardOp
from posttrain.spec.record import record


@record(kw_only=True)
class OpArguments:
    path: KeyPath
    # The operands as written, and whether they are given by name.
    written: Mapping[str, Any]
    by_name: bool
    # None if they are invalid, which was reported.
    params: Params | None
    # Whether unknown keys were reported; `intended` holds the operands that were suggested for them.
    has_errors: bool
    intended: frozenset[str]

    def operand_path(self, operand: str) -> KeyPath:
        return (*self.path, operand) if self.by_name else self.path


def parse_arguments(op: RewardOp, body: Any, path: KeyPath, diagnostics: Diagnostics) -> OpArguments:
    """Separate operands from parameters, and report unknown keys."""
    given, named = written_operands(op, body)
    if isinstance(body, list) and _takes_no_list(op):
        operands = ", ".join(f"{name}: ..." for name, one in op.operands.items() if one.required)
        message = f"`{op.name}` takes its operands by name"
        diagnostics.add(BAD_NODE, path, message, help=f"write {{{operands}}}")
        taken, bare = frozenset(op.operands), MappingNode({}, node_at(diagnostics.root, path)[0].span)
        params = validate(op.params, bare, path, Diagnostics())
        return OpArguments(
            path=path, written={}, by_name=True, params=params, has_errors=True, intended=taken
        )
    legal = (*op.operands, *keys_of(op.params))
    unknown = [key for key in given if key not in legal] if named else []
    meant = {key: _report_unknown_key(key, legal, (*path, key), diagnostics) for key in unknown}
    for key, ours in meant.items():
        diagnostics.set_root(rename_key(diagnostics.root, (*path, key), ours))
    if unknown:  # the suggested keys are checked instead
        taken = {meant.get(key, key): value for key, value in given.items()}
        given = {key: value for key, value in taken.items() if key is not None}
    node = node_at(diagnostics.root, path)[0]
    own = {
        key: entry
        for key, entry in (node.entries.items() if named and isinstance(node, MappingNode) else ())
        if key not in op.operands
    }
    params = validate(op.params, MappingNode(own, node.span), path, diagnostics)
    names = frozenset(name for name in meant.values() if name)
    return OpArguments(
        path=path, written=given, by_name=named, params=params, has_errors=bool(unknown), intended=names
    )


def _takes_no_list(op: RewardOp) -> bool:
    """Return whether none of the operands can be written as a list."""
    operand = op.operands.get(op.shorthand)
    return len(op.operands) > 1 and (operand is None or not (operand.many or operand.fields or operand.named))


def _report_unknown_key(
    key: str, legal: tuple[str, ...], path: KeyPath, diagnostics: Diagnostics
) -> str | None:
    from posttrain.compiler.diagnosis.key_suggestions import key_hint

    help, meant = key_hint(key, legal, what="operands and parameters")
    diagnostics.add(UNKNOWN_KEY, path, f"unknown key `{key}`", key=True, help=help, replace=meant)
    return meant


def written_operands(op: RewardOp, body: Any) -> tuple[Mapping[str, Any], bool]:
    """Return the keys of a body. A body without any key of the op is its shorthand operand."""
    if isinstance(body, dict):
        fields = cast(dict[str, Any], body)
        known = {*op.operands, *keys_of(op.params)}
        nested = len(fields) == 1 and not known & set(fields) and op.shorthand in op.operands
        if not nested:
            return fields, True
    return {op.shorthand: body}, False
