"""mxboard: every kind of event, written to a folder."""

import os
import tempfile

import cases
import mxnet as mx
from mxboard import SummaryWriter


def network():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3), mx.gluon.nn.Activation("relu"))
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2, 4)))
    return net


def events():
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(logdir=folder) as writer:
            writer.add_scalar("a", 1.5, 0)
            writer.add_scalar("b", {"x": 1.0, "y": 2.0}, 1)
            writer.add_histogram("h", mx.nd.arange(10), bins=5, global_step=1)
            writer.add_image("i", mx.nd.sigmoid(cases.ramp(2, 3, 8, 8)), 2)
            writer.add_audio("s", cases.ramp(1, 100), 2)
            writer.add_embedding(
                "e", mx.nd.ones((4, 3)), labels=mx.nd.array([0, 1, 2, 3]), images=mx.nd.ones((4, 3, 2, 2))
            )
            writer.add_graph(network())
            writer.add_text("t", "hello")
            writer.add_pr_curve("p", mx.nd.array([0, 1, 1]), mx.nd.array([0.1, 0.5, 0.9]), 3)
        found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
        sizes = {name: os.path.getsize(name) for name in found}
        text = [open(name, "rb").read() for name in found if "tfevents" in name][0]
        kinds = sorted(os.path.splitext(name)[1] if "tfevents" not in name else "events" for name in found)
    tags = [tag.decode() for tag in (b"hello", b"FullyConnected", b"dense0_fwd", b"dense0_weight") if tag in text]
    return {
        "files": str(kinds),
        "empty": sum(size == 0 for size in sizes.values()),
        "tags": str(tags),
        "records": records(text),
    }


def records(text):
    """The sizes of all events but the first, which names the time and the machine."""
    sizes, place = [], 0
    while place < len(text):
        size = int.from_bytes(text[place : place + 8], "little")
        sizes.append(size)
        place += size + 16
    return str(sizes[1:])


CASES = {"events": events}

if __name__ == "__main__":
    cases.run(CASES)
