"""keras-mxnet: layers of every kind, functional models, saved models, prediction and evaluation."""

import os
import tempfile

os.environ["KERAS_BACKEND"] = "mxnet"

import cases  # noqa: E402
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import backend as K  # noqa: E402
from keras import layers as L  # noqa: E402
from keras.models import Model, Sequential, model_from_json  # noqa: E402

IMAGES = ("images", (12, 12, 3))
SERIES = ("series", (6, 4))
ROWS = ("rows", (8,))


def values(*shape, number=0):
    return np.random.RandomState(number).uniform(-1, 1, shape).astype("float32")


def fill(model):
    names = [w.name for layer in model.layers for w in layer.weights]
    weights = []
    for number, array in enumerate(model.get_weights()):
        new = values(*array.shape, number=number) * 0.4
        weights.append(
            new + 1.2 if number < len(names) and ("variance" in names[number] or "gamma" in names[number]) else new
        )
    model.set_weights(weights)
    return model


def outcome(model, *inputs):
    fill(model)
    return model.predict(list(inputs) if len(inputs) > 1 else inputs[0], batch_size=4)


def one(layer, shape):
    """A case: the model of one layer, or of the layers that a function makes."""

    def case():
        entry = L.Input(shape)
        return outcome(Model(entry, layer()(entry)), values(4, *shape))

    return case


def two(layer, shape):
    def case():
        first, second = L.Input(shape), L.Input(shape)
        return outcome(Model([first, second], layer()([first, second])), values(4, *shape), values(4, *shape, number=1))

    return case


LAYERS = {
    "dense relu": (lambda: L.Dense(5, activation="relu"), (8,)),
    "dense softmax": (lambda: L.Dense(5, activation="softmax"), (8,)),
    "dense of series": (lambda: L.Dense(5), (6, 4)),
    "flatten": (lambda: L.Flatten(), (3, 4)),
    "reshape": (lambda: L.Reshape((2, 6)), (3, 4)),
    "permute": (lambda: L.Permute((2, 1)), (3, 4)),
    "repeat vector": (lambda: L.RepeatVector(3), (4,)),
    "lambda": (lambda: L.Lambda(lambda x: K.square(x) + K.exp(x)), (4,)),
    "masking": (lambda: L.Masking(), (3, 4)),
    "dropout": (lambda: L.Dropout(0.5), (8,)),
    "spatial dropout": (lambda: L.SpatialDropout1D(0.5), (6, 4)),
    "conv1d": (lambda: L.Conv1D(5, 3, padding="same"), (6, 4)),
    "conv1d causal": (lambda: L.Conv1D(5, 2, padding="causal", dilation_rate=2), (6, 4)),
    "conv2d same": (lambda: L.Conv2D(5, 3, padding="same", activation="relu"), (12, 12, 3)),
    "conv2d strides": (lambda: L.Conv2D(5, 3, strides=2, padding="same"), (12, 12, 3)),
    "conv2d valid": (lambda: L.Conv2D(5, (3, 2), use_bias=False), (12, 12, 3)),
    "conv2d dilation": (lambda: L.Conv2D(5, 3, dilation_rate=2), (12, 12, 3)),
    "conv2d channels first": (lambda: L.Conv2D(5, 3, data_format="channels_first"), (3, 12, 12)),
    "conv3d": (lambda: L.Conv3D(3, 2), (5, 5, 5, 2)),
    "conv2d transposed": (lambda: L.Conv2DTranspose(5, 3, strides=2, padding="same"), (6, 6, 3)),
    "separable conv2d": (lambda: L.SeparableConv2D(5, 3), (12, 12, 3)),
    "depthwise conv2d": (lambda: L.DepthwiseConv2D(3), (12, 12, 3)),
    "up sampling": (lambda: L.UpSampling2D(2), (6, 6, 3)),
    "up sampling 1d": (lambda: L.UpSampling1D(2), (6, 4)),
    "zero padding": (lambda: L.ZeroPadding2D(((1, 2), (0, 1))), (6, 6, 3)),
    "cropping": (lambda: L.Cropping2D(((1, 2), (0, 1))), (6, 6, 3)),
    "max pooling": (lambda: L.MaxPooling2D(2), (12, 12, 3)),
    "max pooling same": (lambda: L.MaxPooling2D(3, strides=2, padding="same"), (12, 12, 3)),
    "average pooling": (lambda: L.AveragePooling2D(3, padding="same"), (12, 12, 3)),
    "max pooling 1d": (lambda: L.MaxPooling1D(2), (6, 4)),
    "average pooling 1d": (lambda: L.AveragePooling1D(2), (6, 4)),
    "max pooling 3d": (lambda: L.MaxPooling3D(2), (4, 4, 4, 2)),
    "global average pooling": (lambda: L.GlobalAveragePooling2D(), (12, 12, 3)),
    "global max pooling": (lambda: L.GlobalMaxPooling2D(), (12, 12, 3)),
    "global average pooling 1d": (lambda: L.GlobalAveragePooling1D(), (6, 4)),
    "global max pooling 1d": (lambda: L.GlobalMaxPooling1D(), (6, 4)),
    "simple rnn": (lambda: L.SimpleRNN(5, unroll=True), (6, 4)),
    "lstm": (lambda: L.LSTM(5, unroll=True), (6, 4)),
    "lstm sequences": (lambda: L.LSTM(5, return_sequences=True, unroll=True), (6, 4)),
    "lstm backwards": (lambda: L.LSTM(5, go_backwards=True, unroll=True), (6, 4)),
    "gru": (lambda: L.GRU(5, unroll=True), (6, 4)),
    "gru reset after": (lambda: L.GRU(5, reset_after=True, unroll=True), (6, 4)),
    "bidirectional": (lambda: L.Bidirectional(L.LSTM(5, return_sequences=True, unroll=True)), (6, 4)),
    "time distributed": (lambda: L.TimeDistributed(L.Dense(3)), (6, 4)),
    "stacked cells": (lambda: L.RNN([L.LSTMCell(4), L.GRUCell(3)], unroll=True), (6, 4)),
    "batch normalization": (lambda: L.BatchNormalization(), (12, 12, 3)),
    "batch normalization of rows": (lambda: L.BatchNormalization(scale=False, epsilon=1e-2), (8,)),
    "leaky relu": (lambda: L.LeakyReLU(0.2), (8,)),
    "prelu": (lambda: L.PReLU(), (8,)),
    "elu": (lambda: L.ELU(0.7), (8,)),
    "thresholded relu": (lambda: L.ThresholdedReLU(0.4), (8,)),
    "softmax": (lambda: L.Softmax(), (8,)),
    "relu with limits": (lambda: L.ReLU(0.6, 0.1), (8,)),
}
ACTIVATIONS = "tanh sigmoid hard_sigmoid relu elu selu softplus softsign exponential".split()
LAYERS.update(("activation " + name, (lambda name=name: L.Activation(name), (8,))) for name in ACTIVATIONS)
PAIRS = {
    "add": (L.Add, (8,)),
    "subtract": (L.Subtract, (8,)),
    "multiply": (L.Multiply, (8,)),
    "average": (L.Average, (8,)),
    "maximum": (L.Maximum, (8,)),
    "concatenate": (L.Concatenate, (8,)),
    "dot": (lambda: L.Dot(axes=1), (8,)),
    "dot normalized": (lambda: L.Dot(axes=2, normalize=True), (3, 4)),
}


def embedding():
    entry = L.Input((6,), dtype="int32")
    model = Model(entry, L.LSTM(4, unroll=True)(L.Embedding(10, 5, mask_zero=False)(entry)))
    return outcome(model, np.arange(24).reshape(4, 6) % 10)


def mlp():
    model = Sequential(
        [L.Dense(16, activation="relu", input_shape=(8,)), L.BatchNormalization(), L.Dense(4, activation="softmax")]
    )
    return outcome(model, values(5, 8))


def small_network():
    entry = L.Input((16, 16, 3))
    x = L.Conv2D(8, 3, padding="same", activation="relu")(entry)
    branch = L.Conv2D(8, 1)(x)
    x = L.MaxPooling2D()(L.add([L.BatchNormalization()(x), branch]))
    x = L.GlobalAveragePooling2D()(L.Conv2D(4, 3)(x))
    return Model(entry, [L.Dense(3, activation="softmax", name="class")(x), L.Dense(1, name="size")(x)])


def functional():
    return outcome(small_network(), values(4, 16, 16, 3))


def evaluated():
    model = Sequential([L.Dense(6, activation="tanh", input_shape=(8,)), L.Dense(3, activation="softmax")])
    model.compile(optimizer="sgd", loss="categorical_crossentropy", metrics=["accuracy"])
    fill(model)
    targets = np.eye(3, dtype="float32")[np.arange(8) % 3]
    return [
        np.array(model.evaluate(values(8, 8), targets, batch_size=4, verbose=0), dtype="float64"),
        model.predict(values(8, 8)),
        model.predict_classes(values(8, 8)),
    ]


def losses():
    results = []
    for loss in (
        "mse",
        "mae",
        "binary_crossentropy",
        "categorical_crossentropy",
        "hinge",
        "kullback_leibler_divergence",
        "poisson",
        "cosine_proximity",
    ):
        model = Sequential([L.Dense(3, activation="softmax", input_shape=(8,))])
        model.compile(optimizer="sgd", loss=loss)
        fill(model)
        targets = np.eye(3, dtype="float32")[np.arange(8) % 3]
        results.append(np.array(model.evaluate(values(8, 8), targets, batch_size=4, verbose=0), dtype="float64"))
    return results


def saved():
    model = fill(small_network())
    model.compile(optimizer="sgd", loss="mse")
    x = values(4, 16, 16, 3)
    with tempfile.TemporaryDirectory() as folder:
        model.save_weights(os.path.join(folder, "weights.h5"))
        model.save(os.path.join(folder, "model.h5"))
        with h5py.File(os.path.join(folder, "weights.h5")) as file:
            written = [
                np.array(file[layer][name])
                for layer in file.attrs["layer_names"]
                for name in file[layer].attrs["weight_names"]
            ]
    again = model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    return {"count": model.count_params(), "arrays": [model.predict(x), again.predict(x), written]}


def exported():
    """keras-mxnet's own way to a symbol and parameters."""
    import mxnet as mx

    entry = L.Input((8,))
    model = Model(entry, L.Dense(3, activation="softmax")(L.Dense(6, activation="relu")(entry)))
    model.compile(optimizer="sgd", loss="mse")
    fill(model)
    x = values(4, 8)
    expected = model.predict(x, batch_size=4)
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "net")
        names, shapes = keras.models.save_mxnet_model(model, prefix=prefix)[:2]
        symbol, arguments, auxiliary = mx.model.load_checkpoint(prefix, 0)
        module = mx.mod.Module(symbol, data_names=names, label_names=None)
        module.bind(for_training=False, data_shapes=[(names[0], (4, 8))])
        module.set_params(arguments, auxiliary, allow_missing=True)
        module.forward(mx.io.DataBatch([mx.nd.array(x)]))
        return [expected, module.get_outputs()[0]]


def backend():
    x, y = K.variable(values(3, 4)), K.variable(values(4, 2, number=1))
    positive = K.variable(np.abs(values(3, 4)) + 0.5)
    found = [
        K.dot(x, y),
        K.sum(x, axis=1),
        K.mean(x, axis=0, keepdims=True),
        K.max(x, axis=1),
        K.std(x),
        K.var(x, axis=1),
        K.argmax(x),
        K.softmax(x),
        K.sqrt(positive),
        K.log(positive),
        K.clip(x, -0.5, 0.5),
        K.concatenate([x, x]),
        K.reshape(x, (4, 3)),
        K.transpose(x),
        K.expand_dims(x),
        K.stack([x, x]),
        K.one_hot(K.variable([0, 2, 1]), 3),
        K.l2_normalize(x, axis=1),
        K.relu(x, alpha=0.1),
        K.prod(x),
        K.tile(x, (2, 1)),
        K.greater(x, 0.1),
        K.pow(positive, 2),
        K.sin(x),
        K.repeat_elements(x, 2, 0),
        K.any(x),
        K.all(x),
    ]
    return [K.eval(value) for value in found]


def applications():
    model = keras.applications.mobilenet.MobileNet(input_shape=(64, 64, 3), alpha=0.25, weights=None, classes=10)
    return outcome(model, values(2, 64, 64, 3))


def resnet():
    model = keras.applications.resnet50.ResNet50(input_shape=(64, 64, 3), weights=None, classes=10, include_top=True)
    return outcome(model, values(1, 64, 64, 3))


CASES = {name: one(*entry) for name, entry in LAYERS.items()}
CASES.update((name, two(*entry)) for name, entry in PAIRS.items())
CASES.update(
    {
        "embedding": embedding,
        "mlp": mlp,
        "functional": functional,
        "evaluated": evaluated,
        "losses": losses,
        "saved": saved,
        "exported": exported,
        "backend": backend,
        "mobilenet": applications,
        "resnet50": resnet,
    }
)

if __name__ == "__main__":
    cases.run(CASES)
