"""Trains a convolutional network on 8x8 digits with Module.fit. A run that was stopped is continued with --resume.

usage: mxforge exec digits_module.py DATA.npz PREFIX [--epochs N] [--resume]

DATA.npz holds `images` (count, 64), 0 to 16, and `labels`. Each epoch writes PREFIX-EPOCH.params and .states.
"""

import argparse
import glob

import mxnet as mx
import numpy as np

BATCH = 32


def digits(path):
    """Images and labels for training, and a fifth of them for evaluation."""
    with np.load(path) as file:
        images, labels = file["images"].reshape(-1, 1, 8, 8).astype("float32") / 16, file["labels"].astype("float32")
    order = np.random.RandomState(0).permutation(len(labels))
    train, held_out = order[len(order) // 5 :], order[: len(order) // 5]
    return images[train], labels[train], images[held_out], labels[held_out]


def network():
    x = mx.sym.var("data")
    for number, channels in enumerate((16, 32)):
        x = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=channels, no_bias=True, name=f"conv{number}")
        x = mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False, name=f"norm{number}"), act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.Dropout(mx.sym.flatten(x), p=0.3)
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=10, name="classes"), name="softmax")


def seed_after(epoch, *_):
    """Seed the next epoch: its dropout then does not depend on the epochs before it."""
    print(f"finished epoch {epoch + 1}", flush=True)
    mx.random.seed(epoch + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("prefix")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    images, labels, held_out_images, held_out_labels = digits(options.data)

    begin = len(glob.glob(options.prefix + "-*.params")) if options.resume else 0
    if begin:
        module = mx.mod.Module.load(options.prefix, begin, load_optimizer_states=True)
    else:
        module = mx.mod.Module(network())
    np.random.seed(0)
    batches = mx.io.NDArrayIter(images, labels, BATCH, shuffle=True, last_batch_handle="discard")
    for _ in range(begin):
        batches.reset()  # shuffles as often as the run that was stopped
    mx.random.seed(begin)
    steps = len(labels) // BATCH
    module.fit(
        batches,
        optimizer="sgd",
        optimizer_params={
            "learning_rate": 0.05,
            "momentum": 0.9,
            "wd": 1e-4,
            "lr_scheduler": mx.lr_scheduler.FactorScheduler(2 * steps, 0.5, base_lr=0.05),
            "begin_num_update": begin * steps,
        },
        initializer=mx.init.Xavier(),
        begin_epoch=begin,
        num_epoch=options.epochs,
        epoch_end_callback=[
            mx.callback.module_checkpoint(module, options.prefix, save_optimizer_states=True),
            seed_after,
        ],
    )
    scores = module.score(mx.io.NDArrayIter(held_out_images, held_out_labels, BATCH), "acc")
    print(f"accuracy {scores[0][1]:.4f}")


if __name__ == "__main__":
    main()
