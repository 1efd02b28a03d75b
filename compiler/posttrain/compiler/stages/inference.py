"""The inference of eval and generate stages: models by engine, endpoints over HTTP, and their prompts."""

from collections.abc import Mapping

from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.endpoint_params import endpoint_identity
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe, inference_models
from posttrain.compiler.stages.inference_codes import INVALID_SAMPLING, UNSUPPORTED_INFERENCE
from posttrain.compiler.stages.prompting import PromptConfig, check_prompting
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.column_types import Columns
from posttrain.spec.declarations import Endpoint
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.extension import Engine
from posttrain.spec.inference import Sampling
from posttrain.spec.record import record
from posttrain.spec.step_params.generation_params import EndpointAccess, ModelTarget, SamplingOptions

# Providers whose APIs take conversations only.
_CHAT_ONLY = ("anthropic", "gemini")
_LOCAL_ONLY = ("stop", "continuous_batching")
# The keys of `sampling` that the API of a provider does not have.
_UNSUPPORTED_SAMPLING: Mapping[str, tuple[str, ...]] = {
    "openai": (*_LOCAL_ONLY, "top_k", "min_p", "repetition_penalty"),
    "openrouter": _LOCAL_ONLY,
    "vllm": _LOCAL_ONLY,
    "anthropic": (*_LOCAL_ONLY, "min_p", "repetition_penalty", "seed"),
    "gemini": (*_LOCAL_ONLY, "min_p", "repetition_penalty"),
}


def choose_engine(requested: str, *, endpoint: bool, has_gpus: bool) -> str:
    """Return the engine: HTTP for endpoints, vLLM on GPUs, transformers otherwise."""
    if endpoint:
        return "http"
    if requested != "auto":
        return requested
    return "vllm" if has_gpus else "transformers"


@record(kw_only=True)
class InferenceTarget:
    """A model or an endpoint to generate with: its name, its role among the inputs, and its engine."""

    name: str
    role: str
    engine: str
    endpoint: Endpoint | None

    def step_params(self) -> ModelTarget:
        """The target as step parameters: everything that its completions depend on."""
        endpoint = endpoint_identity(self.endpoint) if self.endpoint else None
        return ModelTarget(name=self.name, role=self.role, engine=self.engine, endpoint=endpoint)


@record(kw_only=True)
class InferenceConfig:
    """The inference configuration of a stage: the models, their engines and the prompts."""

    targets: tuple[InferenceTarget, ...]
    engines: tuple[Engine, ...]
    prompt_config: PromptConfig

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        return {one.name: one.endpoint for one in self.targets if one.endpoint is not None}

    @property
    def model_roles(self) -> tuple[str, ...]:
        """The roles of the inputs that are models."""
        return tuple(one.role for one in self.targets if one.endpoint is None)

    @property
    def models(self) -> tuple[ModelTarget, ...]:
        """The targets as step parameters."""
        return tuple(target.step_params() for target in self.targets)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(sorted({one.api_key.env for one in self.endpoints.values() if one.api_key}))

    def endpoint_access(self) -> dict[str, EndpointAccess]:
        """Return the connection settings of the endpoints, which do not affect the completions."""
        return {
            name: EndpointAccess(
                api_key=one.api_key.env if one.api_key else None,
                concurrency=one.concurrency,
                timeout_seconds=one.timeout_seconds,
                max_retries=one.max_retries,
            )
            for name, one in self.endpoints.items()
        }


def check_inference(
    name: str,
    stage: Evaluate | Generate,
    columns: Columns,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> InferenceConfig | None:
    """Return the inference configuration of the stage, or None if one of its models is invalid."""
    prompt_config = check_prompting(name, stage, columns, resolved, rows, request, diagnostics)
    subjects: list[InferenceTarget] = []
    written = inference_models(name, stage)
    for role, text, path in written:
        ref = resolved.refs.get((f"stage:{name}", role))
        if ref is None:
            continue
        subject = _inference_target(text, role, ref, stage, resolved)
        _check_endpoint(subject, stage, path, ("stages", name), diagnostics)
        subjects.append(subject)
    _check_model_names(name, stage, diagnostics)
    _check_sampling(name, stage, diagnostics)
    if len(subjects) < len(written) or prompt_config is None:
        return None
    found = (request.catalog.find("engine", engine) for engine in dict.fromkeys(s.engine for s in subjects))
    return InferenceConfig(
        targets=tuple(subjects),
        engines=tuple(engine for engine in found if isinstance(engine, Engine)),
        prompt_config=prompt_config,
    )


def _inference_target(
    text: str, role: str, ref: Ref, stage: Evaluate | Generate, resolved: ResolvedRecipe
) -> InferenceTarget:
    endpoint = resolved.recipe.endpoints[ref.name] if ref.kind == "endpoint" else None
    has_gpus = resolved.recipe.hardware.gpus is not None
    engine = choose_engine(stage.engine, endpoint=endpoint is not None, has_gpus=has_gpus)
    return InferenceTarget(name=text, role=role, engine=engine, endpoint=endpoint)


def _check_endpoint(
    subject: InferenceTarget,
    stage: Evaluate | Generate,
    path: KeyPath,
    stage_path: KeyPath,
    diagnostics: Diagnostics,
) -> None:
    """Report sampling and prompt options that an endpoint does not support."""
    if subject.endpoint is None:
        return
    what = f"the endpoint `{subject.name}`"
    if stage.prompts == "plain" and subject.endpoint.provider in _CHAT_ONLY:
        message = f"{what} takes conversations, not plain text"
        diagnostics.add(UNSUPPORTED_INFERENCE, (*stage_path, "prompts"), message, help="set `prompts: chat`")
    if stage.chat_template_kwargs and subject.endpoint.provider != "vllm":
        message = f"requests to {what} have no arguments of the chat template"
        diagnostics.add(
            UNSUPPORTED_INFERENCE, (*stage_path, "chat_template_kwargs"), message, help="remove the key"
        )
    if stage.engine != "auto" and len(inference_models("", stage)) == 1:
        message = f"{what} uses HTTP, so `engine` has no effect"
        diagnostics.add(UNSUPPORTED_INFERENCE, (*stage_path, "engine"), message, help="remove the key")
    for option in _UNSUPPORTED_SAMPLING[subject.endpoint.provider]:
        if getattr(stage.sampling, option) != getattr(Sampling(), option):
            message = f"{what} does not support `{option}`"
            diagnostics.add(
                UNSUPPORTED_INFERENCE, (*stage_path, "sampling", option), message, help="remove the key"
            )


def sampling_params(sampling: Sampling) -> SamplingOptions:
    """`sampling` as a parameter of a step, without its seed, which is a separate parameter."""
    named = {key: value for key, value in sampling if key not in ("seed", "generation_config")}
    return SamplingOptions(**named, model_defaults=sampling.model_defaults)


def _check_model_names(name: str, stage: Evaluate | Generate, diagnostics: Diagnostics) -> None:
    names = stage.model_names if isinstance(stage, Evaluate) else (stage.generate,)
    path: KeyPath = ("stages", name, "eval")
    if not names:
        diagnostics.add(UNSUPPORTED_INFERENCE, path, "no model is named")
    for index, subject in enumerate(names):
        if subject in names[:index]:
            diagnostics.add(UNSUPPORTED_INFERENCE, (*path, index), f"`{subject}` is named twice")


def _check_sampling(name: str, stage: Evaluate | Generate, diagnostics: Diagnostics) -> None:
    if stage.sampling.n > 1 and stage.sampling.is_greedy:
        message = f"{stage.sampling.n} samples at temperature 0 are all the same"
        path: KeyPath = ("stages", name, "sampling", "n")
        diagnostics.add(INVALID_SAMPLING, path, message, help="set a temperature above 0")
