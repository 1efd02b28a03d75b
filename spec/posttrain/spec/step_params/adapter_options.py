"""The weights that a training step trains, as the plan holds them."""

from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from posttrain.spec.adapter_declaration import FIELD_TYPES, Adapter, AdapterType
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items
from posttrain.spec.step_params.step_parameters import omitted

_Rank = Annotated[tuple[str, int], Strict(False)]
_Alpha = Annotated[tuple[str, float], Strict(False)]


def _omitted_at(default: Any) -> Any:
    """A field that the plan omits if it has this value."""
    return Field(default=default, exclude_if=lambda value: value == default)


class AdapterOptions(Document):
    """The weights to train: an adapter, all weights, or a part of them. The plan omits what other types have,
    and most defaults."""

    type: AdapterType
    existing_adapter: Literal["continue", "merge"]
    trainable: Items[str] = _omitted_at(())
    freeze: Items[str] = _omitted_at(())
    r: int | None = omitted()
    lora_alpha: float | None = omitted()
    use_rslora: bool = _omitted_at(False)
    use_dora: bool = _omitted_at(False)
    lora_dropout: float = _omitted_at(0.0)
    init_lora_weights: str = _omitted_at("default")
    loraplus_lr_ratio: float | None = omitted()
    bias: Literal["none", "all", "lora_only"] = _omitted_at("none")
    target_modules: Literal["auto", "all-linear"] | Items[str] | None = omitted()
    # In the order of the recipe: the first pattern that matches a module counts.
    rank_pattern: Items[_Rank] = _omitted_at(())
    alpha_pattern: Items[_Alpha] = _omitted_at(())
    layers_to_transform: Items[int] = _omitted_at(())
    layers_pattern: str | None = omitted()
    modules_to_save: Items[str] = _omitted_at(())
    trainable_token_indices: Items[int] = _omitted_at(())
    # Tokens whose embeddings are trained, by their text: the tokenizer of the model knows their ids.
    trainable_tokens: Items[str] = _omitted_at(())
    feedforward_modules: Items[str] = _omitted_at(())
    oft_block_size: int = _omitted_at(32)
    use_cayley_neumann: bool = _omitted_at(True)
    module_dropout: float = _omitted_at(0.0)
    vera_dropout: float = _omitted_at(0.0)
    d_initial: float = _omitted_at(0.1)
    projection_prng_key: int = _omitted_at(0)

    @property
    def changes_base(self) -> bool:
        """Whether the initialization changes the base weights."""
        return self.init_lora_weights not in ("default", "gaussian", "orthogonal")


def adapter_options(adapter: Adapter, added_tokens: tuple[str, ...] = ()) -> AdapterOptions:
    """Return the fields of the adapter's type. `added_tokens` are those of the model's tokenizer."""
    fields = {
        name: getattr(adapter, name)
        for name in Adapter.model_fields
        if adapter.type in FIELD_TYPES.get(name, (adapter.type,))
    }
    if "r" in fields:
        fields["r"] = adapter.rank
    for name in ("rank_pattern", "alpha_pattern"):
        if name in fields:
            fields[name] = tuple(fields[name].items())
    if fields.get("trainable_token_indices") == "added":
        fields |= {"trainable_token_indices": (), "trainable_tokens": added_tokens}
    return AdapterOptions(**fields)
