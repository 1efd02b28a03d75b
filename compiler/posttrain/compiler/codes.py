"""All diagnostic codes, from the files that define them."""

from posttrain.compiler import expand, files, interpolate, matrix, models, names, parse, shape, validate
from posttrain.compiler.checks import image, tracking, trainings, unused
from posttrain.compiler.data import codes as data
from posttrain.compiler.placement import fitting, target
from posttrain.compiler.placement import training as placement
from posttrain.compiler.rewards import codes as rewards
from posttrain.compiler.stages import evals, gates, training
from posttrain.spec.diagnostic import Code

_DEFINERS = (
    parse,
    expand,
    interpolate,
    matrix,
    unused,
    validate,
    shape,
    names,
    data,
    files,
    rewards,
    training,
    trainings,
    evals,
    gates,
    models,
    image,
    tracking,
    target,
    placement,
    fitting,
)


def all_codes() -> list[Code]:
    """Every code, by its number."""
    found = [code for module in _DEFINERS for code in module.CODES]
    assert len({code.id for code in found}) == len(found), "two diagnostics share a code"
    return sorted(found, key=lambda code: code.id)
