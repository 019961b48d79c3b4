"""Programs on gradients of integers."""

from program import gather, numbers, ramp

PROGRAMS, program = gather()


def integers(mx, *values, dtype="int32"):
    x = mx.nd.array(values, dtype=dtype)
    x.attach_grad()
    return x


@program
def gradients_of_integers(mx):
    """By arrays of integers, and through casts to integers, which truncate the gradient."""
    nd, found = mx.nd, []
    for dtype in ("int32", "int64", "uint8", "int8"):
        for compute in (
            lambda x: x * 2,
            lambda x: x * x * x - x,
            lambda x: nd.where(x > 1, x, x * 2),
            lambda x: nd.square(x) + nd.abs(x) + nd.maximum(x, 2),
            lambda x: (x * x).sum(),
            lambda x: x.astype("float32") * nd.array([0.5, 1.5, 2.5]),
            lambda x: x.astype("int64") * 3,
        ):
            x = integers(mx, 1, 2, 3, dtype=dtype)
            with mx.autograd.record():
                y = compute(x)
            y.backward()
            found += [numbers(x.grad), str(x.grad.dtype)]
    x, y = mx.nd.array([1.7, 2, 3]), integers(mx, 1, 2, 3)
    x.attach_grad()
    for compute in (
        lambda: x.astype("int32"),
        lambda: x.astype("int32").astype("float32") * x,
        lambda: (x * 2.5).astype("int32").astype("float32") * nd.array([0.5, 1.5, 2]),
        lambda: x.astype("int32") * y,
        lambda: nd.argmax(x, axis=0) + nd.sign(x) + nd.floor(x),
    ):
        with mx.autograd.record():
            result = compute()
        result.backward()
        found.append(numbers(x.grad))
    found.append(numbers(y.grad))
    with mx.autograd.record():
        result = y + 1
    result.backward(nd.array([5, 6, 7], dtype="int32"))
    return [*found, numbers(y.grad)]


@program
def integers_in_symbols(mx):
    a = mx.sym.var("a")
    rounded = mx.sym.cast(mx.sym.cast(a, "int32"), "float32") * a
    found = []
    for net, dtype in ((a * a, "int32"), (rounded, "float32")):
        bound = net.bind(mx.cpu(), [mx.nd.array([1, 2, 3], dtype=dtype)], [mx.nd.zeros((3,), dtype=dtype)])
        bound.forward(is_train=True)
        bound.backward(mx.nd.array([1, 1, 2], dtype=dtype))
        found.append(numbers(bound.grad_arrays[0]))

    class Rounded(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.cast(F.cast(x * 2, "int32"), "float32") * x

    for hybridize in (False, True):
        net, x = Rounded(), ramp(mx, 4)
        if hybridize:
            net.hybridize()
        x.attach_grad()
        with mx.autograd.record():
            y = net(x * 5)
        y.backward()
        found += [numbers(y), numbers(x.grad)]
    return found
