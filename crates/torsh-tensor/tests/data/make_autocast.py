"""Writes what PyTorch gives behind each call of autocast.txt: the dtypes of its results in a region
of bfloat16 and in one of float16.

    python make_autocast.py
"""

import pathlib
import re
import warnings

import torch

warnings.simplefilter("ignore")
DTYPES = {
    "b": torch.bfloat16,
    "h": torch.float16,
    "f": torch.float32,
    "d": torch.float64,
    "i": torch.int64,
    "c": torch.complex64,
}


def value(text):
    if text.startswith("("):
        return [value(t) for t in text[1:-1].split(",")]
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    if text.startswith("'"):
        return text[1:-1]
    if text.startswith("@"):
        return DTYPES[text[1:]]
    if text[0] in "-0123456789":
        return float(text) if "." in text else int(text)
    m = re.fullmatch(r"([bhfdic])([0-9x]*)(?:<([0-9]+))?", text)
    shape = [int(n) for n in m[2].split("x") if n]
    n = torch.Size(shape).numel()
    if m[1] == "i":
        return (torch.arange(n) % int(m[3])).reshape(shape)
    return torch.linspace(0.1, 0.9, n).reshape(shape).to(DTYPES[m[1]])


def function(name):
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


def dtypes(result):
    if isinstance(result, torch.Tensor):
        return [str(result.dtype).removeprefix("torch.")]
    if isinstance(result, (list, tuple)):
        return [d for r in result for d in dtypes(r)]
    return []


def run(call, region):
    name, *arguments = call.split()
    args = [value(a) for a in arguments if "=" not in a]
    kwargs = {a.split("=")[0]: value(a.split("=")[1]) for a in arguments if "=" in a}
    if name == "einsum":
        args = [args[0], *args[1]]
    with torch.no_grad(), torch.autocast("cpu", region):
        return " ".join(dtypes(function(name)(*args, **kwargs)))


path = pathlib.Path(__file__).with_name("autocast.txt")
lines = []
for line in path.read_text().splitlines():
    if line and not line.startswith("#"):
        call = line.split(" => ")[0]
        results = " | ".join(run(call, r) for r in (torch.bfloat16, torch.float16))
        line = f"{call} => {results}"
    lines.append(line)
path.write_text("\n".join(lines) + "\n")
