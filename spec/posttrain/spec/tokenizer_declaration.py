"""The declaration of a model's tokenizer: its origin, and the tokens that it adds."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items, checked_by
from posttrain.spec.origin_names import check_model_origin, is_folder

Initialization = Literal["mean_resizing", "subtoken_mean"]
DEFAULT_INITIALIZATION: Initialization = "mean_resizing"


class FieldPathError(ValueError):
    """A wrong value inside a declaration. `path` leads to it."""

    def __init__(self, message: str, path: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.path = path


def check_added_tokens(tokens: Sequence[str]) -> None:
    """Raise ValueError for an empty token, and for one that the list has twice."""
    for index, token in enumerate(tokens):
        if not token:
            raise FieldPathError("is empty: a token is a text", (index,))
        if token in tokens[:index]:
            raise FieldPathError(f"`{token}` is listed twice", (index,))


class Tokenizer(Declaration):
    """Origin of the tokenizer, if it is not the model's own, and tokens that are added to it."""

    init: Literal["characters"] | None = Field(
        default=None, description="Build a tokenizer: `characters` has one token per character."
    )
    alphabet: str = Field(
        default=" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
        "abcdefghijklmnopqrstuvwxyz{|}~\n",
        description="Characters of a tokenizer built with `init`.",
    )
    from_: Annotated[str, checked_by(check_model_origin)] | None = Field(
        default=None,
        alias="from",
        description="Tokenizer to load: ORG/NAME on the hub, or a folder relative to the recipe, written"
        " ./NAME. Default: the model's own.",
    )
    revision: str | None = Field(default=None, description="Revision on the hub.")
    added_tokens: Annotated[Items[str], checked_by(check_added_tokens)] = Field(
        default=(),
        description="Strings that become one token each, such as tags. Decoding shows them. The embeddings"
        " and the output layer of a pretrained model grow if they have no free rows.",
    )
    added_special_tokens: Annotated[Items[str], checked_by(check_added_tokens)] = Field(
        default=(),
        description="Strings that become one special token each, such as the marks around turns. Decoding"
        " hides them.",
    )
    new_embeddings: Initialization = Field(
        default=DEFAULT_INITIALIZATION,
        description="Initial embeddings of the tokens that are added to a pretrained model: mean_resizing"
        " draws them around the mean of all embeddings, as transformers does; subtoken_mean averages those"
        " of the tokens into which the text was split before.",
    )
    resize_to_multiple_of: int | None = Field(
        default=None,
        ge=1,
        description="Round the number of embeddings up to a multiple of this, such as 64, which is faster on"
        " GPUs. Default: do not round.",
    )
    eos_token: str | None = Field(
        default=None,
        min_length=1,
        description="Token that ends a text, of those that the tokenizer has or adds. Default: the"
        " tokenizer's.",
    )
    pad_token: str | None = Field(
        default=None,
        min_length=1,
        description="Token that pads batches, of those that the tokenizer has or adds. Default: the"
        " tokenizer's.",
    )

    @property
    def new_tokens(self) -> tuple[str, ...]:
        """All added tokens, in the order of their ids."""
        return (*self.added_tokens, *self.added_special_tokens)

    def grown_vocabulary(self, rows: int, used: int | None = None) -> int:
        """The number of embeddings of a model that had `rows`, of which its tokenizer uses `used`.

        Without `used`, the added tokens need rows of their own.
        """
        return self.rounded(max(rows, (rows if used is None else used) + len(self.new_tokens)))

    def rounded(self, rows: int) -> int:
        """A number of embeddings, rounded up as declared."""
        multiple = self.resize_to_multiple_of or 1
        return -(-rows // multiple) * multiple

    def check(self) -> None:
        if self.init is None:
            self.refuse_without_effect("alphabet", "without `init`")
        else:
            for name in ("eos_token", "pad_token", "new_embeddings"):
                self.refuse_without_effect(name, "with `init`, which builds the tokenizer")
        if self.from_ is None:
            self.refuse_without_effect("revision", "without `from`")
        elif is_folder(self.from_):
            self.refuse_without_effect("revision", "on a local folder")
        if self.init is not None:
            self._check_alphabet()
        elif not self.new_tokens:
            self.refuse_without_effect("new_embeddings", "without added tokens")
        for index, token in enumerate(self.added_special_tokens):
            if token in self.added_tokens:
                path = ("added_special_tokens", index)
                raise FieldPathError(f"`{token}` is one of `added_tokens` too: remove one of the two", path)

    def _check_alphabet(self) -> None:
        for name in ("added_tokens", "added_special_tokens"):
            for index, token in enumerate(getattr(self, name)):
                if token in self.alphabet and len(token) == 1:
                    message = f"`{token}` is a character of the `alphabet`, which is a token already"
                    raise FieldPathError(message, (name, index))
