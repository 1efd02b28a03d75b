"""Arguments under `trl:`, held to the table of the pinned release: no import of TRL is needed."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.checks.examples import training
from posttrain.compiler.checks.owned import owner_of
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.facts.tables import table
from posttrain.compiler.reading.validate import describe
from posttrain.compiler.text.tree import at
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, trl: {%s}}"
UNKNOWN_ARGUMENT = Code(
    "PT0621",
    "an argument that TRL does not have",
    "error",
    "`trl` passes arguments to the trainer's configuration class as they are. This one is none of the"
    " pinned release's, so the trainer would refuse it after the model is loaded.",
    wrong=training(_STAGE % "adam_beta3: 0.9"),
    right=training(_STAGE % "adam_beta2: 0.95"),
)
WRONG_ARGUMENT = Code(
    "PT0622",
    "a value that an argument of TRL does not take",
    "error",
    "The argument exists, and takes another type or other values. TRL itself finds some of these only"
    " when they are used, after the first batch.",
    wrong=training(_STAGE % "adam_beta2: high"),
    right=training(_STAGE % "adam_beta2: 0.95"),
)
OWNED_ARGUMENT = Code(
    "PT0623",
    "an argument of TRL that is not given here",
    "error",
    "posttrain sets this argument itself, from a parameter of the stage or from elsewhere in the recipe."
    " Given twice, one of the two would be ignored; and some would break the promise that a killed"
    " stage resumes exactly.",
    wrong=training(_STAGE % "learning_rate: 1.0e-4"),
    right=training("{train: sft, model: base, data: sums.train, params: {learning_rate: 1.0e-4}}"),
)
CODES = (UNKNOWN_ARGUMENT, WRONG_ARGUMENT, OWNED_ARGUMENT)
# What a value of the tree is called in the table; a whole number also stands for a number.
_WRITTEN: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "text"),
    (dict, "mapping"),
)
_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "text": "text",
    "mapping": "a mapping",
    "null": "null",
}


def arguments_of(kind: str) -> Mapping[str, Any]:
    """The arguments of a configuration class of TRL, by name."""
    facts = table("trl")
    return {**facts["shared"], **facts["classes"][kind]}


def check_trl(subject: Subject, findings: Findings) -> None:
    if not subject.stage.trl:
        return
    kind = subject.method.trl
    if kind is None:
        message = f"`{subject.method.name}` does not stand on TRL, so it takes no arguments of it"
        findings.add(UNKNOWN_ARGUMENT, (*subject.path, "trl"), message, key=True)
        return
    known = arguments_of(kind)
    for name, value in subject.stage.trl.items():
        owner = owner_of(name, kind)
        if owner is not None:
            message = f"`{name}` is not given under `trl`"
            findings.add(OWNED_ARGUMENT, (*subject.path, "trl", name), message, key=True, help=owner)
        elif name not in known:
            _unknown(subject, name, known, findings)
        else:
            _check_value(subject, name, value, known[name], findings)


def _unknown(subject: Subject, name: str, known: Mapping[str, Any], findings: Findings) -> None:
    release = table("trl")["release"]["trl"]
    help, meant = hint(name, known, what="arguments")
    owner = owner_of(meant, subject.method.trl or "") if meant else None
    if owner is not None:
        help, meant = f"{help} {owner}", None
    message = f"`{subject.method.trl}` of TRL {release} has no argument `{name}`"
    findings.add(UNKNOWN_ARGUMENT, (*subject.path, "trl", name), message, key=True, help=help, replace=meant)


def _check_value(
    subject: Subject, name: str, value: Any, entry: Mapping[str, Any], findings: Findings
) -> None:
    path = (*subject.path, "trl", name)
    if not _fits(value, entry["type"]):
        wanted = " or ".join(_shown(kind) for kind in entry["type"])
        found = describe(at(findings.root, path)[0])
        message = f"`{name}` takes {wanted}; this is {found}"
        findings.add(WRONG_ARGUMENT, path, message, help=entry["doc"])
    elif isinstance(value, str) and value not in entry.get("choices", (value,)):
        help, meant = hint(value, entry["choices"], what="values here")
        message = f"`{value}` is none of the values that `{name}` takes"
        findings.add(WRONG_ARGUMENT, path, message, help=help, replace=meant)


def _fits(value: Any, kinds: list[str]) -> bool:
    if value is None:
        return "null" in kinds
    if isinstance(value, list):
        inner = [kind[5:-1] for kind in kinds if kind.startswith("list<")]
        return bool(inner) and all(_fits(item, inner) for item in value)
    written = next((name for kind, name in _WRITTEN if isinstance(value, kind)), "")
    return written in kinds or (written == "integer" and "number" in kinds)


def _shown(kind: str) -> str:
    return f"a list of {_WORDS[kind[5:-1]]}" if kind.startswith("list<") else _WORDS[kind]
