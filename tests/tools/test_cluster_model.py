"""The model of training on many workers agrees with a replay of its messages."""

from __future__ import annotations

import mxforge as mx
import numpy as np
import pytest
from mxforge.tools.bench import cluster_model as model
from mxforge.tools.bench import scaling
from mxforge.tools.bench.cluster_model import Bucket, Cluster, Link, Step
from mxforge.tools.bench.cluster_simulation import simulated_step, simulated_sum
from mxforge.tools.bench.scaling import clusters, profiled

SLOW, FAST = Link(15e-6, 1.2e9), Link(2e-6, 300e9)
STEP = Step(0.01, 0.02, [Bucket(4 << 20, 0.1), Bucket(4 << 20, 0.4), Bucket(9 << 20, 0.9), Bucket(1000, 1.0)])


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 12, 64])
@pytest.mark.parametrize("nbytes", [8, 1 << 14, 4 << 20, 100 << 20])
def test_sums_take_the_time_of_their_messages(workers: int, nbytes: int) -> None:
    shapes = [Cluster(workers, SLOW)] + [Cluster(workers, SLOW, 4, FAST)] * (workers % 4 == 0)
    for cluster in shapes:
        seconds = simulated_sum(nbytes, cluster, np.zeros(workers)).max()
        assert seconds == pytest.approx(model.best(nbytes, cluster)[0], rel=1e-9)


def test_the_best_algorithm_depends_on_bytes_and_workers() -> None:
    assert model.best(8, Cluster(64, SLOW))[1] == "tree"
    assert model.best(4 << 20, Cluster(64, SLOW))[1] == "halving"
    assert model.best(100 << 20, Cluster(6, SLOW))[1] == "ring"
    assert model.best(100 << 20, Cluster(64, SLOW, 8, FAST))[1].startswith("hierarchical")
    assert model.ring(1e9, 4, Link(0, 1e9)) == pytest.approx(1.5)


@pytest.mark.parametrize("workers", [8, 64, 512])
def test_steps_of_the_model_are_those_of_the_replay(workers: int) -> None:
    for cluster in clusters(workers).values():
        assert simulated_step(STEP, cluster) == pytest.approx(model.step_seconds(STEP, cluster), rel=1e-9)
        assert simulated_step(STEP, cluster, 0.05) > model.step_seconds(STEP, cluster)


def test_sums_hide_behind_the_backward_pass() -> None:
    fast = Step(0.01, 10.0, STEP.buckets)
    assert model.efficiency(fast, Cluster(8, SLOW)) > 0.998
    assert model.efficiency(STEP, Cluster(1, SLOW)) == 1.0


def test_buckets_are_those_of_the_real_program() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(600, activation="relu", in_units=1500), mx.gluon.nn.Dense(600), mx.gluon.nn.Dense(600))
    buckets = profiled(net, (64, 1500))
    values = sum(p.data().size for p in net.collect_params().values())
    assert len(buckets) == 2 and sum(b.nbytes for b in buckets) == 4 * values
    assert 0 < buckets[0].ready <= buckets[1].ready <= 1


def test_the_tables_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(scaling, "check_links", lambda: None)
    monkeypatch.setattr(scaling, "_NETWORKS", (("an MLP", "train-mlp", (4, 784), 1e-3),))
    monkeypatch.setattr(scaling, "_WORKERS", (8,))
    assert scaling.measure_scaling(1) == 0
    text = capsys.readouterr().out
    assert "an MLP: 1.0 ms a step, 0.4 MB of gradients" in text
    assert "| 100 Gbit/s, 8 by NVLink  | 8 |" in text
