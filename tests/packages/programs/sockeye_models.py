"""sockeye 2.3: transformers that score and translate by beam search."""

import os
import tempfile

import cases
import mxnet as mx
from sockeye import beam_search, constants, data_io, encoder, inference, model, transformer, vocab

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def transformer_config(decoder):
    return transformer.TransformerConfig(
        model_size=16,
        attention_heads=4,
        feed_forward_num_hidden=32,
        act_type="relu",
        num_layers=2,
        dropout_attention=0.0,
        dropout_act=0.0,
        dropout_prepost=0.0,
        positional_embedding_type="fixed",
        preprocess_sequence="n",
        postprocess_sequence="dr",
        max_seq_len_source=30,
        max_seq_len_target=30,
        decoder_type=decoder,
        use_lhuc=False,
    )


def translator_model(decoder):
    statistics = data_io.DataStatistics(
        num_sents=10,
        num_discarded=0,
        num_tokens_source=50,
        num_tokens_target=50,
        num_unks_source=0,
        num_unks_target=0,
        max_observed_len_source=30,
        max_observed_len_target=30,
        size_vocab_source=14,
        size_vocab_target=14,
        length_ratio_mean=1.0,
        length_ratio_std=0.5,
        buckets=[(30, 30)],
        num_sents_per_bucket=[10],
        average_len_target_per_bucket=[10.0],
        length_ratio_stats_per_bucket=[(1.0, 0.5)],
    )
    data = data_io.DataConfig(statistics, 30, 30, 1, 1)
    size = len(WORDS) + len(constants.VOCAB_SYMBOLS)
    config = model.ModelConfig(
        config_data=data,
        vocab_source_size=size,
        vocab_target_size=size,
        config_embed_source=encoder.EmbeddingConfig(size, 16, 0.0),
        config_embed_target=encoder.EmbeddingConfig(size, 16, 0.0),
        config_encoder=transformer_config(constants.TRANSFORMER_TYPE),
        config_decoder=transformer_config(decoder),
        weight_tying_type="none",
    )
    net = model.SockeyeModel(config, inference_only=True)
    net.initialize(mx.init.Zero())
    return net


def vocabulary():
    return vocab.build_vocab([" ".join(WORDS)])


def scores(decoder, hybridize):
    def case():
        net = translator_model(decoder)
        source = mx.nd.array([[[4], [5], [6], [7], [3]], [[8], [9], [3], [0], [0]]])
        target = mx.nd.array([[[2], [5], [7], [9]], [[2], [4], [6], [0]]])
        inputs = source, mx.nd.array([5, 3]), target, mx.nd.array([4, 3])
        if hybridize:
            net.hybridize(static_alloc=True)
        net(*inputs)
        cases.fill(net)
        result = net(*inputs)
        return {"names": cases.names(net), "outputs": [array for _, array in sorted(result.items())]}

    return case


def translations(decoder, **options):
    """Beams of a translator, from a model that was saved and loaded."""

    def case():
        net = translator_model(decoder)
        source, target = mx.nd.array([[[4], [3]]]), mx.nd.array([[[2], [5]]])
        net(source, mx.nd.array([2]), target, mx.nd.array([2]))
        cases.fill(net)
        words = vocabulary()
        with tempfile.TemporaryDirectory() as folder:
            net.save_config(folder)
            net.save_version(folder)
            net.save_parameters(os.path.join(folder, constants.PARAMS_BEST_NAME))
            vocab.save_source_vocabs([words], folder)
            vocab.save_target_vocabs([words], folder)
            loaded, sources, targets = model.load_model(
                folder, inference_only=True, hybridize=options.pop("hybridize", True)
            )
        translator = inference.Translator(
            context=mx.cpu(),
            ensemble_mode="linear",
            scorer=beam_search.CandidateScorer(
                length_penalty_alpha=1.0, length_penalty_beta=0.0, brevity_penalty_weight=0.0
            ),
            batch_size=options.pop("batch_size", 2),
            beam_search_stop=constants.BEAM_SEARCH_STOP_ALL,
            models=[loaded],
            source_vocabs=sources,
            target_vocabs=targets,
            output_scores=True,
            max_output_length=9,
            **options,
        )
        texts = ["one two three", "five four", "six seven eight nine"]
        found = translator.translate([inference.make_input_from_plain_string(i, text) for i, text in enumerate(texts)])
        texts = [output.translation for output in found]
        return {"texts": str(texts), "outputs": [mx.nd.array([float(output.score) for output in found])]}

    return case


CASES = {
    "scores": scores(constants.TRANSFORMER_TYPE, False),
    "scores, hybridized": scores(constants.TRANSFORMER_TYPE, True),
    "translations": translations(constants.TRANSFORMER_TYPE, beam_size=4),
    "translations, not hybridized": translations(constants.TRANSFORMER_TYPE, beam_size=3, hybridize=False),
    "translations with ssru": translations("ssru_transformer", beam_size=4),
    "greedy translations": translations(
        constants.TRANSFORMER_TYPE, beam_size=1, batch_size=1, greedy=True, constant_length_ratio=-1.0
    ),
}

if __name__ == "__main__":
    cases.run(CASES)
