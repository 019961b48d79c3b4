"""Record files, datasets, samplers and loaders."""

import os
import struct
import tempfile
from functools import partial

import numpy as np
from program import failure, gather, numbers

PROGRAMS, program = gather()
MAGIC = struct.pack("<I", 0xCED7230A)


@program
def record_files(mx):
    """The bytes of record files, also where the data look like heads of records, and what is read from them."""
    records = [b"", b"abc", b"abcd", MAGIC, b"ab" + MAGIC, b"abcd" + MAGIC + b"ef", MAGIC * 3 + b"x", b"abcd" + MAGIC]
    with tempfile.TemporaryDirectory() as folder:
        rec, idx = os.path.join(folder, "a.rec"), os.path.join(folder, "a.idx")
        writer = mx.recordio.MXIndexedRecordIO(idx, rec, "w")
        for number, record in enumerate(records):
            writer.write_idx(number * 7, record)
        tell = writer.tell()
        writer.close()
        reader = mx.recordio.MXIndexedRecordIO(idx, rec, "r")
        read = [reader.read().hex() for _ in records] + [reader.read()]
        reader.reset()  # MXNet does not read on after the end
        keys = [reader.keys, reader.read_idx(35).hex(), reader.read().hex()]
        reader.reset()
        again = reader.read().hex()
        bad = [failure(lambda: reader.read_idx(1)), failure(lambda: reader.write(b"x"))]
        reader.close()
        with open(rec, "rb") as file, open(idx) as index:
            return [file.read().hex(), index.read(), tell, read, keys, again, bad]


@program
def image_records(mx):
    """Headers with one label and with several."""
    made = [
        mx.recordio.pack(mx.recordio.IRHeader(0, 4, 2574, 1), b"image"),
        mx.recordio.pack((0, [1.5, 2, 3], 7, 0), b"image"),
        mx.recordio.pack((9, np.array([0.25]), 7, 0), b""),
    ]
    headers = [mx.recordio.unpack(record) for record in made]
    return [
        [record.hex() for record in made],
        [[h.flag, np.asarray(h.label).tolist(), h.id, h.id2, data.decode()] for h, data in headers],
        repr(mx.recordio.IRHeader(0, 4, 2574, 1)),
    ]


@program
def datasets(mx):
    data = mx.gluon.data
    base = data.SimpleDataset(list(range(11)))
    pairs = data.ArrayDataset(mx.nd.arange(22).reshape((11, 2)), mx.nd.arange(11), list("abcdefghijk"))

    def values(dataset):
        return [dataset[i] for i in range(len(dataset))]

    return [
        values(base.filter(lambda x: x % 3 == 0)),
        [values(base.shard(4, i)) for i in range(4)],
        [values(base.take(n)) for n in (0, 3, 20, None)],
        values(base.sample(data.SequentialSampler(3, 5))),
        values(base.transform(lambda x: x * x)),
        values(base.transform(lambda x: x + 1, lazy=False)),
        [[a.asnumpy().tolist(), float(b), c] for a, b, c in values(pairs.take(2))],
        [type(pairs[0][1]).__name__, [float(x) for x in pairs.transform_first(lambda x: x.sum().asscalar())[1][:2]]],
        [failure(lambda: base.shard(2, 2)), failure(lambda: base.sample([1])), failure(data.ArrayDataset)],
        failure(lambda: data.ArrayDataset([1], [1, 2])),
    ]


@program
def samplers(mx):
    data = mx.gluon.data
    found = []
    for last in ("keep", "discard", "rollover", "other"):
        sampler = data.BatchSampler(data.SequentialSampler(10), 4, last)
        found.append([failure(sampler.__len__), failure(partial(list, sampler))])
        if last != "other":
            found.append([len(sampler), list(sampler), list(sampler), len(sampler)])
    found.append(list(data.FilterSampler(lambda x: x > 2, [1, 5, 2, 3])))
    found.append(sorted(int(i) for i in data.RandomSampler(6)))
    return found


@program
def loaders(mx):
    data = mx.gluon.data
    dataset = data.ArrayDataset(mx.nd.arange(14).reshape((7, 2)), np.arange(7, dtype="int32"))
    found = []
    for arguments in (
        {},
        {"num_workers": 2, "thread_pool": True},
        {"last_batch": "discard"},
        {"last_batch": "rollover"},
    ):
        loader = data.DataLoader(dataset, 3, **arguments)
        for _ in range(2):
            for x, y in loader:
                found.append([numbers(x), numbers(y), str(x.dtype), str(y.dtype)])
        found.append(len(loader))
    custom = data.DataLoader(dataset, batch_sampler=[[0, 2], [5]], batchify_fn=len)
    bad = [dict(), dict(batch_size=2, shuffle=True, sampler=[1]), dict(batch_size=2, batch_sampler=[[1]])]
    return [found, list(custom), [failure(partial(data.DataLoader, dataset, **kwargs)) for kwargs in bad]]


@program
def shuffled_batches(mx):
    """The order of samples for a state of NumPy's generator, and samples that roll over."""
    found = []
    for handle in ("roll_over", "pad", "discard"):
        np.random.seed(7)
        batches = mx.io.NDArrayIter(np.arange(10), np.arange(10), 4, shuffle=True, last_batch_handle=handle)
        for reset in (batches.reset, batches.reset, batches.hard_reset, batches.reset):
            reset()
            found.append([[b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), b.pad] for b in batches])
    return found
