"""Writes an adapter of some layers that peft 0.21 saves, what its model computes, and which modules peft takes:
python layers.py [DIR], where DIR is this folder by itself.
"""

import json
import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.tuners_utils import check_target_module_exists
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
IDS = torch.tensor([[1, 5, 9, 2, 7], [3, 3, 8, 0, 4]])

# The weights are those that the test draws.
config = GPT2Config(n_embd=8, n_layer=3, n_head=2, vocab_size=11, n_positions=8, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).eval()
torch.manual_seed(3)
with torch.no_grad():
    for _, p in sorted(model.named_parameters()):
        p.copy_((torch.rand(p.shape) * 2 - 1) * 0.3)
torch.manual_seed(5)
lora = get_peft_model(model, LoraConfig(
    r=2, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"], exclude_modules=["mlp.c_proj"], layers_to_transform=[0, 2],
    layers_pattern=["h"], rank_pattern={"h.2.attn.c_attn": 3}, alpha_pattern={"attn.c_proj": 1}, init_lora_weights=False,
    task_type="CAUSAL_LM",
)).eval()
with torch.no_grad():
    logits = lora(IDS).logits[:, -1].flatten()
lora.save_pretrained("layers")
os.remove("layers/README.md")
names = list(load_file("layers/adapter_model.safetensors"))

KEYS = [
    "q_proj", "model.layers.0.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.11.self_attn.q_proj",
    "layers.1.q_proj", "model.layers.1.experts.0.q_proj", "model.layers.0.experts.1.q_proj", "model.blocks.1.q_proj",
    "model.q_proj", "model.layers.1.q_proj.more", "my_layers.1.q_proj", "h.1.x.layers.0.q_proj",
]
CONFIGS = [
    {"layers_to_transform": None}, {"layers_to_transform": []}, {"layers_to_transform": 1},
    {"layers_to_transform": [0, 11]}, {"layers_to_transform": 1, "layers_pattern": "layers"},
    {"layers_to_transform": [1], "layers_pattern": ""}, {"layers_to_transform": [1], "layers_pattern": []},
    {"layers_to_transform": [0], "layers_pattern": ["blocks", "layers"]},
    {"layers_to_transform": [1], "layers_pattern": ["blocks", "layers"]},
    {"layers_to_transform": [1], "layers_pattern": "l[a-z]+s"}, {"layers_to_transform": [1], "layers_pattern": "blocks|layers"},
    {"layers_to_transform": 1, "exclude_modules": ["experts.0.q_proj"]},
    {"layers_to_transform": 1, "target_modules": ["q_proj", "model.layers.0.q_proj"]},
]
taken = []
for fields in CONFIGS:
    fields = {"target_modules": ["q_proj"], **fields}
    config = LoraConfig(**fields)
    found = [check_target_module_exists(config, key) for key in KEYS]
    taken.append([fields, [found is True for found in found]])
with open("layers/expected.json", "w") as f:
    json.dump({"logits": logits.tolist(), "names": names, "keys": KEYS, "taken": taken}, f)
