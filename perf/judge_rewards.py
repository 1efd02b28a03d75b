"""GRPO on a judge's verdicts, over HTTP: `python perf/judge_rewards.py > perf/judge_rewards.md`.

A server of this machine judges as a model would be asked to: it reads the text between <judged> and
</judged> and ends with a line `VERDICT: NUMBER`, here the share of 7s. It is as rude as servers are:
some requests get 429 with Retry-After, some 500, some a body that is cut, some no verdict. What does GRPO
learn, and what becomes of the requests?
"""

import json
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_STEPS = 30
_RECIPE = """\
recipe: 1
name: judged
seed: 1
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 64, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "0123456789+="}
datasets:
  sums:
    from: {arithmetic: {digits: 1, count: 81}}
    steps:
      - split: {test: 32}
endpoints:
  judge: {provider: vllm, model: rule, base_url: "URL", concurrency: 8}
rewards:
  liked:
    reads: {completion: text, prompt: text}
    nodes:
      verdict:
        judge:
          of: completion
          with: {question: prompt}
          endpoint: judge
          rubric: How much of the text are sevens?
          scale: [0, 10]
          max_retries: 3
          timeout_seconds: 30
    returns: verdict
stages:
  before: {eval: base, data: sums.test, reward: liked, metrics: {liked: verdict}, sampling: {max_tokens: 8}}
  grpo:
    train: grpo
    model: base
    data: sums.train
    reward: liked
    params: {max_steps: STEPS, num_prompts: 4, num_generations: 8, max_completion_length: 8,
        learning_rate: 1.0e-2}
  after: {eval: grpo, data: sums.test, reward: liked, metrics: {liked: verdict}, sampling: {max_tokens: 8}}
"""


class JudgeServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _JudgeHandler)
        self.answers: Counter[str] = Counter()
        self.turn = threading.Lock()


class _JudgeHandler(BaseHTTPRequestHandler):
    server: JudgeServer

    def log_message(self, *_told: Any) -> None:
        return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.turn:
            number = self.server.answers.total()
            kind = {3: "429", 7: "500", 11: "cut", 13: "no verdict"}.get(number % 17, "verdict")
            self.server.answers[kind] += 1
        if kind in ("429", "500"):
            self._send(int(kind), b"not now", retry_after="0.05")
        elif kind == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
            self.close_connection = True
        else:
            self._send(200, _reply(body, kind))

    def _send(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content_length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)


def _reply(body: dict[str, Any], kind: str) -> bytes:
    judged = re.search(r"<judged>\n(.*)\n</judged>", body["messages"][-1]["content"], re.DOTALL)
    text = judged[1] if judged else ""
    verdict = 10 * text.count("7") / max(1, len(text))
    said = f"I have counted.\nVERDICT: {verdict:.2f}" if kind == "verdict" else "It is hard to say."
    choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": 9}}).encode()


def main() -> None:
    judge = JudgeServer()
    threading.Thread(target=judge.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        url = f"http://127.0.0.1:{judge.server_address[1]}"
        (root / "recipe.yaml").write_text(_RECIPE.replace("URL", url).replace("STEPS", str(_STEPS)))
        command = [
            str(Path(sys.executable).parent / "recipe"),
            "run",
            "--home",
            str(root / "home"),
            str(root),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            sys.exit(ran.stdout + ran.stderr)
        _print_results(root / "home", judge)
    judge.shutdown()


def _print_results(home: Path, judge: JudgeServer) -> None:
    products = {one["step"]: one for one in map(_manifest, (home / "store").iterdir())}
    figures = _read_metrics(products["grpo"]["folder"])
    rewards = [one["reward"] for one in figures if "reward" in one]
    print("# GRPO on a judge's verdicts over HTTP\n")
    print(
        f"Made by `python perf/judge_rewards.py`: {_STEPS} steps of 32 completions of a model from nothing,"
        " judged by a server of this machine that gives the share of 7s, from 0 to 10. Of its answers"
        " some are 429 with Retry-After, 500, cut in the middle, or hold no verdict.\n"
    )
    print("| | |\n|---|--:|")
    for name in ("before", "after"):
        metric = products[name]["facts"]["metrics"]["liked"]
        found = f"{metric['value']:.2f} [{metric['low']:.2f}, {metric['high']:.2f}]"
        unscored = products[name]["facts"]["unscored"]
        print(f"| verdict {name} training, {metric['items']} of 32 items | {found} |")
        print(f"| unscored {name} training | {unscored:.1%} |")
    print(f"| mean reward, first 5 steps | {sum(rewards[:5]) / 5:.2f} |")
    print(f"| mean reward, last 5 steps | {sum(rewards[-5:]) / 5:.2f} |")
    shares = [value for one in figures for key, value in one.items() if key.startswith("unscored/")]
    if shares:
        print(f"| completions without a verdict while training | {sum(shares) / len(shares):.1%} |")
    for kind, count in judge.answers.most_common():
        print(f"| requests answered: {kind} | {count:,} |")


def _manifest(folder: Path) -> dict[str, Any]:
    return {**json.loads((folder / "manifest.json").read_text()), "folder": folder}


def _read_metrics(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "record/events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [event["values"] for event in events if event["kind"] == "metrics"]


if __name__ == "__main__":
    main()
