"""Shows what the generation_config.json of a local model sets, and stages do not apply."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_INIT, minimal_recipe
from posttrain.compiler.model_json import read_model_json
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.generation_config import decoding_settings, format_settings

# Sampling that nearly every published model recommends, and that a stage names itself.
_RECOMMENDED = ("do_sample", "temperature", "top_p", "top_k", "min_p")
UNUSED_GENERATION_CONFIG = Code(
    "PT0817",
    "generation config that is not applied",
    "warning",
    "The recipe alone determines decoding, so that a result does not depend on the engine: transformers would"
    " apply every field of the model's `generation_config.json`, vLLM only some. Repeat in `sampling` what"
    " the completions need, or set `sampling: {generation_config: auto}` for temperature, top_p, top_k, min_p"
    " and repetition_penalty. No engine applies the other fields. End tokens are always taken from the file.",
    wrong=minimal_recipe((MINIMAL_INIT, "    from: ./penalized\n")),
    right=minimal_recipe((MINIMAL_INIT, "    from: ./plain\n")),
    files=(
        ("penalized/config.json", "{}"),
        ("penalized/model.safetensors", "(weights)"),
        ("penalized/generation_config.json", '{"repetition_penalty": 1.1}'),
        ("plain/config.json", "{}"),
        ("plain/model.safetensors", "(weights)"),
    ),
)
CODES = (UNUSED_GENERATION_CONFIG,)


def check_generation_config(
    origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> None:
    """Warn about penalties, suppressed tokens and the like in the generation config of a local model."""
    settings = decoding_settings(read_model_json(origin, "generation_config.json", request))
    if any(name not in _RECOMMENDED for name in settings):
        message = f"generation_config.json of `{origin}` is not applied: {format_settings(settings)}"
        help = "set in `sampling` what the completions need"
        diagnostics.add(UNUSED_GENERATION_CONFIG, path, message, help=help)
