"""Keys as other tools write them: what they are called here, and where they stand.

Whoever comes from TRL, axolotl, LLaMA-Factory, verl and the like writes the words that they know. An edit
distance does not lead from `lr` to `learning_rate`, nor from a file's top level to a stage's `params`.
"""

from collections.abc import Collection, Iterable

from posttrain.compiler.diagnosis.foreign_key_notes import CONTEXT_NOTES, FOREIGN_KEY_NOTES, KEY_LOCATIONS
from posttrain.compiler.diagnosis.foreign_keys import FOREIGN_KEYS, FOREIGN_REWARD_OPS
from posttrain.compiler.diagnosis.suggest import (
    closest_match,
    did_you_mean,
    edit_distance,
    format_choices,
    hint,
)
from posttrain.compiler.text.yaml_errors import find_lookalike

_OP_EXAMPLES = {
    "score": "`{score: {when: CONDITION, then: 1.0, else: 0.0}}`",
    "cases": "`{cases: {of: [{when: CONDITION, then: 1.0}], otherwise: 0.0}}`",
    "tokens": "`{tokens: {}}`",
    "ramp": "`{ramp: {of: {tokens: {}}, start: 768, end: 1024, after: -1}}`",
}


def suggest_key(word: str, legal: Iterable[str]) -> str | None:
    """The key that a person most likely meant by a word that is none here."""
    known, folded = list(legal), _normalize(word)
    if _context_note(folded, known):
        return None
    others = [ours for ours in native_keys(folded) if ours in known]
    if others:
        return others[0]
    meant = closest_match(word, known)
    # A word of others is meant as such, unless it is a slip of the pen from a key of ours.
    theirs = (
        meant
        and edit_distance(folded, meant, 1) > 1
        and (folded in FOREIGN_KEY_NOTES or trl_argument_hint(folded))
    )
    return None if theirs else meant


def key_hint(word: str, legal: Iterable[str], *, what: str) -> tuple[str, str | None]:
    """What to say of an unknown key, and what to put in its place, if that is plain."""
    known = sorted(set(legal) - {""})
    if here := _context_note(_normalize(word), known):
        return here, None
    meant = suggest_key(word, known)
    if not word.isascii() and (odd := find_lookalike(word)):
        return f"{odd}; {did_you_mean(meant, known, what) if meant else format_choices(known, what)}", meant
    if meant is None:
        return key_location_hint(word) or format_choices(known, what), None
    instead = FOREIGN_KEY_NOTES.get(_normalize(word), "")
    return "; ".join(filter(None, (instead, did_you_mean(meant, known, what)))), meant


def op_hint(word: str, legal: Iterable[str]) -> tuple[str, str | None]:
    """What to say of an unknown reward op, and what to put in its place, if that is plain."""
    known = sorted(legal)
    meant = next(
        (ours for ours, theirs in FOREIGN_REWARD_OPS.items() if _normalize(word) in theirs.split()), None
    )
    if meant not in known:
        return hint(word, known, what="reward ops")
    shape = _OP_EXAMPLES.get(meant)
    return did_you_mean(meant, known, "reward ops") + (f" it is written {shape}" if shape else ""), meant


def key_location_hint(word: str) -> str:
    """Where a key stands that has no meaning where it is; empty when that is not known."""
    folded = _normalize(word)
    if folded in FOREIGN_KEY_NOTES:
        return FOREIGN_KEY_NOTES[folded]
    for ours in (folded, *native_keys(folded)):
        for place, words in KEY_LOCATIONS.items():
            if ours in words.split():
                return f"`{ours}` stands under {place}"
    return trl_argument_hint(folded)


def trl_argument_hint(word: str) -> str:
    """What is written for an argument of TRL's; empty for any other word."""
    from posttrain.compiler.facts.fact_tables import load_table

    facts = load_table("trl")
    known = any(word in arguments for arguments in (facts["shared"], *facts["classes"].values()))
    return f"an argument of TRL's own: `trl: {{{word}: ...}}` in the stage" if known else ""


def native_keys(word: str) -> list[str]:
    """What a word of others is called here."""
    return [ours for ours, theirs in FOREIGN_KEYS.items() if word in theirs.split()]


def _context_note(word: str, legal: Collection[str]) -> str:
    """What a word means in the very place that is known by one of its keys."""
    return next((told[word] for key, told in CONTEXT_NOTES.items() if key in legal and word in told), "")


def _normalize(word: str) -> str:
    return word.strip().lower().replace("-", "_")
