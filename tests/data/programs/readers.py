"""Programs on iterators over files: text, MNIST, and the image records of tests/data/records."""

import pathlib
import struct
import tempfile

import numpy as np
from program import failure, gather, numbers, sketch

PROGRAMS, program = gather()
RECORDS = pathlib.Path(__file__).resolve().parents[1] / "records"


def file_of(content):
    """The path of a new file."""
    with tempfile.NamedTemporaryFile("wb", delete=False) as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return file.name


def batches(iterator, epochs=2, seen=numbers, keep_index=True):
    """The batches of some epochs, with a reset after each."""
    found = []
    for _ in range(epochs):
        for batch in iterator:
            index = batch.index.tolist() if keep_index else None
            kinds = [str(np.dtype(a.dtype)) + " " + a.stype for a in (batch.data[0], batch.label[0])]
            found.append([seen(batch.data[0]), numbers(batch.label[0]), batch.pad, index, kinds])
        iterator.reset()
    return found


KEPT = []  # MXNet crashes now and then when an iterator is freed while its thread reads


def described(iterator):
    KEPT.append(iterator)
    descriptions = (*iterator.provide_data, *iterator.provide_label)
    return [iterator.batch_size, type(iterator).__name__, *(repr(one) for one in descriptions)]


ROWS = "".join(f"{10 * i},{10 * i + 1},{10 * i + 2}\n" for i in range(5))
LABELS = "".join(f"{i},{-i}\n" for i in range(5))


MAGIC = struct.pack("<I", 0xCED7230A)
RECORD_CONTENTS = (
    *(
        b"",
        b"a",
        b"abc",
        b"abcd",
        MAGIC,
        MAGIC * 3,
        b"a" + MAGIC,
        b"abcd" + MAGIC + b"x",
        b"abcd" + MAGIC + b"abc" + MAGIC,
    ),
    *(MAGIC + b"abcd" + MAGIC, b"abcdefgh" + MAGIC + b"abcd" + MAGIC, MAGIC[:3], b"ab" + MAGIC + b"ab" + MAGIC),
)


@program
def record_files(mx):
    """The bytes of record files whose records contain the magic number, and what is read from them."""
    path, index = file_of(""), file_of("")
    writer = mx.recordio.MXIndexedRecordIO(index, path, "w")
    for key, content in enumerate(RECORD_CONTENTS):
        writer.write_idx(10 * key, content)
    writer.close()
    reader = mx.recordio.MXRecordIO(path, "r")
    read = [reader.read() for _ in RECORD_CONTENTS]
    indexed = mx.recordio.MXIndexedRecordIO(index, path, "r")
    read += [indexed.read_idx(key) for key in reversed(indexed.keys)]
    headers = ((0, 1.5, 3, 4), (7, [1, 2, 3], 5, 0), (2, np.array([0.5]), 2**40, 1))
    packed = [mx.recordio.pack(mx.recordio.IRHeader(*header), b"data") for header in headers]
    unpacked = [mx.recordio.unpack(record) for record in packed]
    labels = [np.array(header.label).tolist() for header, _ in unpacked]
    texts = [pathlib.Path(index).read_text(), pathlib.Path(path).read_bytes().hex(), [one.hex() for one in packed]]
    return [*texts, labels, [one.hex() for one in read], reader.read() is None, [header.id for header, _ in unpacked]]


@program
def csv(mx):
    data, label = file_of(ROWS), file_of(LABELS)
    found = []
    for options in (
        {},
        {"round_batch": False},
        {"batch_size": 6},
        {"dtype": "int32"},
        {"dtype": "int64", "label_csv": label, "label_shape": "(2,)"},
        {"data_shape": (1, 3), "label_csv": label, "label_shape": (2,), "data_name": "x", "label_name": "y"},
    ):
        iterator = mx.io.CSVIter(**dict({"data_csv": data, "data_shape": (3,), "batch_size": 2}, **options))
        found.append([described(iterator), batches(iterator, 3)])
    return found


@program
def csv_notations(mx):
    texts = ("1, 2 ,3\r\n4,5e1,-6\r\n", "\n1,2,3\n\n4,5,6", "1,2,3,\n")
    return [batches(mx.io.CSVIter(data_csv=file_of(text), data_shape=(3,), batch_size=1), 1) for text in texts]


@program
def csv_failures(mx):
    texts = ("7,,8\n", "a,b,c\n", "1,2,3\n4,5\n", "1;2;3\n", "")
    return [
        *(failure(mx.io.CSVIter, data_csv=file_of(text), data_shape=(3,), batch_size=2) for text in texts),
        failure(mx.io.CSVIter, data_csv=file_of(ROWS), data_shape=(3,), batch_size=12),
        failure(mx.io.CSVIter, data_csv=file_of(ROWS), data_shape=(3,), batch_size=2, dtype="float64"),
        failure(mx.io.CSVIter, data_csv="no such file", data_shape=(3,), batch_size=2),
        failure(mx.io.CSVIter, data_csv=file_of(ROWS), data_shape=(3,)),
        failure(mx.io.CSVIter, data_csv=file_of(ROWS), data_shape="x", batch_size=2),
    ]


SPARSE = "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2 # text\n"
SPARSE_LABELS = "1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n"


@program
def libsvm(mx):
    data, label = file_of(SPARSE), file_of(SPARSE_LABELS)
    found = []
    for options in (
        {},
        {"label_libsvm": label, "label_shape": (3,)},
        {"num_parts": 2, "part_index": 0, "batch_size": 1},
        {"num_parts": 2, "part_index": 1, "batch_size": 1},
    ):
        iterator = mx.io.LibSVMIter(**dict({"data_libsvm": data, "data_shape": (3,), "batch_size": 3}, **options))
        found.append([described(iterator), batches(iterator)])
    return found


@program
def mnist(mx):
    pixels = np.arange(28, dtype=np.uint8).reshape(7, 2, 2)
    image = file_of(struct.pack(">IIII", 2051, 7, 2, 2) + pixels.tobytes())
    label = file_of(struct.pack(">II", 2049, 7) + bytes(range(7)))
    found = []
    for options in ({}, {"flat": True}, {"num_parts": 2, "part_index": 1}):
        iterator = mx.io.MNISTIter(image=image, label=label, batch_size=3, shuffle=False, silent=True, **options)
        found.append([described(iterator), batches(iterator)])
    return found


def images(mx, name="images", kind="ImageRecordIter", shape=(3, 20, 20), size=3, **options):
    path = str(RECORDS / (name + ".rec"))
    return getattr(mx.io, kind)(path_imgrec=path, data_shape=shape, batch_size=size, verbose=False, **options)


def image_batches(mx, cases, epochs=1, keep_index=False):
    return [batches(images(mx, **options), epochs, sketch, keep_index) for options in cases]


@program
def image_epochs(mx):
    index = str(RECORDS / "images.idx")
    labels = file_of("".join(f"{10 * i}\t{i + 100}\t{i + 200}\tx.png\n" for i in range(7)))
    cases = (
        {},
        {"path_imgidx": index},
        {"num_parts": 3, "part_index": 1, "size": 1},
        {"num_parts": 3, "part_index": 2, "size": 1, "path_imgidx": index},
        {"path_imglist": labels},
        {"path_imglist": labels, "label_width": 2},
        {"name": "pairs", "label_width": 2, "size": 2, "shape": (3, 16, 16)},
        {"size": 8},
    )
    return [described(images(mx)), image_batches(mx, cases, 2)]


@program
def image_sizes(mx):
    cases = (
        {"resize": 24},
        {"resize": 22, "inter_method": 3},
        {"resize": 26, "inter_method": 0},
        {"resize": 26, "inter_method": 4},
        {"shape": (3, 40, 30)},
        {"pad": 3, "fill_value": 77, "shape": (3, 24, 24)},
        {"max_crop_size": 18, "min_crop_size": 18},
        {"random_resized_crop": True},
        {"rotate": 30, "fill_value": 10},
        {"max_img_size": 24.0},
        {"min_img_size": 30.0},
        {"max_random_scale": 1.5, "min_random_scale": 1.5},
        {"max_aspect_ratio": 1.3, "min_aspect_ratio": 1.3},
        {"name": "photos", "shape": (3, 24, 24), "size": 2},
    )
    return image_batches(mx, cases)


@program
def image_values(mx):
    mean = str(pathlib.Path(tempfile.mkdtemp()) / "mean.params")
    colours = {"mean_r": 123.68, "mean_g": 120.5, "mean_b": 99.5}
    cases = (
        dict(colours, std_r=58.4, std_g=57.1, std_b=57.4, scale=0.5, mirror=True),
        dict(colours, shape=(1, 20, 20)),
        dict(colours, dtype="uint8", mirror=True),
        dict(colours, dtype="int8"),
        {"mean_img": mean, "std_r": 2.0, "mirror": True},
        {"mean_img": mean, "dtype": "int8"},
        {"kind": "ImageRecordUInt8Iter"},
        {"kind": "ImageRecordInt8Iter"},
        {"kind": "ImageRecordIter_v1", "scale": 0.5},
        {"kind": "ImageRecordUInt8Iter_v1"},
    )
    return [image_batches(mx, cases), numbers(mx.nd.load(mean)["mean_img"])]


@program
def image_failures(mx):
    labels = file_of("0\t1\tx.png\n")
    return [
        failure(images, mx, **options)
        for options in (
            {"size": 20},
            {"dtype": "float64"},
            {"label_width": 2},
            {"name": "pairs"},
            {"path_imglist": labels},
            {"name": "none"},
            {"shape": (2, 20, 20)},
            {"shape": (4, 20, 20)},
            {"resize": 30, "inter_method": 7},
            {"num_parts": 2, "part_index": 2},
            {"label_width": 0},
            {"preprocess_threads": 0},
        )
    ]


@program
def detection(mx):
    cases = (
        {},
        {"resize_mode": "fit"},
        {"mean_r": 10.0, "mean_g": 20.0, "std_r": 2.0, "scale": 0.5},
        {"mean_r": -10.0, "std_b": 2.0},
        {"label_pad_width": 20, "label_pad_value": 7},
        {"resize": 26},
        {"rand_mirror_prob": 1.01},
        {"shape": (1, 20, 30), "inter_method": 9},
    )
    common = {"name": "objects", "kind": "ImageDetRecordIter", "size": 2}
    return [
        described(images(mx, **common)),
        image_batches(mx, [dict(common, **case) for case in cases], keep_index=True),
    ]


@program
def detection_failures(mx):
    common = {"kind": "ImageDetRecordIter", "size": 2}
    cases = ({"name": "images"}, {"name": "objects", "label_width": 7}, {"name": "objects", "label_pad_width": 8})
    return [failure(images, mx, **dict(common, **case)) for case in cases]
