import pytest

from posttrain.compiler.facts.accelerators import GIB, accelerator_names, find_accelerator


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("H100", "H100-80GB"),
        ("h100-sxm", "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("A100 80GB", "A100-80GB"),
        ("RTX 4090", "RTX4090-24GB"),
        ("cpu", "CPU"),
    ],
)
def test_a_card_is_known_by_its_names(written, meant):
    device = find_accelerator(written)
    assert device is not None
    assert device.name == meant


def test_an_unknown_card_is_none():
    assert find_accelerator("H1000") is None


@pytest.mark.parametrize("name", [n for n in accelerator_names() if n != "CPU"])
def test_a_card_has_about_the_memory_on_its_box(name):
    device = find_accelerator(name)
    assert device is not None
    box = int(name.rpartition("-")[2].removesuffix("GB"))
    assert 0.93 * box < device.memory / GIB <= 1.0 * box + 1e-9
    assert device.tflops > 0
    assert device.gb_per_s > 0


def test_no_name_stands_for_two_cards():
    from posttrain.compiler.facts.fact_tables import load_table

    names = [
        "".join(c for c in name.lower() if c.isalnum())
        for key, row in load_table("accelerators").items()
        for name in {key, *row["also"]}
    ]
    for name in names:
        found = find_accelerator(name)
        assert found is not None
        row = load_table("accelerators")[found.name]
        plain = {"".join(c for c in n.lower() if c.isalnum()) for n in (found.name, *row["also"])}
        assert name in plain
