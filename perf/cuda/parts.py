"""The parts in the order in which they run: the riskiest first."""

from dataclasses import dataclass

# Only some parts need these packages; a part without them can install less.
OPTIONAL_PACKAGES = ("bitsandbytes", "deepspeed", "hjson", "liger-kernel")


@dataclass(frozen=True)
class Part:
    name: str
    module: str
    about: str
    optional_packages: tuple[str, ...] = ()
    # The limit of its process. It stays below ten minutes, with time to install packages before it.
    seconds: int = 540


PARTS = (
    Part(
        "install",
        "perf.cuda.install",
        "Every library imports, and one kernel of each runs and agrees with plain torch.",
        OPTIONAL_PACKAGES,
    ),
    Part(
        "methods",
        "perf.cuda.methods",
        "Every method finishes, learns, and has the losses of a plain TRL script with the same settings, at"
        " 0.5 B parameters.",
        ("bitsandbytes",),
    ),
    Part(
        "resume",
        "perf.cuda.resume",
        "A stage that is killed after a checkpoint and resumed, next to two undisturbed runs.",
    ),
    Part(
        "memory",
        "perf.cuda.memory",
        "Predicted memory next to what torch allocates and reserves, term by term.",
        ("bitsandbytes",),
    ),
    Part(
        "speed",
        "perf.cuda.speed",
        "Tokens per second and MFU next to plain TRL, with other settings, and the profile of a step.",
        ("liger-kernel",),
    ),
    Part(
        "sharing",
        "perf.cuda.sharing",
        "Two processes on one card over gloo, and a step in a container.",
        ("deepspeed", "hjson"),
    ),
    Part(
        "methods_large",
        "perf.cuda.methods_large",
        "The part `methods` at 1.5 B parameters.",
        ("bitsandbytes",),
    ),
)


def find_part(name: str) -> Part:
    found = next((part for part in PARTS if part.name == name), None)
    if found is None:
        raise SystemExit(f"there is no part `{name}`; the parts are {', '.join(one.name for one in PARTS)}")
    return found
