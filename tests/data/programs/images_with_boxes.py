"""Images with boxes: augmenters for detection, ImageDetIter, and a detector that is trained on its batches."""

import json
from functools import partial

import numpy as np
from photographs import FOLDER, epoch, files, photo, seed, shown
from program import failure, fill, gather, numbers, sketch

PROGRAMS, program = gather()


@program
def augmenters_for_detection(mx):
    D = mx.image.detection
    every = [
        D.DetBorrowAug(mx.image.ForceResizeAug((30, 20), 1)),
        D.DetHorizontalFlipAug(0.5),
        D.DetRandomCropAug(),
        D.DetRandomCropAug(0.5, 1.0, (0.2, 0.7), 0.5, 20),
        D.DetRandomCropAug(0.9, (0.5, 2), 0.3, max_attempts=3),
        D.DetRandomPadAug(),
        D.DetRandomPadAug((1, 1.5), (1.5, 4), 10, (1, 2, 3)),
        D.DetRandomPadAug(1.2, area_range=(2.0, 2.0), pad_val=(7, 8, 9)),
        D.DetRandomSelectAug([D.DetHorizontalFlipAug(1), D.DetBorrowAug(mx.image.ResizeAug(20, 1))], 0.3),
        D.DetRandomSelectAug([]),
        D.CreateMultiRandCropAugmenter([0.1, 0.5], (0.75, 1.33), [(0.1, 1.0), (0.2, 0.5)], 0.3, 50, 0.1),
    ]
    found = []
    for number, augmenter in enumerate(every):
        seed(number)
        results = []
        for image in range(4):
            label = np.array([[1, 0.1, 0.2, 0.6, 0.7, 5], [2, 0.5, 0.1, 0.9, 0.9, 6]], dtype=np.float32)
            made, moved = augmenter(photo(mx, image), label)
            results.append([shown(made), numbers(mx.nd.array(moved))])
        found.append([json.loads(json.dumps(augmenter.dumps())), results])
    bad = [
        lambda: D.DetBorrowAug(D.DetHorizontalFlipAug(1)),
        lambda: D.DetRandomSelectAug([mx.image.CastAug()]),
        lambda: D.CreateMultiRandCropAugmenter([0.1, 0.5], area_range=[(0, 1)] * 3),
        lambda: D.CreateDetAugmenter((3, 4, 4), mean=mx.nd.array([1, 2, 3])),
    ]
    return [found, [failure(f) for f in bad]]


@program
def created_for_detection(mx):
    found = []
    for number, arguments in enumerate(
        (
            {},
            {"resize": 30, "rand_crop": 0.5, "rand_mirror": True, "mean": True, "std": True, "inter_method": 1},
            {"rand_crop": 0.9, "rand_pad": 0.9, "min_object_covered": [0.3, 0.5, 0.9], "area_range": (0.3, 3.0)},
            {"rand_pad": 0.7, "rand_gray": 0.5, "brightness": 0.1, "hue": 0.1, "pca_noise": 0.1, "pad_val": (1, 2, 3)},
        )
    ):
        seed(number)
        augmenters, made = mx.image.CreateDetAugmenter((3, 24, 28), **arguments), []
        for image in range(7):
            data, label = photo(mx, image), np.array([[1, 0.1, 0.2, 0.6, 0.7]], dtype=np.float32)
            for augmenter in augmenters:
                data, label = augmenter(data, label)
            made.append([shown(data), numbers(mx.nd.array(label))])
        found.append([json.loads(json.dumps([a.dumps() for a in augmenters])), made])
    return found


@program
def batches_for_detection(mx):
    def iterator(**arguments):
        return mx.image.ImageDetIter(2, (3, 20, 24), **arguments)

    found = []
    listed = {"path_imglist": str(FOLDER / "objects.lst"), "path_root": str(FOLDER)}
    for arguments in (
        {"path_imgrec": files("objects")["path_imgrec"]},
        {**files("objects"), "shuffle": True, "rand_crop": 0.8, "rand_mirror": True, "inter_method": 1},
        {**files("objects"), "last_batch_handle": "discard", "rand_pad": 0.8, "mean": True},
        {**files("objects"), "last_batch_handle": "roll_over"},
        {**listed, "aug_list": [mx.image.DetBorrowAug(mx.image.ForceResizeAug((24, 20)))]},
    ):
        seed(len(found))
        batches = iterator(**arguments)
        epochs = [epoch(batches)]
        batches.reset()
        epochs.append(epoch(batches))
        found.append([json.loads(json.dumps([batches.label_shape, batches.provide_label])), epochs])
    few = iterator(imglist=[[[2, 5, 1, 0.1, 0.2, 0.5, 0.6], "0.jpg"]], path_root=str(FOLDER))
    many = iterator(**files("objects"))
    shapes = [few.label_shape, many.sync_label_shape(few) is few, few.label_shape, few.provide_label]
    few.reshape((3, 12, 10), (5, 5))
    shapes += [few.provide_data, few.provide_label, few.label_shape]
    bad = [lambda: few.reshape(label_shape=(1, 5)), lambda: few.reshape(label_shape=(6, 6))]
    bad += [lambda: few.reshape(data_shape=(1, 6, 6)), lambda: few.check_label_shape((2, 3, 4))]
    for label in ([1, 2], [2, 5, 1, 0.1, 0.2, 0.5], [2, 5, 1, 0.5, 0.5, 0.5, 0.5]):
        bad.append(partial(iterator, imglist=[[label, "0.jpg"]], path_root=str(FOLDER)))
    found.append([json.loads(json.dumps(shapes)), [failure(f) for f in bad]])
    return found


@program
def training_a_detector(mx):
    """A small detector that Gluon trains on batches with boxes, which are cropped and padded at random."""
    seed(2)
    prepare = {"rand_crop": 0.5, "rand_pad": 0.5, "rand_mirror": True, "mean": True, "std": True, "shuffle": True}
    batches = mx.image.ImageDetIter(2, (3, 32, 32), **files("objects"), **prepare)
    net, contrib = mx.gluon.nn.Conv2D(2 * (4 + 4), 8, 8), mx.nd.contrib
    net.initialize()
    net(mx.nd.zeros((1, 3, 32, 32)))
    fill(net)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    losses = []
    for batch in batches:
        x, labels = batch.data[0], batch.label[0]
        anchors = contrib.MultiBoxPrior(mx.nd.zeros((1, 1, 4, 4)), sizes=(0.3, 0.6))
        with mx.autograd.record():
            found = net(x).transpose((0, 2, 3, 1))
            classes = found[:, :, :, :8].reshape((2, -1, 4))
            boxes = found[:, :, :, 8:].reshape((2, -1))
            targets = contrib.MultiBoxTarget(anchors, labels, classes.transpose((0, 2, 1)))
            loss = mx.nd.smooth_l1((boxes - targets[0]) * targets[1], scalar=1).mean()
            loss = loss - mx.nd.pick(mx.nd.log_softmax(classes), targets[2]).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    return [numbers(mx.nd.array(losses)), sketch(net.weight.data())]
