"""insightface 0.1.5: recognition, detection and attributes, by symbols of the same form with parameters of our own."""

import os
import tempfile

import cases
import mxnet as mx
import numpy as np
from insightface.model_zoo.face_detection import FaceDetector
from insightface.model_zoo.face_genderage import FaceGenderage
from insightface.model_zoo.face_recognition import FaceRecognition
from insightface.utils import face_align

STRIDES = (32, 16, 8)


def convolution(x, filters, name, stride=1, kernel=3, groups=1):
    pad = (kernel // 2, kernel // 2)
    x = mx.sym.Convolution(
        x,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=pad,
        num_group=groups,
        no_bias=True,
        name=name,
    )
    x = mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, momentum=0.9, name=name + "_bn")
    return mx.sym.LeakyReLU(x, act_type="prelu", name=name + "_relu")


def residual(x, filters, stride, name):
    short = mx.sym.Convolution(
        x, num_filter=filters, kernel=(1, 1), stride=(stride, stride), no_bias=True, name=name + "_sc"
    )
    short = mx.sym.BatchNorm(short, fix_gamma=False, eps=2e-5, name=name + "_sc_bn")
    x = mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name=name + "_bn0")
    x = convolution(x, filters, name + "_conv1")
    x = mx.sym.Convolution(
        x, num_filter=filters, kernel=(3, 3), stride=(stride, stride), pad=(1, 1), no_bias=True, name=name + "_conv2"
    )
    return mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name=name + "_bn2") + short


def recognizer(numbers):
    """The residual network of ArcFace, shallow: pixels are scaled in the symbol, and the last layer is `fc1`."""
    x = (mx.sym.identity(mx.sym.var("data"), name="id") - 127.5) * 0.0078125
    x = convolution(x, 16, "conv0")
    for stage, filters in enumerate((16, 32, 64, 64)):
        x = residual(x, filters, 2, "stage%d_unit1" % (stage + 1))
    x = mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name="bn1")
    x = mx.sym.Dropout(x, p=0.4)
    x = mx.sym.FullyConnected(x, num_hidden=numbers, name="pre_fc1")
    return mx.sym.BatchNorm(x, fix_gamma=True, eps=2e-5, name="fc1")


def detector():
    """RetinaFace's form: depthwise stages, a pyramid with crops, and classes, boxes and landmarks for each stride."""
    x = convolution(mx.sym.var("data"), 8, "stem", 2)
    stages, before = [], 8
    for number, filters in enumerate((16, 16, 32, 32, 64)):
        x = convolution(x, before, "dw%d" % number, 2 if number else 1, groups=before)
        x = convolution(x, filters, "pw%d" % number, 1, 1)
        stages.append(x)
        before = filters
    coarse = None
    outputs = []
    for stride, x in zip(STRIDES, reversed(stages[2:])):
        x = convolution(x, 16, "lateral%d" % stride, 1, 1)
        if coarse is not None:
            up = mx.sym.UpSampling(coarse, scale=2, sample_type="nearest")
            x = convolution(x + mx.sym.Crop(up, x), 16, "merge%d" % stride)
        coarse = x
        scores = mx.sym.Convolution(x, num_filter=4, kernel=(1, 1), name="score%d" % stride)
        scores = mx.sym.Reshape(scores, shape=(0, 2, -1, 0))
        scores = mx.sym.SoftmaxActivation(scores, mode="channel")
        outputs.append(mx.sym.Reshape(scores, shape=(0, 4, -1, 0), name="prob%d" % stride))
        outputs.append(mx.sym.Convolution(x, num_filter=8, kernel=(1, 1), name="bbox%d" % stride))
        outputs.append(mx.sym.Convolution(x, num_filter=20, kernel=(1, 1), name="landmark%d" % stride))
    return mx.sym.Group(outputs)


def write(symbol, folder, shape):
    """A checkpoint of the symbol with values that depend on their places alone; its file."""
    arguments, _, states = symbol.infer_shape(data=shape)
    given = [*zip(symbol.list_arguments(), arguments), *zip(symbol.list_auxiliary_states(), states)]
    values = {}
    for number, (name, extents) in enumerate(given):
        v = np.random.RandomState(number).uniform(-1, 1, extents)
        if name.endswith(("gamma", "var")):
            v = 1 + 0.3 * v
        if name.startswith(("stem_weight", "bbox", "landmark")):
            v = v * 0.01  # the detector takes pixels as they are
        values[name] = mx.nd.array(
            v * (3 / np.prod(extents[1:])) ** 0.5 if len(extents) > 1 else v * (1 if v.min() > 0 else 0.2)
        )
    aux = {name: values[name] for name in symbol.list_auxiliary_states()}
    arg = {name: values[name] for name in symbol.list_arguments() if name != "data"}
    mx.model.save_checkpoint(os.path.join(folder, "net"), 7, symbol, arg, aux)
    return os.path.join(folder, "net-0007.params")


def picture(height, width, number=0):
    return np.random.RandomState(number).randint(0, 255, (height, width, 3)).astype("uint8")


def recognition():
    with tempfile.TemporaryDirectory() as folder:
        model = FaceRecognition("r18", True, write(recognizer(64), folder, (1, 3, 112, 112)))
        model.prepare(-1)
    one, other = picture(112, 112), picture(112, 112, 1)
    return {
        "outputs": [model.get_embedding(one), model.get_embedding(other), np.array([model.compute_sim(one, other)])]
    }


def attributes():
    with tempfile.TemporaryDirectory() as folder:
        model = FaceGenderage("ga", True, write(recognizer(202), folder, (1, 3, 112, 112)))
        model.prepare(-1)
    gender, age = model.get(picture(112, 112))
    return {"gender": int(gender), "age": int(age)}


def detection():
    with tempfile.TemporaryDirectory() as folder:
        model = FaceDetector(write(detector(), folder, (1, 3, 480, 640)), "net3")
        model.prepare(-1, nms=0.3, fix_image_size=(96, 128))
    boxes, landmarks = model.detect(picture(96, 128), threshold=0.6)
    other, _ = model.detect(picture(100, 140, 1), threshold=0.6, scale=0.9)
    return [boxes, landmarks, other]


def alignment():
    points = np.array([[38, 51], [73, 52], [56, 71], [41, 92], [70, 93]], dtype="float32")
    crop = face_align.norm_crop(picture(160, 140), points * 1.1 + 3)
    return {"shape": str(crop.shape), "outputs": face_align.estimate_norm(points * 1.1 + 3)[0]}


CASES = {"recognition": recognition, "attributes": attributes, "detection": detection, "alignment": alignment}

if __name__ == "__main__":
    cases.run(CASES)
