"""Suggestions for unknown keys: the intended key, the text to write instead, or the section of the key.

Users of TRL, axolotl, LLaMA-Factory, verl and other tools write the keys of those tools. Edit distance cannot
map `lr` to `learning_rate`; the table `facts/foreign_keys.json` does.
"""

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from posttrain.compiler.diagnosis.key_locations import find_key_location
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.text.yaml_errors import find_lookalike
from posttrain.spec.suggestions import (
    closest_match,
    did_you_mean,
    edit_distance,
    format_choices,
    hint,
)

_OP_EXAMPLES = {
    "score": "`{score: {when: CONDITION, then: 1.0, else: 0.0}}`",
    "cases": "`{cases: {of: [{when: CONDITION, then: 1.0}], otherwise: 0.0}}`",
    "tokens": "`{tokens: {}}`",
    "ramp": "`{ramp: {of: {tokens: {}}, start: 768, end: 1024, after: -1}}`",
}


def suggest_key(word: str, legal: Iterable[str]) -> str | None:
    """The legal key that an unknown key most likely means."""
    known, folded = list(legal), _normalize(word)
    if _context_note(folded, known):
        return None
    renamed = [ours for ours in native_keys(folded) if ours in known]
    if renamed:
        return renamed[0]
    closest = closest_match(word, known)
    # A key of another tool or of another section is not a typo, unless it is one edit away from a legal key.
    foreign = (
        closest
        and edit_distance(folded, closest, 1) > 1
        and (folded in _notes() or trl_argument_hint(folded) or find_key_location((folded,), known))
    )
    return None if foreign else closest


def key_hint(word: str, legal: Iterable[str], *, what: str) -> tuple[str, str | None]:
    """The help for an unknown key, and its replacement if it is unambiguous."""
    known = sorted(set(legal) - {""})
    if note := _context_note(_normalize(word), known):
        return note, None
    meant = suggest_key(word, known)
    if not word.isascii() and (odd := find_lookalike(word)):
        return f"{odd}; {did_you_mean(meant, known, what) if meant else format_choices(known, what)}", meant
    if meant is None:
        return key_location_hint(word, known) or format_choices(known, what), None
    note = _notes().get(_normalize(word), "")
    return "; ".join(filter(None, (note, did_you_mean(meant, known, what)))), meant


def value_hint(key: str, text: str) -> tuple[str, str | None]:
    """The help for a value that other tools have for a key, and its replacement; empty for other values."""
    row = _table()["values"].get(key, {}).get(text.lower(), {})
    replace = row.get("write")
    return f"write `{replace}`" if replace else row.get("note", ""), replace


def op_hint(word: str, legal: Iterable[str]) -> tuple[str, str | None]:
    """The help for an unknown reward op, and its replacement if it is unambiguous."""
    known, folded = sorted(legal), _normalize(word)
    meant = next((ours for ours, words in foreign_ops().items() if folded in words.split()), None)
    if meant not in known:
        return hint(word, known, what="reward ops")
    example = _OP_EXAMPLES.get(meant)
    return did_you_mean(meant, known, "reward ops") + (f" write {example}" if example else ""), meant


def key_location_hint(word: str, legal: Collection[str] = ()) -> str:
    """The section to which a misplaced key belongs; empty if unknown. `legal` are the keys of its section."""
    folded = _normalize(word)
    if folded in _notes():
        return _notes()[folded]
    return find_key_location((folded, *native_keys(folded)), legal) or trl_argument_hint(folded)


def trl_argument_hint(word: str) -> str:
    """The help for an argument of TRL; empty for other words."""
    facts = load_table("trl")
    known = any(word in arguments for arguments in (facts["shared"], *facts["classes"].values()))
    return f"this is a TRL argument: write `trl: {{{word}: ...}}` in the stage" if known else ""


def native_keys(word: str) -> list[str]:
    """The recipe keys for a key of another tool."""
    return [ours for ours, words in _table()["renamed"].items() if word in words.split()]


def foreign_ops() -> Mapping[str, str]:
    """The names of reward ops in other tools, by the name of the op."""
    return _table()["reward_ops"]


def _table() -> Mapping[str, Any]:
    return load_table("foreign_keys")


@functools.cache
def _notes() -> Mapping[str, str]:
    return {word: row["note"] for row in _table()["notes"] for word in row["words"].split()}


def _context_note(word: str, legal: Collection[str]) -> str:
    """The note for a word in a context, which is identified by one of its legal keys."""
    context = _table()["context"].items()
    return next((notes[word] for key, notes in context if key in legal and word in notes), "")


def _normalize(word: str) -> str:
    return word.strip().lower().replace("-", "_")
