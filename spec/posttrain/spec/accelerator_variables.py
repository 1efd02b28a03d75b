"""The rules for the environment variables of CUDA, NCCL, torch, vLLM and the libraries on top of them."""

from posttrain.spec.process_variables import HOST_PATH, Rules, rules_of

GPUS: Rules = (
    *rules_of(
        "pass",
        "CUDA_VISIBLE_DEVICES",
        "The GPUs that the client may use. A step with GPUs gets its share of them.",
        in_container="image",
        unreported=True,
    ),
    *rules_of("pass", "CUDA_DEVICE_ORDER", "The numbering of GPUs.", **HOST_PATH),
    *rules_of("pass", "CUDA_HOME CUDA_PATH CUDA_CACHE_PATH", "A folder of CUDA.", scope="gpus", **HOST_PATH),
    *rules_of(
        "pass",
        "NVIDIA_* CUDA_VERSION",
        "Describes the image around the client.",
        scope="gpus",
        in_container="image",
        unreported=True,
    ),
    *rules_of(
        "pass",
        "CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_DISABLE_PERF_BOOST",
        "Order and time of launches, not their results.",
        scope="gpus",
    ),
    *rules_of(
        "pass",
        "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING"
        " PYTORCH_NVML_BASED_CUDA_CHECK",
        "How memory is allocated.",
        scope="gpus",
    ),
    *rules_of(
        "set",
        "CUBLAS_WORKSPACE_CONFIG",
        "Deterministic matrix products.",
        value=":4096:8",
        changes_results=True,
    ),
    *rules_of(
        "drop",
        "NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "Changes the precision of matrix products: set `precision` in the recipe.",
        changes_results=True,
    ),
    *rules_of(
        "drop",
        "CUDA_* CUDNN_* CUBLAS_* CUBLASLT_*",
        "Can change the selection of kernels, and so the last bits of a result.",
        changes_results=True,
    ),
)

COMMUNICATION: Rules = (
    *rules_of("pass", "NCCL_*", "The network between GPUs and its diagnostics.", scope="gpus"),
    *rules_of("pass", "FI_* UCX_*", "The network below NCCL.", scope="gpus"),
    *rules_of("pass", "TORCH_NCCL_*", "Time limits and diagnostics of collective operations.", scope="gpus"),
    *rules_of("pass", "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME", "The network interface.", scope="processes"),
    *rules_of(
        "pass", "TORCH_EXTENSIONS_DIR", "The cache of compiled extensions.", scope="processes", **HOST_PATH
    ),
    *rules_of(
        "drop",
        "NCCL_ALGO NCCL_PROTO NCCL_NVLS_ENABLE NCCL_COLLNET_ENABLE NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS",
        "Changes the order of sums over GPUs, and so the last bits of a result.",
        changes_results=True,
    ),
    *rules_of(
        "drop",
        "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT DS_ACCELERATOR",
        "Set by the launcher of the step's processes.",
        unreported=True,
    ),
)

LIBRARIES: Rules = (
    *rules_of(
        "pass",
        "TORCH_LOGS TORCH_DISTRIBUTED_DEBUG TORCH_SHOW_CPP_STACKTRACES TORCH_CPP_LOG_LEVEL",
        "Diagnostics of torch.",
    ),
    *rules_of(
        "pass", "TORCH_CUDA_ARCH_LIST MAX_JOBS DS_SKIP_CUDA_CHECK", "How kernels are compiled.", scope="gpus"
    ),
    *rules_of("pass", "TORCH_HOME TRITON_CACHE_DIR PYTORCH_KERNEL_CACHE_PATH", "A cache.", **HOST_PATH),
    *rules_of(
        "pass", "VLLM_LOGGING_LEVEL VLLM_CONFIGURE_LOGGING VLLM_TRACE_FUNCTION", "Diagnostics of vLLM."
    ),
    *rules_of(
        "pass",
        "VLLM_CPU_KVCACHE_SPACE VLLM_RPC_TIMEOUT VLLM_ENGINE_ITERATION_TIMEOUT_S"
        " VLLM_WORKER_MULTIPROC_METHOD",
        "Memory, time limits and processes of vLLM.",
    ),
    *rules_of("pass", "VLLM_CACHE_ROOT VLLM_NCCL_SO_PATH", "A path of vLLM.", **HOST_PATH),
    *rules_of("set", "VLLM_NO_USAGE_STATS", "No telemetry.", value="1"),
    *rules_of("drop", "VLLM_HOST_IP", "Set by the stage: the server is on the same machine."),
    *rules_of(
        "drop",
        "VLLM_* FLASHINFER_*",
        "Can change the selection of kernels (VLLM_ATTENTION_BACKEND), and so the completions.",
        changes_results=True,
    ),
    *rules_of(
        "set", "TOKENIZERS_PARALLELISM", "No warnings after a fork; the tokens are the same.", value="false"
    ),
    *rules_of("set", "TRANSFORMERS_VERBOSITY", "Clean logs.", value="error"),
    *rules_of("set", "TRL_EXPERIMENTAL_SILENCE", "Clean logs.", value="1"),
    *rules_of(
        "drop",
        "TRANSFORMERS_* TOKENIZERS_* TRL_* ACCELERATE_* FSDP_* DS_* DEEPSPEED_* LIGER_* BNB_* BITSANDBYTES_*",
        "Configures a library: use the keys of the recipe.",
        changes_results=True,
    ),
    *rules_of(
        "drop",
        "TORCH_* PYTORCH_* TORCHINDUCTOR_* TORCHDYNAMO_* TRITON_*",
        "Can change compiled kernels, and so the last bits of a result.",
        changes_results=True,
    ),
)
