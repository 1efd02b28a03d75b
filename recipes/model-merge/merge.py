"""Averages the weights of two models of the same architecture: left * (1 - weight) + right * weight."""

import argparse
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

parser = argparse.ArgumentParser()
parser.add_argument("--weight", type=float, default=0.5, help="the weight of the right model")
weight = parser.parse_args().weight

left, right, merged = Path("inputs/left"), Path("inputs/right"), Path("outputs/model")
merged.mkdir()
for path in sorted(left.iterdir()):
    if path.suffix != ".safetensors":  # configuration, tokenizer, chat template
        shutil.copy(path, merged)
        continue
    ours, theirs = load_file(path), load_file(right / path.name)
    assert ours.keys() == theirs.keys(), "the models have different weights"
    mean = {name: ours[name].lerp(theirs[name], weight) for name in ours}
    save_file(mean, merged / path.name, metadata={"format": "pt"})
    print(f"merged {len(mean)} weights of {path.name}")
