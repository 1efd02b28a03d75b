"""Reports columns that TRL or a chat template would interpret, and that no stage of posttrain passes on.

Other columns that a stage does not read are allowed: they carry identifiers, sources and the like.
"""

from collections.abc import Iterator, Mapping

from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.environments.checked_environment import CheckedEnvironment
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.stages.read_tables import read_tables
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.extension import Catalog, Method
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train

IGNORED_COLUMN = Code(
    "PT0420",
    "column that would be ignored",
    "error",
    "TRL, a chat template or the model would interpret the column: images, documents, tokens,"
    " reference log-probabilities. posttrain does not pass it on, so the model would learn or answer without"
    " it. Remove the column with the data step `select`, or rename it if it means something"
    " else. A column that a reward or an environment reads is used.",
    wrong=minimal_recipe(("- split:", "- derive: {images: \"'a.png'\"}\n      - split:")),
    right=MINIMAL_RECIPE,
)
REWARD_ARGUMENT = Code(
    "PT0421",
    "reward column with a name of TRL",
    "error",
    "In methods that generate, TRL calls the reward with values of its own under these names, or interprets"
    " the column as an input of the model. The reward would not read the values of the data. Rename the"
    " column.",
    wrong=minimal_recipe(
        ("- split:", "- derive: {images: \"'a.png'\"}\n      - split:"),
        ("completion: text, answer: text}", "completion: text, answer: text, images: text}"),
        (
            "returns: {score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}",
            "returns: {score: {when: {equal: {of: completion, to: images}}, then: 1.0}}",
        ),
        (
            "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}",
            "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 1}}",
        ),
    ),
    right=minimal_recipe(
        (
            "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}",
            "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 1}}",
        ),
    ),
)
CODES = (IGNORED_COLUMN, REWARD_ARGUMENT)

_MEDIA = "an input of models that see or hear"
_TEMPLATE = "an argument of the chat template"
_TOKENS = "tokens or masks, which replace the text"
_LOGPROBS = "log-probabilities of a reference model"


@record
class InterpretedColumn:
    """What a column means to the libraries, and the TRL configurations whose trainer reads it."""

    meaning: str
    trainers: tuple[str, ...] = ()  # empty: every stage that renders prompts or messages


_SEVERAL = ("SFTConfig", "DPOConfig", "KTOConfig", "RewardConfig", "CPOConfig", "ORPOConfig")
_PAIRS = ("DPOConfig", "RewardConfig", "CPOConfig", "ORPOConfig")
INTERPRETED_COLUMNS: Mapping[str, InterpretedColumn] = {
    **dict.fromkeys(("image", "images", "video", "videos", "audio", "audios"), InterpretedColumn(_MEDIA)),
    **dict.fromkeys(("pixel_values", "image_grid_thw", "input_features"), InterpretedColumn(_MEDIA)),
    "documents": InterpretedColumn(_TEMPLATE),
    **dict.fromkeys(
        ("input_ids", "attention_mask", "position_ids", "prompt_ids", "completion_ids", "completion_mask"),
        InterpretedColumn(_TOKENS, _SEVERAL),
    ),
    **dict.fromkeys(
        ("labels", "assistant_masks", "seq_lengths", "mm_token_type_ids", "token_type_ids"),
        InterpretedColumn(_TOKENS, ("SFTConfig",)),
    ),
    **dict.fromkeys(
        ("chosen_ids", "rejected_ids", "chosen_input_ids", "rejected_input_ids"),
        InterpretedColumn(_TOKENS, _PAIRS),
    ),
    **dict.fromkeys(("ref_chosen_logps", "ref_rejected_logps"), InterpretedColumn(_LOGPROBS, ("DPOConfig",))),
    "ref_logps": InterpretedColumn(_LOGPROBS, ("KTOConfig",)),
    "margin": InterpretedColumn("the margin between the scores of a pair", ("RewardConfig",)),
}
# Columns of a reward that TRL replaces, or reads itself, in methods that generate.
_ROLLOUT_TRAINERS = ("GRPOConfig", "RLOOConfig")
RESERVED_IN_ROLLOUTS = (
    "image",
    "images",
    "prompts",
    "completions",
    "completion_ids",
    "environments",
    "trainer_state",
    "log_extra",
    "log_metric",
)
_HELP = "remove it with the data step `select`, or rename it if it means something else"


def check_interpreted_columns(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    environments: Mapping[str, CheckedEnvironment],
    catalog: Catalog,
    diagnostics: Diagnostics,
) -> None:
    """Report the columns of the data of every stage that trains on it or renders its prompts."""
    for name, stage in resolved.recipe.stages.items():
        if not isinstance(stage, Train | Evaluate | Generate):
            continue
        method = catalog.find("method", stage.train) if isinstance(stage, Train) else None
        trainer = method.trl or "" if isinstance(method, Method) else ""
        read = {*_reward_columns(stage.reward, graphs), *_environment_columns(stage, environments)}
        for _, table, path in read_tables(name, resolved, rows):
            for column in _ignored_columns(table, trainer):
                if column not in read:
                    message = (
                        f"`{name}` would ignore the column `{column}`: {INTERPRETED_COLUMNS[column].meaning}"
                    )
                    diagnostics.add(IGNORED_COLUMN, path, message, help=_HELP)
            for column in RESERVED_IN_ROLLOUTS if trainer in _ROLLOUT_TRAINERS else ():
                if column in read and column in table.columns:
                    message = (
                        f"the reward of `{name}` cannot read the column `{column}`: TRL uses the name itself"
                    )
                    diagnostics.add(REWARD_ARGUMENT, path, message, help="rename the column")


def _ignored_columns(table: TableSchema, trainer: str) -> Iterator[str]:
    """The columns that a trainer would interpret, without those that are null in every row."""
    for column, interpreted in INTERPRETED_COLUMNS.items():
        if column not in table.columns or (interpreted.trainers and trainer not in interpreted.trainers):
            continue
        nulls = table.null_counts.get(column)
        if nulls is None or nulls.null_rows < nulls.rows_checked or table.rows is None:
            yield column


def _reward_columns(reward: str | None, graphs: Mapping[str, RewardGraph]) -> set[str]:
    graph = graphs.get(reward) if reward is not None else None
    return set(graph.reads) if graph is not None else set()


def _environment_columns(
    stage: Train | Evaluate | Generate, environments: Mapping[str, CheckedEnvironment]
) -> set[str]:
    named = None if isinstance(stage, Generate) else stage.environment
    environment = environments.get(named) if named is not None else None
    return set(environment.columns) if environment is not None else set()
