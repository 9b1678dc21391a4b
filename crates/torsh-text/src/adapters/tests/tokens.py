"""Writes adapters that peft 0.21 saves with their tables of tokens, after tokens were added, and what its models compute:
python tokens.py [DIR], where DIR is this folder by itself.
"""

import json
import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
IDS = torch.tensor([[1, 5, 12, 2, 11], [3, 11, 8, 12, 4]])

for name, tied in [("tokens", False), ("tokens_tied", True)]:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=16, tie_word_embeddings=tied, initializer_range=0.5,
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(f"{name}/base")
    model.resize_token_embeddings(13)
    lora = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)).eval()
    with torch.no_grad():
        lora.base_model.model.model.embed_tokens.weight[11:] = torch.randn(2, 8)
        expected = lora(IDS).logits[:, -1].flatten()
    lora.save_pretrained(name, save_embedding_layers=True)
    if name == "tokens":
        # As peft before 0.7 writes it.
        torch.save(load_file(f"{name}/adapter_model.safetensors"), f"{name}/adapter_model.bin")
    with open(f"{name}/expected.json", "w") as f:
        json.dump({"ids": IDS.tolist(), "logits": expected.tolist()}, f)
    os.remove(f"{name}/README.md")
    if os.path.exists(f"{name}/base/generation_config.json"):
        os.remove(f"{name}/base/generation_config.json")
    print(name, list(load_file(f"{name}/adapter_model.safetensors")))
