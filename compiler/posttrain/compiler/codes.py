"""All diagnostic codes, from the files that define them."""

from posttrain.compiler import files, models
from posttrain.compiler.benchmarks import codes as benchmarks
from posttrain.compiler.checks import (
    contained,
    during,
    filled,
    image,
    pushing,
    tags,
    templates,
    tracking,
    trainings,
    unused,
    without_gpu,
)
from posttrain.compiler.data import codes as data
from posttrain.compiler.environments import codes as environments
from posttrain.compiler.locking import codes as locking
from posttrain.compiler.placement import fitting, target
from posttrain.compiler.placement import training as placement
from posttrain.compiler.reading import codes as reading
from posttrain.compiler.reading import expand, interpolate, matrix, sections, shape, validate
from posttrain.compiler.resolution import names
from posttrain.compiler.rewards import codes as rewards
from posttrain.compiler.stages import asking_codes, branches, evals, gates, power, training
from posttrain.spec.diagnostic import Code

_CODE_MODULES = (
    reading,
    sections,
    expand,
    interpolate,
    matrix,
    locking,
    unused,
    validate,
    shape,
    names,
    data,
    filled,
    files,
    rewards,
    training,
    trainings,
    asking_codes,
    evals,
    gates,
    branches,
    power,
    environments,
    benchmarks,
    models,
    during,
    tags,
    templates,
    without_gpu,
    image,
    contained,
    pushing,
    tracking,
    target,
    placement,
    fitting,
)


def all_codes() -> list[Code]:
    """Every code, by its number."""
    found = [code for module in _CODE_MODULES for code in module.CODES]
    assert len({code.id for code in found}) == len(found), "two diagnostics share a code"
    return sorted(found, key=lambda code: code.id)
