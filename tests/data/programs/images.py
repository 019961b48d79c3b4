"""Images: decoding, augmenters with fixed and with random parameters, iterators over records and lists.

Augmenters draw from Python's and from NumPy's generators, so that seeds give the same crops and colours everywhere.
"""

import json
import logging
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from photographs import FOLDER, epoch, files, photo, seed, shown
from program import failure, gather, numbers, ramp, sketch

PROGRAMS, program = gather()
EIGENVALUES = np.array([55.46, 4.794, 1.148])
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def waiting(function):
    """The function, which raises errors of the engine when it is called."""
    return lambda *arguments: function(*arguments).asnumpy()


@program
def decoding(mx):
    data = (FOLDER / "3.jpg").read_bytes()
    name = str(FOLDER / "3.jpg")
    arrays = [mx.image.imdecode(d) for d in (data, bytearray(data), np.frombuffer(data, np.uint8))]
    arrays += [mx.image.imdecode(mx.nd.array(np.frombuffer(data, np.uint8), dtype="uint8"))]
    arrays += [mx.image.imdecode(data, to_rgb=0), mx.image.imread(name), mx.image.imread(name, to_rgb=False)]
    bad = [lambda: mx.image.imdecode("text"), lambda: mx.image.imdecode(b"no image").asnumpy()]
    bad += [lambda: mx.image.imread("missing.jpg").asnumpy(), lambda: mx.image.imdecode(b"").asnumpy()]
    grey = mx.image.imread(name, flag=0)
    return [[shown(a) for a in arrays], grey.shape, [failure(f) for f in bad]]


def every_augmenter(mx):
    images = mx.image
    mean, std = np.array([120.0, 110, 100]), np.array([60.0, 50, 40])
    return [
        images.ResizeAug(30),
        images.ResizeAug(70, 1),
        images.ResizeAug(30, interp=9),
        images.ForceResizeAug((30, 20)),
        images.ForceResizeAug((80, 70), interp=3),
        images.ForceResizeAug((30, 70), interp=9),
        images.ForceResizeAug((30, 33), interp=10),
        images.RandomCropAug((24, 20)),
        images.RandomCropAug((100, 24)),
        images.RandomSizedCropAug((24, 20), 0.3, (0.75, 1.33)),
        images.RandomSizedCropAug((24, 20), (0.2, 0.4), (0.5, 2), 1),
        images.CenterCropAug((24, 21)),
        images.CenterCropAug([60, 60]),
        images.BrightnessJitterAug(0.4),
        images.ContrastJitterAug(0.4),
        images.SaturationJitterAug(0.4),
        images.HueJitterAug(0.3),
        images.ColorJitterAug(0.2, 0.3, 0.4),
        images.ColorJitterAug(0.2, 0, 0.4),
        images.LightingAug(0.3, EIGENVALUES, EIGENVECTORS),
        images.ColorNormalizeAug(mean, std),
        images.ColorNormalizeAug(mx.nd.array(mean), None),
        images.ColorNormalizeAug(np.array([127.0]), np.array([2.0])),
        images.RandomGrayAug(0.6),
        images.HorizontalFlipAug(0.6),
        images.CastAug(),
        images.CastAug("float64"),
        images.SequentialAug([images.CastAug(), images.BrightnessJitterAug(0.4), images.CenterCropAug((9, 9))]),
        images.RandomOrderAug([images.BrightnessJitterAug(0.4), images.ResizeAug(30, 1), images.HueJitterAug(0.3)]),
    ]


@program
def augmenters(mx):
    """What each augmenter says of itself, makes of an image, and whether it changes the image in place."""
    found = []
    for number, augmenter in enumerate(every_augmenter(mx)):
        seed(number)
        image = photo(mx, number % 7, "float32")
        made = augmenter(image)
        found.append([type(augmenter).__name__, augmenter.dumps(), made is image, shown(made), shown(image)])
    return found


@program
def augmenters_of_bytes(mx):
    """Augmenters on 8-bit images: those that change colours refuse them."""
    found = []
    for number, augmenter in enumerate(every_augmenter(mx)[:13]):
        seed(number)
        found.append(shown(augmenter(photo(mx, number % 7))))
    seed(5)
    flips = [shown(mx.image.HorizontalFlipAug(0.5)(photo(mx, 1))) for _ in range(4)]
    refused = [failure(waiting(a), photo(mx)) for a in every_augmenter(mx)[14:20]]
    return [found, flips, refused]


@program
def one_channel(mx):
    images = mx.image
    grey = photo(mx, 2, "float32")[:, :, :1]
    working = [
        images.BrightnessJitterAug(0.4),
        images.ContrastJitterAug(0.4),
        images.SaturationJitterAug(0.4),
        images.ResizeAug(20),
    ]
    working += [
        images.HorizontalFlipAug(1),
        images.CenterCropAug((50, 20)),
        images.ColorNormalizeAug(np.array([9.0]), None),
    ]
    seed(2)
    made = [shown(augmenter(grey.copy())) for augmenter in working]
    refusing = [images.HueJitterAug(0.4), images.RandomGrayAug(1), images.LightingAug(0.3, EIGENVALUES, EIGENVECTORS)]
    return [made, [failure(waiting(a), grey.copy()) for a in refusing]]


@program
def crops(mx):
    """The places of crops: random ones follow Python's generator."""
    found = []
    for number in range(7):
        image, places = photo(mx, number), []
        seed(number)
        for function in (mx.image.random_crop, mx.image.center_crop):
            places += [function(image, size)[1] for size in ((20, 20), (50, 30), (90, 20))]
        places += [
            mx.image.random_size_crop(image, (20, 20), area, (0.75, 1.33))[1] for area in (0.08, 0.5, (0.1, 0.2))
        ]
        found.append([[int(n) for n in place] for place in places])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.append(shown(mx.image.RandomSizedCropAug((9, 9), 1, (1, 1), min_area=0.2)(photo(mx))))
    return [found, failure(lambda: mx.image.random_size_crop(photo(mx), (9, 9), 1, (1, 1), other=2))]


@program
def created(mx):
    """Lists of augmenters, and images that they make."""
    create = partial(mx.image.CreateAugmenter, (3, 24, 28))
    found = []
    for number, arguments in enumerate(
        (
            {},
            {"resize": 30, "rand_mirror": True, "inter_method": 1},
            {"rand_crop": True, "mean": True, "std": True, "hue": 0.2},
            {"rand_crop": True, "rand_resize": True, "brightness": 0.1, "contrast": 0.2, "saturation": 0.3},
            {"pca_noise": 0.1, "rand_gray": 0.5, "mean": np.array([100.0]), "inter_method": 9},
            {"std": mx.nd.array([2.0, 3, 4]), "inter_method": 10, "resize": 50},
        )
    ):
        seed(number)
        augmenters, made = create(**arguments), []
        for image in range(7):
            data = photo(mx, image)
            for augmenter in augmenters:
                data = augmenter(data)
            made.append(shown(data))
        found.append([[json.loads(a.dumps()) if isinstance(a.dumps(), str) else a.dumps() for a in augmenters], made])
    bad = [{"rand_resize": True}, {"mean": [1, 2, 3]}, {"std": np.ones(2)}]
    return [found, [failure(create, **arguments) for arguments in bad]]


@program
def rotations(mx):
    image = photo(mx, 3, "float32").transpose((2, 0, 1))
    batch = mx.nd.stack(image, image + 5)
    rotate = mx.image.imrotate
    found = [shown(rotate(image, angle)) for angle in (0, 30, -100.5)]
    found += [shown(rotate(image, 30, zoom_in=True)), shown(rotate(image, 30, zoom_out=True))]
    found += [
        shown(rotate(batch, mx.nd.array([20, -70]), **zoom)) for zoom in ({}, {"zoom_in": True}, {"zoom_out": True})
    ]
    found.append(shown(rotate(batch, 45)))
    seed(3)
    found += [shown(mx.image.random_rotate(x, (-40, 20), zoom_out=True)) for x in (image, batch)]
    bad = [
        lambda: rotate(image, 1, True, True),
        lambda: rotate(image.astype("uint8"), 1),
        lambda: rotate(image, mx.nd.array([1])),
        lambda: rotate(image[0], 1),
        lambda: rotate(batch, mx.nd.array([1, 2, 3])),
    ]
    return [found, [failure(f) for f in bad]]


@program
def batches_of_records(mx):
    found = []
    for arguments in (
        {"path_imgrec": files("images")["path_imgrec"], "label_width": 2},
        {**files("images"), "label_width": 2, "last_batch_handle": "discard"},
        {**files("images"), "label_width": 2, "last_batch_handle": "roll_over", "rand_mirror": True},
        {**files("images"), "label_width": 2, "shuffle": True, "rand_crop": True},
        {**files("images"), "label_width": 2, "num_parts": 2, "part_index": 1},
        {**files("images"), "path_imglist": str(FOLDER / "images.lst"), "label_width": 2},
    ):
        seed(len(found))
        batches = mx.image.ImageIter(3, (3, 20, 24), **arguments)
        described = [batches.provide_data, batches.provide_label, batches.num_image, batches.seq]
        epochs = []
        for reset in (batches.reset, batches.reset, batches.hard_reset):
            epochs.append(epoch(batches))
            reset()
        found.append([json.loads(json.dumps(described)), epochs])
    return found


@program
def batches_of_lists(mx):
    root = {"path_root": str(FOLDER)}
    names = [f"{n}.jpg" for n in range(7)]
    found = []
    for arguments in (
        {"path_imglist": str(FOLDER / "images.lst"), "label_width": 2, "dtype": "float64"},
        {"imglist": [[n, name] for n, name in enumerate(names)], "data_name": "image", "label_name": "class"},
        {"imglist": [[[n, n / 2], name] for n, name in enumerate(names)], "label_width": 2, "shuffle": True},
        {"imglist": [[n, 7, name] for n, name in enumerate(names)], "label_width": 2, "dtype": "int32", "num_parts": 3},
        {"imglist": [[n, name] for n, name in enumerate(names[:2])], "aug_list": [mx.image.ForceResizeAug((24, 20))]},
        {"imglist": []},
    ):
        seed(len(found))
        batches = mx.image.ImageIter(4, (3, 20, 24), **root, **arguments)
        epochs = [epoch(batches)]
        batches.reset()
        found.append([json.loads(json.dumps([batches.provide_data, batches.seq])), epochs, epoch(batches)])
    return found


@program
def steps_of_an_iterator(mx):
    """The methods that subclasses override, and a subclass that skips images."""

    class Bright(mx.image.ImageIter):
        def check_valid_image(self, data):
            super().check_valid_image(data)
            if data.shape[0] > data.shape[1]:
                raise RuntimeError("portrait")

        def augmentation_transform(self, data):
            return super().augmentation_transform(data) + 1

        def postprocess_data(self, datum):
            return super().postprocess_data(datum) * 2

    batches = Bright(2, (3, 20, 24), label_width=2, **files("images"))
    plain = mx.image.ImageIter(2, (3, 20, 24), path_imglist=str(FOLDER / "images.lst"), path_root=str(FOLDER))
    label, encoded = plain.next_sample()
    image = plain.imdecode(encoded)
    found = [numbers(label), len(encoded), shown(image), len(plain.read_image("3.jpg")), plain.cur]
    found.append(shown(plain.postprocess_data(plain.augmentation_transform(image))))
    bad = [lambda: plain.check_data_shape((3, 4)), lambda: plain.check_data_shape((1, 4, 4))]
    bad.append(lambda: plain.check_valid_image(mx.nd.ones((1,))))
    return [epoch(batches), found, [failure(f) for f in bad]]


@program
def refused_iterators(mx):
    iterator = partial(mx.image.ImageIter, 2, (3, 20, 24))
    broken = {"path_imglist": str(FOLDER / "broken.lst"), "path_root": str(FOLDER), "label_width": 2}
    one = {"path_root": str(FOLDER), "imglist": [[[1, 2, 3], "0.jpg"]]}
    with tempfile.TemporaryDirectory() as folder:
        lst = Path(folder, "a.lst")
        lst.write_text("one\t1\t0.jpg\n")
        bad = [
            iterator,
            lambda: iterator(path_imgrec="missing.rec"),
            lambda: iterator(path_imglist="missing.lst"),
            lambda: iterator(path_imglist=str(lst)),
            lambda: iterator(dtype="float16", imglist=[]),
            lambda: iterator(path_imgrec=files("images")["path_imgrec"], shuffle=True),
            lambda: iterator(path_imgrec=files("images")["path_imgrec"], path_imgidx="missing.idx"),
            lambda: iterator(num_parts=2, part_index=2, imglist=[]),
            lambda: iterator(imglist=[[1, "missing.jpg"]], path_root=str(FOLDER)).next(),
            lambda: iterator(imglist=[[1, "missing.jpg"]]).next(),
            lambda: iterator(imglist=[]).next(),
            lambda: iterator(imglist=[], nonsense=1),
            lambda: mx.image.ImageIter(2, (1, 20, 24), imglist=[]),
            lambda: iterator(**broken).next(),
            lambda: list(iterator(**files("broken"), label_width=2)),
        ]
        found = [failure(f) for f in bad]
    after = iterator(**broken)  # reads on after an image that is none
    found.append([failure(after.next), epoch(after)])
    found.append([failure(iterator(**one, label_width=width).next) for width in (1, 2, 3)])
    return found


@program
def training_from_records(mx):
    """A network that Module trains on batches of a record file."""
    logging.getLogger().setLevel(logging.ERROR)
    seed(1)
    with tempfile.TemporaryDirectory() as folder:
        rec, idx = str(Path(folder, "a.rec")), str(Path(folder, "a.idx"))
        writer = mx.recordio.MXIndexedRecordIO(idx, rec, "w")
        for n in range(7):
            writer.write_idx(n, mx.recordio.pack((0, n, n, 0), (FOLDER / f"{n}.jpg").read_bytes()))
        writer.close()
        prepare = {"shuffle": True, "rand_mirror": True, "mean": True, "std": True, "resize": 20}
        batches = mx.image.ImageIter(4, (3, 16, 16), path_imgrec=rec, path_imgidx=idx, **prepare)
        net = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.var("data")), num_hidden=7, name="fc")
        module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
        weights = {"fc_weight": ramp(mx, 7, 768) * 0.01, "fc_bias": mx.nd.zeros((7,))}
        rate = {"learning_rate": 0.01}
        module.fit(batches, eval_metric="ce", num_epoch=3, optimizer_params=rate, arg_params=weights)
        score = module.score(batches, "acc")[0][1]
    arguments, _ = module.get_params()
    return [sketch(arguments["fc_weight"]), numbers(arguments["fc_bias"]), score]
