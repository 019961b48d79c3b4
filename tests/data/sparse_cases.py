"""Short programs on sparse arrays, in the form of ndarray_cases.py.

`d` and `e` are dense (4, 3), `c` and `ce` the same in csr, `r` and `re` in row_sparse; `g` is a gradient of two rows.
"""

SETUP = """
d = nd.array([[0, 1, 0], [0, 0, 0], [2, 0, -3], [0, 0, 4]])
e = nd.array([[1, 0, 2], [0, 0, 0], [0, 5, 0], [6, 0, 0]])
c = d.tostype("csr"); r = d.tostype("row_sparse")
ce = e.tostype("csr"); re = e.tostype("row_sparse"); sp = nd.sparse
g = sp.row_sparse_array((nd.array([[0.5, -1, 2], [0, 3, -0.25]]), [1, 3]), shape=(4, 3))
"""

CREATION = """
c | r | repr(c) | repr(r) | str(c) | c.stype | r.stype | c.shape | c.dtype.__name__ | c.context | c.data | c.indices
c.indptr | r.data | r.indices | c.ndim | c.size | r.size | len(c) | c.nnz | r.indptr | c.handle is None | c.T | r.T
c.asnumpy() | c.asscalar() | c.writable | c._aux_types | c._num_aux | c.grad is None
sp.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 2, 3]), shape=(3, 3))
sp.csr_matrix(([1, 2], [0, 1], [0, 1, 2]), shape=(2, 5), dtype='int32')
sp.csr_matrix((np.array([1., 2.]), np.array([0, 1]), np.array([0, 1, 2]))) | sp.csr_matrix((3, 4))
sp.csr_matrix((3, 4), dtype='float16')
sp.csr_matrix((nd.array([1, 2]), nd.array([0, 1]), nd.array([0, 1, 2])), shape=(2, 2))
sp.csr_matrix([[0, 1], [2, 0]]) | sp.csr_matrix(np.array([[0, 1], [2, 0]])) | sp.csr_matrix(d) | sp.csr_matrix(c)
sp.csr_matrix(c, dtype='float64') | sp.csr_matrix(r) | sp.csr_matrix(([], [], [0, 0, 0]))
sp.csr_matrix(([], [], [0, 0, 0]), shape=(2, 3)) | sp.csr_matrix(([1, 2], [0]), shape=(2, 2))
sp.csr_matrix((1, 2, 3, 4)) | sp.csr_matrix(c, shape=(3, 3)) | sp.csr_matrix(5) | sp.csr_matrix('abc')
sp.csr_matrix(([1], [0], []), shape=(1, 1)) | sp.csr_matrix(([1, 2], [[0, 1]], [0, 1, 2]), shape=(2, 2))
sp.csr_matrix(d, shape=(2, 2)) | sp.csr_matrix([1, 2, 3]) | sp.row_sparse_array(([[1, 2], [3, 4]], [1, 3]))
sp.row_sparse_array(([[1, 2], [3, 4]], [1, 3]), shape=(6, 2))
sp.row_sparse_array(([[1, 2], [3, 4]], [1, 3]), shape=(6, 2), dtype='int32') | sp.row_sparse_array((3, 4))
sp.row_sparse_array((3, 4, 2)) | sp.row_sparse_array((np.ones((1, 2)), np.array([2])))
sp.row_sparse_array((nd.ones((1, 2)), nd.array([2])), shape=(4, 2)) | sp.row_sparse_array([[0, 0], [1, 2]])
sp.row_sparse_array(d) | sp.row_sparse_array(r) | sp.row_sparse_array(c) | sp.row_sparse_array(r, dtype='float16')
sp.row_sparse_array((3,)) | sp.row_sparse_array(([[1, 2]], []), shape=(6, 2))
sp.row_sparse_array(([], []), shape=(6, 2)) | sp.row_sparse_array(5) | sp.row_sparse_array(r, shape=(1, 1))
sp.row_sparse_array((np.zeros((0, 2)), []), shape=(6, 2))
sp.row_sparse_array((np.ones((1, 2)), [0]), shape=(4, 2, 2)) | sp.zeros('csr', (2, 3))
sp.zeros('row_sparse', (2, 3)) | sp.zeros('row_sparse', (2, 3, 4), dtype='int32') | sp.zeros('default', (2, 3))
sp.zeros('nonsense', (2, 3)) | sp.zeros('csr', (2, 3, 4)) | sp.empty('csr', (2, 3)) | sp.empty('row_sparse', (2, 3))
sp.empty('default', (2, 3)) | sp.zeros('row_sparse', (3,)) | sp.zeros('csr', 3) | sp.empty('row_sparse', 3)
nd.zeros((2, 3), stype='csr') | nd.zeros((2, 3), stype='row_sparse') | nd.empty((2, 3), stype='csr')
nd.zeros((2, 3), stype='nonsense') | sp.zeros('csr', (2, 3), ctx=mx.cpu(1)).context | sp.array(c) | sp.array(r)
sp.array(d) | sp.array([[1]]) | sp.array(np.ones((2, 2))) | sp.array(c, dtype='float64') | nd.array(c) | nd.array(r)
nd.array(c, dtype='float64') | nd.zeros_like(c) | nd.zeros_like(r) | nd.ones_like(c) | c.zeros_like() | c.ones_like()
nd.array(c, mx.cpu(1)).context | nd.cast_storage(d, 'csr') | nd.cast_storage(d, stype='row_sparse')
nd.cast_storage(c, 'default') | nd.cast_storage(r, stype='default') | nd.cast_storage(c, 'csr')
nd.cast_storage(c, 'row_sparse') | nd.cast_storage(d, 'nonsense') | sp.cast_storage(d, 'csr')
nd.cast_storage(nd.ones((2, 2, 2)), 'csr') | nd.cast_storage(nd.ones((2,)), 'row_sparse')
nd.array([1, 0, 2]).tostype('row_sparse') | nd.ones((2, 2, 2)).tostype('row_sparse')
nd.ones((2, 2, 2)).tostype('csr') | nd.ones((3,)).tostype('csr') | c.tostype('default') | c.tostype('csr')
c.tostype('row_sparse') | r.tostype('csr') | r.tostype('default') | r.tostype('row_sparse') | d.tostype('default')
c.tostype('csr') is c | d.tostype('default') is d | c.tostype('x') | nd.array([[0, 1]], dtype='int32').tostype('csr')
nd.array([[0, 1]], dtype='float64').tostype('row_sparse') | nd.zeros((2, 3)).tostype('csr')
nd.zeros((2, 3)).tostype('row_sparse')
""".replace("\n", "|")

INDEXING = """
c[0] | c[2] | c[-1] | c[-2] | c[4] | c[1:3] | c[0:4] | c[:2] | c[2:] | c[:] | c[:] is c | c[2:1] | c[1:1] | c[-2:]
c[:-1] | c[::2] | c[1, 2] | c[0:2, 1:2] | c[None] | c['a'] | c[1:10] | c[np.int64(1)] | r[0] | r[:] | r[:] is r
r[0:2] | r[1, 2] | r[None] | r['a'] | c[0].shape | c[:] = ce; c | c[:] = e; c | c[:] = 3; c
c[:] = np.ones((4, 3)); c | c[:] = r; c | c[0] = 1 | c[0:1] = 1 | c[:] = 'a' | c[:] = [1, 2]
c[:] = nd.ones((2, 2)); c | c[:] = c; c | r[:] = re; r | r[:] = e; r | r[:] = 3; r | r[:] = 0; r
r[:] = np.ones((4, 3)); r | r[:] = c; r | r[0] = 1 | r[0:1] = 1 | r[:] = 'a'
r[:] = sp.zeros('row_sparse', (4, 3)); r | d[:] = ce; d | d[:] = re; d | d[0] = ce[0]; d | d[0:2] = ce[1:3]; d
c.slice(begin=(0,), end=(2,)) | nd.slice(c, begin=(1,), end=(3,)) | nd.slice(c, begin=(1, 0), end=(3, 2))
nd.slice(c, begin=(0, 1), end=(4, 3)) | nd.slice(c, begin=(0, 1), end=(4, 3), step=(1, 1))
nd.slice(r, begin=(0,), end=(2,)) | nd.slice(c, begin=(None, 1), end=(None, 3))
nd.slice(c, begin=(-2,), end=(None,)) | nd.slice_axis(c, axis=0, begin=0, end=2)
c.slice_axis(axis=1, begin=0, end=2) | c.data[:] = 9; c | c.indices[:] = 0; c | x = c.data; x[0] = 50; c
r.data[:] = 9; r | x = r.indices; x[0] = 3; r.indices | c.data = nd.ones((4,)) | c.indptr = 5 | r.indices = 5
r.data = 3 | x = c.copy(); x[:] = ce; c | c.copy() | r.copy() | c.copy() is c
""".replace("\n", "|")

COPYING = """
c.copyto(mx.cpu(1)).context | c.copyto(mx.cpu(1)) | r.copyto(mx.cpu(1)) | x = sp.zeros('csr', (4, 3)); c.copyto(x); x
x = nd.zeros((4, 3)); c.copyto(x); x | x = sp.zeros('row_sparse', (4, 3)); c.copyto(x)
x = sp.zeros('row_sparse', (4, 3)); r.copyto(x); x | x = nd.zeros((4, 3)); r.copyto(x); x
x = sp.zeros('csr', (4, 3)); r.copyto(x) | x = sp.zeros('csr', (4, 3)); d.copyto(x); x
x = sp.zeros('row_sparse', (4, 3)); d.copyto(x); x | c.copyto(c) | c.copyto(5)
x = sp.zeros('csr', (4, 3)); c.copyto(x) is x | x = sp.zeros('csr', (4, 4)); c.copyto(x)
x = sp.zeros('csr', (4, 3), dtype='float64'); c.copyto(x); x | c.as_in_context(mx.cpu(0)) is c
c.as_in_context(mx.cpu(1)).context | r.as_in_context(mx.cpu(1)) | c.astype('int32') | r.astype('float64')
c.astype('float32', copy=False) is c | c.astype('float32') is c | c.astype('float16').dtype.__name__
c.reshape((3, 4)) | r.reshape((-1,)) | c._at(0) | c._slice(0, 1) | c._sync_copyfrom(np.ones((4, 3)))
c.wait_to_read() | c.check_format() | r.check_format(full_check=False) | c.detach() | c.detach().stype
sp.csr_matrix(([1, 2], [0, 5], [0, 1, 2]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [0, 1], [0, 2, 1]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [1, 0], [0, 2, 2]), shape=(2, 2)).check_format()
sp.row_sparse_array(([[1, 2], [3, 4]], [3, 1]), shape=(6, 2)).check_format()
sp.row_sparse_array(([[1, 2], [3, 4]], [1, 9]), shape=(6, 2)).check_format()
sp.row_sparse_array(([[1, 2], [3, 4]], [-1, 1]), shape=(6, 2)).check_format()
sp.csr_matrix(([1, 2], [0, 5], [0, 1, 2]), shape=(2, 2)).check_format(False) | bool(c) | float(c.sum().asscalar())
c in [c] | c == c | c == ce | c != ce | hash(c) == hash(c) | c > 0 | c < 0 | r >= 1 | 1 < c
sp.retain(r, nd.array([0, 3])) | sp.retain(r, nd.array([1])) | sp.retain(d, nd.array([0]))
sp.retain(c, nd.array([0])) | sp.retain(r, nd.array([3, 0])) | sp.retain(r, nd.array([2], dtype='int64'))
sp.retain(data=r, indices=nd.array([0, 1, 2])) | sp.retain(r, nd.array([]))
""".replace("\n", "|")

ARITHMETIC = """
c + ce | c - ce | c / ce | c + e | c - e | c * e | c / e | e + c | e - c | e * c | e / c | r + re | r - re | r * re
r / re | r + e | r - e | r * e | r / e | e + r | e - r | e * r | e / r | c + r | r + c | c * r | r * c | c + 1 | c * 2
c / 2 | c - 1 | 2 * c | 2 + c | 1 - c | 2 / c | c + 0 | c - 0 | 0 + c | c ** 2 | 2 ** c | c % 2 | -c | abs(c) | r + 1
r * 2 | r / 2 | 2 * r | r - 1 | r ** 2 | -r | abs(r) | 1 - r | 3 / r | r + 0 | r % 2 | c * 0 | r * 0 | c / 0 | c ** 0
r ** c | sp.add(c, ce) | sp.subtract(r, re) | sp.multiply(c, 2) | sp.divide(r, 2) | sp.add(1, c) | sp.divide(c, e)
sp.multiply(c, nd.array([1, 2, 3])) | sp.add(c, nd.ones((4, 1))) | sp.divide(c, nd.array([[1], [2], [3], [4]]))
sp.add(1, 2) | sp.multiply(d, e) | sp.subtract(2, r) | nd.add(c, ce) | nd.subtract(r, re) | nd.multiply(c, e)
nd.maximum(c, ce) | nd.minimum(r, re) | nd.maximum(c, 1) | nd.maximum(c, 0) | nd.maximum(c, -1) | nd.minimum(c, 1)
nd.equal(c, ce) | nd.greater(c, 1) | nd.greater(c, -1) | nd.not_equal(c, 0) | nd.lesser(r, 1) | nd.lesser_equal(r, -1)
nd.greater_equal(c, 0) | nd.greater_equal(c, 1) | nd.equal(c, 0) | nd.equal(c, 1) | nd.not_equal(c, 1)
nd.logical_and(c, 1) | nd.logical_or(c, ce) | nd.power(c, 2) | nd.modulo(c, 2) | nd.power(c, ce) | nd.hypot(c, ce)
nd.lesser(c, -1) | nd.logical_xor(c, 0) | nd.logical_not(c) | nd.broadcast_add(c, nd.array([[1, 2, 3]]))
nd.broadcast_mul(c, nd.array([[1, 2, 3]])) | nd.broadcast_div(c, nd.array([[1, 2, 4]]))
nd.broadcast_mul(c, nd.array([[1], [2], [3], [4]])) | nd.broadcast_sub(c, nd.array([[1], [2], [3], [4]]))
nd.broadcast_mul(r, nd.array([[1, 2, 3]])) | nd.broadcast_add(c, ce) | nd.broadcast_mul(c, ce)
nd.broadcast_div(c, e) | nd.broadcast_mul(nd.array([[1, 2, 3]]), c) | nd.broadcast_maximum(c, ce)
nd.broadcast_add(r, re) | nd.elemwise_add(c, ce) | nd.elemwise_add(r, re) | nd.elemwise_sub(c, r)
nd.elemwise_mul(r, e) | nd.elemwise_div(r, re) | sp.elemwise_add(c, ce) | sp.elemwise_mul(r, re)
sp.elemwise_div(c, e) | nd.add_n(c, ce) | nd.add_n(r, re) | nd.add_n(r, re, r) | nd.add_n(r, e) | sp.add_n(r, re)
nd.add_n(r) | nd.add_n(c) | c += ce; c | c -= ce; c | c *= 2; c | c /= 2; c | c += 1; c | r += re; r | r -= re; r
r *= 2; r | r /= 2; r | r += 1; r | d += c; d | d -= r; d | d *= c; d | r *= e; r | c %= 2 | c **= 2; c | e += ce; e
nd.sqrt(c) | nd.sqrt(r) | nd.square(c) | nd.exp(c) | nd.abs(r) | nd.negative(c) | nd.sign(r) | nd.relu(c) | nd.tanh(r)
nd.sigmoid(c) | nd.sin(r) | nd.cos(r) | nd.log1p(r) | nd.expm1(c) | nd.floor(c) | nd.round(r) | nd.cbrt(c)
nd.rsqrt(c) | nd.reciprocal(c) | nd.log(c) | nd.arcsinh(r) | nd.degrees(c) | nd.gamma(c) | nd.erf(c) | nd.softsign(c)
c.sqrt() | c.abs() | r.square() | r.sign() | c.exp() | r.relu() | sp.sqrt(c) | sp.square(r) | sp.exp(c)
nd.stop_gradient(c) | nd.BlockGrad(r) | nd.make_loss(c) | nd.identity(c) | nd.cast(c, 'float64')
nd.Cast(r, dtype='int32') | nd.clip(c, 0, 1) | nd.clip(r, -1, 1) | nd.clip(c, 1, 2) | nd.clip(c, -2, -1)
c.clip(-1, 1) | sp.clip(r, 1, 2) | nd.clip(r, 1, 2) | nd.sum(c) | nd.sum(c, axis=0) | nd.sum(c, axis=1)
nd.sum(c, axis=1, keepdims=True) | nd.sum(c, axis=0, exclude=True) | nd.sum(c, axis=(0, 1)) | nd.mean(c)
nd.mean(c, axis=0) | nd.mean(c, axis=1) | nd.sum(r) | nd.sum(r, axis=0) | nd.sum(r, axis=1) | c.sum(axis=0) | c.mean()
nd.max(c) | nd.prod(c, axis=0) | nd.norm(c) | nd.norm(r) | nd.norm(c, ord=1) | r.norm() | sp.norm(r)
sp.sum(c, axis=0) | sp.mean(c, axis=1) | nd._internal._square_sum(r, axis=1)
nd._internal._square_sum(r, axis=1, keepdims=True) | nd._internal._square_sum(r, axis=0) | c.argmax(axis=1)
nd.argmax(r, axis=1) | nd.L2Normalization(c) | nd.softmax(c) | nd.topk(c, k=1) | nd.where(c, d, e) | nd.where(c, e, d)
nd.where(d, c, e) | nd.where(r, d, e) | nd.concat(c, ce, dim=0) | nd.concat(c, ce, dim=1) | nd.concat(r, re, dim=0)
nd.concat(c, d, dim=0) | sp.concat(c, ce, dim=0) | nd.stack(c, ce) | nd.transpose(c) | c.transpose()
nd.reshape(c, (3, 4)) | nd.flatten(c) | nd.expand_dims(c, 0) | nd.tile(c, (1, 2)) | nd.repeat(c, 2)
nd.split(c, 3, axis=1) | nd.take(r, nd.array([0, 2])) | nd.take(d, nd.array([0, 2]))
nd.Embedding(nd.array([0, 2]), r, input_dim=4, output_dim=3)
sp.Embedding(nd.array([0, 2]), r, input_dim=4, output_dim=3) | nd.concatenate([c, ce]) | nd.dot(c, nd.ones((2, 2)))
nd.contrib.getnnz(c) | nd.contrib.getnnz(c, axis=0) | nd.contrib.getnnz(c, axis=1) | nd.contrib.isnan(c)
nd.contrib.isinf(r) | nd.contrib.quadratic(c, a=1, b=2, c=0) | nd.contrib.quadratic(c, a=1, b=2, c=3)
nd.FullyConnected(c, nd.ones((2, 3)), num_hidden=2, no_bias=True)
nd.FullyConnected(c, nd.ones((2, 3)).tostype('row_sparse'), num_hidden=2, no_bias=True)
sp.FullyConnected(c, nd.ones((2, 3)).tostype('row_sparse'), nd.ones((2,)), num_hidden=2)
nd.exp(c, out=nd.zeros((4, 3))) | nd.sqrt(nd.abs(c), out=sp.zeros('csr', (4, 3)))
nd.elemwise_add(c, ce, out=sp.zeros('csr', (4, 3))) | nd.elemwise_add(d, e, out=sp.zeros('csr', (4, 3)))
nd.elemwise_add(d, e, out=sp.zeros('row_sparse', (4, 3))) | nd.elemwise_add(c, ce, out=nd.zeros((4, 3)))
nd.square(c, out=sp.zeros('row_sparse', (4, 3))) | x = sp.zeros('csr', (4, 3)); nd.square(c, out=x); x
nd.square(c, out=c); c | nd.exp(c, out=sp.zeros('csr', (4, 3))) | nd.zeros_like(c, out=sp.zeros('csr', (4, 3)))
nd._internal._mul_scalar(c, scalar=2) | nd._internal._plus_scalar(c, scalar=2)
nd._internal._plus_scalar(c, scalar=0) | nd._internal._minus_scalar(r, scalar=0)
nd._internal._maximum_scalar(c, scalar=-1) | nd._internal._power_scalar(c, scalar=2)
nd._internal._rdiv_scalar(c, scalar=2) | nd._internal._rminus_scalar(c, scalar=0)
nd._internal._mod_scalar(c, scalar=2) | nd._internal._hypot_scalar(c, scalar=0)
nd._internal._power_scalar(c, scalar=0) | nd._internal._identity_with_attr_like_rhs(d, c)
nd._internal._rpower_scalar(c, scalar=2) | nd._internal._logical_and_scalar(c, scalar=2)
nd._internal._lesser_scalar(c, scalar=0) | nd._internal._lesser_scalar(c, scalar=-1)
nd._internal._greater_scalar(c, scalar=0) | nd._internal._greater_scalar(c, scalar=-1)
nd._internal._equal_scalar(c, scalar=0) | nd._internal._equal_scalar(c, scalar=4)
nd._internal._not_equal_scalar(r, scalar=0) | nd._internal._not_equal_scalar(r, scalar=4)
nd._internal._greater_equal_scalar(r, scalar=1) | nd._internal._lesser_equal_scalar(r, scalar=-1)
nd._internal._minimum_scalar(r, scalar=1) | nd._internal._mul_scalar(c, scalar=0)
nd._internal._div_scalar(c, scalar=0) | nd._internal._minimum(r, re) | nd._internal._hypot(c, ce)
nd._internal._equal(c, ce) | nd._internal._copy(r)
""".replace("\n", "|")

PRODUCTS = """
nd.dot(c, nd.ones((3, 2))) | nd.dot(c, nd.ones((4, 2)), transpose_a=True)
nd.dot(c, nd.ones((2, 3)), transpose_b=True) | nd.dot(c, nd.ones((2, 4)), transpose_a=True, transpose_b=True)
nd.dot(c, nd.array([1, 2, 3])) | nd.dot(c, nd.array([1, 2, 3, 4]), transpose_a=True) | nd.dot(c, ce)
nd.dot(c, ce, transpose_a=True) | nd.dot(c, ce, transpose_b=True) | nd.dot(nd.ones((2, 4)), c)
nd.dot(nd.ones((2, 3)), c, transpose_b=True) | nd.dot(nd.ones((4, 2)), c, transpose_a=True)
nd.dot(nd.ones((3,)), c, transpose_b=True) | nd.dot(c, re.tostype('default').T.tostype('row_sparse'))
nd.dot(c, r, transpose_a=True) | nd.dot(r, nd.ones((3, 2))) | nd.dot(r, re, transpose_b=True)
nd.dot(d, r, transpose_b=True) | nd.dot(c, nd.ones((4, 2)), transpose_a=True, forward_stype='default')
nd.dot(c, nd.ones((4, 2)), transpose_a=True, forward_stype='row_sparse')
nd.dot(c, nd.ones((3, 2)), forward_stype='csr') | nd.dot(nd.ones((2, 4)), c, forward_stype='default')
nd.dot(nd.ones((2, 4)), c, forward_stype='csr') | nd.dot(c, nd.ones((3, 2)), forward_stype='row_sparse')
sp.dot(c, nd.ones((3, 2))) | c.dot(nd.ones((3, 2))) | nd.dot(c, nd.ones((5, 2)))
nd.dot(c, nd.ones((3, 2), dtype='float64')) | nd.dot(c.astype('float64'), nd.ones((3, 2), dtype='float64'))
nd.dot(c, nd.ones((3, 2)), out=nd.zeros((4, 2))) | nd.dot(c, nd.ones((3, 2)).tostype('row_sparse'))
nd.dot(sp.zeros('csr', (4, 3)), nd.ones((3, 2))) | nd.dot(sp.zeros('csr', (4, 3)), nd.ones((4, 2)), transpose_a=True)
nd.dot(c, sp.zeros('row_sparse', (3, 2))) | nd.batch_dot(nd.ones((1, 2, 2)), nd.ones((1, 2, 2)).tostype('row_sparse'))
""".replace("\n", "|")

FILES = """
import pickle; pickle.loads(pickle.dumps(c)) | import pickle; pickle.loads(pickle.dumps(r))
import copy; copy.deepcopy(c) | import copy; copy.copy(r) | nd.save('case.nd', [c, r, d]); nd.load('case.nd')
nd.save('case.nd', c); nd.load('case.nd') | nd.save('case.nd', {'a': r}); nd.load('case.nd')['a']
nd.save('case.nd', {'a': c, 'b': d}); sorted(nd.load('case.nd'))
nd.save('case.nd', sp.zeros('csr', (2, 3))); nd.load('case.nd')
nd.save('case.nd', sp.zeros('row_sparse', (2, 3))); nd.load('case.nd') | isinstance(c, nd.NDArray)
isinstance(c, sp.BaseSparseNDArray) | isinstance(c, nd.sparse.CSRNDArray) | nd.waitall()
""".replace("\n", "|")

SCATTERED = """
nd._internal._scatter_elemwise_div(r, e + 1) | nd._internal._scatter_elemwise_div(r, re)
nd._internal._scatter_elemwise_div(c, e + 1) | nd._internal._scatter_elemwise_div(d, re)
nd._internal._scatter_elemwise_div(r, e, out=nd.zeros((4, 3))) | nd._internal._scatter_elemwise_div(r, nd.ones((4, 1)))
nd._internal._scatter_elemwise_div(sp.zeros('row_sparse', (4, 3)), e)
nd._internal._scatter_plus_scalar(r, scalar=2) | nd._internal._scatter_plus_scalar(c, scalar=2)
nd._internal._scatter_plus_scalar(d, scalar=2) | nd._internal._scatter_plus_scalar(sp.zeros('csr', (4, 3)), scalar=2)
nd._internal._scatter_plus_scalar(r, scalar=2, out=nd.zeros((4, 3)))
nd._internal._scatter_minus_scalar(r, 2) | nd._internal._scatter_minus_scalar(c, scalar=2)
nd._internal._scatter_minus_scalar(d.astype('int32'), scalar=2)
nd.take(c, nd.array([0, 2, 2, 3, 0])) | nd.take(c, nd.array([0, 2]), axis=1) | nd.take(c, nd.array([9, -1]))
nd.take(c, nd.array([9, -1]), mode='wrap') | nd.take(c, nd.array([0, 2]), mode='raise')
nd.take(c, nd.array([0, 9]), mode='raise') | nd.take(c, nd.array([[0, 2]])) | c.take(nd.array([0, 2], dtype='int32'))
nd.take(sp.zeros('csr', (4, 3)), nd.array([0, 1])) | nd.take(c, nd.array([0, 2]), out=nd.zeros((2, 3)))
nd.take(r, nd.array([9, -1])) | nd.take(r, nd.array([9, -3]), mode='wrap') | nd.take(r, nd.array([0, 9]), mode='raise')
nd.Embedding(nd.array([0, 4]), r, input_dim=4, output_dim=3)
nd.Embedding(nd.array([0, -1]), r, input_dim=4, output_dim=3)
nd.contrib.SparseEmbedding(nd.array([0, 2]), r, input_dim=4, output_dim=3)
nd.contrib.SparseEmbedding(nd.array([0, 2]), r, input_dim=4, output_dim=3, deterministic=True)
nd.contrib.SparseEmbedding(nd.array([0, 7]), d, input_dim=4, output_dim=3, deterministic=True)
nd.contrib.SparseEmbedding(nd.array([0, 7]), r, input_dim=4, output_dim=3)
c.broadcast_to((4, 3)) | c[0:1].broadcast_to((4, 3)) | r.broadcast_to((4, 3)) | c.broadcast_to((2, 4, 3))
c.broadcast_to((4, 4)) | c.broadcast_to((4,)) | c.broadcast_like(d) | nd.broadcast_axis(c[0:1], axis=0, size=4)
nd.FullyConnected(c, nd.ones((2, 3)), nd.array([[1], [2]]), num_hidden=2)
nd.FullyConnected(c, nd.ones((2, 3)).tostype('row_sparse'), nd.array([[1], [2]]), num_hidden=2)
sp.FullyConnected(c, nd.ones((2, 3)), nd.array([[1], [2]]).tostype('row_sparse'), num_hidden=2)
nd.FullyConnected(c, nd.ones((2, 3)), nd.array([[1, 2]]), num_hidden=2)
""".replace("\n", "|")
CHECKS = """
sp.csr_matrix(([1, 2], [0, 5], [0, 1, 2]), shape=(2, 2)).indices
sp.csr_matrix(([1, 2], [0, 5], [0, 1, 2]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [0, 1], [0, 1, 5]), shape=(2, 2)).indptr
sp.csr_matrix(([1, 2], [0, 1], [0, 1, 5]), shape=(2, 2)).check_format(False)
sp.csr_matrix(([1, 2], [0, 1], [0, 1, 5]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [0, 1], [0, 1]), shape=(2, 2)).shape
sp.csr_matrix(([1, 2], [0, 1], [0, 1]), shape=(2, 2)).check_format(False)
sp.csr_matrix(([1, 2], [0, 1], [0, 2, 1]), shape=(2, 2)).check_format(False)
sp.csr_matrix(([1, 2], [0, 1], [0, 2, 1]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [0, 1], [1, 1, 2]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [-1, 1], [0, 1, 2]), shape=(2, 2)).check_format(False)
sp.csr_matrix(([1, 2], [-1, 1], [0, 1, 2]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2, 3], [0, 1], [0, 1, 2]), shape=(2, 2)) | sp.csr_matrix(([1], [0, 1], [0, 1, 2]), shape=(2, 2))
sp.csr_matrix(([1, 2], [1, 0], [0, 2, 2]), shape=(2, 2)).check_format(False)
sp.csr_matrix(([1, 2], [1, 0], [0, 2, 2]), shape=(2, 2)).check_format()
sp.csr_matrix(([1, 2], [0, 1], [0, 1, 2]), shape=(3, 2)).check_format(False)
sp.csr_matrix(([1, 2], [0, 1], [0, 1, 2]), shape=(1, 2)).dtype.__name__
sp.csr_matrix(([1, 2], [0, 5], [0, 1, 2]), shape=(2, 2)).copy().shape
sp.row_sparse_array(([[1, 2]], [9]), shape=(3, 2)).indices
sp.row_sparse_array(([[1, 2]], [9]), shape=(3, 2)).check_format(False)
sp.row_sparse_array(([[1, 2]], [9]), shape=(3, 2)).check_format()
sp.row_sparse_array(([[1, 2]], [-1]), shape=(3, 2)).check_format()
sp.row_sparse_array(([[1, 2], [3, 4]], [2, 1]), shape=(3, 2)).check_format()
sp.row_sparse_array(([[1, 2], [3, 4]], [1]), shape=(3, 2)) | sp.row_sparse_array(([[1, 2]], [1, 2]), shape=(3, 2))
sp.row_sparse_array(([[1, 2, 5]], [1]), shape=(3, 2))
""".replace("\n", "|")

# name, states, whether it has lazy_update, parameters
UPDATES = (
    ("sgd_update", "", True, "lr=0.1"),
    ("sgd_mom_update", "s", True, "lr=0.1, momentum=0.9"),
    ("adam_update", "st", True, "lr=0.1"),
    ("ftrl_update", "st", False, "lr=0.1"),
    ("rmsprop_update", "s", False, "lr=0.1"),
    ("signum_update", "s", False, "lr=0.1, momentum=0.9"),
    ("sparse.adagrad_update", "s", False, "lr=0.1"),
    ("contrib.group_adagrad_update", "h", False, "lr=0.1"),
)
OPTIMIZERS = """sgd sgd,lazy_update=True sgd,lazy_update=True,momentum=0.9 sgd,momentum=0.9 adam adam,lazy_update=False
ftrl adagrad adagrad,wd=0.1 groupadagrad rmsprop rmsprop,centered=True nag,momentum=0.9 signum ftml lamb adamax nadam
adadelta"""


def updates():
    """Updates by row-sparse gradients, of dense and of row-sparse weights."""
    found = []
    for name, states, has_lazy, parameters in UPDATES:
        for weight in ("default", "row_sparse"):
            for options in ("", *([", wd=0.1, lazy_update=False"] if has_lazy else [])):
                found.append(update(name, weight, {s: weight for s in states}, parameters + options))
        clipped = parameters + ", rescale_grad=0.5, clip_gradient=0.7"
        found.append(update(name, "row_sparse", {s: "none" for s in states}, clipped))
    for name, states, _, parameters in UPDATES[1:6]:
        for weight, other in (("default", "row_sparse"), ("row_sparse", "default")):
            found.append(update(name, weight, {s: other for s in states}, parameters))
    found.append("nd.sparse.adagrad_update(d, g, d, lr=0.1, wd=0.1, out=d)")
    found.append("w = (e + 1).tostype('row_sparse'); z = nd.zeros((4, 3)); nd.sgd_update(w, g, lr=0.1, wd=0.1, out=z)")
    return found + [optimizer(text) for text in OPTIMIZERS.split()]


def update(name, weight, states, parameters):
    """The weight and the states after one update; a state of storage type `none` is row-sparse and stores no row."""
    shapes = {"s": "(e + 2)", "t": "(d * d + 1)", "h": "nd.array([[0.5], [0.25], [1], [2]])"}
    empty = {"h": "sp.zeros('row_sparse', (4, 1))"}
    steps = [f"w = (e + 1).tostype('{weight}')"]
    for state, stype in states.items():
        none = empty.get(state, "sp.zeros('row_sparse', (4, 3))")
        steps.append(f"{state} = {none if stype == 'none' else f'{shapes[state]}.tostype({stype!r})'}")
    given = ", ".join(["w", "g", *states, parameters])
    return "; ".join([*steps, f"y = nd.{name}({given}, out=w)", f"[w, {', '.join(states)}]"])


def optimizer(text):
    """A row-sparse weight after two updates."""
    name, *options = text.split(",")
    make = f"o = mx.optimizer.create('{name}'{''.join(f', {o}' for o in options)})"
    step = "o.update(0, w, g, s)"
    return f"w = (e + 1).tostype('row_sparse'); {make}; s = o.create_state(0, w); {step}; {step}; w"


def programs():
    """Every program, in order."""
    groups = (CREATION, INDEXING, COPYING, ARITHMETIC, PRODUCTS, FILES, SCATTERED, CHECKS)
    return [*(p.strip() for g in groups for p in g.split("|") if p.strip()), *updates()]
