"""gluonnlp 0.10: BERT and its kin, transformers with beam search, language models, ELMo, attention cells, data."""

import os
import tempfile

import cases
import gluonnlp as nlp
import mxnet as mx
import numpy as np
from gluonnlp import model as models
from gluonnlp.model import attention_cell, bert, transformer
from gluonnlp.model import train as train_models
from gluonnlp.model.block import GELU, L2Normalization

WORDS = "the quick brown fox jumps over the lazy dog and the fox sleeps".split()


def vocabulary(**options):
    return nlp.Vocab(nlp.data.count_tokens(WORDS), **options)


def ids(*shape, below=13):
    return mx.nd.array(np.arange(int(np.prod(shape))).reshape(shape) * 5 % below)


def filled(block, *inputs):
    block.initialize()
    first = block(*inputs)
    cases.fill(block)
    del first
    return block


def bert_encoder(**options):
    return bert.BERTEncoder(num_layers=3, units=32, hidden_size=64, max_length=24, num_heads=4, dropout=0.1, **options)


def bert_inputs():
    return ids(2, 12), mx.nd.array((np.arange(24).reshape(2, 12) // 6) % 2), mx.nd.array([12, 7])


def both_ways(block, *inputs):
    """The results of the block as it is and hybridized: two lists in a row."""
    plain = block(*inputs)
    block.hybridize(static_alloc=True)
    return [plain, block(*inputs)]


def bert_model():
    net = bert.BERTModel(bert_encoder(), vocab_size=20, token_type_vocab_size=2, units=32, embed_size=32)
    inputs = (*bert_inputs(), mx.nd.array([[1, 3], [2, 5]]))
    filled(net, *inputs)
    return {"names": cases.names(net), "outputs": both_ways(net, *inputs)}


def bert_all_encodings():
    encoder = bert_encoder(output_attention=True, output_all_encodings=True)
    net = bert.BERTModel(encoder, 20, 2, 32, 32, use_decoder=False, use_classifier=False)
    return both_ways(filled(net, *bert_inputs()), *bert_inputs())


def bert_classifier():
    base = bert.BERTModel(bert_encoder(), 20, 2, 32, 32, use_decoder=False, use_classifier=False)
    net = bert.BERTClassifier(base, num_classes=3, dropout=0.1)
    return both_ways(filled(net, *bert_inputs()), *bert_inputs())


def bert_base():
    net, _ = models.get_model(
        "bert_12_768_12",
        dataset_name=None,
        vocab=vocabulary(),
        pretrained=False,
        use_decoder=False,
        use_classifier=False,
    )
    inputs = ids(1, 128), mx.nd.zeros((1, 128)), mx.nd.array([100])
    net.hybridize()
    return {"names": cases.names(filled(net, *inputs)), "outputs": net(*inputs)}


def roberta():
    net = bert.RoBERTaModel(bert_encoder(activation="gelu"), vocab_size=20, units=32, embed_size=32)
    inputs = ids(2, 12), mx.nd.array([12, 7]), mx.nd.array([[1, 3], [2, 5]])
    return both_ways(filled(net, *inputs), *inputs)


def distilbert():
    net = bert.DistilBERTModel(bert_encoder(), vocab_size=20, units=32, embed_size=32)
    inputs = ids(2, 12), mx.nd.array([12, 7])
    return both_ways(filled(net, *inputs), *inputs)


def bert_saved():
    """Parameters saved, loaded into another network, and a network exported and imported as symbol."""
    net = bert.BERTClassifier(bert.BERTModel(bert_encoder(), 20, 2, 32, 32, use_decoder=False, use_classifier=False))
    filled(net, *bert_inputs())
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "bert.params")
        net.save_parameters(file)
        other = bert.BERTClassifier(
            bert.BERTModel(bert_encoder(), 20, 2, 32, 32, use_decoder=False, use_classifier=False)
        )
        other.load_parameters(file)
        other.hybridize(static_alloc=True)
        first = other(*bert_inputs())
        other.export(os.path.join(folder, "net"))
        names = ["data0", "data1", "data2"]
        block = mx.gluon.SymbolBlock.imports(
            os.path.join(folder, "net-symbol.json"), names, os.path.join(folder, "net-0000.params")
        )
        return [net(*bert_inputs()), first, block(*bert_inputs())]


def encoder_decoder():
    parts = transformer.get_transformer_encoder_decoder(
        num_layers=2, units=16, hidden_size=32, num_heads=4, max_src_length=20, max_tgt_length=20, dropout=0.1
    )
    encoder, decoder, one_step = parts
    return encoder, decoder, one_step


def transformer_layers():
    encoder, decoder, _ = encoder_decoder()
    source, target, lengths = cases.ramp(2, 5, 16), cases.ramp(2, 4, 16, number=1), mx.nd.array([5, 3])
    encoder.initialize(), decoder.initialize()
    encoder(source, None, lengths)
    cases.fill(encoder)
    memory, attention = encoder(source, None, lengths)
    states = decoder.init_state_from_encoder(memory, lengths)
    decoder(target, states, mx.nd.array([4, 2]))
    cases.fill(decoder)
    output, *rest = decoder(target, states, mx.nd.array([4, 2]))
    return [memory, output]


def translate(sampler_class):
    source, target = vocabulary(), vocabulary()
    encoder, decoder, one_step = encoder_decoder()
    net = nlp.model.translation.NMTModel(source, target, encoder, decoder, one_step, embed_size=16, share_embed=False)
    net.initialize()
    words, lengths = ids(2, 6), mx.nd.array([6, 4])
    net(words, ids(2, 5), lengths, mx.nd.array([5, 5]))
    cases.fill(net)
    outputs, _ = net.encode(words, valid_length=lengths)
    states = net.decoder.init_state_from_encoder(outputs, lengths)
    scores = net(words, ids(2, 5), lengths, mx.nd.array([5, 5]))[0]
    first = mx.nd.full((2,), target[target.bos_token])
    scorer = nlp.model.BeamSearchScorer(alpha=0.6, K=5)
    end = target[target.eos_token]

    def decode(word, states):
        scores, states, _ = net.decode_step(word, states)
        return mx.nd.log_softmax(scores), states

    sampler = sampler_class(beam_size=3, decoder=decode, eos_id=end, scorer=scorer, max_length=8)
    return [scores, *sampler(first, states)]


def beam_search():
    return translate(nlp.model.BeamSearchSampler)


def hybrid_beam_search():
    """The sampler that is a loop of MXNet's control flow."""
    dense = mx.gluon.nn.Dense(13, in_units=8, flatten=False)

    class Decoder(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.embed, self.dense, self._vocab_size = mx.gluon.nn.Embedding(13, 8), dense, 13

        def hybrid_forward(self, F, word, state):
            state = F.tanh(state + self.embed(word))
            return F.log_softmax(self.dense(state)), state

    decoder = Decoder()
    decoder.initialize()
    decoder(ids(2), cases.ramp(2, 8))
    cases.fill(decoder)
    sampler = nlp.model.HybridBeamSearchSampler(2, 3, decoder, 3, max_length=6)
    return list(sampler(ids(2).astype("int32"), cases.ramp(2, 8)))


def language_model(net, layers_of_state=None):
    net.initialize()
    words = ids(5, 3)
    states = net.begin_state(batch_size=3, func=mx.nd.zeros)
    net(words, states)
    cases.fill(net)
    output, states = net(words, states)
    second, states = net(ids(4, 3), states)
    return {"names": cases.names(net), "outputs": [output, second, states]}


def awd(mode):
    return lambda: language_model(
        nlp.model.language_model.AWDRNN(
            mode, 20, 8, 8, 2, tie_weights=True, dropout=0.1, weight_drop=0.5, drop_h=0.1, drop_i=0.1, drop_e=0.1
        )
    )


def standard(mode):
    return lambda: language_model(
        nlp.model.language_model.StandardRNN(mode, 20, 8, 12, 2, dropout=0.2, tie_weights=False)
    )


def big_rnn():
    return language_model(nlp.model.language_model.BigRNN(20, 8, 16, 2, 8, embed_dropout=0.1, encode_dropout=0.1))


def awd_with_states():
    """The training form of the model in inference: outputs of every layer."""
    net = train_models.AWDRNN("lstm", 20, 8, 8, 2, dropout=0.1, weight_drop=0.1)
    net.initialize()
    states = net.begin_state(batch_size=3, func=mx.nd.zeros)
    net(ids(5, 3), states)
    cases.fill(net)
    return list(net(ids(5, 3), states))


def cache():
    base = nlp.model.language_model.AWDRNN(
        "lstm", 20, 8, 8, 2, tie_weights=True, dropout=0, weight_drop=0, drop_h=0, drop_i=0, drop_e=0
    )
    base.initialize()
    base(ids(5, 1), base.begin_state(batch_size=1, func=mx.nd.zeros))
    cases.fill(base)
    net = train_models.CacheCell(base, 20, window=2, theta=0.6, lambdas=0.2)
    states = net.begin_state(batch_size=1, func=mx.nd.zeros)
    return list(net(ids(5, 1), ids(5, 1), None, None, states))


def elmo():
    net = models.ELMoBiLM(
        rnn_type="lstmpc",
        output_size=8,
        filters=[[1, 2], [2, 3], [3, 4]],
        char_embed_size=4,
        char_vocab_size=262,
        num_highway=1,
        conv_layer_activation="relu",
        max_chars_per_token=50,
        input_size=8,
        hidden_size=16,
        proj_size=8,
        num_layers=2,
        cell_clip=3,
        proj_clip=3,
        skip_connection=True,
    )
    vocab = nlp.vocab.ELMoCharVocab()
    sentence = mx.nd.array([vocab[["hello", "world", "foo"]], vocab[["a", "b", "cc"]]])
    mask = mx.nd.array([[1, 1, 1], [1, 1, 0]])
    net.initialize()
    states = net.begin_state(mx.nd.zeros, batch_size=2)
    net(sentence, states, mask)
    cases.fill(net)
    return list(net(sentence, net.begin_state(mx.nd.zeros, batch_size=2), mask))


def bidirectional():
    net = models.BiLMEncoder("lstm", 2, 8, 12, skip_connection=False)
    net.initialize()
    states = net.begin_state(mx.nd.zeros, batch_size=2)
    net(cases.ramp(5, 2, 8), states)
    cases.fill(net)
    return list(net(cases.ramp(5, 2, 8), net.begin_state(mx.nd.zeros, batch_size=2)))


def convolutional():
    net = models.ConvolutionalEncoder(
        embed_size=6, num_filters=(3, 4), ngram_filter_sizes=(2, 3), num_highway=2, output_size=5
    )
    return both_ways(filled(net, cases.ramp(7, 2, 6)), cases.ramp(7, 2, 6))


def small_blocks():
    highway = filled(models.Highway(6, 2), cases.ramp(3, 6))
    return [
        highway(cases.ramp(3, 6)),
        GELU()(cases.ramp(3, 6)),
        GELU("tanh")(cases.ramp(3, 6)),
        L2Normalization()(cases.ramp(3, 6)),
    ]


def attention():
    query, key, value = cases.ramp(2, 3, 8), cases.ramp(2, 5, 8, number=1), cases.ramp(2, 5, 6, number=2)
    mask = mx.nd.array(np.arange(30).reshape(2, 3, 5) % 4 != 0)
    cells = [
        attention_cell.MLPAttentionCell(units=7, normalized=True),
        attention_cell.DotProductAttentionCell(units=7, scaled=True),
        attention_cell.DotProductAttentionCell(
            units=8, luong_style=True, scaled=False, normalized=True, use_bias=False
        ),
        attention_cell.MultiHeadAttentionCell(
            attention_cell.DotProductAttentionCell(scaled=True), 8, 8, 8, num_heads=4
        ),
    ]
    return [both_ways(filled(cell, query, key, value, mask), query, key, value, mask) for cell in cells]


def losses():
    masked = nlp.loss.MaskedSoftmaxCrossEntropyLoss()(cases.ramp(2, 4, 6), ids(2, 4, below=6), mx.nd.array([4, 2]))
    smooth = nlp.loss.LabelSmoothing(units=6)(ids(2, 4, below=6))
    activation = nlp.loss.ActivationRegularizationLoss(2)(cases.ramp(3, 4, 5))
    temporal = nlp.loss.TemporalActivationRegularizationLoss(2)(cases.ramp(3, 4, 5))
    return [masked, smooth, activation, temporal]


def metrics():
    metric = nlp.metric.MaskedAccuracy(axis=2)
    metric.update([ids(2, 4, below=3)], [cases.ramp(2, 4, 3)], [mx.nd.array([[1, 1, 1, 0], [1, 0, 0, 0]])])
    return {"accuracy": float(metric.get()[1])}


def vocabularies():
    vocab = vocabulary(max_size=6, reserved_tokens=["<special>"])
    words = nlp.vocab.BERTVocab(nlp.data.count_tokens(WORDS))
    again = nlp.Vocab.from_json(vocab.to_json())
    embedding = nlp.embedding.TokenEmbedding(unknown_token="<unk>")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "vectors.txt")
        with open(file, "w") as out:
            for number, word in enumerate(sorted(set(WORDS))):
                print(word, *(np.sin(np.arange(4) + number).round(4)), file=out)
        embedding = nlp.embedding.TokenEmbedding.from_file(file)
        embedding.serialize(os.path.join(folder, "vectors.npz"))
        read = nlp.embedding.TokenEmbedding.deserialize(os.path.join(folder, "vectors.npz"))
    vocab.set_embedding(embedding)
    embedding["fox"] = mx.nd.array([1, 2, 3, 4])
    return {
        "words": str(vocab.idx_to_token) + str(words.idx_to_token[:8]) + str(again.to_indices(["fox", "cow"])),
        "vectors": [vocab.embedding.idx_to_vec, embedding[["fox", "dog", "cow"]], read.idx_to_vec],
    }


def batches():
    pad = nlp.data.batchify.Pad(axis=0, pad_val=0, ret_length=True)
    combine = nlp.data.batchify.Tuple(pad, nlp.data.batchify.Stack("float32"), nlp.data.batchify.List())
    first = combine([([1, 2], 3, "a"), ([4], 5, "b"), ([6, 7, 8], 9, "c")])
    named = nlp.data.batchify.Dict({"x": nlp.data.batchify.Pad(pad_val=-1, round_to=4), "y": nlp.data.batchify.Stack()})
    second = named([{"x": [1, 2, 3, 4, 5], "y": 1}, {"x": [1], "y": 2}])
    lengths = [len(word) * 3 for word in WORDS]
    samplers = [
        nlp.data.FixedBucketSampler(lengths, 4, num_buckets=3, ratio=0.5, shuffle=False, bucket_scheme=scheme)
        for scheme in (nlp.data.ConstWidthBucket(), nlp.data.LinearWidthBucket(), nlp.data.ExpWidthBucket())
    ]
    samplers += [
        nlp.data.SortedSampler(lengths),
        nlp.data.SortedBucketSampler(lengths, 4),
        nlp.data.SplitSampler(9, 3, 1, shuffle=False),
    ]
    stats = "".join(str(list(sampler)) for sampler in samplers)
    corpus = mx.gluon.data.SimpleDataset(WORDS * 3)
    vocab = vocabulary()
    bptt = nlp.data.batchify.CorpusBPTTBatchify(vocab, seq_len=4, batch_size=2, last_batch="keep")(corpus)
    windows = [batch for batch in bptt]
    loader = mx.gluon.data.DataLoader(
        mx.gluon.data.SimpleDataset([([1, 2], 3.0), ([4], 5.0), ([6, 7, 8], 9.0)]),
        batch_size=2,
        batchify_fn=nlp.data.batchify.Tuple(nlp.data.batchify.Pad(pad_val=0), nlp.data.batchify.Stack()),
    )
    return {
        "stats": stats,
        "texts": str(first[2]),
        "arrays": [first[:2], [second["x"], second["y"]], windows, list(loader)],
    }


def candidates():
    net = nlp.data.UnigramCandidateSampler(mx.nd.array([1, 2, 0, 4, 0.5]))
    net.initialize()
    drawn = net(mx.nd.zeros((200,)))
    return {"shape": str(drawn.shape), "range": str(sorted(set(drawn.asnumpy().astype(int).tolist())))}


def tokens():
    vocab = nlp.vocab.BERTVocab(nlp.data.count_tokens(["un", "##aff", "##able", "the", "fox", ","]))
    tokenizer = nlp.data.BERTTokenizer(vocab)
    transform = nlp.data.BERTSentenceTransform(tokenizer, 16, pair=True)
    return {"tokens": str(tokenizer("the Unaffable, fox")), "arrays": list(transform(("the fox", "unaffable")))}


CASES = {
    "bert": bert_model,
    "bert with all encodings": bert_all_encodings,
    "bert classifier": bert_classifier,
    "bert base, 128 words": bert_base,
    "roberta": roberta,
    "distilbert": distilbert,
    "bert saved and exported": bert_saved,
    "transformer": transformer_layers,
    "translation by beam search": beam_search,
    "beam search as a loop": hybrid_beam_search,
    "awd lstm": awd("lstm"),
    "awd gru": awd("gru"),
    "standard lstm": standard("lstm"),
    "standard gru": standard("gru"),
    "standard rnn": standard("rnn_tanh"),
    "big rnn": big_rnn,
    "awd with states": awd_with_states,
    "cache": cache,
    "elmo": elmo,
    "bidirectional encoder": bidirectional,
    "convolutional encoder": convolutional,
    "highway, gelu": small_blocks,
    "attention cells": attention,
    "losses": losses,
    "metrics": metrics,
    "vocabularies and embeddings": vocabularies,
    "batches and samplers": batches,
    "candidate sampler": candidates,
    "tokens": tokens,
}

if __name__ == "__main__":
    cases.run(CASES)
