"""Importing the package and making its objects leaves the root logger as it is: a program configures it later."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "data" / "records"

PROGRAM = """
import logging, sys
import mxforge as mx

folder, records = sys.argv[1:]
mnist = mx.io.MNISTIter(image=folder + "/images.gz", label=folder + "/labels.gz", batch_size=2)
mnist.debug_skip_load()
path = records + "/images.rec"
shape = {"data_shape": (3, 8, 8), "batch_size": 2}
mx.io.ImageRecordIter(path_imgrec=path, mean_img=folder + "/mean.bin", verbose=True, **shape)
mx.image.ImageIter(path_imgrec=path, path_imgidx=records + "/images.idx", **shape)
boxes = mx.image.ImageDetIter(path_imgrec=records + "/objects.rec", path_imgidx=records + "/objects.idx", **shape)
boxes.sync_label_shape(boxes, verbose=True)
mx.image.DetRandomCropAug(aspect_ratio_range=1.0, area_range=(0.1, 1.0))
mx.optimizer.LBSGD()
mx.contrib.text.embedding.CustomEmbedding(folder + "/vectors.txt")
with mx.util.np_shape(True):
    mx.nd.zeros((0,))
assert not logging.getLogger().handlers, logging.getLogger().handlers
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s: %(message)s")
mx.io.MNISTIter(image=folder + "/images.gz", label=folder + "/labels.gz", batch_size=2, shuffle=False)
mx.image.ImageIter(path_imgrec=path, **shape)
"""


def test_nothing_configures_the_root_logger(tmp_path: Any) -> None:
    images = struct.pack(">4i", 2051, 4, 3, 3) + bytes(36)
    (tmp_path / "images.gz").write_bytes(gzip.compress(images))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(struct.pack(">2i", 2049, 4) + bytes(4)))
    (tmp_path / "vectors.txt").write_text("a 1 2\nb 3 4\n")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(RECORDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_mnist, of_images = done.stdout.splitlines()
    assert of_mnist.startswith("mxforge.") and "io.mnist_reader: MNISTIter: batches of shape" in of_mnist
    assert of_images.startswith("root: ImageIter: loading recordio")  # the logger's name in MXNet


def test_training_prints_without_a_configuration() -> None:
    """As in MXNet, callbacks and `fit` print to stderr once the level of the root logger is INFO."""
    program = """
import logging
import mxforge as mx

logging.getLogger().setLevel(logging.INFO)
net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1), name="lro")
data = mx.io.NDArrayIter(mx.nd.ones((4, 2)), mx.nd.ones((4, 1)), 2, label_name="lro_label")
module = mx.mod.Module(net, label_names=["lro_label"])
speed = mx.callback.Speedometer(2, 1, auto_reset=False)
module.fit(data, eval_metric="mse", num_epoch=1, batch_end_callback=speed)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "INFO:root:Epoch[0] Batch [0-1]\tSpeed:" in done.stderr and "INFO:root:Epoch[0] Train-mse=" in done.stderr
