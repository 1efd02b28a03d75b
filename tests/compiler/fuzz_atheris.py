"""Coverage-guided fuzzing of the compiler: every input produces a plan or diagnostics.

    python -m tests.compiler.fuzz_atheris --seconds 600

The seeds are the project's recipes, the corpus and the examples of all diagnostics. Mutations change bytes
and swap words. It needs atheris, which is not in the requirements. It saves failing inputs to the folder of
--out and exits with status 1.
"""

import argparse
import random
import re
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["posttrain"]):
    from posttrain.compiler.diagnostic_codes import all_codes
    from posttrain.compiler.pipeline import compile_recipe
    from posttrain.compiler.render.text_diagnostics import Styler, render_text
    from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
    from posttrain.runtime.catalog import CATALOG
    from posttrain.spec.diagnostic import has_errors
    from posttrain.spec.plan import plan_from_json, plan_to_json

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "compiler" / "cases"
_WORD = re.compile(r"[A-Za-z0-9_.<>/$-]+|[^\sA-Za-z0-9]|\s+")
_MOST_BYTES = 20_000


def seeds() -> list[bytes]:
    """All known recipes, valid and invalid."""
    folders = [ROOT / "recipes", ROOT / "tests" / "recipes", CASES, ROOT / "runtime" / "posttrain" / "cli"]
    paths = sorted(
        path for folder in folders for path in folder.rglob("*.yaml") if ".recipe" not in path.parts
    )
    examples = [text for code in all_codes() for text in (code.wrong, code.right)]
    texts = [path.read_bytes() for path in paths] + [e.encode("utf-8", "surrogatepass") for e in examples]
    return [text for text in dict.fromkeys(texts) if len(text) <= _MOST_BYTES]


def files() -> dict[str, bytes]:
    """Files that the recipes can read, by name."""
    folders = [CASES / "beside", *(ROOT / "recipes").iterdir(), *(ROOT / "tests" / "recipes").iterdir()]
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for folder in folders
        if folder.is_dir()
        for path in folder.rglob("*")
        if path.is_file() and ".recipe" not in path.parts
    }
    return found | {name: text.encode() for code in all_codes() for name, text in code.files}


BESIDE = files()
WORDS = sorted({word for seed in seeds() for word in _WORD.findall(seed.decode("utf-8", "replace"))})


def compile_one(data: bytes) -> None:
    """Check the invariants that hold for every input."""
    request = CompileRequest(source=SourceFile("recipe.yaml", data), catalog=CATALOG, read=BESIDE.get)
    outcome = compile_recipe(request)
    assert (outcome.plan is None) == has_errors(outcome.diagnostics), "a plan, or an error that says why"
    text = render_text(
        outcome.diagnostics, {"recipe.yaml": data.decode("utf-8-sig", "replace").splitlines()}, {}, Styler()
    )
    assert bool(text) == bool(outcome.diagnostics)
    if outcome.plan is not None:
        assert plan_from_json(plan_to_json(outcome.plan)) == plan_from_json(plan_to_json(outcome.plan))


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Mutate bytes: flip bits, or insert whole words."""
    chance = random.Random(seed)
    if chance.random() < 0.4:
        return atheris.Mutate(data, most)
    words = _WORD.findall(data.decode("utf-8", "replace"))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(words) + 1)
        match chance.randrange(4):
            case 0:
                words[at : at + 1] = [chance.choice(WORDS)]
            case 1:
                words.insert(at, chance.choice(WORDS))
            case 2:
                del words[at : at + chance.randint(1, 6)]
            case _ if words:
                start = chance.randrange(len(words))
                words[at:at] = words[start : start + chance.randint(1, 40)]
    return "".join(words).encode("utf-8", "surrogatepass")[:most]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=600)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", default="fuzz-findings", help="where input that fails is written")
    given = options.parse_args()
    corpus = Path(given.out) / "corpus"  # a later run continues from it
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"{number:04}").write_bytes(seed)
    flags = [
        f"-max_total_time={given.seconds}",
        f"-max_len={_MOST_BYTES}",
        f"-seed={given.seed}",
        f"-artifact_prefix={given.out}/",
        "-timeout=30",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], compile_one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
