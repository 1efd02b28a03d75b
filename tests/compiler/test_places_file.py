"""The file of places: every error with its line, its column and a suggestion."""

import pytest

from posttrain.compiler.parsing.places_file import PlacesFile, parse_places
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.spec.place import PlaceContainer, RayPlace, SlurmPlace


def parsed(text: str) -> PlacesFile:
    return parse_places(SourceFile("places.yaml", text.encode()))


def messages(text: str) -> list[tuple[str, str, str]]:
    """Place, message and help of each diagnostic."""
    return [(f"{one.span.line}:{one.span.column}", one.message, one.help) for one in parsed(text).diagnostics]


def test_both_engines() -> None:
    found = parsed(
        "lab: {engine: slurm, partition: gpu, container: pyxis, options: [--exclusive]}\n"
        "pool: {engine: ray, address: 'head:6379', resources: {fast: 1.0}, keep_alive_seconds: 60.0}\n"
    )
    assert found.diagnostics == ()
    assert found.places == {
        "lab": SlurmPlace(
            engine="slurm",
            partition="gpu",
            container=PlaceContainer(runtime="pyxis"),
            options=("--exclusive",),
        ),
        "pool": RayPlace(engine="ray", address="head:6379", resources={"fast": 1.0}, keep_alive_seconds=60.0),
    }


@pytest.mark.parametrize(
    ("text", "place", "message", "help"),
    [
        ("a:\n  engine: slurm\n  partion: x\n", "3:3", "unknown key `partion`", "did you mean `partition`?"),
        (
            "a: {engine: slurn}\n",
            "1:13",
            "unknown engine `slurn`",
            "did you mean `slurm`? engines: ray, slurm",
        ),
        ("a: {partition: x}\n", "1:4", "missing key `engine`", "write `engine: slurm` or `engine: ray`"),
        (
            "a: {engine: ray, qos: high}\n",
            "1:18",
            "this engine has no option `qos`",
            "`qos` is an option of places with `engine: slurm`: remove it",
        ),
        (
            "a: {engine: slurm, address: 'h:1'}\n",
            "1:20",
            "this engine has no option `address`",
            "`address` is an option of places with `engine: ray`: remove it",
        ),
        ("a: slurm\n", "1:4", "expected a mapping, found the text `slurm`", ""),
        ("a: {engine: slurm, gpus_per_node: -1}\n", "1:35", "`-1` must be at least 0", ""),
        ("a: {engine: slurm, python: python3}\n", "1:28", "`python3` does not match", ""),
        ("1a: {engine: slurm}\n", "1:1", "the name `1a` is not valid", "a name starts with a letter"),
        ("a: {engine: slurm, options: [--export=ALL]}\n", "1:30", "posttrain sets --export itself", ""),
        ("a: {engine: slurm, options: [-x]}\n", "1:30", "`-x` does not match", ""),
        ("a: {engine: slurm\n", "1:4", "unclosed {", "add `}`"),
    ],
)
def test_errors(text: str, place: str, message: str, help: str) -> None:
    found = messages(text)
    assert len(found) == 1, found
    assert found[0][0] == place
    assert message in found[0][1]
    assert help in found[0][2]


def test_an_error_in_one_place_leaves_the_others() -> None:
    found = parsed("good: {engine: slurm}\nbad: {engine: slurm, acount: x}\n")
    assert set(found.places) == {"good"}
    assert found.invalid == {"bad"}


@pytest.mark.parametrize("limit", ["90", "01:00:00", "7-12"])
def test_time_limits(limit: str) -> None:
    place = parsed(f"a: {{engine: slurm, time_limit: '{limit}'}}\n").places["a"]
    assert isinstance(place, SlurmPlace)
    assert place.time_limit == limit
