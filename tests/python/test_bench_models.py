"""tools/bench_models.py on tiny models: rows, JSON, comparison, and what it says of results that are wrong."""

import json
import math
import pathlib
import subprocess
import sys
import types

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

from bench import child, models, results  # noqa: E402


def bench(*args):
    return subprocess.run([sys.executable, ROOT / "tools" / "bench_models.py", *map(str, args)], capture_output=True,
                          text=True, timeout=300)  # fmt: skip


def compiled(key, backend):
    """(row, module, contenders, inputs) with the backend in our place."""
    row, device = models.row(key), torch.get_default_device()
    module = models.build(row, device)
    inputs = models.inputs(row, module, row.model.batch, device)
    return row, module, {"eager": module, "cinn_like": torch.compile(module, backend=backend)}, inputs


def test_a_run_ends_with_rows_and_a_later_one_is_compared(tmp_path):
    file = tmp_path / "first.json"
    options = ("--set", "tiny", "--only", "tiny_f32,tiny_crash", "--contenders", "cinn_like", "--no-first-calls",
               "--threads", 1, "--seen", 3)  # fmt: skip
    done = bench(*options, "--round-seconds", 0.1, "--json", file)
    assert done.returncode == 1, done.stderr  # one row died
    result = json.loads(file.read_text())
    assert result["machine"]["threads"] >= 1 and result["machine"]["torch"] == torch.__version__
    stands, dies = sorted(result["rows"], key=lambda row: row["row"], reverse=True)
    assert stands["row"] == "tiny_f32" and not results.problem(stands), stands
    assert stands["cached_report"]["ops"] and stands["cached_report"]["subgraphs"] == 2  # of constant sizes, and of a symbolic batch
    assert len(stands["rounds"]) >= 3 and set(stands["ratio"]) == {"eager"}
    assert stands["check"]["cinn_like"]["error"] < 1e-5 and stands["check"]["eager"]["error"] < 1e-5
    assert "died of SIGABRT" in results.problem(dies)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("tiny")] == ["tiny_crash_f32", "tiny_f32"]

    for row in result["rows"]:
        if "ratio" in row:
            row["ratio"]["eager"] = [2 * r for r in row["ratio"]["eager"]]
    later = tmp_path / "later.json"
    later.write_text(json.dumps(result))
    shown = bench("--show", later, "--compare", file)
    assert "geomean of the changes: 2.000" in shown.stdout, shown.stdout + shown.stderr


def test_a_wrong_result_is_reported():
    row, module, runs, inputs = compiled("tiny_wrong_f32", "eager")
    found = {"row": row.key, "check": child.check(row, module, runs, inputs, torch.get_default_device())}
    assert not found["check"]["eager"]["wrong"] and found["check"]["cinn_like"]["error"] == pytest.approx(0.01, rel=0.01)
    assert results.problem(found).startswith("WRONG")


@pytest.mark.parametrize("key", ["tiny_train_f32", "tiny_train_bf16"])
def test_gradients_are_checked(key):
    row, module, runs, inputs = compiled(key, "aot_eager")
    device = torch.get_default_device()
    entry = child.check(row, module, runs, inputs, device)["cinn_like"]
    assert not entry["wrong"] and entry["error"] < (1e-5 if row.dtype == "f32" else 5e-2)
    weight = module[1].weight
    weight.register_hook(lambda gradient: gradient * 1.2)  # of the module that runs, not of the copy in float64
    wrong = child.check(row, module, {"eager": torch.compile(module, backend="eager")}, inputs, device)["eager"]
    assert wrong["where"] == "gradient of 1.weight" and wrong["error"] == pytest.approx(0.2, rel=0.2)


def test_a_cache_is_as_full_before_each_contender():
    layer = types.SimpleNamespace(keys=torch.ones(2), cumulative_length=torch.tensor(4), dtype=torch.float32)
    inputs = models.Inputs({"past_key_values": types.SimpleNamespace(layers=[layer])})
    layer.cumulative_length.add_(3)
    wide = inputs.widened().args["past_key_values"].layers[0]
    assert layer.cumulative_length == 4 and wide.cumulative_length == 4
    assert wide.keys.dtype == wide.dtype == torch.float64 and layer.keys.dtype == layer.dtype == torch.float32
    layer.cumulative_length.add_(1)
    assert wide.cumulative_length == 4
    inputs.reset()
    assert layer.cumulative_length == 4


def test_errors():
    one = {"a": torch.ones(3, dtype=torch.float64), "n": torch.arange(3)}
    assert child.error(one, one) == (0.0, "")
    worst, where = child.error({**one, "a": torch.tensor([1, 1, 1.5])}, one)
    assert worst == pytest.approx(0.5, rel=0.01) and where == "a"
    for other in ({"a": one["a"]}, {**one, "a": torch.ones(1, 3)}, {**one, "a": torch.full((3,), math.nan)},
                  {**one, "n": torch.arange(1, 4)}):  # fmt: skip
        assert child.error(other, one)[0] == math.inf


def test_figures_are_medians_of_paired_ratios():
    row = {"row": "x", "rounds": [{"eager": e, "cinn_like": c} for e, c in ((1.0, 2.0), (2.0, 2.0), (9.0, 27.0))]}
    results.figures(row)
    assert row["ratio"] == {"eager": [1.5, 2.0, 2.5]} and row["ms"] == {"eager": 2000.0, "cinn_like": 2000.0}


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    for load, package in ((models.torchvision, "torchvision"), (models.transformers, "transformers")):
        with pytest.raises(models.Missing, match=f"{package} is not installed"):
            load()


def test_every_row_names_a_model():
    for which in ("quick", "full", "gpu", "tiny"):
        keys = [row.key for row in models.rows(which)]
        assert len(set(keys)) == len(keys)
        assert all(row.name in models.MODELS and row.dtype in ("f32", "bf16") for row in models.rows(which))
    assert len(models.rows("quick")) == 8 and len(models.rows("gpu")) == 6
    assert len({row.model.family.split(",")[0] for row in models.rows("full")}) >= 18


@pytest.mark.parametrize("name", ["zoo_roberta_train", "zoo_segformer", "zoo_wav2vec2"])
def test_architectures_that_no_tactic_has_in_mind(name):
    assert name in {row.name for row in models.rows("zoo")}
    row = models.row(f"{name}_f32", batch=3)
    module = models.build(row, torch.device("cpu"))
    inputs = models.inputs(row, module, row.model.batches[0], torch.device("cpu"))
    results = child.Step(row, module, module, inputs, torch.device("cpu")).results()
    assert all(t.isfinite().all() for t in results.values())
    found = results["output 0"] if not row.model.training else results["gradient of encoder.layer.0.attention.self.query.weight"]
    assert len(found) == 3 if not row.model.training else found.any()
