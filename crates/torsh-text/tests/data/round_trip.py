"""Folders of small models that Hugging Face's library saved, and what its models compute.

    python round_trip.py            writes round_trip.zip (transformers 5.24, PyTorch 2.15)
    python round_trip.py check DIR  loads the folders that the test `round_trip` saved again, and compares

Each case is a folder of the archive: `config.json` and `model.safetensors` as `save_pretrained` wrote them, with what the
case changes in them, and `case.json`: the inputs, the outputs of the model that `from_pretrained` makes of the folder, the
names of its tensors in files and in memory, and the names that are one parameter. Weights are multiples of 1/64, which compress well.
The cases `adapter-*` have an adapter besides, that peft 0.21 saved.
"""

import json
import os
import sys
import tempfile
import zipfile

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = 11
IDS = [[3, 5, 9, 2, 7], [4, 3, 8, 10, 6]]

encoder = dict(
    hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, vocab_size=VOCABULARY,
    max_position_embeddings=16, pad_token_id=0,
)
decoder = dict(encoder, num_key_value_heads=1, bos_token_id=1, eos_token_id=2)
tasks = ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
vision = dict(
    hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, image_size=8, patch_size=4,
)
text_part = dict(encoder, projection_dim=6, bos_token_id=1, eos_token_id=10)
seq2seq = dict(
    d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=12, decoder_ffn_dim=12, vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    decoder_start_token_id=2,
)
t5 = dict(
    d_model=8, d_kv=4, d_ff=12, num_layers=1, num_heads=2, vocab_size=VOCABULARY, relative_attention_num_buckets=8,
    decoder_start_token_id=0,
)
wav2vec2 = dict(
    hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, conv_dim=(8, 8), conv_kernel=(5, 3),
    conv_stride=(3, 2), num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    vocab_size=VOCABULARY, apply_spec_augment=False, mask_time_prob=0.0,
)

# Of each family: the class of its configuration, the settings, its classes, the kind of its inputs.
FAMILIES = [
    ("BertConfig", encoder, ["BertModel"] + ["Bert" + t for t in tasks], "ids"),
    ("DistilBertConfig", dict(dim=8, n_layers=1, n_heads=2, hidden_dim=12, vocab_size=VOCABULARY, max_position_embeddings=16),
     ["DistilBertModel"] + ["DistilBert" + t for t in tasks], "ids"),
    ("RobertaConfig", encoder, ["RobertaModel"] + ["Roberta" + t for t in tasks], "ids"),
    ("XLMRobertaConfig", encoder, ["XLMRobertaModel"] + ["XLMRoberta" + t for t in tasks], "ids"),
    ("AlbertConfig", dict(encoder, embedding_size=6), ["AlbertModel"] + ["Albert" + t for t in tasks], "ids"),
    ("ElectraConfig", dict(encoder, embedding_size=6),
     ["ElectraModel", "ElectraForPreTraining"] + ["Electra" + t for t in tasks], "ids"),
    ("ModernBertConfig", dict(encoder, local_attention=4), ["ModernBertModel"] + ["ModernBert" + t for t in tasks], "ids"),
    ("T5Config", t5, ["T5Model", "T5ForConditionalGeneration"], "both"),
    ("T5Config", t5, ["T5EncoderModel"], "ids"),
    ("BartConfig", dict(seq2seq, max_position_embeddings=16),
     ["BartModel", "BartForConditionalGeneration"], "both"),
    ("BartConfig", dict(seq2seq, max_position_embeddings=16), ["BartForSequenceClassification"], "ended"),
    ("WhisperConfig", dict(seq2seq, num_mel_bins=4, max_source_positions=6, max_target_positions=16),
     ["WhisperModel", "WhisperForConditionalGeneration"], "features"),
    ("LlamaConfig", decoder, ["LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification"], "ids"),
    ("MistralConfig", decoder, ["MistralModel", "MistralForCausalLM", "MistralForSequenceClassification"], "ids"),
    ("MixtralConfig", dict(decoder, num_local_experts=2), ["MixtralModel", "MixtralForCausalLM", "MixtralForSequenceClassification"], "ids"),
    ("Qwen2Config", decoder, ["Qwen2Model", "Qwen2ForCausalLM", "Qwen2ForSequenceClassification"], "ids"),
    ("Qwen3Config", dict(decoder, head_dim=4), ["Qwen3Model", "Qwen3ForCausalLM", "Qwen3ForSequenceClassification"], "ids"),
    ("GemmaConfig", dict(decoder, head_dim=4), ["GemmaModel", "GemmaForCausalLM", "GemmaForSequenceClassification"], "ids"),
    ("Gemma2Config", dict(decoder, head_dim=4), ["Gemma2Model", "Gemma2ForCausalLM", "Gemma2ForSequenceClassification"], "ids"),
    ("Gemma3TextConfig", dict(decoder, head_dim=4), ["Gemma3TextModel", "Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"], "ids"),
    ("Phi3Config", decoder, ["Phi3Model", "Phi3ForCausalLM", "Phi3ForSequenceClassification"], "ids"),
    ("GPT2Config", dict(n_embd=8, n_layer=1, n_head=2, vocab_size=VOCABULARY, n_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2),
     ["GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification"], "ids"),
    ("GPTNeoXConfig", dict(encoder, bos_token_id=1, eos_token_id=2, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
     ["GPTNeoXModel", "GPTNeoXForCausalLM"], "ids"),
    ("OPTConfig", dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=12, vocab_size=VOCABULARY,
                       max_position_embeddings=16, word_embed_proj_dim=6, pad_token_id=1), ["OPTModel", "OPTForCausalLM"], "ids"),
    ("MambaConfig", dict(hidden_size=8, num_hidden_layers=1, state_size=4, vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0),
     ["MambaModel", "MambaForCausalLM"], "ids"),
    ("CLIPConfig", dict(text_config=text_part, vision_config=dict(vision, projection_dim=6), projection_dim=6), ["CLIPModel"], "clip"),
    ("CLIPTextConfig", text_part, ["CLIPTextModel", "CLIPTextModelWithProjection"], "ended"),
    ("CLIPVisionConfig", dict(vision, projection_dim=6), ["CLIPVisionModel", "CLIPVisionModelWithProjection"], "pixels"),
    ("ViTConfig", vision, ["ViTModel", "ViTForImageClassification"], "pixels"),
    ("Dinov2Config", {**{k: v for k, v in vision.items() if k != "intermediate_size"}, "mlp_ratio": 2}, ["Dinov2Model", "Dinov2ForImageClassification"], "pixels"),
    ("Wav2Vec2Config", wav2vec2, ["Wav2Vec2Model", "Wav2Vec2ForCTC"], "sound"),
]

# Another name for what two names hold: of files that other programs wrote.
OTHER_NAMES = {
    "T5ForConditionalGeneration": [
        {"shared.weight": ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]},
        {"shared.weight": ["lm_head.weight"]},
    ],
    "T5Model": [{"shared.weight": ["decoder.embed_tokens.weight"]}],
    "T5EncoderModel": [{"shared.weight": ["encoder.embed_tokens.weight"]}],
    "BartForConditionalGeneration": [{"model.shared.weight": ["lm_head.weight"]},
                                     {"model.shared.weight": ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]}],
    "LlamaForCausalLM": [{"model.embed_tokens.weight": ["lm_head.weight"]}],
    "GPT2LMHeadModel": [{"transformer.wte.weight": ["lm_head.weight"]}],
    "BertForMaskedLM": [{"bert.embeddings.word_embeddings.weight": ["cls.predictions.decoder.weight"],
                         "cls.predictions.bias": ["cls.predictions.decoder.bias"]}],
    "WhisperForConditionalGeneration": [{"model.decoder.embed_tokens.weight": ["proj_out.weight"]}],
}


def numbers(shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 64).round() / 64


def inputs_of(kind):
    ids = torch.tensor(IDS)
    if kind == "ids":
        return dict(input_ids=ids)
    if kind == "ended":
        ids = ids.clone()
        # The token that ends a text: of CLIP 10, of BART 2, each once in a text.
        return dict(input_ids=torch.tensor([[3, 10, 5, 9, 2], [4, 3, 10, 8, 2]]))
    if kind == "both":
        return dict(input_ids=ids, decoder_input_ids=torch.tensor([[2, 4, 6], [2, 9, 3]]))
    if kind == "features":
        return dict(input_features=numbers((1, 4, 12), 1), decoder_input_ids=torch.tensor([[2, 4, 6]]))
    if kind == "pixels":
        return dict(pixel_values=numbers((1, 3, 8, 8), 2))
    if kind == "clip":
        return dict(input_ids=torch.tensor([[3, 5, 10, 2, 7], [4, 3, 8, 10, 6]]), pixel_values=numbers((2, 3, 8, 8), 2))
    return dict(input_values=numbers((1, 64), 3))


def drawn(name, config):
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            p.copy_((numbers(p.shape, i + 10) * 0.4 * 64).round() / 64)
            if p.dim() == 1 and key.endswith("weight"):
                p.add_(1.0)
    return model.eval()


def outputs_of(model, inputs):
    with torch.no_grad():
        out = model(**inputs)
    return {k: v for k, v in out.items() if isinstance(v, torch.Tensor) and v.is_floating_point()}


def plain(tensors):
    return {k: dict(shape=list(v.shape), values=v.flatten().tolist(), whole=not v.is_floating_point()) for k, v in tensors.items()}


def tied_of(model):
    names = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(p), []).append(name)
    return [n for n in names.values() if len(n) > 1]


def write(archive, case, folder, name, kind, missing=None):
    inputs = inputs_of(kind)
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    model.eval()
    content = dict(architecture=name, inputs=plain(inputs))
    lacking = sorted(info["missing_keys"])
    if missing is None:
        assert not lacking, (case, lacking)
        content["outputs"] = plain(outputs_of(model, inputs))
        # What the library writes, and every name of what is one parameter.
        with tempfile.TemporaryDirectory() as again:
            model.save_pretrained(again)
            content["names"] = sorted(load_file(os.path.join(again, "model.safetensors")))
        # Its own names, which it reads as well.
        content["memory"] = sorted(model.state_dict())
        content["tied"] = tied_of(model)
    else:
        assert lacking, case
        content["missing"] = missing
    for file in ["config.json", "model.safetensors"]:
        archive.write(os.path.join(folder, file), f"{case}/{file}")
    archive.writestr(f"{case}/case.json", json.dumps(content))


def change_config(folder, **fields):
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    config.update(fields)
    with open(path, "w") as f:
        json.dump(config, f)


def change_file(folder, change):
    path = os.path.join(folder, "model.safetensors")
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def make():
    torch.set_num_threads(1)
    with zipfile.ZipFile(os.path.join(HERE, "round_trip.zip"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for config_name, fields, names, kind in FAMILIES:
            config_class = getattr(transformers, config_name)
            for name in names:
                folder = lambda **more: saved(config_class(**dict(fields, **more)), name)
                with folder() as at:
                    write(archive, name, at, name, kind)
                    own = config_class(**fields)
                    tied = getattr(own, "tie_word_embeddings", None)
                    ties = getattr(getattr(transformers, name), "_tied_weights_keys", None)
                if not ties or tied is None:
                    continue
                t5 = config_name == "T5Config"
                if t5:
                    with folder(scale_decoder_outputs=False) as at:
                        write(archive, f"{name}-unscaled", at, name, kind)
                    with folder() as at:
                        # A file of T5 1.1: a head of its own.
                        if name == "T5ForConditionalGeneration":
                            change_file(at, lambda s: dict(s, **{"lm_head.weight": numbers((VOCABULARY, 8), 99)}))
                            write(archive, f"{name}-different", at, name, kind)
                            config = json.load(open(os.path.join(at, "config.json")))
                            del config["scale_decoder_outputs"]
                            config["tie_word_embeddings"] = False
                            json.dump(config, open(os.path.join(at, "config.json"), "w"))
                            write(archive, f"{name}-older", at, name, kind)
                else:
                    with folder(tie_word_embeddings=not tied) as at:
                        write(archive, f"{name}-{'untied' if tied else 'tied'}", at, name, kind)
                    # A file with different tensors under a configuration that ties them.
                    with folder(tie_word_embeddings=False) as at:
                        change_config(at, tie_word_embeddings=True)
                        write(archive, f"{name}-different", at, name, kind)
                    # A file without the head, under a configuration that does not tie it.
                    with folder(tie_word_embeddings=False) as at:
                        heads = [n for n in load_file(os.path.join(at, "model.safetensors")) if is_head(n, ties)]
                        if heads:
                            change_file(at, lambda s: {k: v for k, v in s.items() if k not in heads})
                            write(archive, f"{name}-headless", at, name, kind, missing=heads)
                for i, renames in enumerate(OTHER_NAMES.get(name, [])):
                    with folder(**({} if t5 else dict(tie_word_embeddings=True))) as at:
                        def renamed(state):
                            for old, new in renames.items():
                                tensor = state.pop(old)
                                state.update({n: tensor.clone() for n in new})
                            return state
                        change_file(at, renamed)
                        write(archive, f"{name}-other{i}", at, name, kind)
        adapters(archive)
    print(os.path.getsize(os.path.join(HERE, "round_trip.zip")))


def adapters(archive):
    """Of a model that ties its embedding and its head: adapters that train one of them, or both, besides."""
    from peft import LoraConfig, PeftModel, get_peft_model

    inputs = inputs_of("ids")
    for saved_modules in [["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head"]]:
        for ensured in [False, True]:
            case = "adapter-" + "-".join(saved_modules) + ("-ensured" if ensured else "")
            config = transformers.Qwen2Config(**decoder, tie_word_embeddings=True)
            with saved(config, "Qwen2ForCausalLM") as base, tempfile.TemporaryDirectory() as at:
                load = lambda: transformers.Qwen2ForCausalLM.from_pretrained(base)
                lora = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=list(saved_modules), ensure_weight_tying=ensured)
                model = get_peft_model(load(), lora)
                trained = sorted((n, p) for n, p in model.named_parameters() if p.requires_grad)
                with torch.no_grad():
                    for i, (_, p) in enumerate(trained):
                        p.copy_((numbers(p.shape, i + 200) * 0.4 * 64).round() / 64)
                expected = outputs_of(model.eval(), inputs)
                model.save_pretrained(at)
                again = outputs_of(PeftModel.from_pretrained(load(), at).eval(), inputs)
                torch.testing.assert_close(expected["logits"], again["logits"])
                merged = outputs_of(model.merge_and_unload(), inputs)
                content = dict(
                    architecture="Qwen2ForCausalLM", inputs=plain(inputs), outputs=plain(expected),
                    names=sorted(load_file(os.path.join(at, "adapter_model.safetensors"))),
                    trained=sum(p.numel() for _, p in trained),
                )
                torch.testing.assert_close(expected["logits"], merged["logits"], rtol=1e-4, atol=1e-4)
                for folder, file in [(base, "config.json"), (base, "model.safetensors"), (at, "adapter_config.json"), (at, "adapter_model.safetensors")]:
                    archive.write(os.path.join(folder, file), f"{case}/{file}")
                archive.writestr(f"{case}/case.json", json.dumps(content))


def is_head(name, ties):
    return name in ties and "embed_tokens" not in name or name == "embed_out.weight"


class saved:
    def __init__(self, config, name):
        self.model = drawn(name, config)

    def __enter__(self):
        self.at = tempfile.TemporaryDirectory()
        self.model.save_pretrained(self.at.name)
        return self.at.name

    def __exit__(self, *_):
        self.at.cleanup()


def check(folder):
    """Loads what ToRSh saved with Hugging Face's library, and compares the outputs."""
    count = 0
    for case in sorted(os.listdir(folder)):
        at = os.path.join(folder, case)
        content = json.load(open(os.path.join(at, "case.json")))
        model, info = getattr(transformers, content["architecture"]).from_pretrained(at, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], (case, info)
        if os.path.exists(os.path.join(at, "adapter_config.json")):
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, at)
        read = lambda t: torch.tensor(t["values"], dtype=torch.int64 if t["whole"] else None).reshape(t["shape"])
        out = outputs_of(model.eval(), {k: read(t) for k, t in content["inputs"].items()})
        for key, expected in content["outputs"].items():
            torch.testing.assert_close(out[key], read(expected), rtol=1e-4, atol=1e-4, msg=f"{case}: {key}")
        count += 1
    print(f"{count} models")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["check"] else make()
