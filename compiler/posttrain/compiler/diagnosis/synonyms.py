"""Keys as other tools write them: what they are called here, and where they stand.

Whoever comes from TRL, axolotl, LLaMA-Factory, verl and the like writes the words that they know. An edit
distance does not lead from `lr` to `learning_rate`, nor from a file's top level to a stage's `params`.
"""

from collections.abc import Collection, Iterable

from posttrain.compiler.diagnosis.instead import HERE, INSTEAD, PLACES
from posttrain.compiler.diagnosis.suggest import edits, hint, listed, nearest, proposed
from posttrain.compiler.diagnosis.words import OPS, OTHERS
from posttrain.compiler.text.unreadable import lookalike_in

_SHAPES = {
    "score": "`{score: {when: CONDITION, then: 1.0, else: 0.0}}`",
    "cases": "`{cases: {of: [{when: CONDITION, then: 1.0}], otherwise: 0.0}}`",
    "tokens": "`{tokens: {}}`",
    "ramp": "`{ramp: {of: {tokens: {}}, start: 768, end: 1024, after: -1}}`",
}


def key_meant(word: str, legal: Iterable[str]) -> str | None:
    """The key that a person most likely meant by a word that is none here."""
    known, folded = list(legal), _folded(word)
    if _here(folded, known):
        return None
    others = [ours for ours in ours_of(folded) if ours in known]
    if others:
        return others[0]
    meant = nearest(word, known)
    # A word of others is meant as such, unless it is a slip of the pen from a key of ours.
    theirs = meant and edits(folded, meant, 1) > 1 and (folded in INSTEAD or of_trl(folded))
    return None if theirs else meant


def key_hint(word: str, legal: Iterable[str], *, what: str) -> tuple[str, str | None]:
    """What to say of an unknown key, and what to put in its place, if that is plain."""
    known = sorted(set(legal) - {""})
    if here := _here(_folded(word), known):
        return here, None
    meant = key_meant(word, known)
    if not word.isascii() and (odd := lookalike_in(word)):
        return f"{odd}; {proposed(meant, known, what) if meant else listed(known, what)}", meant
    if meant is None:
        return elsewhere(word) or listed(known, what), None
    instead = INSTEAD.get(_folded(word), "")
    return "; ".join(filter(None, (instead, proposed(meant, known, what)))), meant


def op_hint(word: str, legal: Iterable[str]) -> tuple[str, str | None]:
    """What to say of an unknown reward op, and what to put in its place, if that is plain."""
    known = sorted(legal)
    meant = next((ours for ours, theirs in OPS.items() if _folded(word) in theirs.split()), None)
    if meant not in known:
        return hint(word, known, what="reward ops")
    shape = _SHAPES.get(meant)
    return proposed(meant, known, "reward ops") + (f" it is written {shape}" if shape else ""), meant


def elsewhere(word: str) -> str:
    """Where a key stands that has no meaning where it is; empty when that is not known."""
    folded = _folded(word)
    if folded in INSTEAD:
        return INSTEAD[folded]
    for ours in (folded, *ours_of(folded)):
        for place, words in PLACES.items():
            if ours in words.split():
                return f"`{ours}` stands under {place}"
    return of_trl(folded)


def of_trl(word: str) -> str:
    """What is written for an argument of TRL's; empty for any other word."""
    from posttrain.compiler.facts.tables import table

    facts = table("trl")
    known = any(word in arguments for arguments in (facts["shared"], *facts["classes"].values()))
    return f"an argument of TRL's own: `trl: {{{word}: ...}}` in the stage" if known else ""


def ours_of(word: str) -> list[str]:
    """What a word of others is called here."""
    return [ours for ours, theirs in OTHERS.items() if word in theirs.split()]


def _here(word: str, legal: Collection[str]) -> str:
    """What a word means in the very place that is known by one of its keys."""
    return next((told[word] for key, told in HERE.items() if key in legal and word in told), "")


def _folded(word: str) -> str:
    return word.strip().lower().replace("-", "_")
