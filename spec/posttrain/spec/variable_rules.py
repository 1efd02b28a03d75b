"""The rules for the environment variables of a step's processes, and those that are part of every key.

docs/environment-variables.md is generated from them. A variable that describes the machine or its network,
and cannot change a product, is passed. One that could change a product has one value for all users, or is
dropped.
"""

from collections.abc import Mapping
from types import MappingProxyType

from posttrain.spec.accelerator_variables import COMMUNICATION, GPUS, LIBRARIES
from posttrain.spec.process_variables import HOST_PATH, HUB_CREDENTIAL, Rules, VariableRule, rules_of

_MACHINE: Rules = (
    *rules_of("pass", "PATH", "Where programs are.", in_container="image", unreported=True),
    *rules_of(
        "pass", "HOME", "Where libraries have their caches.", in_container="set", container_value="{tmp}"
    ),
    *rules_of("pass", "USER LOGNAME", "Names of caches.", in_container="set", container_value="{user}"),
    *rules_of("pass", "TMPDIR", "Where temporary files go.", in_container="image", unreported=True),
    *rules_of("pass", "LD_LIBRARY_PATH", "Where the libraries of the driver and of CUDA are.", **HOST_PATH),
    *rules_of("pass", "VIRTUAL_ENV", "The Python environment.", in_container="image", unreported=True),
    *rules_of(
        "pass",
        "PYTHONPATH PYTHONHOME",
        "Where Python finds modules: the same ones as in the client, whose versions are in the key.",
        in_container="image",
        unreported=True,
    ),
    *rules_of("pass", "XDG_CACHE_HOME", "Where libraries have their caches.", **HOST_PATH),
    *rules_of("pass", "CC CXX", "The compilers for kernels.", **HOST_PATH),
    *rules_of("pass", "RECIPE_TEST_*", "Read by the tests of this project.", **HOST_PATH),
)

_NETWORK: Rules = (
    *rules_of(
        "pass",
        "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy",
        "The proxies of the network. Libraries read both spellings.",
        scope="network",
    ),
    *rules_of(
        "pass",
        "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE",
        "The certificates of the network. A container needs them in its image.",
        scope="network",
        in_container="image",
    ),
)

_HUB: Rules = (
    *rules_of(
        "secret",
        HUB_CREDENTIAL,
        "The token of the hub, for models and datasets with restricted access.",
        scope="hub",
    ),
    *rules_of(
        "drop",
        "HUGGING_FACE_HUB_TOKEN HUGGINGFACE_HUB_TOKEN",
        f"An old name of {HUB_CREDENTIAL}. Its value reaches a step as {HUB_CREDENTIAL}.",
        unreported=True,
    ),
    *rules_of(
        "set",
        "HF_TOKEN_PATH",
        f"No file: the client reads the token file and passes the token as {HUB_CREDENTIAL}.",
        value="/dev/null",
    ),
    *rules_of(
        "pass", "HF_ENDPOINT", "A mirror of the hub. A commit has the same content there.", scope="network"
    ),
    *rules_of(
        "pass",
        "HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_DATASETS_OFFLINE",
        "Only the cache is read: a download fails, or gives the same files.",
        scope="network",
    ),
    *rules_of("pass", "HF_HUB_* HF_XET_*", "Time limits and transfer methods of downloads.", scope="network"),
    *rules_of(
        "pass",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "The hub is read without a token unless the code passes one.",
        scope="network",
    ),
    *rules_of(
        "pass",
        "HF_HOME",
        "The cache of the hub.",
        in_container="set",
        container_value="{work}/scratch/huggingface",
    ),
    *rules_of(
        "pass",
        "HF_HUB_CACHE HUGGINGFACE_HUB_CACHE TRANSFORMERS_CACHE HF_ASSETS_CACHE HF_XET_CACHE",
        "A cache of the hub.",
        **HOST_PATH,
    ),
    *rules_of(
        "set",
        "HF_DATASETS_CACHE",
        "Datasets are converted in the work folder: no digest covers a shared cache.",
        value="{work}/scratch/datasets",
    ),
    *rules_of(
        "set", "HF_HUB_DISABLE_PROGRESS_BARS HF_HUB_DISABLE_TELEMETRY", "Clean logs, no telemetry.", value="1"
    ),
    *rules_of("drop", "HF_HUB_VERBOSITY HF_DEBUG", "Logs requests with their headers."),
    *rules_of(
        "drop", "HF_ALLOW_CODE_EVAL", "Set by the stage: `confirm_run_unsafe_code`.", changes_results=True
    ),
    *rules_of("drop", "HF_*", "Can change what is loaded: use the keys of the recipe.", changes_results=True),
)

_INTERPRETER: Rules = (
    *rules_of("set", "PYTHONHASHSEED", "The order of sets.", value="0", changes_results=True),
    *rules_of("set", "PYTHONUNBUFFERED", "The log is complete after a kill.", value="1"),
    *rules_of(
        "pass",
        "PYTHONDONTWRITEBYTECODE",
        "Whether bytecode is cached.",
        in_container="set",
        container_value="1",
        unreported=True,
    ),
    *rules_of(
        "set",
        "LANG LC_ALL",
        "Sort order and text encoding of programs.",
        value="C.UTF-8",
        changes_results=True,
        unreported=True,
    ),
    *rules_of(
        "set", "TZ", "Dates in chat templates and SQL.", value="UTC", changes_results=True, unreported=True
    ),
    *rules_of(
        "set",
        "OMP_NUM_THREADS MKL_NUM_THREADS",
        "The cores of the step (`hardware.cpus`), which are not part of the key.",
        value="{cpus}",
        unreported=True,
    ),
    *rules_of(
        "set",
        "POSTTRAIN_SECRETS",
        "The names of the step's secrets, which its subprocesses do not get.",
        value="{secrets}",
    ),
    *rules_of(
        "drop",
        "OMP_* MKL_* KMP_* GOMP_* OPENBLAS_*",
        "Changes the number of threads or the kernels, and so the last bits of a result.",
        changes_results=True,
    ),
    *rules_of(
        "drop",
        "LD_PRELOAD",
        "Adds code to every process. Put it into the image instead.",
        changes_results=True,
    ),
)

RULES: Mapping[str, VariableRule] = MappingProxyType(
    {
        rule.name: rule
        for group in (_MACHINE, _NETWORK, _HUB, GPUS, COMMUNICATION, LIBRARIES, _INTERPRETER)
        for rule in group
    }
)


def key_variables() -> dict[str, str]:
    """The variables that can change a product, with their values, which are part of every key."""
    return {rule.name: rule.value for rule in RULES.values() if rule.action == "set" and rule.changes_results}
