"""Writes metrics.json beside this file: cases for tests/metrics.rs, computed by scikit-learn.

    pip install scikit-learn==1.9.1 && python metrics.py
"""

import json
import math
import pathlib
import warnings

import numpy as np
from sklearn import metrics as sk

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
cases, arrays = [], []


def array(a):
    a = np.asarray(a)
    entry = dict(shape=a.shape, integer=a.dtype.kind in "iu", data=a.ravel().tolist())
    if entry not in arrays:
        arrays.append(entry)
    return arrays.index(entry)


def case(metric, output, target, expected, **options):
    plain = lambda v: None if isinstance(v, float) and math.isnan(v) else v
    flat = np.asarray(expected, dtype=np.float64)
    expected = [[plain(x) for x in row] for row in flat.tolist()] if flat.ndim == 2 else (
        [plain(x) for x in flat.tolist()] if flat.ndim == 1 else plain(float(flat)))
    cases.append(dict(metric=metric, options=options, output=array(output), target=array(target), expected=expected))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


AVERAGES = ["binary", "macro", "micro", "weighted", None]

# Labels of two and of several classes, some of which are never given, never wanted, or neither.
two = rng.integers(0, 2, 40), rng.integers(0, 2, 40)
several = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
gaps = np.array([0, 0, 4, 4, 0, 6]), np.array([0, 2, 4, 2, 2, 6])
never = np.zeros(8, dtype=np.int64), np.array([0, 0, 0, 0, 0, 0, 0, 1])
none_right = np.array([1, 2, 0, 1]), np.array([0, 1, 2, 0])
for given, wanted in [two, several, gaps, never, none_right]:
    case("accuracy", given, wanted, sk.accuracy_score(wanted, given))
    case("confusion", given, wanted, sk.confusion_matrix(wanted, given))
    for normalize in ["true", "pred", "all"]:
        case("confusion", given, wanted, sk.confusion_matrix(wanted, given, normalize=normalize), normalize=normalize)
    labels = np.arange(7)
    case("confusion", given, wanted, sk.confusion_matrix(wanted, given, labels=labels), num_classes=7)
    for average in AVERAGES:
        if average == "binary" and len(np.unique(np.concatenate([given, wanted]))) > 2:
            continue
        for zero in [0.0, 1.0, float("nan")]:
            kw = dict(average=average, zero_division=zero)
            options = dict(average=average, zero_division=None if math.isnan(zero) else zero)
            case("precision", given, wanted, sk.precision_score(wanted, given, **kw), **options)
            case("recall", given, wanted, sk.recall_score(wanted, given, **kw), **options)
            case("f1", given, wanted, sk.f1_score(wanted, given, **kw), **options)
            for beta in [0.5, 2.0]:
                case("fbeta", given, wanted, sk.fbeta_score(wanted, given, beta=beta, **kw), beta=beta, **options)
            if average != "binary":
                kw["labels"], options["num_classes"] = labels, 7
                case("precision", given, wanted, sk.precision_score(wanted, given, **kw), **options)
                case("recall", given, wanted, sk.recall_score(wanted, given, **kw), **options)
                case("f1", given, wanted, sk.f1_score(wanted, given, **kw), **options)
case("precision", *two, sk.precision_score(two[1], two[0], pos_label=0), average="binary", pos_label=0, zero_division=0.0)
case("f1", *two, sk.f1_score(two[1], two[0], pos_label=0), average="binary", pos_label=0, zero_division=0.0)

# Scores as outputs.
logits = rng.normal(size=(50, 5))
wanted = rng.integers(0, 5, 50)
case("accuracy", logits, wanted, sk.accuracy_score(wanted, logits.argmax(axis=1)))
case("f1", logits, wanted, sk.f1_score(wanted, logits.argmax(axis=1), average="macro"), average="macro", zero_division=0.0)
scores = rng.uniform(size=30)
truth = rng.integers(0, 2, 30)
case("accuracy", scores, truth, sk.accuracy_score(truth, scores > 0.5))
case("recall", scores, truth, sk.recall_score(truth, scores > 0.3), average="binary", threshold=0.3, zero_division=0.0)

# Ties: scores on a coarse grid.
coarse = np.round(rng.uniform(size=(60, 4)) * 4) / 4
wanted = rng.integers(0, 4, 60)
for k in [1, 2, 3, 4]:
    case("top_k", coarse, wanted, sk.top_k_accuracy_score(wanted, coarse, k=k, labels=np.arange(4)), k=k)
    case("top_k", logits, np.arange(50) % 5, sk.top_k_accuracy_score(np.arange(50) % 5, logits, k=k, labels=np.arange(5)), k=k)

tied = np.round(rng.uniform(size=80) * 6) / 6
truth = rng.integers(0, 2, 80)
fine = rng.normal(size=80)
equal = np.full(80, 0.25)
for s in [tied, fine, equal, -tied]:
    case("roc_auc", s, truth, sk.roc_auc_score(truth, s))
    case("average_precision", s, truth, sk.average_precision_score(truth, s))
case("roc_auc", tied, np.zeros(80, dtype=np.int64), float("nan"))
case("average_precision", tied, np.zeros(80, dtype=np.int64), sk.average_precision_score(np.zeros(80, dtype=np.int64), tied))
case("average_precision", tied, np.ones(80, dtype=np.int64), sk.average_precision_score(np.ones(80, dtype=np.int64), tied))

for n, p in [(4, softmax(np.round(rng.normal(size=(90, 4))))), (3, softmax(rng.normal(size=(45, 3))))]:
    wanted = rng.integers(0, n, len(p))
    for average in ["macro", "micro", "weighted", None]:
        case("roc_auc", p, wanted, sk.roc_auc_score(wanted, p, multi_class="ovr", average=average), average=average)
        case("average_precision", p, wanted, sk.average_precision_score(wanted, p, average=average), average=average)
    for average in ["macro", "weighted"]:
        case("roc_auc", p, wanted, sk.roc_auc_score(wanted, p, multi_class="ovo", average=average), average=average, multi_class="ovo")
labels = rng.integers(0, 2, (40, 3))
s = np.round(rng.uniform(size=(40, 3)) * 8) / 8
for average in ["macro", "micro", "weighted", None]:
    case("roc_auc", s, labels, sk.roc_auc_score(labels, s, average=average), average=average)
    case("average_precision", s, labels, sk.average_precision_score(labels, s, average=average), average=average)

# Numbers, far from 0 too, where a sum of squares would lose the variance.
one = rng.normal(size=50), rng.normal(size=50)
far = 1e6 + rng.normal(size=64), 1e6 + rng.normal(size=64)
wide = rng.normal(size=(40, 3)) * [1, 10, 100], rng.normal(size=(40, 3)) * [1, 10, 100]
flat = np.stack([rng.normal(size=20), np.full(20, 0.5), np.full(20, 0.5)], 1), np.stack([rng.normal(size=20), np.full(20, 0.5), np.full(20, 0.25)], 1)
for given, wanted in [one, far, wide, flat]:
    for multi in ["uniform_average", "raw_values"]:
        kw = dict(multioutput=multi)
        case("mae", given, wanted, sk.mean_absolute_error(wanted, given, **kw), **kw)
        case("mse", given, wanted, sk.mean_squared_error(wanted, given, **kw), **kw)
        case("rmse", given, wanted, sk.root_mean_squared_error(wanted, given, **kw), **kw)
        case("r2", given, wanted, sk.r2_score(wanted, given, **kw), **kw)
    case("r2", given, wanted, sk.r2_score(wanted, given, multioutput="variance_weighted"), multioutput="variance_weighted")

logits = rng.normal(size=(30, 6)) * 3
wanted = rng.integers(0, 6, 30)
case("perplexity", logits, wanted, math.exp(sk.log_loss(wanted, softmax(logits), labels=np.arange(6))))
some = wanted.copy()
some[::3] = -100
kept = some != -100
case("perplexity", logits, some, math.exp(sk.log_loss(wanted[kept], softmax(logits[kept]), labels=np.arange(6))))

path = pathlib.Path(__file__).with_name("metrics.json")
lines = lambda items: ",\n".join(json.dumps(i, separators=(",", ":")) for i in items)
path.write_text('{"arrays":[\n' + lines(arrays) + '\n],"cases":[\n' + lines(cases) + "\n]}\n")
print(len(cases), "cases,", path.stat().st_size, "bytes")
