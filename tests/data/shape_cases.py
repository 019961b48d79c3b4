"""Short programs on scalars, arrays without elements and unknown extents, in the form of ndarray_cases.py.

`on()` turns NumPy's shape semantics on. `z` and `o` make zeros and ones, `e` an array of arbitrary content; `s` is
`mx.sym`, `a` and `b` are variables. `block` runs a function as a hybridized block on arrays, `filled` gives the shapes
of a layer's result and parameters, `read` those of an array that is saved with NumPy's shapes or without and loaded.
"""

SETUP = """
on = lambda: mx.util.set_np_shape(True)
mx.util.set_np_shape(False)
z = lambda *shape: nd.zeros(shape); o = lambda *shape: nd.ones(shape); e = lambda *shape: nd.empty(shape)
s = mx.sym; a, b = s.var('a'), s.var('b'); gluon = mx.gluon; nn = gluon.nn

class Function(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *x):
        return self.function(F, *x)

def block(function, *x):
    made = Function(function)
    made.hybridize()
    return made(*x)

def filled(layer, x, hybrid=True):
    layer.initialize(init=mx.init.One())
    if hybrid:
        layer.hybridize()
    return [layer(x).shape, [p.shape for p in layer.collect_params().values()]]

def parameter(**options):
    made = gluon.Parameter('w', **options)
    made.initialize()
    return [made.shape, made.data().shape]

def read(array, *modes):
    for mode, run in zip(modes, (lambda: nd.save('case.nd', [array]), lambda: nd.load('case.nd')[0])):
        with mx.util.np_shape(mode):
            found = run()
    return found
"""

CREATION = """
nd.array(5.0) | nd.array([]) | nd.array(np.zeros((0, 3))) | nd.array(np.ones(())) | nd.array(np.float32(3))
nd.from_numpy(np.ones((0, 2), 'float32')) | nd.from_numpy(np.ones((), 'float32')) | e(0) | e(0, 3) | e().shape
e(-1, 2) | z(0, 3) | z() | z(0) | nd.zeros(0) | o() | o(0, 2) | z(-1, 2) | nd.full((0, 2), 3) | nd.full((), 3)
nd.full(0, 3) | nd.eye(0) | nd.eye(0, 3) | nd.eye(-1) | nd.linspace(0, 1, 0) | nd.arange(0, 0) | nd.arange(5, 5)
nd._internal._zeros() | nd._internal._zeros(shape=()) | nd._internal._zeros(shape=(0, 3))
nd._internal._zeros(shape=None) | nd._internal._full(value=1) | nd._internal._full(shape=(0, 2), value=1)
nd._internal._random_uniform() | nd._internal._random_uniform(shape=()).shape | nd.random.uniform().shape
nd.random.uniform(shape=(0, 3)) | nd.random.normal(shape=()).shape | nd.random.randint(0, 3).shape
nd.random.randint(0, 3, shape=()).shape | nd.random.randint(0, 3, shape=(0, 2))
nd.random.multinomial(nd.array([0.5, 0.5]), shape=0) | nd.random.multinomial(nd.array([0.5, 0.5]), shape=(0, 2))
""".replace("\n", "|")

INDEXING = """
o(3)[0] | o(3, 2)[0, 1] | o(3, 2)[-1, -1] | o(3, 2)[0][1] | o(3)[np.int64(0)] | o(3)[0:0] | o(2, 3)[0:0] | o(3)[3:]
o(3)[5:] | o(3, 2)[3:, 0] | o(2, 3)[1:1, :] | o(3)[nd.array([0])] | o(3)[[0]] | o(3)[..., 0] | o(3, 2)[..., 0, 0]
o(3)[0, None] | o(3, 2)[:, 0] | o(2, 3)[None] | nd.array(7.0)[()] | nd.array(7.0)[:] | nd.array(7.0)[0] | len(e(0, 3))
[row.shape for row in o(3)] | [row.shape for row in o(3, 2)] | list(e(0, 3)) | [row.shape for row in e(2, 0)]
e(2, 0)[0] | e(0, 3)[0:0] | e(0, 3)[0] | sum(o(3)) | repr(o(1)[0]) | o(1)[0].asscalar() | bool(e(0))
len(nd.array(1.0)) | v = o(3); v[0] = nd.array(5.0); v | v = nd.array(5.0); v[:] = 3; v
v = nd.array(5.0); v[()] = 3; v | v = e(0, 3); v[:] = 5; v | v = e(0, 3); v[0:0] = 1; v | v = o(3, 2); v[1, 1] = 7; v
e(0, 3).size | nd.array(1.0).size | e(0, 3).ndim | nd.array(1.0).ndim | repr(nd.array(1.0)) | repr(e(0, 3))
nd.array(1.0).asscalar() | nd.array(1.0).asnumpy()
""".replace("\n", "|")

FILES = """
read(nd.array(5.0), True, True) | read(e(0, 3), True, True) | read(e(0, 3), False, False) | read(o(2), True, True)
nd.save('case.nd', [e(0, 3), o(2)]); np.fromfile('case.nd', 'uint8')[24:28]
read(nd.sparse.zeros('csr', (2, 3)), True) | nd.save('case.nd', {'a': o(2)}); np.fromfile('case.nd', 'uint8')[24:28]
s.zeros((0, 3), name='z').tojson()
""".replace("\n", "|")

SYMBOLS = """
(a + b).infer_shape(a=(0, 3), b=(2, 4)) | (a + b).infer_shape(a=(-1, 3), b=(2, -1)) | (a + b).infer_shape(a=(), b=())
(a + b).infer_shape(a=(0, 3), b=(2, 0)) | (a + b).infer_shape(a=()) | (a + b).infer_shape(a=(), b=(2,))
(a + b).infer_shape_partial() | (a + b).infer_shape_partial(a=(-2, 3)) | (a + b).infer_shape_partial(a=(0, 3))
s.FullyConnected(a, num_hidden=3).infer_shape(a=(-1, 3)) | s.FullyConnected(a, num_hidden=3).infer_shape(a=(0, 3))
s.FullyConnected(a, num_hidden=3).infer_shape_partial(a=(0, 3)) | s.zeros(()).infer_shape_partial()
s.zeros((0, 3)).infer_shape_partial() | s.zeros((-1, 3)).infer_shape_partial() | s.zeros(()).infer_shape()
s.zeros((0, 3)).infer_shape() | s._internal._zeros().infer_shape() | s.zeros((2, 3)).infer_shape()
(s.zeros((0, 3)) + a).infer_shape(a=(2, 3)) | (s.zeros((-1, 3)) + a).infer_shape(a=(2, 3))
(s.zeros(()) + a).infer_shape(a=(2, 3)) | (s.random.uniform(shape=(0, 3)) + a).infer_shape(a=(2, 3))
s.random.uniform().infer_shape_partial() | s.random.uniform(shape=(0, 3)).infer_shape_partial()
s.zeros((0, 3)).eval()[0] | s.zeros(()).eval()[0] | (a + b).eval(a=e(0, 3), b=e(0, 3))[0]
(a + 1).eval(a=nd.array(5.0))[0] | (a + 1).bind(mx.cpu(), {'a': z(0, 3)}).forward()[0]
(a + 1).simple_bind(mx.cpu(), a=(0, 3)).forward()[0] | (a + 1).simple_bind(mx.cpu(), a=(-1, 3))
(a + 1).simple_bind(mx.cpu(), a=()).forward()[0].shape | s.var('v', shape=(0, 3)).infer_shape()
s.var('v', shape=(-1, 3)).infer_shape() | s.var('v', shape=()).infer_shape() | s.var('v').infer_shape_partial()
s.var('v', shape=(0, 3)).attr('__shape__') | s.var('v').infer_shape()
(s.var('v', shape=(0, 3)) + a).infer_shape(a=(2, 3)) | (s.var('v', shape=(-1, 3)) + a).infer_shape(a=(2, 3))
(s.var('v', shape=()) + a).infer_shape(a=(2, 3)) | (s.var('v', shape=(-1, 3)) + a).infer_shape_partial()
s.slice(a, begin=(0, 0), end=(0, 3)).infer_shape(a=(2, 3)) | s.concat(a, b, dim=0).infer_shape(a=(0, 3), b=(2, 3))
s.concat(a, b, dim=0).infer_shape_partial(a=(-1, 3), b=(2, 3)) | s.sum(a, axis=0).infer_shape_partial(a=(0, 3))
s.Reshape(a, shape=(0, -1)).infer_shape(a=(2, 3, 4)) | s.sum(a, axis=1).infer_shape_partial(a=(-1, 3))
s.RNN(a, state_size=3, num_layers=1, mode='gru').infer_shape_partial(a=(0, 2, 3))
s.Convolution(a, kernel=(2, 2), num_filter=3).infer_shape_partial(a=(0, 2, 5, 5))
s.Convolution(a, kernel=(2, 2), num_filter=3).infer_shape_partial(a=(2, 2, 0, 0))
s.BatchNorm(a).infer_shape_partial(a=(0, 2, 5, 5)) | s.BatchNorm(a).infer_shape_partial(a=(2, 0, 5, 5))
s.Pooling(a, kernel=(2, 2)).infer_shape_partial(a=(0, 2, 5, 5)) | s.shape_array(a).infer_shape_partial()
s.Pooling(a, global_pool=True).infer_shape_partial(a=(2, 2, 0, 0)) | s.eye(0).infer_shape()
v, w = s.contrib.foreach(lambda x, y: (x + y + s.zeros((0, 3)), y), a, b); v.infer_shape_partial(a=(4, 2, 3), b=(2, 3))
""".replace("\n", "|")

BLOCKS = """
gluon.Parameter('w', shape=(0, 3)).shape | gluon.Parameter('w', shape=(-1, 3)).shape
gluon.Parameter('w', shape=()).shape | parameter(shape=(2, 3)) | parameter(shape=(0, 3)) | parameter(shape=())
parameter(shape=(0, 3), allow_deferred_init=True) | gluon.utils.shape_is_known((0, 3))
gluon.utils.shape_is_known(()) | gluon.utils.shape_is_known(None) | gluon.utils.shape_is_known((2, 3))
filled(nn.Dense(4), o(2, 3)) | filled(nn.Dense(4), o(2, 3), False) | filled(nn.Dense(4), e(0, 3))
filled(nn.Dense(4), e(0, 3), False) | filled(nn.Dense(4), e(2, 0)) | filled(nn.LayerNorm(), e(0, 4))
filled(nn.Conv2DTranspose(3, 2, in_channels=4), o(1, 4, 5, 5)) | filled(nn.BatchNorm(), z(0, 3, 2, 2))
filled(nn.Embedding(5, 3), z(0, 4)) | filled(nn.MaxPool2D(), z(0, 4, 5, 5))
block(lambda F, x: F.zeros((0, 3)) + x, o(2, 3)) | block(lambda F, x: F.zeros((0, 3)) + x, z(0, 3))
block(lambda F, x: F.slice(x, begin=(1,), end=(1,)), o(2, 3)) | block(lambda F, x: F.zeros(()) + F.sum(x), o(2, 3))
block(lambda F, x: F.concat(x, F.ones((2, 3)), dim=0), z(0, 3)) | block(lambda F, x: F.sum(x, axis=0), z(0, 3))
block(lambda F, x: F.square(x) * 2, o()) | block(lambda F, x: F.stack(x, x), o())
block(lambda F, x: F.sum(x), z(0, 3)) | block(lambda F, x: F.dot(x, F.transpose(x)), z(0, 2))
block(lambda F, x: (F.softmax(x), F.relu(x)), z(2, 0)) | block(lambda F, x: F.shape_array(x), o())
block(lambda F, x: F.shape_array(x), z(0, 2)) | block(lambda F, x: F.reshape(x, shape=(-1,)), z(2, 0))
block(lambda F, x: x + 1, z(0, 3)) | block(lambda F, x: x + 1, o())
""".replace("\n", "|")

SCALARS = """
o() + o(2) | o() + 2 | 1 - o() | -o() | abs(o()) | o() > 0 | o() ** 2 | o() / o(3) | o() * o() | v = o(); v += 1; v
nd.maximum(o(), 2) | nd.add(o(), o(2)) | nd.elemwise_add(o(), o()) | nd.broadcast_mul(o(), o(2, 3)) | nd.square(o())
o().T | o().reshape((1,)) | o().reshape((-1,)) | o().reshape((1, 1)) | o(1).reshape(()) | o(1, 1).reshape([])
o().flatten() | nd.reshape(o(1, 1), shape=()) | o().broadcast_to((2, 3)) | o().broadcast_like(o(2, 3))
o().tile((2,)) | o().repeat(2) | o().sum() | o().mean() | o().max() | o().argmax() | o().norm() | o().softmax()
o().log_softmax() | nd.softmax(o(), axis=0) | nd.softmax(o(), axis=1) | o().sort() | o().copy() | o().astype('int32')
nd.stack(o(), o(), axis=0) | nd.dot(o(), o()) | o(2, 3).sum() | o(2, 3).sum(axis=(0, 1)) | o(3).mean(axis=0)
o(1).squeeze() | o(1, 1).squeeze(axis=0) | o().expand_dims(0) | nd.pick(o(3), nd.array([1]))
nd.take(o(3, 2), nd.array(1)) | nd.take(o(3), nd.array(1)) | nd.one_hot(nd.array(1), depth=3)
nd.Embedding(nd.array(1), o(3, 2), input_dim=3, output_dim=2)
nd.split(o(2), num_outputs=2, axis=0, squeeze_axis=True) | nd.where(o(), o(), z()) | nd.clip(o(), 0, 1)
nd.zeros_like(o()) | nd.ones_like(o()) | nd.shape_array(o()) | nd.size_array(o())
nd.Activation(o(), act_type='relu') | nd.Dropout(o()) | nd.cast(o(), dtype='float64') | nd.BlockGrad(o())
nd.add_n(o(), o()) | nd.concat(o(), o(), dim=0) | nd.contrib.arange_like(o()) | nd.linalg.sumlogdiag(o(2, 2))
nd.linalg.det(o(2, 2)) | nd.relu(o()) | nd.array(o()) | o().as_in_context(mx.cpu(1)) | o().detach()
nd.smooth_l1(o(), scalar=1) | nd.argmax(o(3)) | nd.transpose(o())
""".replace("\n", "|")

EMPTY = """
z(0, 3) + 1 | z(0, 3) + z(0, 3) | z(0, 3) + z(1, 3) | z(0, 3) + z(3) | z(0, 3) == z(0, 3) | v = z(0, 3); v += 1; v
z(0, 3) + o(2, 3) | nd.concat(z(0, 3), o(2, 3), dim=0) | nd.concat(z(0, 3), z(0, 3), dim=0)
nd.stack(z(0, 3), z(0, 3)) | z(0, 3).reshape((-1,)) | z(0, 3).reshape((0, 3)) | z(0, 3).reshape((-2,))
z(0, 3).reshape((-3,)) | z(0, 3).reshape((5, 0)) | z(0, 4).reshape((0, -4, 2, 2)) | z(4, 0).reshape((-4, 2, -1, 0))
nd.reshape(z(0, 3), shape=(-1, 3)) | z(0, 2).reshape((-1, 2)) | nd.reshape_like(z(2, 0), z(0, 5))
z(2, 0, 3).flatten() | z(0, 3).flatten() | z(0, 3).T | z(0, 3).broadcast_to((0, 3)) | z(1, 0).broadcast_to((4, 0))
nd.broadcast_axis(o(1, 3), axis=0, size=0) | nd.broadcast_to(o(1, 3), shape=(0, 3)) | z(0).sum() | z(0).prod()
z(0).mean() | z(0).nansum() | z(0).norm() | z(0, 3).sum(axis=0) | z(0, 3).norm(axis=0) | z(0, 3).max()
z(0, 3).sum(axis=1) | z(0, 3).max(axis=1) | z(2, 0).min(axis=1) | z(0, 3).argmax(axis=0) | z(0, 3).argmax(axis=1)
nd.moments(z(0, 3), axes=(0,)) | z(0, 3).topk(axis=1, k=2) | z(0, 3).sort(axis=0) | z(3, 0).sort() | z(0, 3).argsort()
nd.dot(z(0, 3), o(3, 2)) | nd.dot(o(2, 3), z(3, 0)) | nd.dot(z(0), z(0)) | nd.batch_dot(z(2, 3, 0), z(2, 0, 4))
nd.batch_dot(z(0, 3, 2), z(0, 2, 4)) | nd.linalg.gemm2(z(2, 0), z(0, 3)) | nd.linalg.gemm(z(2, 0), z(0, 3), o(2, 3))
nd.linalg.syrk(z(3, 0)) | nd.linalg.potrf(z(0, 3, 3)) | nd.linalg.inverse(z(0, 2, 2)) | nd.linalg.det(z(0, 2, 2))
nd.slice_axis(z(4, 0, 3), axis=1, begin=1, end=4) | nd.slice_axis(o(4, 2), axis=1, begin=2, end=2)
nd.flip(z(0, 3), axis=0) | nd.slice(z(4, 0, 3), begin=(0, 0), end=(2, 4)) | nd.slice(o(4), begin=(0,), end=(0,))
nd.slice_like(o(4, 3), z(2, 0)) | nd.tile(z(0, 3), reps=(2, 2)) | nd.tile(o(2, 3), reps=(0, 2))
nd.repeat(z(0, 3), repeats=2, axis=1) | nd.repeat(o(2), repeats=0)
nd.pad(z(1, 1, 0, 2), mode='constant', pad_width=(0, 0, 0, 0, 1, 1, 1, 1), constant_value=2) | nd.cumsum(z(0, 3))
nd.relu(z(0, 3)) | nd.gather_nd(o(2, 3), z(2, 0)) | nd.scatter_nd(z(0), z(2, 0), shape=(2, 3))
nd.one_hot(z(0), depth=3) | nd.diag(z(0, 3)) | nd.pick(z(0, 3), z(0), axis=1) | nd.take(o(2, 3), z(0, 2))
nd.take(z(0, 3), z(0)) | nd.where(z(0), z(0, 2), z(0, 2)) | nd.Embedding(z(0, 5), o(4, 3), input_dim=4, output_dim=3)
nd.contrib.boolean_mask(o(3, 2), z(3)) | nd.diag(z(0), k=1) | nd.FullyConnected(z(0, 3), o(4, 3), o(4), num_hidden=4)
nd.Pooling(z(0, 3, 5, 5), kernel=(2, 2)) | nd.softmax(z(0, 3))
nd.Convolution(z(0, 3, 5, 5), o(4, 3, 3, 3), no_bias=True, num_filter=4, kernel=(3, 3)) | nd.softmax(z(3, 0))
nd.BatchNorm(z(0, 3, 2, 2), o(3), o(3), o(3), o(3)) | nd.LayerNorm(z(0, 3), o(3), o(3))
nd.RNN(z(3, 0, 2), o(45), z(1, 0, 3), state_size=3, num_layers=1, mode='gru') | nd.Dropout(z(0, 3), mode='always')
nd.UpSampling(z(0, 3, 2, 2), scale=2, sample_type='nearest') | nd.add_n(z(0, 3), z(0, 3))
nd.split(z(0, 4), num_outputs=2, axis=0) | nd.split(z(0, 4), num_outputs=2, axis=1)
nd.split_v2(z(4, 0), (1,), axis=0) | nd.random.uniform(z(0), z(0), shape=(2,))
nd.sgd_update(z(0, 3), z(0, 3), lr=0.1) | nd.all_finite(z(0, 3)) | nd.multi_sum_sq(z(0, 3), o(2), num_arrays=2)
nd.cast_storage(z(0, 3), 'row_sparse').shape | nd.contrib.arange_like(z(0, 3)) | nd.contrib.box_iou(z(0, 4), o(2, 4))
nd.histogram(z(0), bins=3, range=(0, 1)) | nd.zeros_like(z(0, 3)) | nd.clip(z(0, 3), 0, 1) | z(0, 3).copy()
z(0, 3).astype('int32') | z(0, 3).copyto(o(0, 3)) | z(0, 3).as_in_context(mx.cpu(1)) | z(0, 3).asnumpy()
""".replace("\n", "|")


def programs():
    """Every program, in order: those of the first groups without NumPy's shape semantics, then all with them."""
    both = [p.strip() for g in (CREATION, INDEXING, FILES, SYMBOLS, BLOCKS) for p in g.split("|") if p.strip()]
    numpy = [p.strip() for g in (SCALARS, EMPTY) for p in g.split("|") if p.strip()]
    return [*both, *("on(); " + p for p in (*both, *numpy))]
