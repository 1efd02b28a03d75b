"""Runs a training stage in this process: `greedy_comparison.py WORK OUT`.

Before each generation, vLLM and the trained model complete the first prompts greedily.

`greedy_comparison.py WORK OUT nf4` loads the base weights of an adapter in 4 bits on the CPU, which posttrain
supports only on GPUs. The CPU kernel of bitsandbytes is disabled, because it rounds.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from posttrain.runtime.catalog import load_entry
from posttrain.runtime.events import read_events
from posttrain.runtime.models import model_loader
from posttrain.runtime.training import rollout_patches
from posttrain.runtime.worker import create_context

_NUM_TOKENS = 6
_LOGP_DIFFERENCE = "sampling/sampling_logp_difference/max"


def main(work: Path, out: Path) -> None:
    record: dict[str, Any] = {"vllm": [], "trained": []}
    patch = rollout_patches.patch_vllm_generation

    def patched(trainer: Any) -> None:
        record["seed that vLLM left"] = torch.initial_seed()
        patch(trainer)
        record["seed"] = torch.initial_seed()
        write = trainer.vllm_generation.generate
        shown: list[list[int]] = []

        def both(prompts: Any, *rest: Any, **named: Any) -> Any:
            if not shown:
                shown.extend(list(one) for one in sorted({tuple(one) for one in prompts}))
            record["vllm"].append(generate_with_vllm(trainer, shown))
            record["trained"].append([generate_with_model(trainer, prompt) for prompt in shown])
            return write(prompts, *rest, **named)

        trainer.vllm_generation.generate = both

    rollout_patches.patch_vllm_generation = patched
    context = create_context(work)
    load_entry(context.step.entry)(context)
    events = read_events(work / "record" / "events.jsonl")
    values = [event["values"] for event in events if event["kind"] == "metrics"]
    record["apart"] = [one[_LOGP_DIFFERENCE] for one in values if _LOGP_DIFFERENCE in one]
    out.write_text(json.dumps(record))


def generate_with_vllm(trainer: Any, prompts: list[list[int]]) -> list[list[int]]:
    vllm: Any = import_module("vllm")
    greedy = vllm.SamplingParams(temperature=0.0, max_tokens=_NUM_TOKENS)
    given = [vllm.TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
    found = trainer.vllm_generation.llm.generate(given, greedy, use_tqdm=False)
    return [list(one.outputs[0].token_ids) for one in found]


def generate_with_model(trainer: Any, prompt: list[int]) -> list[int]:
    model, training = trainer.model, trainer.model.training
    model.eval()
    with torch.no_grad():
        found = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=_NUM_TOKENS)
    model.train(training)
    return found[0, len(prompt) :].tolist()


def load_in_4bit() -> None:
    from bitsandbytes.nn import modules
    from transformers import BitsAndBytesConfig

    modules.has_avx512bf16 = lambda: False
    how: dict[str, Any] = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    how |= {"bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": torch.float32}
    arguments = {"quantization_config": BitsAndBytesConfig(**how), "device_map": {"": "cpu"}}
    model_loader.quantization.quantization_arguments = lambda quantize: arguments if quantize == "nf4" else {}


if __name__ == "__main__":
    if sys.argv[3:] == ["nf4"]:
        load_in_4bit()
    main(Path(sys.argv[1]), Path(sys.argv[2]))
