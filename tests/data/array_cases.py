"""More short programs on dense arrays, in the form of ndarray_cases.py: methods, functions, and keys of all kinds."""

SETUP = """
x = nd.arange(24).reshape((2, 3, 4)); v = nd.arange(6)
m = nd.array([[1, 2, 3], [4, 5, 6]]); i = nd.array([1, 2, 3], dtype='int32'); b = nd.array([1, 0], dtype='int32')
"""

KEYS = """
x[True] | x[False] | m[m > 2] | x[np.array([True, False])] | x[nd.array([[0], [1]]), nd.array([1, 2])]
x[nd.array([0, 1]), :, nd.array([1, 2])] | x[0, nd.array([0, 1])] | x[..., nd.array([0, 1])]
x[nd.array([0, 1]), ..., 1] | x[nd.array([0, 1]), 1:3] | x[1, [0, 2], 1] | x[[0, 1], 0] | x[[0, 1], 0, :]
x[:, [0, 1], [1, 2]] | x[:, 0, [1, 2]] | x[0, :, [1, 2]] | x[[[0, 1]], [[1], [2]]] | x[(0, 1)] | x[[0, 1],]
x[(slice(None), 1)] | x[-1:0:-1] | x[::-1, ::-1, ::-1] | x[:, 2:0:-1] | x[:, ::-2] | x[1::-1] | v[::-2] | v[5:1:-2]
v[-1:-4:-1] | v[10:2:-1] | v[:-10:-1] | v[::3] | v[1:5:3] | v[-100:3] | v[3:3] | v[None] | v[:, None]
v[None, :, None] | x[None, ..., None] | x[:, None, 1] | x[0][1][2] | x[0, 0, 0] | v[0] | v[-6] | v[6] | v[-7]
x[2, 0] | x[0, -4] | x[0, 0, 4] | x[[0, 2]] | x[:, [3]] | x[[0, -3]] | v[[6]] | v[nd.array([7])] | x[0, 1, 2, 3]
x[..., ...] | x[1.0] | x[nd.array([0.6, 1.2])] | x['0'] | x[{}] | v[nd.array([0, 1]).astype('int64')]
v[nd.array([0, 1]).astype('uint8')] | v[np.int32(1)] | v[nd.array([1])] | v[np.float32(1)] | m[0, np.int64(1)]
m[np.array([0, 1]), np.array([2, 0])] | m[()] | m[...] is m | m[:] is m | m[0:2] is m | v[range(0, 6, 2)] | v[(1,)]
x[1, None, 2, ...] | x[None, 1:2, 0] | v[3:0:-1] | x[:2, :1, :1] | x[0, 1:] | x[0:1, 1:, ::3] | len(m[0]) | len(v[2])
m[0].shape | m[0, 0].shape | m[0:1, 0:1].shape | x[1, ...] | x[1, 2, ...] | x[..., 1] | x[:, ..., 1] | x[..., None, 1]
x[0, ..., None] | y = m[0]; y[:] = 9; m | y = m[:, 0]; y[:] = 9; m | y = x[1, 1:3]; y[:] = 0; x
y = m[0, 1]; y[:] = 50; m | y = m[0:1, 0:2]; y[:] = 9; m | y = m[None]; y[:] = 9; m
y = m.reshape((3, 2)); y[0] = 9; m | y = m.reshape(-1)[2:4]; y[:] = 7; m | y = m[[0]]; y[:] = 9; m
y = m.T; y[:] = 9; m | y = v[::2]; y[:] = 9; v | y = m.flatten(); y[:] = 9; m | y = m.expand_dims(0); y[:] = 9; m
y = m.expand_dims(0, inplace=True); y[:] = 9; m | y = m.flatten(inplace=True); y[:] = 9; m
y = m[0:1].squeeze(0, inplace=True); y[:] = 9; m | y = m.detach(); y[:] = 9; m | y = m.swapaxes(0, 1); y[:] = 9; m
y = m.astype('float32', copy=False); y[:] = 9; m
""".replace("\n", "|")

ASSIGNMENTS = """
x[True] = 1; x | m[m > 2] = 0; m | m[np.array([True, False])] = nd.array([[7, 8, 9]]); m
x[nd.array([0, 1]), nd.array([1, 2])] = 5; x | x[nd.array([[0], [1]]), nd.array([1, 2])] = 5; x
x[nd.array([0, 1]), :, nd.array([1, 2])] = nd.zeros((2, 3)); x | x[..., [0, 3]] = 1; x | x[0, [0, 2], 1:3] = -3; x
x[::-1, 0] = nd.array([[1, 2, 3, 4], [5, 6, 7, 8]]); x | x[:, ::2] = nd.ones((2, 2, 4)); x
x[::-1, ::-1, ::-1] = x.copy(); x | v[::-1] = nd.arange(6); v | v[1:5:2] = nd.array([10, 20]); v
v[5:1:-2] = [1, 2]; v | v[[0, 0, 1]] = nd.array([1, 2, 3]); v | v[[5, 4]] = [50, 40]; v | v[-1] = 9; v | v[6] = 1; v
v[-7] = 1; v | x[5] = 1 | x[0, 5] = 1 | v[3:3] = 1; v | x[0:0] = 1; x | m[:] = [[1, 2, 3], [4, 5, 6.5]]; m
m[:] = (1, 2, 3); m | m[:] = np.float64(2); m | m[:] = True; m | m[:] = 'a' | m[:] = nd.ones((3, 2))
m[0] = nd.ones((2,)) | m[:, 0] = nd.array([7, 8]); m | m[:, 0:1] = nd.array([[7], [8]]); m
m[:, 0] = nd.array([[7, 8]]); m | m[0] = m[1]; m | m[0, 0] = nd.array([5]); m | m[0, 0] = nd.array([[5]]); m
m[...] = m * 2; m | m[None] = 3; m | m[None, 0] = 3; m | m[:] = nd.array([1, 2, 3], dtype='int32'); m
m[:] = np.array([[1], [2]]); m | m[1] = np.arange(3); m | m[1, 1:] = 0.5; m | i[:] = 1.7; i | i[0] = 1.7; i
i[:] = nd.array([1.7, -1.7, 2]); i | i[[0, 1]] = 2.9; i | i[0] = 'a' | m[0, 'a'] = 1 | m[1.5] = 1 | m[0][1] = 9; m
m[0:1][0][1] = 9; m | x[0][1][2] = 99; x | x[0, 1][2:3] = 99; x | m[:] = m[::-1]; m | m[0:2] = m[1]; m
v[1:] = v[:-1]; v | v[:-1] = v[1:]; v | m[b] = 5; m | m[b, b] = 6; m | m[b] = nd.array([[1, 1, 1], [2, 2, 2]]); m
x[b, :, i[0]] = 1; x | m[(0, 1), (1, 2)] = 4; m | x[:, None] = nd.zeros((2, 1, 3, 4)); x
x[..., 0] = nd.array([[1, 2, 3], [4, 5, 6]]); x | x[0, :, None] = 5; x | m._full(3); m
m._sync_copyfrom(np.zeros((2, 3))); m | m._sync_copyfrom(np.zeros((3,)))
m.slice_assign_scalar(7, (0, 1), (2, 3), (1, 1)); m
m.slice_assign(nd.zeros((2, 1)), (0, 0), (2, 1), (None, None)); m
m.slice_assign_scalar(7, begin=(None, 1), end=(None, 3), step=(None, 1)); m
""".replace("\n", "|")

MATH = """
y = m; m += 1; y | y = m; m *= m; y | y = m; m /= 2; y | y = m; m -= nd.array([1, 2, 3]); y | y = m; m **= 2; y
y = m; m %= 2; y | i += 1.5; i | i *= 1.5; i | i /= 2; i | m += i; m | i += m; i | m += nd.ones((3, 2)) | m += 'a'
m += None | m += np.ones((2, 3)) | v += nd.ones((2, 6)); v | m += nd.ones((1, 1)); m | m -= m[0]; m
m *= np.float32(2); m | m += True; m | y = m[0]; y += 1; m | y = m.reshape((6,)); y *= 2; m | m + nd.ones((2, 1))
m + nd.ones((3,)) | m * nd.ones((2, 2)) | m - nd.ones((4, 2, 3)) | nd.ones((2, 1, 3)) + nd.ones((1, 4, 1)) | m / 0
i % 0 | m // 2 | divmod(m, 2) | ~i | i & 1 | i << 1 | m.__add__(1) | m.__radd__(1) | m.__rsub__(1) | m.__rdiv__(2)
m.__div__(2) | m.__rtruediv__(2) | m.__rmod__(5) | m.__rpow__(2) | m.__nonzero__() | +m | m @ m | m == m.T | m == 'a'
m != None | m == nd.array([[1], [4]]) | m > m.T | m >= nd.array([2, 2, 2]) | m < nd.array([[2], [5]]) | 3 >= m
3 == m | 3 != m | m == 1.0 | m > np.float32(2) | m <= True | m > 'a' | nd.greater(m, nd.array([2]))
nd.lesser_equal(i, i) | i == m[0] | nd.equal(m, m) | hash(m) == hash(m) | m is m | m in [1, m] | nd.add(m, m)
nd.add(m, nd.ones((3,))) | nd.subtract(1, m) | nd.divide(1, m) | nd.divide(4, 2) | nd.modulo(7, 4) | nd.power(2, 3)
nd.power(m, m) | nd.power(m, 0.5) | nd.maximum(m, nd.array([3])) | nd.minimum(m, 2.5) | nd.maximum(1, 2.5)
nd.add(m, None) | nd.logical_and(m, m - 1) | nd.logical_or(0, m) | nd.logical_xor(m, m) | nd.lesser(1, 2)
nd.greater(2, m) | nd.not_equal(1, m) | nd.logical_not(m - 1) | nd.negative(m) | nd.exp(m, out=m); m
y = nd.zeros((2, 3)); nd.add(m, m, out=y) | y = nd.zeros((2, 3)); nd.broadcast_add(m, m, out=y); y
y = nd.zeros((2, 3)); nd.broadcast_add(m, m, out=y) is y | y = nd.zeros((3, 2)); nd.exp(m, out=y)
y = nd.zeros((2, 3), dtype='float64'); nd.exp(m, out=y); y | y = nd.zeros((3,)); nd.sum(m, axis=0, out=y); y
y = [nd.zeros((2, 1)) for k in range(3)]; nd.split(m, 3, axis=1, out=y); y
y = nd.zeros((2, 3)); nd.sum(m, axis=0, out=y[0]); y | y = nd.zeros((2, 3)); y[:] = nd.exp(m * 0); y
nd.exp(m, out=None).shape | nd.exp(m, out=5) | nd.dot(m, m.T, out=m) | y = m[0]; nd.exp(y * 0, out=y); m
nd.topk(m, k=1, ret_typ='both', out=[nd.zeros((2, 1)), nd.zeros((2, 1))])
y = nd.zeros((4, 3)); nd.concat(m, m, dim=0, out=y); y | nd.zeros((2,), out=nd.ones((2,)))
nd.ones((2,), out=nd.zeros((2,))) | nd.full((2,), 3, out=nd.zeros((2,)))
nd.cast(m, 'int32', out=nd.zeros((2, 3), dtype='int32')) | nd.eye(2, out=nd.zeros((2, 2))) | m.astype('float16') + 1
m.astype('float16') * m.astype('float16') | m.astype('float64') + m | i + i.astype('int64') | m.astype('uint8') - 7
m.astype('int8') * 100 | i.astype('bool') | i.astype('float16') / 3 | nd.array([1, 2], dtype='int64') ** 2
nd.array([7, -7], dtype='int32') / 2 | nd.array([7, -7], dtype='int32') % 3 | nd.array([255], dtype='uint8') + 1
nd.array([2**40], dtype='int64') + 1 | nd.array([1.5], dtype='float64') + 1e-12 | -nd.array([1], dtype='uint8')
abs(nd.array([-128], dtype='int8'))
""".replace("\n", "|")

METHODS = """
m.abs() | m.sign() | m.arccos().shape | m.arccosh() | (m / 10).arcsin() | m.arcsinh() | m.arctan()
(m / 10).arctanh() | m.cbrt() | m.ceil() | m.cos() | m.cosh() | m.degrees() | m.exp() | m.expm1() | m.fix()
m.floor() | m.log() | m.log10() | m.log1p() | m.log2() | m.radians() | m.rcbrt() | m.reciprocal() | m.relu()
m.rint() | m.round() | m.rsqrt() | m.sigmoid() | m.sin() | m.sinh() | m.sqrt() | m.square() | m.tan() | m.tanh()
m.trunc() | m.ones_like() | m.zeros_like() | m.softmax() | m.softmin() | m.size_array() | m.shape_array() | m.argmax()
m.argmax(axis=0) | m.argmax(axis=1, keepdims=True) | m.argmax_channel() | m.argmin() | m.argmin(axis=0) | m.argsort()
m.argsort(axis=0, is_ascend=False) | m.argsort(dtype='int32') | m.sort() | m.sort(axis=0, is_ascend=False) | m.topk()
m.topk(axis=0, k=1, ret_typ='value') | m.topk(k=2, ret_typ='mask') | m.topk(k=1, ret_typ='both')
m.topk(k=2, dtype='int32', is_ascend=True) | m.sum(axis=0) | m.sum(axis=1, keepdims=True) | m.sum((0, 1))
m.sum(axis=-1) | m.sum(axis=0, exclude=True) | m.mean(axis=0) | m.mean(axis=(0, 1)) | m.prod() | m.prod(axis=1)
m.nansum(axis=0) | m.nanprod() | m.max() | m.max(axis=1) | m.min(axis=0) | m.norm() | m.norm(ord=1)
m.norm(ord=2, axis=1) | m.norm(ord=2, axis=1, keepdims=True) | i.sum() | i.mean() | i.max() | x.sum(axis=(0, 2))
x.mean(axis=1).shape | m.sum(axis=2) | m[0:1].broadcast_axes(axis=0, size=2) | m.broadcast_like(nd.ones((2, 3)))
m[0].broadcast_to((2, 3)) | m.broadcast_to((2, 2)) | m.clip(2, 3) | m.clip(a_min=2, a_max=3) | m.diag() | v.diag()
m.diag(k=1) | m.depth_to_space(2) | nd.arange(16).reshape((1, 4, 2, 2)).depth_to_space(2).shape
nd.arange(16).reshape((1, 1, 4, 4)).space_to_depth(2).shape | m.flip(axis=0) | m.flip(axis=(0, 1))
m.one_hot(depth=4).shape | i.one_hot(4) | i.one_hot(4, on_value=2, off_value=-1, dtype='int32')
m.pad(mode='constant', pad_width=(0, 0))
nd.ones((1, 1, 2, 2)).pad(mode='constant', constant_value=5, pad_width=(0, 0, 0, 0, 1, 1, 1, 1))
m.pick(nd.array([0, 2])) | m.pick(nd.array([0, 2]), keepdims=True) | m.pick(nd.array([0, 1, 1]), axis=0) | m.repeat(2)
m.repeat(2, axis=1) | m.tile((2, 2)) | m.tile(2) | m.reshape_like(nd.ones((3, 2))) | m.reshape((3, -1))
m.slice((0, 1), (2, 3)) | m.slice(begin=(0, 1), end=(2, None)) | m.slice(begin=(None, 2), end=(None, 0), step=(1, -1))
m.slice_axis(1, 0, 2) | m.slice_axis(axis=1, begin=-1, end=None) | m.slice_like(nd.ones((1, 2)))
m.slice_like(nd.ones((1, 2)), axes=(1,)) | m.split(3, axis=1) | m.split(num_outputs=2, axis=0, squeeze_axis=True)
m.split(1) | m.split_v2(3, axis=1) | m.split_v2(2, squeeze_axis=True) | m.squeeze()
nd.ones((1, 2, 1)).squeeze().shape | nd.ones((1, 2, 1)).squeeze(axis=0).shape
nd.ones((1, 2, 1)).squeeze(axis=(0, 2)).shape | nd.ones((1, 1)).squeeze().shape | m.squeeze(axis=0) | m.swapaxes(0, 1)
m.swapaxes(dim1=0, dim2=1) | m.take(nd.array([0, 1])) | m.take(nd.array([0, 5]), mode='wrap')
m.take(nd.array([2, 0]), axis=1) | m.transpose() | m.transpose((1, 0)) | m.transpose(1, 0)
x.transpose(axes=(2, 0, 1)).shape | m.expand_dims(axis=1).shape | m.expand_dims(-1).shape | m.expand_dims(3)
m.flatten() | x.flatten().shape | m.reshape(6) | m.reshape((6,)) | m.reshape(3, 2) | m.reshape([3, 2])
m.reshape(shape=(3, 2)) | m.reshape(-1, 2) | m.reshape(0, 0) | m.reshape(()) | m.reshape(4)
m.reshape((2, 3), reverse=True) | m.reshape((2, 3), order='C') | m.reshape('a')
x.reshape((-3, 4), reverse=True).shape | x.reshape((-4, -1, 1, 0, 0)).shape | x.reshape(-2).shape
x.reshape((0, -4, 3, 1, 0)).shape | x.reshape((0, 0, 0, -2)).shape | x.reshape((-5,)) | m.asnumpy() | m.asscalar()
nd.array([3], dtype='int32').asscalar() | type(nd.array([3], dtype='int32').asscalar()).__name__ | m[0, 0].asscalar()
m.asnumpy().flags.writeable | y = m.asnumpy(); y[0] = 9; m | m.copy() | m.copy() is m | y = m.copy(); y[:] = 0; m
m.copyto(m) | m.copyto(nd.zeros((2, 3))) | m.copyto(nd.zeros((2, 3), dtype='int32')) | m.copyto(nd.zeros((6,)))
m.as_in_context(mx.cpu(1)) | m.to_dlpack_for_read() is None | m.tostype('default') | m.tostype('nope')
m.wait_to_read() | m.as_nd_ndarray() is m | m.size | m.ndim | m.T | x.T.shape | v.T is v | m.handle is None
m.writable | m.stype | m.grad | m.dtype is np.float32 | i.dtype | m.astype(np.float16).dtype | m.astype('int32') is m
m.astype('float32') is m | m.astype('float32', copy=False) is m | m.astype('nonsense') | m.astype(None).dtype
m.astype(float).dtype | m.astype(int).dtype | m.astype(bool) | m.astype('>f4').dtype
m.astype(np.dtype('int8')).dtype | bool(nd.array([1])) | bool(nd.array([0.0])) | bool(nd.array([]))
bool(nd.ones((1, 1))) | len(x) | len(m) | len(nd.array([5])) | [r.shape for r in x] | list(v[:2]) | sum(v).asscalar()
max(v).asscalar() | sorted(v, key=lambda a: -a.asscalar())[0] | np.mean(m.asnumpy()) | np.sum(m.asnumpy())
int(m[0, 0].asscalar()) | 'x%s' % m[0, 0] | '{}'.format(v[0]) | str(i) | repr(x[0]) | repr(nd.zeros((2, 0)))
repr(m.astype('float16')) | repr(m.as_in_context(mx.cpu(2))) | repr(nd.array([1e-10, 1e10]))
repr(nd.array([True, False], dtype='bool')) | repr(nd.ones((1, 1, 1))) | repr(nd.array([1], dtype='int8'))
repr(nd.arange(2000))
""".replace("\n", "|")

FUNCTIONS = """
nd.array([1, 2]).dtype | nd.array(np.array([1.5])).dtype | nd.array(np.array([1], dtype='int8')).dtype
nd.array(np.array([1], dtype='int8'), dtype='int8') | nd.array(m, dtype='int32') | nd.array(m, ctx=mx.cpu(1)).context
nd.array(True) | nd.array(3.5) | nd.array([[1, 2], [3, 4]], dtype=np.uint8) | nd.array((1, 2)) | nd.array(range(3))
nd.array([]) | nd.array([[]]) | nd.array({}) | nd.array([1, 'a']) | nd.array(np.ones((2, 2))[:, ::-1])
nd.array(np.float32(3)) | nd.array([np.nan, np.inf]) | nd.array([1, 2], dtype='nonsense')
nd.array([2**40], dtype='int64') | nd.array([300], dtype='uint8') | nd.array([1 + 2j]) | nd.array(x[0])
nd.array([True], dtype='bool') | nd.array(np.array([True])) | nd.array(m) is m | nd.zeros(3)
nd.zeros((2, 2), dtype='int64') | nd.zeros((2,), ctx=mx.cpu(1)).context | nd.zeros(shape=(2,)) | nd.zeros([2, 3])
nd.zeros((2, -1)) | nd.zeros((2, 0)) | nd.zeros(np.int64(3)) | nd.zeros((np.int64(3), 2)) | nd.ones(3)
nd.ones((2, 2), dtype='uint8') | nd.ones((2,), dtype='bool') | nd.full((2,), 5) | nd.full(3, 5, dtype='int32')
nd.full((2,), 1.5, dtype='int32') | nd.full((2,), np.inf) | nd.full((2,), val=3, ctx=mx.cpu(1)).context
nd.empty(3).shape | nd.empty((2, 3), dtype='float16').dtype | nd.empty((2,), mx.cpu(1), 'int8').context
nd.zeros((2,), dtype=None).dtype | nd.zeros((2,), mx.cpu(), 'int32').dtype | nd.zeros_like(m) | nd.ones_like(i)
nd.zeros(()) | nd.arange(3) | nd.arange(1, 3) | nd.arange(3, 1, -1) | nd.arange(0, 1, 0.25) | nd.arange(0, 1, 0.3)
nd.arange(3, repeat=2) | nd.arange(1, 2, 0.5, 3) | nd.arange(start=2, stop=5) | nd.arange(3, ctx=mx.cpu(1)).context
nd.arange(3, dtype='int32') | nd.arange(3, dtype='float64') | nd.arange(2.5) | nd.arange(0) | nd.arange(3, 1)
nd.arange(0, 3, 0) | nd.arange(-3) | nd.arange(1, 10, 3, dtype='uint8') | nd.arange(0, None)
nd.arange(2, infer_range=True) | nd.linspace(0, 1, 5) | nd.linspace(0, 1, 5, endpoint=False) | nd.linspace(1, 0, 3)
nd.linspace(0, 10, 4, dtype='int32') | nd.linspace(0, 1, 1) | nd.linspace(0, 1, 0)
nd.linspace(0, 1, 2, ctx=mx.cpu(1)).context | nd.linspace(0, 1, -1) | nd.eye(3) | nd.eye(2, 3) | nd.eye(2, 3, k=-1)
nd.eye(3, 0, 1) | nd.eye(2, dtype='int32') | nd.eye(N=2, M=4, k=2) | nd.eye(2, ctx=mx.cpu(1)).context
nd.concatenate([m, m]) | nd.concatenate([m, m], axis=1) | nd.concatenate([m]) is m
nd.concatenate([m], always_copy=False) is m | nd.concatenate([m, m[:, :2]], axis=1) | nd.concat(m, m, dim=1)
nd.concat(m) | nd.stack(m, m, axis=1).shape | nd.stack(*[v, v]) | nd.moveaxis(x, 0, -1).shape
nd.moveaxis(x, [0, 2], [2, 0]).shape | nd.moveaxis(x, 3, 0) | nd.moveaxis(x, [0], [1, 2])
nd.moveaxis(x, -1, 0).shape | nd.moveaxis(x, [0, 0], [1, 2]) | nd.split_v2(v, 3) | nd.split_v2(v, 4)
nd.split_v2(v, (2,)) | nd.split_v2(m, 3, axis=1, squeeze_axis=True) | nd.split_v2(m, 'a') | nd.split_v2(v, 0)
nd.onehot_encode(nd.array([2, 0]), nd.zeros((2, 3))) | y = nd.ones((2, 3)); nd.onehot_encode(nd.array([2, 0]), y); y
nd.waitall() | nd.true_divide(m, 2) is None | nd.true_divide(i, 2) | nd.from_numpy(np.ones((2, 2), 'float32'))
nd.from_numpy(np.ones((2, 2), 'float32'), zero_copy=False) | nd.from_numpy(np.ones((2, 2)).T[::-1])
nd.from_numpy([1, 2]) | nd.from_numpy(np.ones((2, 2))[:, :1])
y = np.ones(3); z = nd.from_numpy(y); y.flags.writeable
y = np.ones(3); z = nd.from_numpy(y, zero_copy=False); y.flags.writeable
y = np.ones(3); z = nd.from_numpy(y); z[:] = 5; y.sum() | nd.from_numpy(np.arange(3)).dtype
nd.from_dlpack(m.to_dlpack_for_read()) | nd.to_dlpack_for_read(m) is None
y = m.to_dlpack_for_read(); z = nd.from_dlpack(y); nd.from_dlpack(y) | nd.from_dlpack(5)
nd.from_dlpack(i.to_dlpack_for_read()).dtype | nd.from_dlpack(m[1].to_dlpack_for_read())
nd.from_dlpack(m.astype('float16').to_dlpack_for_write()).dtype
nd.from_dlpack(nd.array([1], dtype='bool').to_dlpack_for_read()) | import pickle; pickle.loads(pickle.dumps(m))
import pickle; pickle.loads(pickle.dumps(i, 2)) | import pickle; pickle.loads(pickle.dumps([m, {'a': i}]))[1]['a']
import copy; copy.copy(m) | import copy; copy.deepcopy({'a': m})['a']
import pickle; pickle.loads(pickle.dumps(m[1])) | import pickle; pickle.loads(pickle.dumps(mx.cpu(1)))
import copy; y = copy.deepcopy(m); y[:] = 0; m | import copy; y = copy.copy(m); y[:] = 0; m
nd.save('case.nd', m); nd.load('case.nd') | nd.save('case.nd', [m, i]); nd.load('case.nd')
nd.save('case.nd', {'a': m}); nd.load('case.nd')['a'] | nd.save('case.nd', {}); nd.load('case.nd')
nd.save('case.nd', []); nd.load('case.nd') | nd.save('case.nd', 5) | nd.save('case.nd', [5])
nd.save('case.nd', {1: m}) | nd.load('/tmp/mxforge_no_such_file') | nd.load(5) | nd.load_frombuffer(b'abc')
nd.save('case.nd', m.astype('float16')); nd.load('case.nd') | nd.save('case.nd', {'é': m}); sorted(nd.load('case.nd'))
nd.save('case.nd', m[1]); nd.load('case.nd') | nd.save('case.nd', {'a': m, 'b': None}) | nd.utils.zeros((2, 2))
nd.utils.zeros((2, 2), stype='csr') | nd.utils.empty((2,)).shape | nd.utils.empty((2, 2), stype='row_sparse')
nd.utils.array([1, 2]) | nd.utils.array(m) | nd.utils.array(m.tostype('csr'))
nd.utils.zeros((2,), mx.cpu(1), 'int32').dtype | nd.utils.load is nd.load | nd.ndarray.zeros((2,))
nd.ndarray.NDArray is nd.NDArray | nd.ndarray.array([1]) | nd.ndarray._DTYPE_NP_TO_MX[np.float32]
nd.ndarray._DTYPE_MX_TO_NP[2] is np.float16 | nd.ndarray._GRAD_REQ_MAP['add']
nd.ndarray._STORAGE_TYPE_STR_TO_ID['csr'] | nd.contrib.isinf(nd.array([1, np.inf, -np.inf, np.nan]))
nd.contrib.isfinite(nd.array([1, np.inf, -np.inf, np.nan])) | nd.contrib.isnan(nd.array([1, np.inf, np.nan]))
nd.contrib.isnan(i) | [a.shape for a in nd.contrib.rand_zipfian(nd.array([3]), 4, 5)]
[a.dtype for a in nd.contrib.rand_zipfian(nd.array([3]), 4, 5)] | nd.contrib.rand_zipfian(nd.array([3]), 4, 5)[1]
nd.contrib.isfinite(m.astype('float16')).dtype | nd.NDArray
nd.indexing_key_expand_implicit_axes((1, Ellipsis), (2, 3, 4)) | nd.get_indexing_dispatch_code((1, slice(None)))
nd.get_indexing_dispatch_code(((1, 2), slice(None))) | nd.get_oshape_of_gather_nd_op((2, 3), (1, 4))
nd.ndarray.check_boolean_array_dimension((2, 3), 0, (2,)) | nd.ndarray.check_boolean_array_dimension((2, 3), 0, (3,))
""".replace("\n", "|")

RANDOM = """
nd.histogram(m) | nd.histogram(m, bins=3) | nd.histogram(m, bins=nd.array([0, 2, 4, 7]))
nd.histogram(m, bins=2, range=(0, 10)) | nd.histogram(m, bins='a') | nd.random.poisson().shape
nd.random.poisson(3, shape=(2, 2)).dtype | nd.random.poisson(0, shape=2)
nd.random.poisson(nd.array([1, 2]), shape=3).shape | nd.random.gamma().shape | nd.random.gamma(9, 0.5, (2,)).dtype
nd.random.gamma(nd.array([1, 2]), nd.array([1, 2]), shape=2).shape
nd.random.gamma(shape=(2,), dtype='float64').dtype | nd.random.negative_binomial().shape
nd.random.negative_binomial(4, 0.5, (2,)).dtype
nd.random.negative_binomial(nd.array([1, 2]), nd.array([0.5, 0.5])).shape
nd.random.generalized_negative_binomial().shape | nd.random.generalized_negative_binomial(2, 0.3, (2,)).dtype
nd.random.generalized_negative_binomial(nd.array([1, 2]), nd.array([0.5, 0.5]), shape=(1,)).shape
nd.random.gamma_like(m, alpha=2).shape | nd.random.poisson_like(m, lam=0) | nd.random.negative_binomial_like(m).shape
nd.random.generalized_negative_binomial_like(m).shape | nd.random_poisson(lam=0, shape=(2,))
nd.random_gamma(shape=(2,)).shape | nd.random_negative_binomial(shape=(2,)).shape
nd.random_generalized_negative_binomial(shape=(2,)).shape | nd.sample_gamma(nd.array([1]), nd.array([1])).shape
nd.sample_poisson(nd.array([1])).shape | nd.sample_negative_binomial(nd.array([1]), nd.array([0.5])).shape
nd.sample_generalized_negative_binomial(nd.array([1]), nd.array([0.5])).shape | mx.random.poisson(0, shape=2)
mx.random.gamma(1, 1, shape=2).shape | mx.random.negative_binomial(1, 1, shape=2)
mx.random.generalized_negative_binomial(1, 1, shape=2).shape | nd.random.uniform().shape
nd.random.uniform(shape=3).shape | nd.random.uniform(shape=(2, 3)).shape | nd.random.uniform(0, 1, (2,)).dtype
nd.random.uniform(shape=(2,), dtype='float64').dtype | nd.random.uniform(shape=(2,), dtype='float16').dtype
nd.random.uniform(shape=(2,), dtype='int32') | nd.random.uniform(shape=(2,), ctx=mx.cpu(1)).context
nd.random.uniform(nd.array([0, 10]), nd.array([1, 20])).shape
nd.random.uniform(nd.array([0, 10]), nd.array([1, 20]), shape=2).shape
nd.random.uniform(nd.array([0, 10]), nd.array([1, 20]), shape=(2, 3)).shape
nd.random.uniform(nd.array([0, 10]), nd.array([1])) | nd.random.uniform('a')
nd.random.uniform(out=nd.zeros((2, 2))).shape | nd.random.uniform(low=3, high=3, shape=2)
nd.random.uniform(1, 0, shape=2).shape
nd.random.uniform(nd.array([0., 10.], dtype='float64'), nd.array([1., 20.], dtype='float64')).dtype
nd.random.uniform(nd.array([0, 10]), nd.array([1, 20]), dtype='float64').dtype
nd.random.uniform(low=0, high=1, shape=(2,), dtype=np.float64).dtype
nd.random.uniform(5, 6, shape=(1,), out=nd.zeros((1,))).shape | nd.random.normal().shape
nd.random.normal(shape=(2, 3)).shape | nd.random.normal(0, 1, 2, 'float64').dtype
nd.random.normal(loc=5, scale=0, shape=2) | nd.random.normal(scale=-1, shape=2)
nd.random.normal(nd.array([1, 2]), nd.array([0, 0]))
nd.random.normal(nd.array([1, 2]), nd.array([0, 0]), shape=(2,)) | nd.random.randn(2, 3).shape
nd.random.randn(2, loc=5, scale=0) | nd.random.randn(2, dtype='float16').dtype
nd.random.randn(2, ctx=mx.cpu(1)).context | nd.random.normal(out=nd.zeros((3,))).shape
nd.random.poisson(lam=-1, shape=2) | nd.random.exponential().shape | nd.random.exponential(2, (2, 2)).dtype
nd.random.exponential(nd.array([1, 2])).shape | nd.random.exponential(scale=0, shape=2)
nd.random.exponential(scale=-1, shape=2) | nd.random.gamma(-1, shape=2) | nd.random.negative_binomial(k=-1, shape=2)
nd.random.multinomial(nd.array([0, 1, 0])) | nd.random.multinomial(nd.array([0, 1, 0]), shape=3)
nd.random.multinomial(nd.array([[0, 1], [1, 0]])) | nd.random.multinomial(nd.array([[0, 1], [1, 0]]), shape=2)
nd.random.multinomial(nd.array([0, 1, 0]), get_prob=True)
nd.random.multinomial(nd.array([[0, 1], [1, 0]]), shape=(2, 2)).shape
nd.random.multinomial(nd.array([0, 1, 0]), dtype='float32').dtype
nd.random.multinomial(nd.array([0, 1, 0]), out=nd.zeros((1,), dtype='int32')) | nd.random.shuffle(nd.array([1]))
nd.random.shuffle(v).shape | nd.random.shuffle(m).sum() | nd.random.randint(0, 5).shape
nd.random.randint(0, 5, shape=(2, 2)).dtype | nd.random.randint(3, 4, shape=2)
nd.random.randint(3, 4, shape=2, dtype='int64') | nd.random.randint(0, 5, shape=2, dtype='float32')
nd.random.randint(0.5, 5) | nd.random.randint(nd.array([1]), nd.array([2])) | nd.random.randint(-3, -2, shape=2)
nd.random.randint(low=0, high=5, shape=2, ctx=mx.cpu(1)).context
nd.random.randint(2**33, 2**33 + 1, shape=1, dtype='int64') | nd.random.shuffle(m, out=m).shape
nd.random.uniform_like(m).shape | nd.random.uniform_like(m, low=3, high=3) | nd.random.uniform_like(data=m).dtype
nd.random.normal_like(m).shape | nd.random.exponential_like(m).shape | nd.random_uniform(shape=(2,)).shape
nd.uniform(shape=(2,)).shape | nd.normal(shape=(2,)).shape | nd.random_exponential(lam=1, shape=(2,)).shape
nd.random_randint(low=0, high=1, shape=(2,)) | nd.sample_uniform(nd.array([0]), nd.array([1])).shape
nd.sample_normal(nd.array([1]), nd.array([0]), shape=(2,)) | nd.sample_multinomial(nd.array([0, 1]))
nd.sample_exponential(nd.array([1])).shape | nd.shuffle(v).shape | mx.random.uniform(0, 1, shape=(2,)).shape
mx.random.normal(1, 0, shape=(2,)) | mx.random.randn(2).shape | mx.random.randint(0, 1, shape=2)
mx.random.exponential(1, shape=2).shape | mx.random.multinomial(nd.array([0, 1])) | mx.random.shuffle(v).shape
mx.random.seed(1); y = nd.random.uniform(shape=3); mx.random.seed(1); (y == nd.random.uniform(shape=3)).sum()
k = mx.cpu(0); mx.random.seed(1, k); y = nd.random.uniform(); mx.random.seed(1, k); y == nd.random.uniform()
mx.random.seed(1); y = nd.random.normal(shape=3); (y == nd.random.normal(shape=3)).sum()
k = mx.cpu(1); mx.random.seed(1, k); y = nd.random.normal(ctx=k); mx.random.seed(1, k); y == nd.random.normal(ctx=k)
mx.random.seed('a') | mx.random.seed(1.0) | mx.random.seed(np.int64(3)) | mx.random.seed(-1)
mx.random.seed(1, 'nope') | mx.random.seed(seed_state=3, ctx='all')
""".replace("\n", "|")

CONTEXTS = """
mx.cpu() == mx.cpu(0) | mx.cpu(0) != mx.cpu(1) | mx.cpu() == mx.gpu() | mx.cpu_pinned() | mx.cpu_pinned() == mx.cpu()
mx.gpu(1) | mx.Context('cpu', 1) | mx.Context(mx.cpu(1)) | mx.Context('gpu') | mx.Context('nope')
mx.cpu().device_type | mx.cpu(3).device_id | mx.cpu().device_typeid | mx.Context.devtype2str[1]
mx.Context.devstr2type['cpu_pinned'] | hash(mx.cpu()) == hash(mx.cpu(0)) | mx.current_context()
mx.context.current_context() | mx.context.num_gpus() | nd.ones((1,), mx.cpu_pinned()).context
nd.ones((1,), mx.cpu(1)) + nd.ones((1,), mx.cpu(2)) | (nd.ones((1,), mx.cpu(1)) + 1).context
nd.concat(m, m.as_in_context(mx.cpu(1)), dim=0).context | nd.dot(m, m.T.as_in_context(mx.cpu(1))).context
m + m.as_in_context(mx.cpu(1)) | nd.add_n(m, m.as_in_context(mx.cpu(1))).context | nd.ones((1,), mx.gpu(0))
m.as_in_context(mx.gpu(0)) | m.copyto(mx.gpu()) | mx.cpu().empty_cache() | mx.cpu() in {mx.cpu(): 1}
str(mx.cpu(2)) == repr(mx.cpu(2)) | mx.cpu() == 'cpu(0)' | nd.zeros((1,), ctx=mx.Context('cpu', 5)).context
m.copyto(mx.cpu(2)).context | m.copyto(mx.cpu(0)) is m | mx.util.is_np_array() | mx.util.is_np_shape()
mx.is_np_array() | mx.is_np_shape() | mx.util.set_np_shape(False) | mx.util.get_gpu_count()
mx.util.getenv('MXFORGE_NO_SUCH') | mx.util.setenv('MXNET_CASE', '3'); mx.util.getenv('MXNET_CASE')
mx.engine.set_bulk_size(15) is None | mx.runtime.Features().is_enabled('CUDA') | mx.runtime.Features().is_enabled('x')
len(mx.runtime.feature_list()) | sorted(mx.runtime.Features())[:3] | mx.base.py_str(b'abc') | mx.base.string_types
mx.base.numeric_types[0] is float | mx.base.mx_real_t is np.float32 | mx.base._Null
mx.base.build_param_doc(['a'], ['int'], ['text']) | mx.libinfo.__version__ | mx.__version__
mx.base.MXNetError.__mro__[1] | mx.error.InternalError.__mro__[1].__name__ | mx.log.DEBUG
mx.registry.get_registry(dict)
""".replace("\n", "|")


def programs():
    """Every program, in order."""
    groups = (KEYS, ASSIGNMENTS, MATH, METHODS, FUNCTIONS, RANDOM, CONTEXTS)
    return [p.strip() for g in groups for p in g.split("|") if p.strip()]
