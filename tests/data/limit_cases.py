"""Short programs at the limits of what functions take, in the form of ndarray_cases.py: shapes that are none, indices
out of range, ranges of integers, numbers beyond the axes.

`x` is (2, 3, 4), `y` (2, 3, 2, 2), `z` makes zeros that may have no elements. `k` is a store with two row-sparse
values, `rows()` an empty row-sparse array for them, `ids` makes numbers of rows.
"""

SETUP = """
x = nd.arange(24).reshape((2, 3, 4)); y = x.reshape((2, 3, 2, 2)); a = np.ones((2, 3), 'float32')
z = lambda *shape: nd.array(np.zeros(shape)); rows = lambda: nd.sparse.zeros('row_sparse', (4, 3))
k = mx.kv.create('local'); ids = lambda *numbers: nd.array(numbers)
k.init(['a', 'b'], [(nd.arange(12).reshape((4, 3)) + n).tostype('row_sparse') for n in (0, 100)])
"""

SHAPES = """
nd.ones((2.5,)) | nd.ones((2.0,)) | nd.ones(2.0) | nd.ones(2.5) | nd.zeros((2.5,)) | nd.zeros((2.0, 3)) | nd.zeros(2.0)
nd.zeros('2') | nd.zeros('(2,3)') | nd.zeros((2, '3')) | nd.full((2.5,), 3) | nd.full((2.0,), 3) | nd.full(2.5, 3)
nd.empty((2.5,)) | nd.empty((2.0,)) | nd.empty(2.5) | nd.ones((np.float32(2),)) | nd.ones((np.int64(2), 3))
nd.ones((np.float64(2.5),)) | nd.ones(np.array([2.5, 3])) | nd.ones((True, 2)) | nd.ones(True) | nd.ones((None, 2))
nd.ones(None) | nd.ones([2, 3]) | nd.ones([2.5, 3]) | nd.ones((-1,)) | nd.ones((0,)) | nd.eye(2.5) | nd.eye(2.0)
nd.reshape(nd.ones((2, 3, 11)), (2.0, 33)) | nd.reshape(x, shape=(2.5, 12))
x.reshape((2.0, 12)) | x.reshape((2.5, 12))
x.reshape(2.0, 12) | nd.random.uniform(shape=(2.0,)) | nd._internal._ones(shape=(2.0,)) | mx.sym.zeros((2.0,))
mx.sym.ones((2.5,)) | (mx.sym.var('a') + 1).infer_shape(a=(2.5,)) | (mx.sym.var('a') + 1).infer_shape(a=(2.0,))
(mx.sym.var('a') + 1).simple_bind(mx.cpu(), a=(2.5,)) | mx.gluon.Parameter('a', shape=(2.5,)).initialize()
nd.sparse.zeros('csr', (2.5, 3)) | nd.sparse.zeros('row_sparse', (2.0, 3)) | nd.sparse.csr_matrix((2.5, 3))
nd.one_hot(nd.array([1]), 2.0) | nd.slice_axis(x, axis=0, begin=0.0, end=1) | nd.sum(x, axis=1.0) | nd.sum(x, axis=True)
nd.FullyConnected(x, nd.ones((2, 12)), no_bias=True, num_hidden=2.0) | nd.split(x, num_outputs=2.0, axis=0)
nd.transpose(nd.ones((2, 3, 11)), axes=(0.0, 2, 1)) | nd.topk(x, k=True)
""".replace("\n", "|")

RANGES = """
nd.arange(1.3, 456.6, 1.3, dtype='int32') | nd.arange(1.3, 456.6, 1.3, dtype='int64')
nd.arange(1.3, 456.6, 1.3, dtype='uint8') | nd.arange(1.3, 456.6, 1.3, dtype='float64') | nd.arange(1.3, 456.6, 1.3)
nd.arange(1, 4, 0.5, dtype='int32') | nd.arange(10, 0, -2.7, dtype='int32') | nd.arange(-3.7, 3, 1, dtype='int32')
nd.arange(0.9, 5.5, 1.9, dtype='int64', repeat=2) | nd.arange(-3.7, 3, 1.2, dtype='int8')
nd.arange(2.5, dtype='int32')
nd.arange(200, 300, 7.9, dtype='int8') | nd.arange(1e10, 1e10 + 3, dtype='int64')
nd.arange(0, 10**8, 10001, dtype='int32')[9990:] | nd.arange(16777217, 16777220, dtype='int32')
mx.sym.arange(1.3, 56.6, 1.3, dtype='int32').eval(ctx=mx.cpu())
mx.sym.arange(1, 4, 0.5, dtype='int64', repeat=2).eval(ctx=mx.cpu())
nd.contrib.arange_like(x.astype('int32'), start=1.3, step=1.3)
nd.contrib.arange_like(x.astype('int32'), start=1.3, step=0.5, axis=1) | nd.contrib.arange_like(x, start=1.3, step=1.3)
""".replace("\n", "|")

INDICES = """
nd.gather_nd(x, nd.array([[0, 1], [1, 2]])) | nd.gather_nd(x, nd.array([[0, -1], [1, -2]]))
nd.gather_nd(x, nd.array([[0, 2], [1, 2]])) | nd.gather_nd(x, nd.array([[0, -3], [1, -2]]))
nd.gather_nd(x, nd.array([[0, 1], [1, 3]])) | nd.gather_nd(x, nd.array([[0, 1], [1, -4]], dtype='int32'))
nd.gather_nd(x, nd.array([[0, 1.7], [1, 2]])) | nd.gather_nd(x, nd.array([[0, 99]], dtype='int64'))
nd.gather_nd(x, nd.array([[0, 1], [1, 2], [3, -4]])) | nd.gather_nd(x, nd.array([[0, 1], [1, 2], [4, 0]]))
""".replace("\n", "|")

LAYERS = """
nd.LeakyReLU(-x, nd.array([1, 2, 3]), act_type='prelu') | nd.LeakyReLU(-x, nd.array([[1, 2, 3]]), act_type='prelu')
nd.LeakyReLU(-x, nd.array([[1, 2, 3, 4]]), act_type='prelu') | nd.LeakyReLU(-x, nd.array([[1], [2]]), act_type='prelu')
nd.LeakyReLU(-x, nd.array([[1], [2], [3]]), act_type='prelu')
nd.LeakyReLU(-x, nd.arange(6).reshape((2, 3)), act_type='prelu')
nd.LeakyReLU(-x, nd.arange(12).reshape((3, 4)), act_type='prelu')
nd.LeakyReLU(-x, nd.arange(3).reshape((1, 3, 1)), act_type='prelu') | nd.LeakyReLU(-x, x, act_type='prelu')
nd.LeakyReLU(-x, nd.array([1, 2]), act_type='prelu') | nd.LeakyReLU(-x, nd.array([1, 2, 3, 4]), act_type='prelu')
nd.LeakyReLU(-x, nd.array([[1]]), act_type='prelu') | nd.LeakyReLU(-x[0], nd.array([[1, 2, 3, 4]]), act_type='prelu')
nd.LeakyReLU(-x[0], nd.array([[1], [2], [3]]), act_type='prelu')
nd.LeakyReLU(-x[0, 0], nd.array([1, 2, 3, 4]), act_type='prelu')
nd.LeakyReLU(-y, nd.array([[1, 2], [3, 4]]), act_type='prelu')
nd.LeakyReLU(-y, nd.array([[1, 2], [3, 4], [5, 6]]), act_type='prelu')
nd.LeakyReLU(-y, nd.array([[1, 2, 3], [4, 5, 6]]), act_type='prelu')
nd.LeakyReLU(-y, nd.array([[1], [2]]), act_type='prelu') | nd.LeakyReLU(-y, nd.array([1, 2]), act_type='prelu')
n = mx.gluon.nn.PReLU(in_channels=3); n.initialize(); n(-x)
nd.depth_to_space(z(0, 4, 2, 2), 2) | nd.depth_to_space(z(1, 0, 2, 2), 2) | nd.depth_to_space(z(1, 4, 0, 2), 2)
nd.depth_to_space(z(1, 4, 2, 0), 2) | nd.space_to_depth(z(0, 4, 2, 2), 2) | nd.space_to_depth(z(1, 0, 2, 2), 2)
nd.space_to_depth(z(1, 4, 0, 2), 2) | nd.space_to_depth(z(1, 4, 2, 0), 2)
mx.sym.depth_to_space(mx.sym.var('a', shape=(0, 4, 2, 2)), block_size=2).infer_shape_partial()
nd.Pooling(x, kernel=(2,), pad=(0, 0, 0)) | nd.Pooling(x, kernel=(2,), pad=(1, 0, 0))
nd.Pooling(x, kernel=(2,), pad=(0, 1))
nd.Pooling(x, kernel=(2,), stride=(2, 1)) | nd.Pooling(x, kernel=(2,), pad=(1, 1, 0), pool_type='avg')
nd.Pooling(y, kernel=(2, 2), pad=(1, 1, 1)) | nd.Pooling(y, kernel=(2, 2), stride=(1, 1, 1))
nd.Pooling(y, kernel=(2,))
nd.Pooling(y, kernel=(2, 2), pad=(0,)) | nd.Pooling(y, kernel=(2, 2), stride=(1,)) | nd.Pooling(y, kernel=(2, 2, 1))
nd.Pooling(y.expand_dims(0), kernel=(2, 2, 2), pad=(0, 0, 0, 0))
nd.Convolution(x, nd.ones((1, 3, 2)), kernel=(2,), num_filter=1, no_bias=True, pad=(0, 0))
mx.gluon.nn.MaxPool1D(2, padding=(0, 0, 0))(x) | mx.gluon.nn.AvgPool1D(2, strides=(1, 2), padding=(1, 1))(x)
mx.gluon.nn.MaxPool2D(2, padding=(1,))(y)
""".replace("\n", "|")

MEMORY = """
v = nd.ones((2,)); w = nd.ones((3,), dtype='float16'); nd.reset_arrays(v, w, num_arrays=2); [v, w]
v = nd.ones((2,), dtype='float64'); w = nd.ones((3,)); nd.reset_arrays(v, w, num_arrays=2); [v, w]
a.flags.writeable=False; nd.from_numpy(a) | a.flags.writeable=False; nd.from_numpy(a, zero_copy=False)
v = nd.from_numpy(a); a.flags.writeable | v = nd.from_numpy(a); w = nd.from_numpy(a); v[:] = 5; [w, nd.array(a)]
v = nd.from_numpy(a, zero_copy=False); a.flags.writeable | v = nd.from_numpy(a); v[:] = 5; nd.array(a)
nd.from_numpy(a.T) | nd.from_numpy(np.ones((2,), 'complex64')) | nd.from_numpy(np.frombuffer(b'abcd', 'uint8'))
nd.from_numpy([1, 2])
""".replace("\n", "|")

STORES = """
v = rows(); k.row_sparse_pull('a', out=v, row_ids=ids(2, 2, 0)); v
v = [rows(), rows()]; k.row_sparse_pull('a', out=v, row_ids=ids(0, 2)); v
v = [rows(), rows()]; k.row_sparse_pull('a', out=v, row_ids=[ids(0, 2), ids(1)]); v
v = [rows(), rows()]; k.row_sparse_pull(['a', 'b'], out=v, row_ids=[ids(0, 2), ids(1)]); v
v = [[rows(), rows()], [rows()]]; k.row_sparse_pull(['a', 'b'], out=v, row_ids=[[ids(0, 2), ids(1)], [ids(3)]]); v
v = [[rows(), rows()], rows()]; k.row_sparse_pull(['a', 'b'], out=v, row_ids=[[ids(0, 2), ids(1)], ids(3)]); v
v = [[rows()]]; k.row_sparse_pull(['a'], out=v, row_ids=[[ids(2, 2, 0)]]); v
v = [[rows(), rows()], [rows(), rows()]]; k.row_sparse_pull(['a', 'b'], out=v, row_ids=[ids(0, 2), ids(1)]); v
v = rows(); k.row_sparse_pull('a', out=v, row_ids=[[0, 1]]); v | v = rows(); k.row_sparse_pull('a', out=v); v
v = rows(); k.row_sparse_pull('a', out=v, row_ids=[0, 1]); v
""".replace("\n", "|")


def programs():
    """Every program, in order."""
    groups = (SHAPES, RANGES, INDICES, LAYERS, MEMORY, STORES)
    return [p.strip() for g in groups for p in g.split("|") if p.strip()]
