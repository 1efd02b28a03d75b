"""The natural language of a text."""

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import Field

from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp
from posttrain.spec.field_types import Items

# The languages that the model can identify, as ISO 639 codes: the two-letter code if there is one.
# fmt: off
LANGUAGES = frozenset((
    "ace", "af", "am", "an", "ar", "as", "az", "ba", "bcl", "be", "bg", "bn", "br", "bs", "ca", "crh", "cs",
    "cy", "da", "de", "dz", "el", "en", "eo", "es", "et", "eu", "ext", "fa", "fi", "fo", "fr", "fuv", "fy",
    "ga", "gcf", "gcr", "gd", "gl", "gom", "grc", "gu", "gug", "guw", "ha", "hbo", "he", "hi", "hr", "ht",
    "hu", "hy", "id", "ig", "is", "it", "ja", "jv", "ka", "kab", "kik", "kk", "km", "kn", "ko", "ku", "ky",
    "la", "lb", "lg", "lij", "ln", "lo", "lt", "lv", "mg", "mk", "ml", "mn", "mr", "ms", "mt", "my", "ne",
    "nl", "no", "nso", "oc", "om", "or", "pa", "pcm", "pl", "ps", "pt", "qu", "ro", "ru", "rw", "sa", "se",
    "si", "sk", "sl", "sn", "so", "sq", "sr", "st", "sv", "sw", "ta", "te", "tg", "th", "tk", "tl", "tr",
    "tt", "ug", "uk", "ur", "uz", "vec", "vi", "vo", "wa", "xh", "yo", "zh", "zu",
))
# fmt: on
# Labels of the model that belong to one macrolanguage of ISO 639-3.
_MACROLANGUAGES = {
    "wuu": "zh",
    "yue": "zh",
    "ary": "ar",
    "arz": "ar",
    "nn": "no",
    "sdh": "ku",
    "uzs": "uz",
    "ltg": "lv",
}
_NO_LANGUAGE = "zxx"  # the ISO 639 code for no linguistic content

# Parts of a text that are in no language. Each repeat is bounded, so that matching time is linear.
_NON_PROSE = re.compile(
    r"`[^`\n]{1,500}`"
    r"|\$\$[^$]{1,2000}\$\$|\$(?=\S)[^$\n]{1,500}(?<=\S)\$(?!\d)"
    r"|\\\([^)]{1,500}\\\)|\\\[[^\]]{1,2000}\\\]|\\[A-Za-z]{1,40}"
    r"|</?[A-Za-z|][^<>\n]{0,200}>|https?://\S+|www\.\S+"
)
_FENCE = re.compile(r"`{3,}|~{3,}")


class Language(Params):
    languages: Items[str] = Field(
        default=(),
        description="The expected languages, as codes such as `en`. If no language is likely enough, the"
        " decision is made among these, which helps with short texts.",
    )
    min_probability: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="The minimum probability of the language. Below it the language is unknown.",
    )
    prose_only: bool = Field(default=True, description="Ignore code, formulas, tags and URLs.")


def remarks(params: Language, operands: Ranges) -> Sequence[Remark]:
    for place, code in enumerate(params.languages):
        if code not in LANGUAGES:
            help = "use ISO 639 codes, with two letters if there are any: en, de, zh"
            message = f"unsupported language `{code}`"
            return (Remark(kind="refused", message=message, at=("languages", place), help=help),)
    return ()


EXTENSION = RewardOp(
    name="language",
    summary="The language code of a text, such as `en`. Absent if the text has no words. If the language is"
    " uncertain, as in a text of one word or in two languages, nodes that read the result abstain.",
    params=Language,
    operands={"of": Operand(type="text", description="The text to identify.")},
    yields="text",
    remarks=remarks,
    stack=("py3langid", "numpy"),
)


def run(params: Language, operands: Operands, batch: Batch) -> OpResult:
    values: list[str | None] = []
    reasons: list[str | None] = []
    unknown: set[int] = set()
    for row, text in enumerate(operands["of"]):
        code, reason, sure = (
            (None, "there is no text", True) if text is None else detect_language(text, params)
        )
        values.append(code)
        reasons.append(reason)
        if not sure:
            unknown.add(row)
    return OpResult(values=values, reasons=reasons, unknown=frozenset(unknown))


def detect_language(text: str, params: Language) -> tuple[str | None, str, bool]:
    """The language code or None, the reason, and whether the result is certain."""
    words = strip_non_prose(text) if params.prose_only else text
    if not any(character.isalpha() for character in words):
        return None, "there are no words", True
    code, share = _most_likely_language(words, params)
    if share < params.min_probability:
        return None, f"{code} with a probability of only {share:.2f}", False
    if code == _NO_LANGUAGE:
        return None, f"no language, with a probability of {share:.2f}", True
    return code, f"{code} with a probability of {share:.2f}", True


def strip_non_prose(text: str) -> str:
    """A text without code, formulas, tags and URLs. An unclosed code block extends to the end."""
    return _NON_PROSE.sub(" ", " ".join(_FENCE.split(text)[::2]))


def _most_likely_language(text: str, params: Language) -> tuple[str, float]:
    """The most likely language. If none reaches the minimum, the most likely of the expected ones."""
    shares: dict[str, float] = {}
    ranked: list[tuple[str, float]] = _load_identifier().rank(text)
    for label, share in ranked:
        code = _MACROLANGUAGES.get(label, label)
        shares[code] = shares.get(code, 0.0) + share
    best = max(shares, key=lambda code: shares[code])
    if shares[best] >= params.min_probability or not params.languages:
        return best, shares[best]
    expected = {code: shares[code] for code in (*params.languages, _NO_LANGUAGE)}
    best, whole = max(expected, key=lambda code: expected[code]), sum(expected.values())
    return best, expected[best] / whole if whole else 0.0


@cache
def _load_identifier() -> Any:
    """The model of the package, cached: loading takes most of a second."""
    try:
        package: Any = import_module("py3langid.langid")
    except ImportError:
        advice = "install it: pip install py3langid"
        raise StepError("the package py3langid is not installed", advice) from None
    return package.LanguageIdentifier.from_model_file(package.MODEL_FILE, norm_probs=True)
