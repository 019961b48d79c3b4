"""keras-mxnet: models that are fitted: losses of batches, weights at the end, callbacks, generators."""

import os

os.environ["KERAS_BACKEND"] = "mxnet"

import cases  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import backend as K  # noqa: E402
from keras import layers as L  # noqa: E402
from keras import optimizers, regularizers  # noqa: E402
from keras.models import Model, Sequential  # noqa: E402


def values(*shape, number=0):
    return np.random.RandomState(number).uniform(-1, 1, shape).astype("float32")


def classes(count, kinds=3, number=0):
    return np.eye(kinds, dtype="float32")[np.random.RandomState(number).randint(0, kinds, count)]


def fill(model):
    names = [w.name for layer in model.layers for w in layer.weights]
    weights = []
    for number, array in enumerate(model.get_weights()):
        new = values(*array.shape, number=number) * 0.4
        kind = names[number] if number < len(names) else ""
        # the backend fixes the scale of a normalization, which MXNet then sets to 1
        weights.append(np.ones_like(new) if "gamma" in kind else new + 1.2 if "variance" in kind else new)
    model.set_weights(weights)
    return model


def outcome(model, history):
    kept = [history.history[name] for name in sorted(history.history)]
    return {"metrics": str(sorted(history.history)), "outputs": [np.array(kept, "float64"), model.get_weights()]}


def perceptron(optimizer, loss="categorical_crossentropy", **options):
    def case():
        model = Sequential([L.Dense(8, activation="relu", input_shape=(6,)), L.Dense(3, activation="softmax")])
        model.compile(optimizer=optimizer() if callable(optimizer) else optimizer, loss=loss, metrics=["accuracy"])
        fill(model)
        y = classes(16)
        y = y.argmax(1).astype("float32") if loss.startswith("sparse") else y
        history = model.fit(values(16, 6), y, batch_size=4, epochs=3, shuffle=False, verbose=0, **options)
        return outcome(model, history)

    return case


def convolutional():
    model = Sequential(
        [
            L.Conv2D(4, 3, activation="relu", padding="same", input_shape=(8, 8, 3)),
            L.BatchNormalization(),
            L.MaxPooling2D(2),
            L.Conv2D(6, 3, kernel_regularizer=regularizers.l2(0.01)),
            L.Activation("tanh"),
            L.AveragePooling2D(2),
            L.Flatten(),
            L.Dense(3, activation="softmax", activity_regularizer=regularizers.l1(0.01)),
        ]
    )
    model.compile(optimizers.SGD(0.05, momentum=0.9, nesterov=True), "categorical_crossentropy")
    fill(model)
    fitted = model.fit(
        values(8, 8, 8, 3),
        classes(8),
        batch_size=4,
        epochs=3,
        shuffle=False,
        verbose=0,
        validation_data=(values(4, 8, 8, 3, number=5), classes(4, number=5)),
    )
    return outcome(model, fitted)


def recurrent(layer):
    def case():
        model = Sequential(
            [L.Embedding(12, 5, input_length=6), layer(7, unroll=True), L.Dense(1, activation="sigmoid")]
        )
        model.compile(optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
        fill(model)
        words = np.random.RandomState(0).randint(0, 12, (8, 6))
        fitted = model.fit(words, (words.sum(1) % 2), batch_size=4, epochs=3, shuffle=False, verbose=0)
        return outcome(model, fitted)

    return case


def functional():
    """Two inputs, two outputs with weights, a frozen and a shared layer, weights of samples."""
    one, two = L.Input((5,)), L.Input((5,))
    shared = L.Dense(6, activation="tanh")
    frozen = L.Dense(6, trainable=False)
    both = L.concatenate([shared(one), frozen(shared(two))])
    first, second = L.Dense(3, activation="softmax", name="first")(both), L.Dense(2, name="second")(both)
    model = Model([one, two], [first, second])
    model.compile(
        optimizers.RMSprop(0.01, epsilon=1e-3),
        {"first": "categorical_crossentropy", "second": "mean_squared_error"},
        loss_weights={"first": 1.0, "second": 0.3},
    )
    fill(model)
    targets = {"first": classes(8), "second": values(8, 2, number=3)}
    inputs = [values(8, 5), values(8, 5, number=1)]
    return outcome(model, model.fit(inputs, targets, batch_size=4, epochs=3, shuffle=False, verbose=0))


def batches():
    """train_on_batch and test_on_batch, a rate that is changed, weights of classes."""
    model = Sequential([L.Dense(8, activation="elu", input_shape=(6,)), L.Dense(3, activation="softmax")])
    model.compile(optimizers.SGD(0.1), "categorical_crossentropy", metrics=["accuracy"])
    fill(model)
    found = []
    for step in range(4):
        K.set_value(model.optimizer.lr, 0.1 / (step + 1))
        x, y = values(4, 6, number=step), classes(4, number=step)
        found.append(model.train_on_batch(x, y, class_weight={0: 1.0, 1: 2.0, 2: 0.5}))
        found.append(model.test_on_batch(x, y))
    return [np.array(found, "float64"), model.get_weights()]


def generated():
    """fit_generator with callbacks: schedules of rates, early stopping, a log."""

    def batches_without_end():
        step = 0
        while True:
            yield values(4, 6, number=step), classes(4, number=step)
            step = (step + 1) % 3

    model = Sequential([L.Dense(8, activation="relu", input_shape=(6,)), L.Dense(3, activation="softmax")])
    model.compile(optimizers.SGD(0.1), "categorical_crossentropy", metrics=["accuracy"])
    fill(model)
    seen = []
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 * 0.5**epoch),
        keras.callbacks.EarlyStopping(monitor="loss", patience=2),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1),
        keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: seen.append(float(logs["loss"]))),
    ]
    history = model.fit_generator(batches_without_end(), steps_per_epoch=3, epochs=4, verbose=0, callbacks=callbacks)
    return {"seen": np.array(seen), **outcome(model, history)}


def several_contexts():
    """The backend's form of data parallel training."""
    model = Sequential([L.Dense(8, activation="relu", input_shape=(6,)), L.Dense(3, activation="softmax")])
    model.compile("sgd", "categorical_crossentropy", context=["cpu(0)", "cpu(1)"])
    fill(model)
    history = model.fit(values(16, 6), classes(16), batch_size=8, epochs=3, shuffle=False, verbose=0)
    return outcome(model, history)


CASES = {
    "sgd": perceptron(lambda: optimizers.SGD(0.1, decay=0.01)),
    "momentum": perceptron(lambda: optimizers.SGD(0.1, momentum=0.9)),
    "adam": perceptron(lambda: optimizers.Adam(0.01, epsilon=1e-3)),
    "adamax": perceptron(lambda: optimizers.Adamax(0.01, epsilon=1e-3)),
    "nadam": perceptron(lambda: optimizers.Nadam(0.01, epsilon=1e-3)),
    "rmsprop": perceptron(lambda: optimizers.RMSprop(0.01, epsilon=1e-3)),
    "adagrad": perceptron(lambda: optimizers.Adagrad(0.01, epsilon=1e-3)),
    "adadelta": perceptron(lambda: optimizers.Adadelta(1.0, epsilon=1e-3)),
    "sparse labels": perceptron(lambda: optimizers.SGD(0.1), "sparse_categorical_crossentropy"),
    "squared error": perceptron(lambda: optimizers.SGD(0.1), "mean_squared_error", validation_split=0.25),
    "hinge": perceptron(lambda: optimizers.SGD(0.1), "categorical_hinge"),
    "divergence": perceptron(lambda: optimizers.SGD(0.1), "kullback_leibler_divergence"),
    "convolutional": convolutional,
    "lstm": recurrent(L.LSTM),
    "gru": recurrent(L.GRU),
    "simple rnn": recurrent(L.SimpleRNN),
    "functional": functional,
    "batches": batches,
    "generator and callbacks": generated,
    "several contexts": several_contexts,
}

if __name__ == "__main__":
    cases.run(CASES)
