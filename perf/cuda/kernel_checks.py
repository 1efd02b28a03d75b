"""One kernel of each library, as a function that returns its largest difference from plain torch."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

_CALLS = 5


@dataclass(frozen=True)
class Check:
    """`run` takes the device, and returns a number that is small if the kernel is correct."""

    run: Callable[[str], float]
    module: str = ""
    gpu: bool = False


def measure(check: Check, device: str) -> dict[str, float]:
    began = time.monotonic()
    difference = check.run(device)
    first = time.monotonic() - began
    began = time.monotonic()
    for _ in range(_CALLS):
        check.run(device)
    later = (time.monotonic() - began) / _CALLS
    return {"difference": difference, "first_ms": first * 1e3, "later_ms": later * 1e3}


def _difference(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest expected value."""
    scale = float(expected.float().abs().max()) or 1.0
    return float((found.float() - expected.float()).abs().max()) / scale


def _sdpa(backend: str, device: str) -> float:
    """Attention of 256 positions, forward and backward."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    shape = (2, 4, 256, 64)
    made = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3)]
    given: list[Any] = [tensor.clone().requires_grad_() for tensor in made]
    exact: list[Any] = [tensor.float().requires_grad_() for tensor in made]
    attend: Any = torch.nn.functional.scaled_dot_product_attention
    with sdpa_kernel(getattr(SDPBackend, backend)):
        out = attend(*given, is_causal=True)
        out.float().square().sum().backward()
    with sdpa_kernel(SDPBackend.MATH):
        reference = attend(*exact, is_causal=True)
        reference.square().sum().backward()
    pairs = [(out, reference), *((a.grad, b.grad) for a, b in zip(given, exact, strict=True))]
    return max(_difference(a.detach(), b.detach()) for a, b in pairs)


def _flash_attn(device: str) -> float:
    import torch

    flash_attn: Any = import_module("flash_attn")
    torch.manual_seed(0)
    made = [torch.randn(2, 256, 4, 64, device=device, dtype=torch.bfloat16) for _ in range(3)]
    found = flash_attn.flash_attn_func(*made, causal=True)
    attend: Any = torch.nn.functional.scaled_dot_product_attention
    turned = [tensor.float().transpose(1, 2) for tensor in made]
    return _difference(found, attend(*turned, is_causal=True).transpose(1, 2))


def _nf4_product(device: str) -> float:
    """A product with a 4-bit matrix, against the product with the same matrix dequantized."""
    import bitsandbytes.functional as functional
    import torch
    from bitsandbytes.autograd._functions import matmul_4bit

    torch.manual_seed(0)
    weight = torch.randn(256, 512, device=device, dtype=torch.bfloat16)
    rows = torch.randn(8, 512, device=device, dtype=torch.bfloat16)
    packed, state = functional.quantize_4bit(weight, quant_type="nf4", compress_statistics=True)
    plain = functional.dequantize_4bit(packed, state)
    return _difference(matmul_4bit(rows, packed.t(), quant_state=state), rows.float() @ plain.float().t())


def _adam_8bit(device: str) -> float:
    """One step of 8-bit Adam. Its first step must be close to that of torch."""
    import torch
    from bitsandbytes.optim.adamw import AdamW8bit

    return _one_step(torch, partial(AdamW8bit, lr=1e-2), device)


def _fused_adam(device: str) -> float:
    """DeepSpeed's fused Adam, which is compiled on first use."""
    import torch
    from deepspeed.ops.adam import FusedAdam

    return _one_step(torch, partial(FusedAdam, lr=1e-2, weight_decay=0.01, adam_w_mode=True), device)


def _one_step(torch: Any, optimizer: Any, device: str) -> float:
    torch.manual_seed(0)
    start = torch.randn(128, 128, device=device)
    gradient = torch.randn(128, 128, device=device)
    weights: list[Any] = []
    for make in (optimizer, partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.01)):
        weight = torch.nn.Parameter(start.clone())
        weight.grad = gradient.clone()
        make([weight]).step()
        weights.append(weight.detach())
    return _difference(weights[0] - start, weights[1] - start)


def _liger_norm(device: str) -> float:
    import torch

    liger: Any = import_module("liger_kernel.transformers")
    torch.manual_seed(0)
    rows = torch.randn(64, 256, device=device)
    ours, plain = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    found: Any = liger.LigerRMSNorm(256).to(device)(ours)
    expected = plain * torch.rsqrt(plain.square().mean(-1, keepdim=True) + 1e-6)
    found.square().sum().backward()
    expected.square().sum().backward()
    return max(_difference(found, expected), _difference(ours.grad, plain.grad))


def _liger_loss(device: str) -> float:
    import torch

    liger: Any = import_module("liger_kernel.transformers")
    torch.manual_seed(0)
    hidden: Any = torch.randn(64, 128, device=device, requires_grad=True)
    plain: Any = hidden.detach().clone().requires_grad_()
    head = torch.randn(1024, 128, device=device)
    labels = torch.randint(0, 1024, (64,), device=device)
    found: Any = liger.LigerFusedLinearCrossEntropyLoss()(head, hidden, labels)
    expected = torch.nn.functional.cross_entropy(plain @ head.t(), labels)
    found.backward()
    expected.backward()
    return max(_difference(found.detach(), expected.detach()), _difference(hidden.grad, plain.grad))


def _compiled(device: str) -> float:
    import torch

    torch.manual_seed(0)
    rows = torch.randn(256, 256, device=device)

    def function(x: Any) -> Any:
        return torch.nn.functional.gelu(x @ x.t()).sum(-1)

    return _difference(_COMPILED.setdefault(device, torch.compile(function))(rows), function(rows))


_COMPILED: dict[str, Any] = {}


def _collective(device: str) -> float:
    """A sum over gloo in a group of one process: the build of torch has the backend for this device."""
    import torch

    distributed: Any = import_module("torch.distributed")
    with NamedTemporaryFile() as file:
        store = distributed.FileStore(file.name, 1)
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        value = torch.ones(8, device=device)
        distributed.all_reduce(value)
        distributed.destroy_process_group()
    return float((value - 1).abs().max())


def _vllm_completion(device: str) -> float:
    """vLLM starts its engine on this card with a model of random weights; 0 if all tokens are generated."""
    from perf.cuda.recipes import write_model
    from perf.cuda.scale import find_scale

    vllm: Any = import_module("vllm")
    with TemporaryDirectory() as folder:
        write_model(Path(folder), find_scale(dry=False), "small")
        engine = vllm.LLM(model=folder, max_model_len=256, gpu_memory_utilization=0.3, enforce_eager=True)
        sampling = vllm.SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
        found = engine.generate(["1+2="] * 4, sampling)
    return float(sum(8 - len(one.outputs[0].token_ids) for one in found))


CHECKS: Mapping[str, Check] = {
    "torch: SDPA, math": Check(partial(_sdpa, "MATH")),
    "torch: SDPA, flash": Check(partial(_sdpa, "FLASH_ATTENTION")),
    "torch: SDPA, memory-efficient": Check(partial(_sdpa, "EFFICIENT_ATTENTION"), gpu=True),
    "torch: SDPA, cuDNN": Check(partial(_sdpa, "CUDNN_ATTENTION"), gpu=True),
    "flash-attn: forward": Check(_flash_attn, "flash_attn", gpu=True),
    "torch.compile: product and GELU": Check(_compiled, "triton", gpu=True),
    "torch: gloo, a sum": Check(_collective),
    "bitsandbytes: product with NF4": Check(_nf4_product, "bitsandbytes"),
    "bitsandbytes: 8-bit AdamW": Check(_adam_8bit, "bitsandbytes", gpu=True),
    "Liger: RMSNorm": Check(_liger_norm, "liger_kernel", gpu=True),
    "Liger: fused linear cross-entropy": Check(_liger_loss, "liger_kernel", gpu=True),
    "DeepSpeed: fused Adam": Check(_fused_adam, "deepspeed", gpu=True),
    "vLLM: greedy completions": Check(_vllm_completion, "vllm", gpu=True),
}
