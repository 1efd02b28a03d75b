"""The variables of the process of the trackers: its own ones, and no secrets of others."""

from posttrain.runtime.process_environment import tracker_environment
from posttrain.runtime.trackers import mlflow, tensorboard, trackio, wandb

CALLER = {
    "PATH": "/bin",
    "HTTPS_PROXY": "http://proxy:3128",
    "OPENAI_API_KEY": "sk-openai",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "HF_TOKEN": "hf_token",
    "WANDB_API_KEY": "wandb",
    "WANDB_MODE": "offline",
    "MLFLOW_TRACKING_URI": "http://mlflow",
    "MLFLOW_TRACKING_PASSWORD": "mlflow",
    "TRACKIO_DIR": "/trackio",
    "LD_PRELOAD": "/evil.so",
}
TRACKERS = {one.EXTENSION.name: one.EXTENSION for one in (mlflow, tensorboard, trackio, wandb)}


def names(*trackers: str) -> set[str]:
    patterns = [pattern for name in trackers for pattern in TRACKERS[name].variables]
    return tracker_environment(patterns, CALLER).keys() & CALLER.keys()


def test_a_tracker_gets_its_own_variables_and_no_others():
    machine = {"PATH", "HTTPS_PROXY"}
    assert names("tensorboard") == machine
    assert names("wandb") == machine | {"WANDB_API_KEY", "WANDB_MODE"}
    assert names("mlflow") == machine | {"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_PASSWORD"}
    assert names("trackio") == machine | {"TRACKIO_DIR", "HF_TOKEN"}
    assert names("wandb", "mlflow") == names("wandb") | names("mlflow")
    assert tracker_environment(["WANDB_*"], CALLER)["WANDB_API_KEY"] == "wandb"
