"""Writes recurrent.safetensors: what PyTorch's recurrent layers, attention and transformers give,
and the gradients of the sum of each output times its cotangent.

Needs torch alone. The cases are those of tests/recurrent.rs and tests/transformer.rs.
"""
import json
import os
import struct
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

out = {}
torch.manual_seed(0)


def put(name, t):
    out[name] = t.detach().clone().contiguous()


def flat(y):
    if isinstance(y, PackedSequence):
        return [y.data]
    if isinstance(y, (tuple, list)):
        return [t for v in y for t in flat(v)]
    return [] if y is None else [y]


def case(name, module, inputs, call, seed=None, randomize=True, grads=True):
    if randomize:
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(torch.randn(p.shape) * 0.5)
    for k, v in module.state_dict().items():
        put(f"{name}/param.{k}", v)
    for k, v in inputs.items():
        put(f"{name}/{k}", v)
        if v.is_floating_point():
            v.requires_grad_(grads)
    if seed is not None:
        torch.manual_seed(seed)
    ys = flat(call(module, **inputs))
    loss = 0
    for i, y in enumerate(ys):
        put(f"{name}/out.{i}", y)
        c = torch.cos(torch.arange(y.numel(), dtype=y.dtype) * 0.7 + i).reshape(y.shape)
        loss = loss + (y * c).sum()
    if grads:
        module.zero_grad()
        loss.backward()
        for k, p in module.named_parameters():
            put(f"{name}/grad.{k}", p.grad)
        for k, v in inputs.items():
            if v.is_floating_point() and v.grad is not None:
                put(f"{name}/grad.{k}", v.grad)


r = torch.randn
case("lstm", nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2),
     {"x": r(2, 5, 3), "h": r(4, 2, 2), "c": r(4, 2, 4)}, lambda m, x, h, c: m(x, (h, c)))


def packed(m, x, lengths, hx=None, enforce_sorted=False, batch_first=False):
    p = pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=enforce_sorted)
    return m(p, hx)


case("lstm_packed", nn.LSTM(3, 4, 2, bias=False, bidirectional=True, proj_size=3),
     {"x": r(4, 3, 3), "h": r(4, 3, 3), "c": r(4, 3, 4)},
     lambda m, x, h, c: packed(m, x, [2, 4, 3], (h, c)))
case("gru_packed", nn.GRU(3, 4, 2, bidirectional=True),
     {"x": r(3, 4, 3), "h": r(4, 3, 4)},
     lambda m, x, h: packed(m, x, [2, 4, 1], h, batch_first=True))
case("rnn_packed", nn.RNN(3, 4, 2, nonlinearity="relu", bidirectional=True), {"x": r(4, 3, 3)},
     lambda m, x: packed(m, x, [4, 3, 1], enforce_sorted=True))
case("rnn_wide", nn.RNN(3, 33), {"x": r(3, 2, 3), "h": r(1, 2, 33)}, lambda m, x, h: m(x, h))
case("lstm_wide", nn.LSTM(3, 33), {"x": r(4, 2, 3)}, lambda m, x: m(x))
case("gru_unbatched", nn.GRU(3, 33), {"x": r(4, 3), "h": r(1, 33)},
     lambda m, x, h: m(x, h))
case("lstm_dropout", nn.LSTM(3, 4, 3, dropout=0.4), {"x": r(5, 2, 3)}, lambda m, x: m(x), seed=3)
case("gru_dropout", nn.GRU(3, 4, 2, dropout=0.4, batch_first=True), {"x": r(2, 5, 3)},
     lambda m, x: packed(m, x, [5, 3], batch_first=True), seed=4)
case("lstm_cell", nn.LSTMCell(3, 4), {"x": r(2, 3), "h": r(2, 4), "c": r(2, 4)},
     lambda m, x, h, c: m(x, (h, c)))

case("mha", nn.MultiheadAttention(6, 2, kdim=5, vdim=3, add_bias_kv=True, add_zero_attn=True),
     {"q": r(4, 2, 6), "k": r(3, 2, 5), "v": r(3, 2, 3)},
     lambda m, q, k, v: m(q, k, v, average_attn_weights=False,
                          key_padding_mask=torch.tensor([[False, True, False], [False, False, False]])))
causal = nn.Transformer.generate_square_subsequent_mask
case("mha_causal", nn.MultiheadAttention(6, 3, batch_first=True), {"q": r(2, 4, 6)},
     lambda m, q: m(q, q, q, attn_mask=causal(4), is_causal=True, need_weights=False))
case("mha_memory", nn.MultiheadAttention(6, 3, bias=False), {"q": r(4, 2, 6), "k": r(3, 2, 6), "mask": r(6, 4, 3)},
     lambda m, q, k, mask: m(q, k, k, attn_mask=mask, need_weights=False))
case("mha_dropout", nn.MultiheadAttention(6, 2, dropout=0.3), {"q": r(4, 2, 6)}, lambda m, q: m(q, q, q), seed=5)

padding = torch.tensor([[False, False, False, True], [False, False, False, False]])


def enc(**kw):
    return nn.TransformerEncoderLayer(4, 2, 8, **kw)


def dec(**kw):
    return nn.TransformerDecoderLayer(4, 2, 8, **kw)


case("encoder", nn.TransformerEncoder(enc(dropout=0.0, norm_first=True, activation="gelu"), 2, nn.LayerNorm(4), enable_nested_tensor=False),
     {"x": r(4, 2, 4)}, lambda m, x: m(x, mask=causal(4), src_key_padding_mask=padding))
case("encoder_causal", nn.TransformerEncoder(enc(dropout=0.0, batch_first=True), 2), {"x": r(2, 4, 4)},
     lambda m, x: m(x, mask=causal(4)))
e = nn.TransformerEncoder(enc(dropout=0.1, batch_first=True), 2, nn.LayerNorm(4)).eval()
with torch.no_grad():
    case("encoder_eval", e, {"x": r(2, 4, 4)}, lambda m, x: m(x, src_key_padding_mask=padding), grads=False)
case("encoder_dropout", enc(dropout=0.2), {"x": r(4, 2, 4)}, lambda m, x: m(x), seed=6)
case("decoder", nn.TransformerDecoder(dec(dropout=0.0), 2, nn.LayerNorm(4)),
     {"x": r(3, 2, 4), "memory": r(4, 2, 4)},
     lambda m, x, memory: m(x, memory, tgt_mask=causal(3), memory_key_padding_mask=padding))
case("decoder_dropout", dec(dropout=0.2, norm_first=True, batch_first=True),
     {"x": r(2, 3, 4), "memory": r(2, 4, 4)}, lambda m, x, memory: m(x, memory), seed=7)
case("transformer", nn.Transformer(4, 2, 1, 2, 8, 0.0, "gelu", batch_first=True, bias=False),
     {"x": r(2, 4, 4), "t": r(2, 3, 4)},
     lambda m, x, t: m(x, t, tgt_mask=causal(3), src_key_padding_mask=padding, memory_key_padding_mask=padding))

torch.manual_seed(11)
for name, module in [
    ("init_lstm", nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)),
    ("init_gru", nn.GRU(3, 4)),
    ("init_rnn", nn.RNN(3, 4, bias=False)),
    ("init_cell", nn.GRUCell(3, 4)),
    ("init_mha", nn.MultiheadAttention(4, 2, add_bias_kv=True)),
    ("init_mha_kv", nn.MultiheadAttention(4, 2, kdim=3, vdim=5)),
    ("init_encoder", nn.TransformerEncoder(enc(), 2, nn.LayerNorm(4), enable_nested_tensor=False)),
    ("init_decoder", dec()),
    ("init_transformer", nn.Transformer(4, 2, 2, 1, 8)),
]:
    for k, v in module.state_dict().items():
        put(f"{name}/{k}", v)

here = os.path.dirname(os.path.abspath(__file__))
header, data = {}, b""
for k, v in out.items():
    raw = struct.pack(f"<{v.numel()}f", *v.flatten().tolist())
    header[k] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(here, "recurrent.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
