"""Programs on mx.contrib: texts, loaders, callbacks; see make_programs.py."""

import collections
import tempfile
import warnings

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


@program
def counted(mx):
    count = mx.contrib.text.utils.count_tokens_from_str
    text = "Life is great !  \n life is good . \n"
    found = [count(text), count(text, to_lower=True), count("a-b.c", "-", r"\.")]
    old = collections.Counter(is_=1)
    found.append(count(text, counter_to_update=old))
    return [[dict(sorted(c.items())) for c in found], found[-1] is old]


@program
def vocabularies(mx):
    counter = collections.Counter(["a", "b", "b", "c", "c", "c", "some_word$"])
    make = mx.contrib.text.vocab.Vocabulary
    made = [
        make(counter),
        make(counter, most_freq_count=2),
        make(counter, min_freq=2, unknown_token="<?>", reserved_tokens=["<pad>", "b"]),
        make(counter, most_freq_count=2, reserved_tokens=["c", "x"]),
        make(),
    ]
    found = []
    for one in made:
        found.append([len(one), one.idx_to_token, one.token_to_idx, one.unknown_token, one.reserved_tokens])
    found += [made[0].to_indices("c"), made[0].to_indices(["a", "zz"]), made[0].to_tokens(1), made[0].to_tokens([0, 2])]
    failures = [
        failure(lambda: make(counter, min_freq=0)),
        failure(lambda: make(counter, reserved_tokens=["<unk>"])),
        failure(lambda: make(counter, reserved_tokens=["x", "x"])),
        failure(lambda: make({"a": 1})),
        failure(lambda: made[0].to_tokens(99)),
        failure(lambda: made[0].to_tokens(1.0)),
    ]
    return [*found, failures]


def written(folder, name, lines):
    path = folder + "/" + name
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    return path


@program
def vectors(mx):
    text = mx.contrib.text
    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        first = written(folder, "a", ["4 3", "a 1 2 3", "b 4 5 6", "a 9 9 9", "C 7 8 9"])
        second = written(folder, "b", ["b,0.1,0.2", "<unk>,5,6", "d,0.3,0.4"])
        one = text.embedding.CustomEmbedding(first)
        two = text.embedding.CustomEmbedding(second, elem_delim=",", init_unknown_vec=mx.nd.ones)
        ones = text.embedding.CustomEmbedding(first, init_unknown_vec=mx.nd.ones)
        vocabulary = text.vocab.Vocabulary(collections.Counter(["a", "b", "zz"]))
        small = text.embedding.CustomEmbedding(first, vocabulary=vocabulary)
        wrong = [
            failure(lambda: text.embedding.CustomEmbedding(folder + "/nothing")),
            failure(lambda: text.embedding.CustomEmbedding(written(folder, "c", ["a 1 2", "b 1 2 3"]))),
            failure(lambda: text.embedding.CustomEmbedding(written(folder, "d", ["a"]))),
            failure(lambda: text.embedding.CustomEmbedding(written(folder, "e", ["a 1 x"]))),
        ]
    found.append(len([w for w in seen if w.category is UserWarning]))
    both = text.embedding.CompositeEmbedding(vocabulary, [one, two])
    for made in (one, two, ones, small, both):
        found.append([len(made), made.vec_len, made.idx_to_token, made.token_to_idx, numbers(made.idx_to_vec)])
    found += [numbers(one.get_vecs_by_tokens("b")), numbers(one.get_vecs_by_tokens(["c", "zz", "a"]))]
    found.append(numbers(one.get_vecs_by_tokens(["C", "A"], lower_case_backup=True)))
    one.update_token_vectors("a", mx.nd.array([0.5, 0.5, 0.5]))
    one.update_token_vectors(["b", "<unk>"], ramp(mx, 2, 3))
    found.append(numbers(one.idx_to_vec))
    failures = [
        failure(lambda: one.update_token_vectors("zz", mx.nd.ones((3,)))),
        failure(lambda: one.update_token_vectors(["a", "b"], mx.nd.ones((3,)))),
        failure(lambda: one.update_token_vectors("a", mx.nd.ones((4,)))),
        failure(lambda: text.embedding.CompositeEmbedding(one.idx_to_token, one)),
        failure(lambda: text.embedding.CompositeEmbedding(vocabulary, 3)),
        failure(lambda: text.embedding.GloVe("nothing.txt")),
    ]
    return [*found, wrong, failures]


@program
def pretrained_names(mx):
    names = mx.contrib.text.embedding.get_pretrained_file_names
    every = names()
    kinds = [mx.contrib.text.embedding.GloVe, mx.contrib.text.embedding.FastText]
    hashes = [sorted(k.pretrained_file_name_sha1.items())[::40] for k in kinds]
    hashes += [sorted(k.pretrained_archive_name_sha1.items())[::40] for k in kinds]
    urls = [
        mx.contrib.text.embedding.GloVe._get_pretrained_file_url("glove.6B.50d.txt"),
        mx.contrib.text.embedding.FastText._get_pretrained_file_url("wiki.de.vec"),
    ]
    found = [
        sorted(every),
        len(every["fasttext"]),
        every["glove"],
        names("glove"),
        [list(map(list, h)) for h in hashes],
    ]
    return [*found, urls, failure(lambda: names("nothing")), failure(lambda: mx.contrib.text.embedding.create("x"))]


@program
def loaders(mx):
    class Loader:
        def __iter__(self):
            for size in (3, 3, 2):
                yield ramp(mx, size, 2), mx.nd.arange(size)

    batches = mx.contrib.io.DataLoaderIter(Loader(), "x", "y")
    found = [batches.batch_size, [d.name for d in batches.provide_data], [list(d.shape) for d in batches.provide_label]]
    for _ in range(2):
        for batch in batches:
            full = batch.data[0].shape[0] - batch.pad
            found.append([batch.pad, list(batch.data[0].shape), numbers(batch.data[0][:full])])
            found.append([numbers(batch.label[0][:full]), str(np.dtype(batch.data[0].dtype))])
        batches.reset()
    return found


@program
def old_autograd(mx):
    autograd = mx.contrib.autograd
    found = []
    with autograd.train_section():
        found.append([mx.autograd.is_training(), mx.autograd.is_recording()])
        with autograd.test_section():
            found.append([mx.autograd.is_training(), mx.autograd.is_recording()])
        found.append([mx.autograd.is_training(), mx.autograd.is_recording()])
    found += [mx.autograd.is_training(), autograd.set_is_training(True), autograd.set_is_training(False)]
    return [*found, failure(lambda: autograd.grad_and_loss(lambda x: x)(3)), failure(lambda: autograd.backward(3))]
