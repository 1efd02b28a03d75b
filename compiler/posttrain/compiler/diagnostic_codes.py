"""The registry of diagnostic codes, collected from the modules that define them."""

from posttrain.compiler import model_checks, model_templates, user_files
from posttrain.compiler.benchmarks import benchmark_codes as benchmarks
from posttrain.compiler.checks import (
    chat_templates,
    container_image,
    export_from_container,
    gpu_requirements,
    ignored_template_arguments,
    inloop_eval,
    interpreted_columns,
    leakage,
    nulls,
    passwords,
    sandbox_in_container,
    streaming,
    tags,
    template_arguments,
    tracking,
    training_checks,
    unused,
)
from posttrain.compiler.data import data_codes as data
from posttrain.compiler.environments import environment_codes as environments
from posttrain.compiler.lockfile import lockfile_codes as locking
from posttrain.compiler.parsing import (
    expand,
    interpolate,
    matrix,
    section_names,
    typed_recipe,
    validation_diagnostics,
)
from posttrain.compiler.parsing import parse_codes as reading
from posttrain.compiler.placement import node_layout, out_of_memory, target
from posttrain.compiler.placement import training_placement as placement
from posttrain.compiler.resolution import name_resolution
from posttrain.compiler.rewards import reward_codes as rewards
from posttrain.compiler.stages import (
    branches,
    eval_stage,
    gate_stage,
    held_out,
    inference_codes,
    script_stage,
    statistical_power,
    train_stage,
)
from posttrain.spec.diagnostic import Code

_CODE_MODULES = (
    reading,
    section_names,
    expand,
    interpolate,
    matrix,
    locking,
    unused,
    validation_diagnostics,
    typed_recipe,
    name_resolution,
    data,
    nulls,
    interpreted_columns,
    user_files,
    rewards,
    train_stage,
    training_checks,
    inference_codes,
    eval_stage,
    gate_stage,
    held_out,
    branches,
    script_stage,
    statistical_power,
    environments,
    benchmarks,
    model_checks,
    model_templates,
    inloop_eval,
    leakage,
    streaming,
    tags,
    template_arguments,
    chat_templates,
    gpu_requirements,
    ignored_template_arguments,
    container_image,
    sandbox_in_container,
    export_from_container,
    tracking,
    passwords,
    target,
    placement,
    node_layout,
    out_of_memory,
)


def all_codes() -> list[Code]:
    """Every code, sorted by its number."""
    codes = [code for module in _CODE_MODULES for code in module.CODES]
    assert len({code.id for code in codes}) == len(codes), "two diagnostics share a code"
    return sorted(codes, key=lambda code: code.id)
