"""What several GPUs add to each of them: buckets of gradients on their way, and the weights that
a sharded model gathers for the moment in which it needs them."""

from dataclasses import replace

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory import state
from posttrain.compiler.memory.terms import Term, count, term
from posttrain.compiler.memory.workload import Workload

# DeepSpeed's own defaults, in elements: a bucket of gradients, and how much stage 3 keeps gathered
BUCKET = 500_000_000
LIVE = 1_000_000_000


def during_backward(workload: Workload, shape: Shape) -> tuple[Term, ...]:
    learning = _learning(workload, shape)
    if workload.gpus == 1:
        return ()
    if workload.strategy == "ddp":
        size = learning * state.trained_element(workload)
        return (term("gradient buckets", size, "DDP keeps a flat copy of every gradient"),)
    if workload.strategy in ("zero1", "zero2", "zero3"):
        size = 2 * min(BUCKET, learning)
        bucket = term("gradient bucket", size, f"DeepSpeed reduces {count(size / 2)} at a time")
        return (bucket, *gathered(workload, shape))
    return gathered(workload, shape)


def _learning(workload: Workload, shape: Shape) -> int:
    """Parameters whose gradients are exchanged: the model's, and those of the values beside it."""
    own = state.trained(workload, shape)
    if workload.value is None:
        return own
    return own + state.trained(replace(workload, value=None, loss="scores"), workload.value)


def gathered(workload: Workload, shape: Shape) -> tuple[Term, ...]:
    """Whole weights of what runs now, in bf16."""
    if workload.gpus == 1:
        return ()
    if workload.strategy == "zero3":
        size = 2 * min(parameters.count(shape), LIVE)
        return (term("gathered weights", size, "ZeRO-3 keeps up to 1B parameters at hand"),)
    if workload.strategy == "fsdp":
        # this layer and the next, and their gradients before they are scattered
        layer = max(b.elements for b in parameters.blocks(shape))
        root = parameters.embeddings(shape) + (0 if shape.tied else parameters.head(shape))
        size = 2 * (2 * layer + root) + 4 * layer
        return (term("gathered weights", size, "two layers, the embeddings, their gradients"),)
    return ()


def during_step(workload: Workload, shape: Shape) -> tuple[Term, ...]:
    """DeepSpeed steps on fp32 gradients of its share, then gathers the new weights."""
    if not state.mastered(workload):
        return ()
    learning = _learning(workload, shape)
    wide = 4 * learning / state.shards(workload, 1)
    terms = (term("fp32 gradients", wide, "DeepSpeed steps on an fp32 copy", passing=True),)
    if workload.gpus == 1 or workload.strategy == "zero3":
        return terms
    size = 2 * min(BUCKET, learning)
    return (*terms, term("gather bucket", size, "new weights are exchanged", passing=True))


def whole(workload: Workload, shape: Shape) -> tuple[Term, ...]:
    """Generating with transformers needs the whole model on every GPU."""
    if workload.gpus == 1 or state.shards(workload, 3) == 1:
        return ()
    size = 2 * parameters.count(shape)
    return (term("gathered weights", size, "generation needs the whole model on every GPU"),)
