"""Short programs on NDArrays whose results are recorded from real MXNet, separated by bars or line ends.

A program is an expression, or statements that end in an expression. `x` is arange(24) as (2, 3, 4), `v` arange(6), `m`
[[1, 2, 3], [4, 5, 6]], `i` an int32 vector; each program gets fresh ones.
"""

SETUP = """
x = nd.arange(24).reshape((2, 3, 4)); v = nd.arange(6)
m = nd.array([[1, 2, 3], [4, 5, 6]]); i = nd.array([1, 2, 3], dtype='int32')
"""

READS = """
x[0] | x[-1] | x[1, 2] | x[1, 2, 3] | x[-1, -1, -1] | x[:] | x[...] | x[()] | x[0:1] | x[0:2] | x[:, 1] | x[:, 1:3]
x[..., 0] | x[..., 1:3] | x[1, ..., 2] | x[0, 1:3] | x[0, :, 1:3] | x[:, :, ::2] | x[::-1] | x[:, ::-1]
x[:, ::-2, 1] | x[0, ::2] | x[1:, 1:, 1:] | x[None] | x[:, None] | x[..., None] | x[None, 0] | x[0, None, 1]
x[1:2, None, 2] | x[0:1, 0:1, 0:1] | x[-2:] | x[:-1] | x[-1:, -1:] | v[2:5] | v[::2] | v[::-1] | v[-3:-1] | v[5:100]
v[4:1:-1] | v[3] | v[None, 2:4] | x[[0, 1]] | x[[1, 0, 1]] | x[[0]] | x[:, [0, 2]] | x[:, [2, 0], 1]
x[[0, 1], [1, 2]] | x[[0, 1], [1, 2], [3, 0]] | x[[0, 1], :, [1, 2]] | x[0, [0, 2]] | x[0, :, [1, 2]]
x[[[0, 1], [1, 0]]] | x[nd.array([1, 0])] | x[nd.array([1, 0], dtype='int32')] | x[np.array([1, 0])]
x[np.array([[0], [1]]), np.array([0, 2])] | x[[-1]] | x[:, [-1, 0]] | x[range(2)] | x[..., [0, 3]] | x[[0, 1], None]
x[None, [0, 1]] | x[1:, [0, 1]] | v[nd.array([0, 2, 2])] | v[nd.array([[0], [1]])] | v[[1.7, 2.2]] | v[np.int64(2)]
x[np.int32(1), 2]
""".replace("\n", "|")

WRITES = """
x[:] = 1; x | x[...] = 2; x | x[0] = 3; x | x[1, 2] = -1; x | x[0, 0, 0] = 9; x | x[:, 1] = 5; x | x[:, :, ::2] = 0; x
x[::-1] = x.copy(); x | x[0] = x[1]; x | x[:] = nd.ones((2, 3, 4)); x | x[:] = nd.ones((4,)); x
x[0] = nd.ones((3, 1)); x | x[0, 1:3] = [[1, 2, 3, 4]]; x | x[:, 1, :] = np.arange(4); x | x[[0, 1], [1, 2]] = -7; x
x[[1], :, [0]] = -8; x | x[nd.array([1])] = 4; x | x[0, [0, 2]] = nd.array([[1], [2]]); x | x[None, 0] = 6; x
x[:, None] = 1; x | x[1:2] = 1.5; x | i[:] = 2.7; i | i[1] = 9.9; i | x[:] = True; x | v[::2] = [7, 8, 9]; v
v[4:1:-1] = [1, 2, 3]; v | x[:] = np.float64(3); x | x[0] = np.ones((1, 1, 3, 4)); x
x[:] = np.arange(24).reshape((2, 3, 4)); x | x[1][2] = 0; x | x[0:1][:] = 0; x | y = x[1]; y[:] = 0; x
y = x[1, 0:2]; y[:] = 0; x | y = x[:, 1]; y[:] = 0; x | y = x.reshape((6, 4)); y[0] = -1; x
y = x.reshape((-1,)); y += 1; x | y = x[0]; y += 1; x | y = x[0, 1]; y *= 2; x | y = x.T; y[:] = 0; x
y = x.copy(); y[:] = 0; x | y = x.astype('float32', copy=False); y[:] = 0; x | y = x.expand_dims(0); y[:] = 0; x
y = x.flatten(); y[:] = 0; x | y = x.detach(); y[:] = 0; x | y = x[[0, 1]]; y[:] = 0; x | x += x; x | x -= x[0]; x
v += 1.5; v | v *= v; v | v /= 2; v | v %= 2; v | v -= v; v | i += 1.5; i | x[0] += 1; x | x[:, 1] += 1; x
y = v[1:3]; y[0] = 50; v
""".replace("\n", "|")

ARITHMETIC = """
m + m | m + 1 | 1 + m | m - 1 | 1 - m | m * 2.5 | m / 2 | 2 / m | m % 2 | 5 % m | m ** 2 | 2 ** m | -m | abs(-m)
m > 2 | 2 > m | m >= m | m < 3 | m <= 3 | m == 2 | m != 2 | m + nd.array([1, 2, 3]) | m * nd.array([[1], [2]])
i + 1.5 | i * 1.5 | i / 2 | 1 / i | i ** 2 | i % 2 | i == 1.5 | i > 1 | i - 0.5 | -i | m % -2 | -m % 3 | (0 - m) % 2.5
m + True | m + np.float64(2) | m * np.int64(3) | i + np.float32(2.9) | m.astype('float16') + 1
m.astype('float64') / 3 | nd.add(m, 1) | nd.add(1, m) | nd.add(1, 2) | nd.subtract(5, m) | nd.maximum(m, 3)
nd.minimum(3, m) | nd.maximum(m, m) | nd.power(2, m) | nd.modulo(m, 2) | nd.true_divide(m, 2) | nd.equal(m, 1)
nd.not_equal(m, 1) | nd.greater(m, 2) | nd.lesser(2, m) | nd.greater_equal(m, 2) | nd.lesser_equal(m, 2)
nd.logical_and(m, 0) | nd.logical_or(m, 0) | nd.logical_xor(m, 1) | nd.equal(1, 1) | nd.maximum(3, 4)
nd.logical_and(2, 3) | nd.add(i, i) | i / i | nd.array([1, 2], dtype='int8') + 1
nd.array([200], dtype='uint8') + 100 | nd.array([1, 2], dtype='int64') * 2 | nd.broadcast_add(m, m) | m + i
m + nd.array([1, 2]) | m + 'x' | m + None | m + np.ones(3) | np.ones(3) + m | m == None | m @ m | m // 2 | 'a' * m
nd.dot(m, m)
""".replace("\n", "|")

CREATION = """
nd.array([1, 2]) | nd.array([True, False]) | nd.array(np.zeros((2, 2), dtype='int64')) | nd.array(i)
nd.array(i, dtype='float16') | nd.array(5) | nd.array([1, 2], dtype=np.uint8) | nd.array([1.7, -1.7], dtype='int32')
nd.array([[1, 2], [3]]) | nd.array('abc') | nd.array(m) | nd.array([m, m]) | nd.zeros(3) | nd.zeros((2, 3))
nd.zeros((2,), dtype='int32') | nd.ones((2, 1)) | nd.full((2, 2), 7) | nd.full((2,), 7, dtype='int64')
nd.ones((0, 3)) | nd.zeros(()) | nd.zeros([2, 2]) | nd.arange(5) | nd.arange(1, 3, 0.5) | nd.arange(3, repeat=2)
nd.arange(3, dtype='int32') | nd.arange(5, 1, -2) | nd.arange(0.3, 1, 0.3) | nd.eye(2) | nd.eye(2, 3, 1)
nd.linspace(0, 1, 3) | nd.linspace(0, 1, 3, endpoint=False) | nd.empty((2,)).shape | nd.zeros_like(i)
nd.ones_like(i) | m.zeros_like() | m.ones_like() | nd.from_numpy(np.ones((2, 2))) | nd.concatenate([m, m])
nd.concatenate([m, m], axis=1) | nd.moveaxis(x, 0, 2).shape | nd.moveaxis(x, [0, 1], [-1, -2]).shape
nd.split_v2(m, 3, axis=1) | nd.split_v2(m, (1,), axis=1) | nd.split_v2(m, 2) | nd.histogram(m, bins=2)
nd.onehot_encode(nd.array([1, 0]), nd.zeros((2, 3)))
""".replace("\n", "|")

SHAPES = """
x.reshape(-1).shape | x.reshape(3, 8).shape | x.reshape((3, 8)).shape | x.reshape(shape=(3, 8)).shape
x.reshape((0, -1)).shape | x.reshape((0, -2)).shape | x.reshape((-2,)).shape | x.reshape((-3, 0)).shape
x.reshape((-3, -2)).shape | x.reshape((-4, 1, 2, -2)).shape | x.reshape((0, -4, -1, 3, -2)).shape
x.reshape((0, 0, -4, 2, -1)).shape | x.reshape((-1, 0), reverse=True).shape | x.reshape((-4, 2, -1, -3)).shape
x.reshape((0, -3)).shape | x.reshape((-1, 0, 0), reverse=True).shape | x.reshape((5, 5)) | x.reshape((2, 3))
x.reshape((-1, -1)) | x.reshape() | x.reshape((7, -1)) | x.reshape((-1, 4), revers=True) | nd.reshape(x, (4, 6)).shape
x.reshape([6, 4]).shape | x.T.shape | m.T | v.T.shape | x.transpose((1, 0, 2)).shape | x.transpose().shape
x.expand_dims(1).shape | x.flatten().shape | x.swapaxes(0, 1).shape | x[0:1].squeeze().shape
x.broadcast_to((2, 3, 4)).shape | v.broadcast_to((2, 6)) | m.broadcast_to((5, 3)) | x.ndim | x.size | x.shape
x.dtype.__name__ | len(x) | x.stype | x.context | x.ctx | x.astype('float16').dtype.__name__
x.astype(np.int32).dtype.__name__ | m.astype('int8') | nd.array([1.9, -1.9]).astype('int32')
nd.array([0, 2]).astype('bool') | x.sum() | m.sum(axis=1) | m.sum(axis=1, keepdims=True) | m.mean() | m.max(axis=0)
m.argmax(axis=1) | m.argmax() | i.sum() | m.norm() | m.clip(2, 4) | m.tile((1, 2)) | m.repeat(2, axis=0)
m.slice_axis(axis=1, begin=0, end=2) | m.take(nd.array([1])) | m.one_hot(3).shape | m.square() | m.sqrt()
m.exp().shape | m.topk(k=2) | m.sort(is_ascend=False) | m.flip(axis=1) | nd.concat(m, m, dim=0) | nd.stack(m, m).shape
nd.add_n(m, m) | nd.dot(m, m.T) | nd.sum(m, 1) | nd.clip(m, 2, 4) | nd.where(m > 2, m, -m) | nd.split(m, 3, axis=1)
nd.split(m, num_outputs=3, axis=1) | nd.FullyConnected(m, nd.ones((2, 3)), num_hidden=2, no_bias=True)
nd.FullyConnected(m, nd.ones((2, 3)), nd.ones((2,)), 2) | nd.softmax(m).shape | nd.transpose(m, axes=(1, 0))
nd.cast(i, 'float32') | nd.Cast(i, dtype=np.float64) | nd.slice(m, begin=(0, 1), end=(2, 3))
nd.pick(m, nd.array([0, 1])) | nd.topk(m, ret_typ='both') | nd.broadcast_axis(nd.ones((1, 2)), axis=0, size=3)
nd.sum(m, out=nd.zeros((1,))) | y = nd.zeros((2, 3)); nd.exp(m * 0, out=y); y | nd.exp(m, out=m); m.shape
nd.dot(m, m.T, out=nd.zeros((3, 3))) | y = nd.ones((2, 2)); nd.dot(y, y, out=y); y | nd.relu(-m) | nd.relu(data=-m)
nd.sum(data=m, axis=(0, 1)) | nd.sum(m, axis=[0]) | nd.linalg.gemm2(m, m.T) | nd.contrib.isnan(m)
nd._internal._plus_scalar(m, scalar=2) | nd._internal._rminus_scalar(m, 2) | nd.relu(1) | nd.FullyConnected(m)
nd.relu(m, bogus=1) | nd.concat(m, i) | nd.nonsense(m) | nd.sum(m, axis=5) | nd.elemwise_add(m, v)
nd.Activation(m, act_type='nothing')
""".replace("\n", "|")

CONVERSION = """
str(m) | repr(i) | str(x) | str(nd.zeros((1,))) | repr(nd.array([1.5, float('nan')])) | repr(nd.ones((2,), mx.cpu(1)))
m.asnumpy().dtype.name | nd.array([3]).asscalar() | m.asscalar() | bool(nd.array([0])) | bool(nd.array([[2]]))
bool(m) | [float(r.sum().asscalar()) for r in m] | len(m) | nd.array([2.5]).asscalar() | m.copyto(mx.cpu(1)).context
m.as_in_context(mx.cpu(0)) is m | m.as_in_context(mx.cpu(1)).context | y = nd.zeros((2, 3)); m.copyto(y); y
y = nd.zeros((2, 3), dtype='int32'); (m + 0.7).copyto(y); y | m.copyto(nd.zeros((3, 2))) | m.copyto(5)
x.grad is None | x.writable | m.wait_to_read() | nd.waitall() | m in [m] | m.as_nd_ndarray() is m
mx.cpu(0) == mx.cpu(0) | mx.cpu(0) == mx.cpu(1) | str(mx.cpu(3)) | str(mx.current_context()) | mx.context.num_gpus()
float(nd.from_dlpack(m.to_dlpack_for_read()).sum().asscalar())
y = nd.from_dlpack(m.to_dlpack_for_write()); y[:] = 0; m | float(m.sum()[0].asscalar()) | m.tostype('default').stype
x[2] | x[0, 3] | x[0, 0, 0, 0] | x[5:2] | x['a'] | x[1.5] | x[-3] | x[0:0] | v[2:2] | x[:, 5] | x[::0]
x[0, ...] = 'a' | x[0] = nd.ones((5,)) | x[[0, 5]].shape
""".replace("\n", "|")


def programs():
    """Every program, in order."""
    groups = (READS, WRITES, ARITHMETIC, CREATION, SHAPES, CONVERSION)
    return [p.strip() for g in groups for p in g.split("|") if p.strip()]
