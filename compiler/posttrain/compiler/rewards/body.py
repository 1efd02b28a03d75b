"""The body of a reward op as written: which of its keys are operands, and which are parameters."""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.reading.validate import UNKNOWN_KEY, validate
from posttrain.compiler.rewards.codes import BAD_NODE
from posttrain.compiler.text.tree import Mapped, Path, at, renamed
from posttrain.spec.declared import keys_of
from posttrain.spec.extension import Params, RewardOp
from posttrain.spec.record import record


@record(kw_only=True)
class Body:
    path: Path
    # The operands as written, and whether they stand under their own names.
    given: Mapping[str, Any]
    named: bool
    # None when they do not fit; that was reported.
    params: Params | None
    # Keys that mean nothing here were reported; `meant` holds the operands that they stood for.
    mistaken: bool
    meant: frozenset[str]

    def at(self, operand: str) -> Path:
        return (*self.path, operand) if self.named else self.path


def read_body(op: RewardOp, body: Any, path: Path, findings: Findings) -> Body:
    """Tell operands from parameters, and report keys that are neither."""
    given, named = operands_of(op, body)
    if isinstance(body, list) and _is_no_list(op):
        operands = ", ".join(f"{name}: ..." for name, one in op.operands.items() if one.required)
        message = f"`{op.name}` takes its operands by name"
        findings.add(BAD_NODE, path, message, help=f"write {{{operands}}}")
        taken, bare = frozenset(op.operands), Mapped({}, at(findings.root, path)[0].span)
        params = validate(op.params, bare, path, Findings())
        return Body(path=path, given={}, named=True, params=params, mistaken=True, meant=taken)
    legal = (*op.operands, *keys_of(op.params))
    unknown = [key for key in given if key not in legal] if named else []
    meant = {key: _report(key, legal, (*path, key), findings) for key in unknown}
    for key, ours in meant.items():
        findings.attach(renamed(findings.root, (*path, key), ours))
    if unknown:  # what was meant is checked as if it had been written
        taken = {meant.get(key, key): value for key, value in given.items()}
        given = {key: value for key, value in taken.items() if key is not None}
    node = at(findings.root, path)[0]
    own = {
        key: entry
        for key, entry in (node.entries.items() if named and isinstance(node, Mapped) else ())
        if key not in op.operands
    }
    params = validate(op.params, Mapped(own, node.span), path, findings)
    kept = frozenset(name for name in meant.values() if name)
    return Body(path=path, given=given, named=named, params=params, mistaken=bool(unknown), meant=kept)


def _is_no_list(op: RewardOp) -> bool:
    """Whether a list can stand for none of its operands."""
    operand = op.operands.get(op.shorthand)
    return len(op.operands) > 1 and (operand is None or not (operand.many or operand.fields or operand.named))


def _report(key: str, legal: tuple[str, ...], path: Path, findings: Findings) -> str | None:
    from posttrain.compiler.diagnosis.synonyms import key_hint

    help, meant = key_hint(key, legal, what="operands and parameters")
    findings.add(UNKNOWN_KEY, path, f"unknown key `{key}`", key=True, help=help, replace=meant)
    return meant


def operands_of(op: RewardOp, body: Any) -> tuple[Mapping[str, Any], bool]:
    """The keys of a body; a body that has none of the op's keys stands for the shorthand operand."""
    if isinstance(body, dict):
        fields = cast(dict[str, Any], body)
        known = {*op.operands, *keys_of(op.params)}
        nested = len(fields) == 1 and not known & set(fields) and op.shorthand in op.operands
        if not nested:
            return fields, True
    return {op.shorthand: body}, False
