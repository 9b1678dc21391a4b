"""Writes what is known of torchvision's pretrained weights: the table and the enums of `src/models/weights`, and the values
that `tests/datasets.rs` compares with.

    python crates/torsh-vision/tests/data/weights.py

Needs torchvision 0.29. Nothing is downloaded.
"""

import functools
import json
import pathlib
import re

import torchvision
from torchvision.models import _meta
from torchvision.models._api import BUILTIN_MODELS, _get_enum_from_fn

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "src" / "models" / "weights"
SETS = {
    "imagenet": _meta._IMAGENET_CATEGORIES,
    "coco": _meta._COCO_CATEGORIES,
    "voc": _meta._VOC_CATEGORIES,
    "kinetics400": _meta._KINETICS400_CATEGORIES,
    "person": _meta._COCO_PERSON_CATEGORIES,
}
KINDS = ["classification", "segmentation", "detection", "video", "optical_flow"]
COLUMNS = (
    "enum variant model default url params min_size min_frames categories transforms metrics gflops megabytes recipe license"
).split()


def rust_enum(name):
    """Without underscores, except between digits."""
    return re.sub(r"_(?!(?<=\d_)\d)", "", name)


def rust_variant(name):
    return "".join(part[0] + part[1:].lower() for part in name.split("_"))


def shown(value):
    if isinstance(value, (tuple, list)):
        return ",".join(shown(v) for v in value)
    if isinstance(value, bool):
        return str(value).lower()
    return getattr(value, "value", None) or repr(value)


def transforms(weights):
    preset = weights.transforms
    if isinstance(preset, functools.partial):
        words = [preset.func.__name__]
        words += [f"{k}={shown(v)}" for k, v in preset.keywords.items()]
        return " ".join(words)
    return preset.__name__


def categories(meta):
    own = meta.get("categories")
    if own is None:
        return ""
    return next(name for name, values in SETS.items() if values == own)


def row(cls, variant, weights, model):
    meta = dict(weights.meta)
    metrics = meta.get("_metrics", {})
    metrics = ";".join(
        " ".join([name] + [f"{k}={v!r}" for k, v in values.items()]) for name, values in metrics.items()
    )
    known = {
        "categories", "_metrics", "num_params", "min_size", "min_temporal_size", "_ops", "_file_size", "recipe", "license",
        "_docs", "keypoint_names",
        # The command of the training, in part; its options are in the recipe.
        "task", "backend", "unquantized",
    }
    assert set(meta) <= known, set(meta) - known
    return [
        cls.__name__,
        variant,
        model,
        "default" if weights is cls.DEFAULT else "",
        weights.url,
        str(meta["num_params"]),
        shown(meta["min_size"]) if "min_size" in meta else "",
        str(meta.get("min_temporal_size", "")),
        categories(meta),
        transforms(weights),
        metrics,
        repr(meta["_ops"]),
        repr(meta["_file_size"]),
        meta.get("recipe") or "",
        meta.get("license") or "",
    ]


def about(weights):
    """A line of documentation."""
    parts = []
    for name, values in weights.meta.get("_metrics", {}).items():
        parts.append(", ".join(f"{k} {v}" for k, v in values.items()) + f" on {name}")
    parts.append(f"{weights.meta['num_params'] / 1e6:.1f} million parameters")
    return "; ".join(parts) + "."


def main():
    kinds = {kind: [] for kind in KINDS}
    for name, function in sorted(BUILTIN_MODELS.items()):
        if name.startswith("quantized_"):
            continue
        cls = _get_enum_from_fn(function)
        module = function.__module__.split(".")
        kind = module[2] if module[2] in KINDS else "classification"
        kinds[kind].append((name, cls))

    table, golden, text = ["\t".join(COLUMNS)], {}, []
    text.append("//! The enums of torchvision's pretrained weights. `tests/data/weights.py` writes this file.\n")
    for kind, models in kinds.items():
        what = {"optical_flow": "optical flow", "video": "videos"}.get(kind, kind)
        text.append(f"/// Weights of models for {what}.\npub mod {kind} {{")
        text.append("    use super::super::macros::weights;\n\n    weights! {")
        text.append(f'        in "models{"" if kind == "classification" else "::" + kind}";')
        for model, cls in models:
            name = rust_enum(cls.__name__)
            default = next(v for v in cls.__members__ if cls[v] is cls.DEFAULT)
            count = f"{cls.DEFAULT.meta['num_params']:_} parameters"
            text.append(f'        {name} = "{cls.__name__}" for "{model}", default {rust_variant(default)} of {count}:')
            variants = []
            for variant, weights in cls.__members__.items():
                if variant == "DEFAULT":
                    continue
                variants.append(f'            {rust_variant(variant)} "{about(weights)}"')
                columns = row(cls, variant, weights, model)
                assert len(columns) == len(COLUMNS) and not any("\t" in c or "\n" in c for c in columns)
                table.append("\t".join(columns))
                golden[f"{cls.__name__}.{variant}"] = {
                    "model": model,
                    "url": weights.url,
                    "default": weights is cls.DEFAULT,
                    "num_params": weights.meta["num_params"],
                    "num_classes": len(weights.meta.get("categories") or []),
                    "transforms": repr(weights.transforms()),
                }
            text.append(",\n".join(variants) + ";")
        text.append("    }\n}\n")
    (OUT / "table.tsv").write_text("\n".join(table) + "\n")
    (OUT / "enums.rs").write_text("\n".join(text).rstrip() + "\n")
    for name, values in SETS.items():
        if name != "person":
            (OUT / f"{name}.txt").write_text("\n".join(values) + "\n")
    (OUT / "keypoints.txt").write_text("\n".join(_meta._COCO_PERSON_KEYPOINT_NAMES) + "\n")
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in golden.items())
    (HERE / "weights.json").write_text("{\n" + lines + "\n}\n")
    print(f"{len(table) - 1} sets of weights of torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main()
