"""Trains a convolutional network on 8x8 digits with Gluon. A run that was stopped is continued with --resume.

usage: mxforge exec digits_gluon.py DATA.npz PREFIX [--epochs N] [--resume]

DATA.npz holds `images` (count, 64), 0 to 16, and `labels`. Each epoch writes PREFIX-EPOCH.params and .states.
"""

import argparse
import glob

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

BATCH = 32


def digits(path):
    """Data sets for training and, with a fifth of the images, for evaluation."""
    with np.load(path) as file:
        images, labels = file["images"].reshape(-1, 8, 8, 1), file["labels"].astype("float32")
    order = np.random.RandomState(0).permutation(len(labels))
    return [
        gluon.data.ArrayDataset(mx.nd.array(images[part], dtype="uint8"), labels[part])
        for part in (order[len(order) // 5 :], order[: len(order) // 5])
    ]


def scaled(image):
    """Pixels between 0 and 1, with the channels first."""
    return image.astype("float32").transpose((2, 0, 1)) / 16


def network():
    net = nn.HybridSequential()
    for channels in (16, 32):
        net.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dropout(0.3), nn.Dense(10))
    return net


def train_epoch(net, trainer, batches):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for images, labels in batches:
        with autograd.record():
            losses = loss(net(images), labels)
        losses.backward()
        trainer.step(len(labels))


def accuracy(net, batches):
    metric = mx.metric.Accuracy()
    for images, labels in batches:
        metric.update(labels, net(images))
    return metric.get()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("prefix")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    train, held_out = (data.transform_first(scaled) for data in digits(options.data))

    begin = len(glob.glob(options.prefix + "-*.params")) if options.resume else 0
    mx.random.seed(0)
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    schedule = mx.lr_scheduler.FactorScheduler(2 * len(train) // BATCH, 0.5, base_lr=0.01)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01, "lr_scheduler": schedule})
    if begin:
        net.load_parameters(f"{options.prefix}-{begin:04d}.params")
        trainer.load_states(f"{options.prefix}-{begin:04d}.states")

    batches = gluon.data.DataLoader(train, BATCH, shuffle=True)
    for epoch in range(begin, options.epochs):
        np.random.seed(epoch)  # of the order of the images
        mx.random.seed(epoch)  # of dropout
        train_epoch(net, trainer, batches)
        trainer.save_states(f"{options.prefix}-{epoch + 1:04d}.states")
        net.save_parameters(f"{options.prefix}-{epoch + 1:04d}.params")  # last: the epoch is complete
        print(f"finished epoch {epoch + 1}", flush=True)
    print(f"accuracy {accuracy(net, gluon.data.DataLoader(held_out, BATCH)):.4f}")


if __name__ == "__main__":
    main()
