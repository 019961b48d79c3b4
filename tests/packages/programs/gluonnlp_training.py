"""gluonnlp 0.10: language models with truncated backpropagation, sampled losses, BERT, translation, word vectors."""

import cases
import gluonnlp as nlp
import mxnet as mx
import numpy as np
import training
from gluonnlp.loss import ActivationRegularizationLoss, TemporalActivationRegularizationLoss
from gluonnlp.model import bert, sampled_block, transformer
from gluonnlp.model import train as train_models

CrossEntropy = mx.gluon.loss.SoftmaxCrossEntropyLoss


def ids(*shape, below=13, number=0):
    return mx.nd.array(np.random.RandomState(number).randint(0, below, shape))


def detached(states):
    """Nested lists of states, cut off from the graph that made them."""
    return [detached(s) for s in states] if isinstance(states, (list, tuple)) else states.detach()


def language_model(net, contexts=1, hybridize=True, **options):
    """Segments of a text: states pass from each to the next. The losses of activations, and clipped gradients."""
    places = [mx.cpu(i) for i in range(contexts)]
    net.initialize(ctx=places)
    states = [net.begin_state(batch_size=3, func=mx.nd.zeros, ctx=place) for place in places]
    for place, state in zip(places, states):
        net(ids(5, 3).as_in_context(place), state)
    cases.fill(net)
    if hybridize:
        net.hybridize(static_alloc=True)
    cross, one, two = CrossEntropy(), ActivationRegularizationLoss(2), TemporalActivationRegularizationLoss(1)

    def loss(step):
        found = []
        for number, place in enumerate(places):
            words = ids(6, 3, below=20, number=10 * step + number).as_in_context(place)
            states[number] = detached(states[number])
            out, states[number], raw, dropped = net(words[:-1], states[number])
            found.append(cross(out.reshape((-3, -1)), words[1:].reshape((-1,))).mean())
            found[-1] = found[-1] + one(*dropped).mean() + two(*raw).mean() if dropped else found[-1]
        return found

    def clip(_, step):
        for place in places:
            gradients = [p.grad(place) for p in net.collect_params().values()]
            mx.gluon.utils.clip_global_norm(gradients, 0.25)

    return training.fit(net, loss, change=clip, **options)


def awd(mode, **options):
    def case():
        net = train_models.AWDRNN(
            mode, 20, 8, 8, 2, tie_weights=True, dropout=0, weight_drop=0, drop_h=0, drop_i=0, drop_e=0
        )
        return language_model(net, learning_rate=3, wd=1.2e-3, **options)

    return case


def standard(mode, **options):
    return lambda: language_model(train_models.StandardRNN(mode, 20, 8, 12, 2, dropout=0), learning_rate=2, **options)


def awd_with_dropout():
    """All kinds of dropout. The numbers that are drawn differ, so only shapes and the loss's decrease are compared."""
    mx.random.seed(1)
    net = train_models.AWDRNN(
        "lstm", 20, 16, 16, 2, tie_weights=True, dropout=0.1, weight_drop=0.1, drop_h=0.1, drop_i=0.1, drop_e=0.1
    )
    net.initialize(mx.init.Xavier())
    states = [net.begin_state(batch_size=3, func=mx.nd.zeros)]
    words, cross = ids(9, 3, below=20), CrossEntropy()

    def loss(step):
        states[0] = detached(states[0])
        out, states[0], raw, dropped = net(words[:-1], states[0])
        regular = ActivationRegularizationLoss(2)(*dropped) + TemporalActivationRegularizationLoss(1)(*raw)
        return cross(out.reshape((-3, -1)), words[1:].reshape((-1,))).mean() + regular.mean()

    losses, *parameters = training.fit(net, loss, "adam", steps=25, learning_rate=0.03)["outputs"]
    return {
        "decrease": str(losses[-1][0] < 0.8 * losses[0][0]),
        "shapes": str([p[0].shape if isinstance(p, list) else p.shape for p in parameters]),
    }


def sampled(classes=30, chosen=6):
    """Candidates, how often each is expected, and how often the labels are."""
    random = np.random.RandomState(3)
    candidates = mx.nd.array(random.choice(classes, chosen, replace=False))
    return [candidates, mx.nd.array(random.uniform(0.1, 1, chosen)), mx.nd.array(random.uniform(0.1, 1, 5))]


def sampled_loss(kind, loss_class, optimizer="sgd", hybridize=False, **options):
    def case():
        with mx.name.Prefix("sampled_"):
            net = kind(30, 6, 8, **options)
        dense = mx.gluon.nn.Dense(8, in_units=4)
        every = mx.gluon.ParameterDict()
        for number, block in enumerate((dense, net)):
            block.initialize()
            for p in block.collect_params().values():
                rows = mx.nd.array(np.random.RandomState(number + len(p.shape)).uniform(-1, 1, p.shape) * 0.3)
                p.set_data(rows.tostype(p._stype))
            every.update(block.collect_params())
        if hybridize:
            net.hybridize()
        found = loss_class()

        def loss(step):
            labels = ids(5, below=30, number=step)
            scores, targets = net(dense(cases.ramp(5, 4, number=step)), sampled(), labels)
            return found(scores, targets)

        return training.fit(every, loss, optimizer, size=5, learning_rate=0.3)

    return case


def big_rnn(sparse, optimizer):
    """The large language model: projected LSTM, sampled softmax, tables with gradients of some rows."""

    def case():
        net = train_models.BigRNN(30, 8, 12, 1, 8, 6, sparse_weight=sparse, sparse_grad=True)
        net.initialize()
        for number, p in enumerate(net.collect_params().values()):
            shape = [8 if extent == 0 else extent for extent in p.shape]
            values = np.random.RandomState(number).uniform(-0.5, 0.5, shape)
            p.set_data(mx.nd.array(values).tostype(p._stype))
        # hybridized, MXNet ends the process
        cross, states = CrossEntropy(), [net.begin_state(batch_size=1, func=mx.nd.zeros)]

        def loss(step):
            words = ids(6, 1, below=30, number=step)
            states[0] = detached(states[0])
            out, states[0], targets = net(words[:-1], words[1:], states[0], sampled())
            return cross(out.reshape((-3, -1)), targets.reshape((-1,)))

        return training.fit(net, loss, optimizer, size=5, learning_rate=0.2)

    return case


NO_GRADIENT = "key_bias$"
"""The bias of keys does not change attention: its gradient is rounding noise, which such optimizers enlarge."""


def bert_encoder(**options):
    return bert.BERTEncoder(num_layers=2, units=16, hidden_size=32, max_length=24, num_heads=4, dropout=0, **options)


def bert_inputs(step=0):
    return ids(4, 12, number=step), mx.nd.array((np.arange(48).reshape(4, 12) // 6) % 2), mx.nd.array([12, 7, 9, 3])


def bert_net(**options):
    return bert.BERTModel(bert_encoder(), 20, 2, 16, 16, **options)


def bert_classifier(optimizer="bertadam", hybridize=True, **options):
    """Fine-tuning: warm-up, no decay of biases and scales, clipped gradients, weights that are not trained."""

    def case():
        net = bert.BERTClassifier(bert_net(use_decoder=False, use_classifier=False), 3, dropout=0)
        net.initialize()
        net(*bert_inputs())
        cases.fill(net)
        for _, p in net.collect_params(".*beta|.*gamma|.*bias").items():
            p.wd_mult = 0.0
        net.collect_params(".*position.*").setattr("grad_req", "null")
        if hybridize:
            net.hybridize(static_alloc=True)
        cross = CrossEntropy()
        cross.hybridize()
        trained = [p for p in net.collect_params().values() if p.grad_req != "null"]

        def loss(step):
            return cross(net(*bert_inputs(step)), ids(4, below=3, number=step)).mean()

        def clip(trainer, step):
            trainer.set_learning_rate(1e-3 * (step + 1) / 4)
            nlp.utils.clip_grad_global_norm(trained, 1)

        # of biases before a softmax the gradient is rounding alone, which Adam's division would enlarge
        return training.fit(net, loss, optimizer, change=clip, epsilon=1e-4, wd=0.01, skip=NO_GRADIENT, **options)

    return case


def bert_accumulated():
    """Gradients of two batches are added before an update."""
    net = bert.BERTClassifier(bert_net(use_decoder=False, use_classifier=False), 3, dropout=0)
    net.initialize()
    net(*bert_inputs())
    cases.fill(net)
    parameters, cross = net.collect_params(), CrossEntropy()
    parameters.setattr("grad_req", "add")
    trainer = mx.gluon.Trainer(parameters, "sgd", {"learning_rate": 0.05, "momentum": 0.9}, update_on_kvstore=False)
    losses = []
    for step in range(6):
        with mx.autograd.record():
            found = cross(net(*bert_inputs(step)), ids(4, below=3, number=step)).mean()
        found.backward()
        losses.append(found.asscalar())
        if step % 2:
            trainer.allreduce_grads()
            norm = nlp.utils.clip_grad_global_norm(list(parameters.values()), 1)
            losses.append(norm.asscalar())
            trainer.update(2)
            parameters.zero_grad()
    return [losses, training.values(parameters)]


def bert_pretraining():
    """The losses of masked words and of next sentences, with LAMB."""
    net = bert_net(use_decoder=True, use_classifier=True)
    net.initialize()
    places = mx.nd.array([[1, 3], [2, 5], [0, 4], [1, 2]])
    net(*bert_inputs(), places)
    cases.fill(net)
    net.hybridize(static_alloc=True)
    cross = CrossEntropy()

    def loss(step):
        _, _, following, words = net(*bert_inputs(step), places)
        labels, weights = ids(4, 2, below=20, number=step), mx.nd.array([[1, 1], [1, 0], [1, 1], [0, 0]])
        masked = cross(words.reshape((-3, -1)), labels.reshape((-1,)), weights.reshape((-1, 1)))
        return masked.sum() / (weights.sum() + 1e-8) + cross(following, ids(4, below=2, number=step)).mean()

    return training.fit(net, loss, "lamb", learning_rate=0.01, epsilon=1e-4, wd=0.01, skip=NO_GRADIENT)


def translation(smoothing=True, share=False, **options):
    def case():
        words = "the quick brown fox jumps over the lazy dog and the fox sleeps".split()
        vocab = nlp.Vocab(nlp.data.count_tokens(words))
        encoder, decoder, one_step = transformer.get_transformer_encoder_decoder(
            num_layers=2, units=16, hidden_size=32, num_heads=4, max_src_length=20, max_tgt_length=20, dropout=0
        )
        net = nlp.model.translation.NMTModel(
            vocab, vocab, encoder, decoder, one_step, embed_size=16, share_embed=share, tie_weights=share
        )
        net.initialize()
        lengths, target_lengths, size = mx.nd.array([6, 4, 5]), mx.nd.array([5, 3, 4]), len(vocab)
        net(ids(3, 6, below=size), ids(3, 5, below=size), lengths, target_lengths)
        cases.fill(net)
        net.hybridize(static_alloc=True)
        smooth = nlp.loss.LabelSmoothing(epsilon=0.1, units=size)
        masked = nlp.loss.MaskedSoftmaxCELoss(sparse_label=not smoothing)
        smooth.hybridize()
        masked.hybridize()

        def loss(step):
            source, target = ids(3, 6, below=size, number=step), ids(3, 6, below=size, number=step + 9)
            scores, _ = net(source, target[:, :-1], lengths, target_lengths)
            labels = smooth(target[:, 1:]) if smoothing else target[:, 1:]
            return masked(scores, labels, target_lengths).sum() / target_lengths.sum()

        return training.fit(net, loss, "adam", learning_rate=1e-3, beta2=0.98, epsilon=1e-4, **options)

    return case


def skip_gram(subwords, sparse):
    """Word vectors by negative sampling: centres, contexts, and drawn words that are no context."""

    def case():
        tokens = {word: number for number, word in enumerate("abcdefghijklmnop")}
        if subwords:
            function = nlp.vocab.create_subword_function("NGramHashes", num_subwords=25)
            centre = train_models.FasttextEmbeddingModel(tokens, function, 6, sparse_grad=sparse)
        else:
            centre = train_models.CSREmbeddingModel(tokens, 6, sparse_grad=sparse)
        context = mx.gluon.nn.Embedding(len(tokens), 6, sparse_grad=sparse)
        every = mx.gluon.ParameterDict()
        for block in (centre, context):
            block.initialize()
            cases.fill(block)
            every.update(block.collect_params())
        columns = every[list(every.keys())[0]].shape[0]
        binary = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()

        def loss(step):
            random = np.random.RandomState(step)
            dense = (random.rand(8, columns) < 0.2) * 0.5
            dense[:, 0] = 1
            one = centre(mx.nd.array(dense).tostype("csr")).expand_dims(1)
            other = context(ids(8, 4, below=16, number=step))
            scores = mx.nd.batch_dot(one, other.swapaxes(1, 2)).reshape((8, 4))
            weights = mx.nd.array(random.rand(8, 4) < 0.8)
            return binary(scores, mx.nd.one_hot(mx.nd.zeros(8), 4), weights)

        return training.fit(every, loss, "adagrad", size=8, learning_rate=0.1)

    return case


def textual_network():
    """Words through a convolutional encoder to classes, with a schedule of rates."""
    net = mx.gluon.nn.HybridSequential()
    net.add(
        mx.gluon.nn.Embedding(20, 6),
        mx.gluon.nn.HybridLambda(lambda F, x: F.transpose(x, (1, 0, 2))),
        nlp.model.ConvolutionalEncoder(6, num_filters=(3, 4), ngram_filter_sizes=(2, 3), num_highway=2, output_size=5),
        mx.gluon.nn.Dense(3),
    )
    net.initialize()
    net(ids(4, 7))
    cases.fill(net)
    net.hybridize()
    cross = CrossEntropy()
    schedule = mx.lr_scheduler.PolyScheduler(5, 0.02, pwr=2, warmup_steps=2)
    return training.fit(
        net,
        lambda step: cross(net(ids(4, 7, below=20, number=step)), ids(4, below=3, number=step)),
        "adam",
        size=4,
        epsilon=1e-4,
        lr_scheduler=schedule,
    )


def elmo_like():
    """A bidirectional encoder with projections and clipped cells."""
    net = nlp.model.BiLMEncoder("lstmpc", 2, 8, 12, proj_size=8, cell_clip=3, proj_clip=3, skip_connection=True)
    net.initialize()
    states = net.begin_state(mx.nd.zeros, batch_size=2)
    net(cases.ramp(5, 2, 8), states)
    cases.fill(net)
    l2 = mx.gluon.loss.L2Loss()

    def loss(step):
        out, _ = net(cases.ramp(5, 2, 8, number=step), net.begin_state(mx.nd.zeros, batch_size=2))
        return l2(out, cases.ramp(*out.shape, number=step + 5))

    return training.fit(net, loss, "nag", momentum=0.9)


def parallel():
    """Threads that compute gradients of their parts."""
    net = mx.gluon.nn.Dense(3, in_units=4)
    places = [mx.cpu(0), mx.cpu(1)]
    net.initialize(ctx=places)
    cases.fill(net)
    cross = CrossEntropy()

    class Part(nlp.utils.Parallelizable):
        def forward_backward(self, part):
            x, y = part
            with mx.autograd.record():
                found = cross(net(x), y)
            found.backward()
            return found

    runner, losses = nlp.utils.Parallel(2, Part()), []
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5}, update_on_kvstore=False)
    for step in range(4):
        xs = mx.gluon.utils.split_and_load(cases.ramp(6, 4, number=step), places)
        ys = mx.gluon.utils.split_and_load(ids(6, below=3, number=step), places)
        for part in zip(xs, ys):
            runner.put(part)
        losses.append(sum(float(runner.get().sum().asscalar()) for _ in places))
        trainer.allreduce_grads()
        losses.append(nlp.utils.clip_grad_global_norm(list(net.collect_params().values()), 1).asscalar())
        trainer.update(6)
    return [losses, training.values(net.collect_params())]


SparseIS, SparseNCE = sampled_block.SparseISDense, sampled_block.SparseNCEDense
Binary = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss
CASES = {
    "awd lstm": awd("lstm"),
    "awd gru, eager": awd("gru", hybridize=False),
    "awd lstm on two contexts": awd("lstm", contexts=2),
    "awd lstm with dropout": awd_with_dropout,
    "standard lstm": standard("lstm"),
    "standard rnn": standard("rnn_tanh", optimizer="nag", momentum=0.9),
    "sampled softmax": sampled_loss(sampled_block.ISDense, CrossEntropy),
    "sampled softmax without accidental hits": sampled_loss(
        sampled_block.ISDense, CrossEntropy, "adagrad", remove_accidental_hits=True
    ),
    "sampled softmax, dense": sampled_loss(sampled_block.ISDense, CrossEntropy, "adam", sparse_grad=False),
    "sampled softmax, sparse weights": sampled_loss(SparseIS, CrossEntropy, "adagrad"),
    "noise contrastive": sampled_loss(sampled_block.NCEDense, Binary, hybridize=True),
    "noise contrastive, sparse weights": sampled_loss(SparseNCE, Binary),
    "big rnn": big_rnn(False, "adagrad"),
    "big rnn, sparse weights": big_rnn(True, "adagrad"),
    "bert classifier": bert_classifier(),
    "bert classifier, eager": bert_classifier(hybridize=False),
    "bert classifier, lamb": bert_classifier("lamb"),
    "bert with accumulated gradients": bert_accumulated,
    "bert pretraining": bert_pretraining,
    "translation": translation(),
    "translation, hard labels": translation(False),
    "translation, shared tables": translation(share=True),
    "skip-gram": skip_gram(False, True),
    "skip-gram of subwords": skip_gram(True, True),
    "skip-gram, dense": skip_gram(False, False),
    "convolutional encoder": textual_network,
    "bidirectional encoder": elmo_like,
    "parallel": parallel,
}

if __name__ == "__main__":
    cases.run(CASES)
