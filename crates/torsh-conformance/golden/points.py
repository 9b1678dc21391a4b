"""Writes `points.zip`: PyTorch's results and gradients at special points.

    python crates/torsh-conformance/golden/points.py crates/torsh-conformance/golden/points.zip

Special points are ties, corners, bounds, zeros of both signs, infinities, nan, denormals, and numbers whose squares or
quotients underflow or overflow. The files have the form of the other golden files: `points/NAME.json` holds calls, and
`points/NAME.safetensors` their tensors. `torsh-conformance points` replays them. Made with PyTorch 2.15 and
torchvision 0.29 on a CPU with AVX2.
"""

import itertools
import json
import math
import sys
import warnings
import zipfile

import torch
import torchvision
from safetensors.torch import save

F = torch.nn.functional
inf, nan = math.inf, math.nan
REALS = {"float32": torch.float32, "float64": torch.float64}
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
FILES = {}
# Whether operands lie with gaps in memory. PyTorch's loops over such are those of tensors of a few elements; its
# vectorized loops give other gradients for nan (`elu`, `hardtanh`, `hardswish`, `hardshrink`) and in tails of `gelu`.
SCALAR = [False]


def function(name):
    if name.startswith("torchvision::"):
        return getattr(torchvision.ops, name.split("::")[1])
    at = torch
    for part in name.split("."):
        at = getattr(at, part)
    return at


# Operators whose calls are stored with the first two arguments swapped, as PyTorch's database has them.
TENSOR_FIRST = ("where", "polygamma", "nn.functional.embedding_bag")


class Plain:
    """A tensor without a gradient."""

    def __init__(self, tensor):
        self.tensor = tensor


class File:
    def __init__(self, op):
        self.op, self.cases, self.tensors = op, [], {}

    def store(self, tensor, **more):
        name = f"t{len(self.tensors)}"
        plain = tensor.detach()
        dtype = str(plain.dtype).removeprefix("torch.")
        shape = list(plain.shape)
        plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
        self.tensors[name] = plain.contiguous().clone()
        return {"tensor": name, "shape": shape, "dtype": dtype, **more}


def number(x):
    if isinstance(x, float):
        return {"float": "nan" if x != x else "inf" if x == inf else "-inf" if x == -inf else x}
    return x


def encoded(file, value, leaves):
    if isinstance(value, Plain):
        return file.store(value.tensor), value.tensor
    if isinstance(value, torch.Tensor):
        if not (value.is_floating_point() or value.is_complex()):
            return file.store(value), value
        leaf = value.clone()
        if SCALAR[0]:
            leaf = torch.stack([value, value], -1)[..., 0].detach()
        leaf.requires_grad_(True)
        leaves.append(leaf)
        return file.store(value, requires_grad=True), leaf
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}, value
    if isinstance(value, (list, tuple)):
        both = [encoded(file, v, leaves) for v in value]
        plain = [b[0] for b in both]
        return ({"tuple": plain} if isinstance(value, tuple) else plain), type(value)(b[1] for b in both)
    return number(value), value


def tensors_of(result):
    if result is None:
        return []
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in tensors_of(part)]


def case(op, *args, slope=1.0, **kwargs):
    """Adds a call. Its gradient is that of the sum of all results times `slope`, which may be one number per result."""
    file = FILES.setdefault(op, File(op))
    stored, leaves = len(file.tensors), []
    both = [encoded(file, a, leaves) for a in args]
    named = {k: encoded(file, v, leaves) for k, v in kwargs.items()}
    dtypes = [a.dtype for a in leaves] or [a.tensor.dtype for a in args if isinstance(a, Plain)]
    try:
        result = tensors_of(function(op)(*[b[1] for b in both], **{k: b[1] for k, b in named.items()}))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as e:
        print(f"{op}: left out: {str(e).splitlines()[0][:150]}", file=sys.stderr)
        for name in list(file.tensors)[stored:]:
            del file.tensors[name]
        return
    if op in TENSOR_FIRST:
        both[:2] = both[1::-1]
    made = {
        "op": op,
        "dtype": str(dtypes[0]).removeprefix("torch.") if dtypes else "",
        "sample": len(file.cases),
        "input": both[0][0],
        "args": [b[0] for b in both[1:]],
        "kwargs": {k: b[0] for k, b in named.items()},
        "expect": [file.store(t) for t in result],
    }
    roots = [i for i, t in enumerate(result) if t.requires_grad]
    if roots and leaves:
        cotangents = [torch.full_like(result[i], slope) for i in roots]
        try:
            grads = torch.autograd.grad([result[i] for i in roots], leaves, cotangents, allow_unused=True)
        except (RuntimeError, NotImplementedError) as e:
            print(f"{op}: no gradient: {str(e).splitlines()[0][:150]}", file=sys.stderr)
        else:
            made["cotangents"] = [{"output": i, **file.store(c)} for i, c in zip(roots, cotangents)]
            made["grads"] = [None if g is None else file.store(g) for g in grads]
    file.cases.append(made)


def line(dtype):
    """Points of one operand."""
    f = torch.finfo(dtype)
    root = math.sqrt(f.smallest_normal)
    positive = [
        0.0, 1.0, 0.5, 0.25, 1.5, 2.0, 3.0, 4.0, 6.0, 7.0, 20.0, 21.0, 50.0, 100.0, math.pi, math.pi / 2, math.e,
        f.smallest_normal * f.eps, f.smallest_normal, root * 0.01, root, f.eps, 1 - f.eps / 2, 1 + f.eps,
        0.01 / root, f.max ** 0.5, f.max / 2, f.max, inf,
    ]  # fmt: skip
    positive = [x for x in positive if x <= f.max or x == inf]
    return torch.tensor([nan] + [s * x for x in positive for s in (1.0, -1.0)], dtype=torch.float64).to(dtype)


def plane(dtype):
    """Points of two operands: all pairs."""
    f = torch.finfo(dtype)
    small = math.sqrt(f.smallest_normal) * 0.01
    big = min(1 / small, f.max / 4)
    some = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, small, -small, big, f.smallest_normal * f.eps, f.max, inf, -inf, nan]
    some = torch.tensor(some, dtype=torch.float64).to(dtype)
    pairs = torch.cartesian_prod(some, some)
    return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()


def space(dtype):
    """Points of three operands: all triples."""
    some = torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0, inf, -inf, nan], dtype=dtype)
    triples = torch.cartesian_prod(some, some, some)
    return [triples[:, i].contiguous() for i in range(3)]


UNARY = """
abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
i0 lgamma log log10 log1p log2 nan_to_num neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign sin sinc sinh
sqrt square tan tanh trunc relu selu celu isfinite isinf isnan isneginf isposinf signbit logical_not frexp logit
special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.entr special.erfcx special.i0e special.i1
special.i1e special.log_ndtr special.modified_bessel_k0 special.modified_bessel_k1 special.ndtr special.ndtri
nn.functional.relu nn.functional.relu6 nn.functional.silu nn.functional.hardswish nn.functional.hardsigmoid nn.functional.mish
nn.functional.softsign nn.functional.logsigmoid nn.functional.tanhshrink nn.functional.elu nn.functional.celu
nn.functional.selu nn.functional.leaky_relu nn.functional.softplus nn.functional.hardtanh nn.functional.hardshrink
nn.functional.softshrink nn.functional.gelu
""".split()

BINARY = """
add sub mul div floor_divide remainder fmod pow atan2 maximum minimum fmax fmin logaddexp logaddexp2 xlogy hypot copysign
heaviside nextafter float_power ldexp special.xlog1py special.zeta igamma igammac rsub isclose eq ne lt le gt ge
clamp_min clamp_max nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss
nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div nn.functional.poisson_nll_loss
""".split()

# Losses whose result would be one number without this.
ELEMENTWISE = {name: {"reduction": "none"} for name in BINARY if name.endswith(("loss", "logits", "kl_div"))}


def pointwise():
    for (name, dtype), slope in itertools.product({**REALS, **HALVES}.items(), (1.0, 0.0)):
        if slope == 0.0 and name != "float32":
            continue
        x = line(dtype)
        for op in UNARY:
            case(op, x, slope=slope)
        a, b = plane(dtype)
        for op in BINARY:
            case(op, a, b, slope=slope, **ELEMENTWISE.get(op, {}))
        for mode in ("trunc", "floor"):
            case("div", a, b, slope=slope, rounding_mode=mode)
    for dtype in REALS.values():
        x, (a, b), (u, v, w) = line(dtype), plane(dtype), space(dtype)
        for p in (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 1.5, inf, -inf, nan):
            case("pow", x, p)
            case("float_power", x, p)
            case("atan2", x, Plain(torch.tensor(p, dtype=dtype)))
        for p in (0, 1, 2, 3, -1, -2):
            case("pow", x, p)
        for base in (0.0, 1.0, 2.0, -1.0, 0.5, inf):
            case("pow", base, x)
            case("xlogy", base, x)
            case("special.xlog1py", base, x)
        for y in (0.0, 1.0, -1.0, inf, nan):
            for op in ("div", "fmod", "remainder", "mul", "copysign", "xlogy", "special.xlog1py"):
                case(op, x, y)
        for n in (0, 1, 2, 3):
            case("polygamma", n, x)
        for p in (1, 2, 3):
            case("mvlgamma", x.clamp(min=(p - 1) / 2 + 0.25), p)
        for eps in (None, 0.0, 0.25, 0.5, 0.75):
            case("logit", x, eps)
        for low, high in ((0.0, 1.0), (1.0, 0.0), (0.5, 0.5), (-inf, inf), (nan, 1.0), (0.0, nan), (None, 1.0), (1.0, None)):
            case("clamp", x, low, high)
        for bound in (0.0, 1.0, -1.0, inf, -inf, nan):
            case("clamp_min", x, bound)
            case("clamp_max", x, bound)
        case("clamp", u, v, w)
        case("clamp", a, b, None)
        case("clamp", a, None, b)
        case("clamp", u, v, Plain(torch.tensor(1.0, dtype=dtype)))
        for n, p, m in ((0.0, None, None), (1.0, 2.0, -2.0)):
            case("nan_to_num", x, n, p, m)
        case("lerp", u, v, w)
        for weight in (0.0, 0.5, 1.0, 0.25, -1.0, inf):
            case("lerp", a, b, weight)
        case("addcmul", u, v, w, value=0.5)
        case("addcdiv", u, v, w, value=0.5)
        case("where", a > b, a, b)
        case("where", a == b, a, 1.0)
        case("heaviside", x, Plain(torch.tensor(0.5, dtype=dtype)))
        case("round", x, decimals=1)
        case("complex", a, b)
        case("polar", a.abs(), b)
        for slope in (0.01, 0.0, -1.0, 1.0):
            case("nn.functional.leaky_relu", x, slope)
            case("nn.functional.prelu", x.reshape(-1, 1), torch.tensor([slope], dtype=dtype))
            case("nn.functional.rrelu", x, slope, slope, False)
        for alpha in (1.0, 2.0, 0.5):
            case("nn.functional.elu", x, alpha)
            case("nn.functional.celu", x, alpha)
            case("celu", x, alpha)
        for beta, threshold in ((1.0, 20.0), (2.0, 2.0), (-1.0, 1.0), (0.5, 0.0)):
            case("nn.functional.softplus", x, beta, threshold)
        for at, value in ((0.0, 0.0), (1.0, 5.0), (-1.0, -1.0), (nan, 1.0), (inf, 1.0)):
            case("nn.functional.threshold", x, at, value)
            case("threshold", x, at, value)
        for low, high in ((-1.0, 1.0), (0.0, 6.0), (0.5, 0.5), (-inf, inf)):
            case("nn.functional.hardtanh", x, low, high)
        for lambd in (0.5, 0.0, 1.0):
            case("nn.functional.hardshrink", x, lambd)
            case("nn.functional.softshrink", x, lambd)
        case("nn.functional.gelu", x, approximate="tanh")
        case("nn.functional.glu", torch.stack([a, b], -1))
    for real, dtype in ((torch.float32, torch.complex64), (torch.float64, torch.complex128)):
        parts = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0], dtype=real)
        z = torch.complex(*[p.contiguous() for p in torch.cartesian_prod(parts, parts).T])
        for op in "abs sgn angle sqrt rsqrt square reciprocal sigmoid tanh sinc exp log1p expm1 sin cos".split():
            case(op, z)
        for op in "acos asin acosh asinh log log2 log10 atan atanh tan".split():
            case(op, z[z.abs() > 0])
        some = torch.tensor([0, 1, -1, 1j, 2], dtype=dtype)
        pairs = [p.contiguous() for p in torch.cartesian_prod(some, some).T]
        for op in "pow xlogy div mul logaddexp".split():
            case(op, *pairs)
        for p in (0, 1, 2, 0.5, -1):
            case("pow", some, p)
        case("nn.functional.normalize", torch.stack([z, z.flip(0), 0 * z]), dim=0)
        for p in (0.0, 1.0, 2.0, 3.0, inf, -inf):
            case("linalg.vector_norm", torch.stack([0 * z, z]), p, 0)


def rows(dtype):
    """Rows of four numbers with ties, zeros, infinities, nan and extremes."""
    f = torch.finfo(dtype)
    small = math.sqrt(f.smallest_normal) * 0.01
    return torch.tensor(
        [
            [1, 1, 1, 1], [0, 0, 0, 0], [0.0, -0.0, 0.0, -0.0], [3, 1, 3, 2], [1, 3, 1, 2], [-2, 2, -2, 2], [0, 1, 0, 2],
            [0, 0, 1, 2], [nan, 1, 2, 3], [1, nan, nan, 0], [nan, nan, nan, nan], [inf, 1, 2, inf], [-inf, 1, 2, 3],
            [inf, -inf, 0, 1], [-inf, -inf, -inf, -inf], [inf, inf, inf, inf], [small, 0, -small, small],
            [1 / small, 1, 0, -1 / small], [f.smallest_normal, 0, 0, 0], [1, 2, 3, 4], [0, nan, 0, inf],
        ],
        dtype=torch.float64,
    ).to(dtype)  # fmt: skip


def distinct(m):
    """Which rows have no equal elements, nan among them."""
    return torch.tensor([len({str(x + 0.0) for x in row}) == len(row) for row in m.tolist()])


ORDERS = (0.0, 1.0, 2.0, 3.0, 0.5, 1.5, -1.0, -2.0, inf, -inf)


def reductions():
    for dtype in REALS.values():
        m = rows(dtype)
        finite = m[m.isfinite().all(1)]
        for op in "sum mean prod nansum amax amin logsumexp cumsum cumprod logcumsumexp".split():
            case(op, m, 1)
        for op in "max min median nanmedian cummax cummin softmax log_softmax nanmean std var".split():
            case(op, m, 1)
        for op in "nn.functional.softmax nn.functional.log_softmax nn.functional.softmin".split():
            case(op, m, dim=1)
        for op in ("argmax", "argmin", "aminmax"):
            case(op, m, dim=1)
        for op in "max min median nanmedian amax amin prod sum mean aminmax std var argmax argmin".split():
            for row in m:
                case(op, row)
        for op in "std var std_mean var_mean".split():
            for correction in (0, 1, 3, 4):
                case(op, m, dim=1, correction=correction)
        case("sort", m, dim=1, stable=True)
        case("msort", m)
        # Which of equal elements these take follows from PyTorch's way of sorting, so there are none.
        apart = m[distinct(m)]
        case("mode", m[m.isfinite().all(1)], 1)
        case("topk", apart, 2, 1)
        for k in (1, 2, 4):
            case("kthvalue", apart, k, 1)
        for q in (0.0, 0.5, 0.25, 1.0):
            for op in ("quantile", "nanquantile"):
                for way in ("linear", "lower", "higher", "nearest", "midpoint"):
                    case(op, apart, q, dim=1, interpolation=way)
        for p in ORDERS:
            case("norm", m, p, 1)
            case("linalg.vector_norm", m, p, 1)
            case("linalg.norm", m, p, 1)
            for row in m:
                case("linalg.norm", row, p)
            case("dist", m[3], m[4], p)
            for row in m:
                case("dist", row, Plain(m[7]), p)
                case("dist", row, Plain(row), p)
            case("nn.functional.normalize", m, p=p, dim=1)
            case("masked.norm", m, p, 1, mask=Plain(m > 0))
            if p in (1.0, 2.0, 3.0):
                case("renorm", m, p, 0, 1.0)
            if p >= 0:
                case("cdist", finite, finite.flip(0), p)
                case("cdist", m, Plain(torch.zeros(2, 4, dtype=dtype)), p)
                case("nn.functional.pdist", finite, p)
                case("pdist", finite, p)
            if p not in (0.0, inf, -inf):
                case("nn.functional.lp_pool1d", m.reshape(1, 21, 4), p, 2)
                case("nn.functional.lp_pool2d", m.reshape(1, 21, 1, 4), p, (1, 2))
                case("nn.functional.lp_pool3d", m.reshape(1, 21, 1, 1, 4), p, (1, 1, 2))
        case("norm", m, "fro", 1)
        for order in ("fro", inf, -inf, 1, -1):
            for pair in ([[1, 1], [1, 1]], [[0, 0], [0, 0]], [[1, -2], [-2, 1]], [[nan, 0], [0, 1]], [[inf, 0], [0, 1]]):
                case("linalg.matrix_norm", torch.tensor(pair, dtype=dtype), order)
        for op in "sum mean prod amax amin logsumexp softmax log_softmax softmin cumsum cumprod std var median normalize argmax argmin".split():
            more = {"std": {"unbiased": False}, "var": {"unbiased": False}}.get(op, {})
            args = (2.0, 1) if op == "normalize" else (1,)
            for mask in (m > 0, m == m, m > 1e30):
                case(f"masked.{op}", m, *args, mask=Plain(mask), **more)
        case("cov", m)
        case("corrcoef", finite)
        case("diff", m)
        case("trapezoid", m)
        case("cumulative_trapezoid", m)
        for op in ("max", "min", "amax", "amin"):
            case(op, torch.ones(3, 3, dtype=dtype))
        case("aminmax", torch.ones(3, dtype=dtype))
        mm = torch.tensor([[0, 1], [inf, 0]], dtype=dtype), torch.tensor([[nan, 0], [1, 2]], dtype=dtype)
        case("mm", *mm)
        case("matmul", *mm)
    for name, dtype in HALVES.items():
        m = rows(torch.float16).to(dtype)
        for op in "sum mean amax amin logsumexp max min median softmax log_softmax cummax cummin std var prod cumsum".split():
            case(op, m, 1)
        for p in (1.0, 2.0, inf):
            case("linalg.vector_norm", m, p, 1)


def indexed():
    for dtype in REALS.values():
        source = torch.tensor([2, 2, 1, 0, 0, nan, 3, inf, -2], dtype=dtype)
        index = Plain(torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 4]))
        start = torch.tensor([2, 0, 1, 5, 2, 7], dtype=dtype)
        for way in ("sum", "prod", "mean", "amax", "amin"):
            for included in (True, False):
                case("scatter_reduce", start, 0, index, source, way, include_self=included)
        for way in ("prod", "mean", "amax", "amin"):
            for included in (True, False):
                case("index_reduce", start, 0, index, source, way, include_self=included)
        for way in ("sum", "mean", "max", "min", "prod"):
            case("segment_reduce", source, way, lengths=Plain(torch.tensor([3, 0, 2, 1, 3])))


def norms():
    for dtype in REALS.values():
        m = rows(dtype)
        finite = m[m.isfinite().all(1)]
        weight, bias = torch.tensor([1, 0, -1, 2], dtype=dtype), torch.tensor([0, 1, 2, 0], dtype=dtype)
        for x in (m, torch.full((3, 4), 5.0, dtype=dtype), torch.zeros(3, 4, dtype=dtype)):
            for eps in (1e-5, 0.0):
                case("nn.functional.layer_norm", x, [4], weight, bias, eps)
                case("nn.functional.layer_norm", x, [4], None, None, eps)
                case("nn.functional.rms_norm", x, [4], weight, eps)
                case("nn.functional.group_norm", x, 2, weight, bias, eps)
                case("nn.functional.instance_norm", x.reshape(1, -1, 4), eps=eps)
            for channel in (x[:, :2], x[:, 2:]):
                case("nn.functional.batch_norm", channel, None, None, weight[:2], bias[:2], True)
            case("nn.functional.local_response_norm", x.reshape(1, -1, 4), 3)
        case("nn.functional.rms_norm", m, [4])
        for row in m:
            case("nn.functional.batch_norm", row.reshape(4, 1), None, None, None, None, True)
        running = Plain(torch.tensor([0.0, 1, -1, 2], dtype=dtype)), Plain(torch.tensor([0.0, 1, 1, 1], dtype=dtype))
        case("nn.functional.batch_norm", finite, *running, weight, bias, False)


def pools():
    for dtype in REALS.values():
        m = rows(dtype)
        x = torch.cat([m, m.flip(1)], 1).reshape(1, 21, 8)
        plane = m[:20].reshape(5, 2, 2, 4).repeat(1, 1, 2, 1)
        for stride, padding in ((2, 0), (1, 1), (2, 1)):
            case("nn.functional.max_pool1d", x, 2, stride, padding)
            case("nn.functional.avg_pool1d", x, 2, stride, padding)
            case("nn.functional.max_pool2d", plane, 2, stride, padding)
            case("nn.functional.avg_pool2d", plane, 2, stride, padding)
            case("nn.functional.max_pool3d", plane, 2, stride, padding)
        case("nn.functional.max_pool1d", x, 2, return_indices=True)
        case("nn.functional.max_pool2d", plane, 2, return_indices=True)
        case("nn.functional.adaptive_max_pool1d", x, 3)
        case("nn.functional.adaptive_max_pool2d", plane, 3)
        case("nn.functional.adaptive_max_pool3d", plane, 2)
        case("nn.functional.adaptive_avg_pool1d", x, 3)
        case("nn.functional.adaptive_avg_pool2d", plane, 3)
        image = torch.arange(1.0, 17.0, dtype=dtype).reshape(1, 1, 4, 4)
        image[0, 0, 0, 0] = 0.0
        at = [-1.0, 1.0, 0.0, -0.75, 0.75, 0.5, -1.25, 1.25, -1.5, 3.0, nan, inf, -inf, 1e30, -1e30, -2.0, 2.0, 1 / 3]
        at = torch.tensor(at, dtype=dtype)
        grid = torch.cartesian_prod(at, at).reshape(1, len(at), len(at), 2)
        finite = torch.cartesian_prod(at[:10], at[:10]).reshape(1, 10, 10, 2)
        for mode in ("bilinear", "nearest", "bicubic"):
            for padding in ("zeros", "border", "reflection"):
                for corners in (True, False):
                    # PyTorch's vectorized backward reads out of bounds there: no gradients.
                    crashes = mode == "bilinear" and padding != "zeros"
                    operands = (Plain(image), Plain(grid)) if crashes else (image, grid)
                    case("nn.functional.grid_sample", *operands, mode, padding, corners)
                    case("nn.functional.grid_sample", image, finite, mode, padding, corners)
        volume = torch.arange(0.0, 27.0, dtype=dtype).reshape(1, 1, 3, 3, 3)
        few = at[[0, 1, 2, 4, 7, 9]]
        finite = torch.cartesian_prod(few, few, few).reshape(1, 6, 6, 6, 3)
        few = at[[0, 1, 4, 10, 11, 12]]
        grid = torch.cartesian_prod(few, few, few).reshape(1, 6, 6, 6, 3)
        for mode in ("bilinear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                for corners in (True, False):
                    # PyTorch's backward takes nan as outside, which its forward does not: no gradients.
                    case("nn.functional.grid_sample", Plain(volume), Plain(grid), mode, padding, corners)
                    case("nn.functional.grid_sample", volume, finite, mode, padding, corners)
        for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
            case("nn.functional.interpolate", plane, scale_factor=1.5, mode=mode)


def losses():
    for dtype in REALS.values():
        a, b = plane(dtype)
        x = line(dtype)
        m = rows(dtype)
        t = lambda *v: torch.tensor(v, dtype=dtype)
        for reduction in ("none", "mean", "sum"):
            for beta in (1.0, 0.0, 0.5):
                case("nn.functional.smooth_l1_loss", a, b, beta=beta, reduction=reduction)
                case("nn.functional.huber_loss", a, b, delta=beta or 2.0, reduction=reduction)
        p = t(0, 1, 0.5, torch.finfo(dtype).smallest_normal, 1 - torch.finfo(dtype).eps)
        probabilities = [v.contiguous() for v in torch.cartesian_prod(p, p).T]
        case("nn.functional.binary_cross_entropy", *probabilities, reduction="none")
        case("nn.functional.binary_cross_entropy", *probabilities, weight=Plain(0 * probabilities[0] + 2), reduction="none")
        case("nn.functional.binary_cross_entropy", *probabilities)
        u, v, w = space(dtype)
        case("nn.functional.binary_cross_entropy_with_logits", u, v, pos_weight=Plain(w), reduction="none")
        case("nn.functional.binary_cross_entropy_with_logits", a, b, Plain(0 * a + 2), reduction="none")
        for log in (True, False):
            case("nn.functional.kl_div", a, b, reduction="none", log_target=log)
            case("nn.functional.poisson_nll_loss", a, b, log_input=log, reduction="none")
            case("nn.functional.poisson_nll_loss", a, b, log_input=log, full=True, reduction="none")
        variance = t(0, 1, 1e-6, 1e-7, 0.5, inf, nan)
        for full in (False, True):
            three = [v.contiguous() for v in torch.cartesian_prod(t(0, 1, inf, nan), t(0, 1, inf), variance).T]
            case("nn.functional.gaussian_nll_loss", *three, full=full, reduction="none")
        signs = Plain(t(1, -1).repeat(128))
        for margin in (0.0, 1.0, -1.0, inf):
            case("nn.functional.margin_ranking_loss", a, b, signs, margin, reduction="none")
            case("nn.functional.hinge_embedding_loss", a, signs, margin, reduction="none")
        case("nn.functional.margin_ranking_loss", a, b, signs, 1.0)
        case("nn.functional.soft_margin_loss", a, signs, reduction="none")
        others = m.roll(1, 0)
        for one, two in ((m, others), (m, m), (m, 0 * m), (m, -m)):
            case("nn.functional.cosine_similarity", one, two)
            case("nn.functional.cosine_similarity", one, two, eps=0.0)
            for order in (1.0, 2.0, 3.0, inf, 0.0):
                for eps in (1e-6, 0.0):
                    case("nn.functional.pairwise_distance", one, two, order, eps)
            target = Plain(t(1, -1).repeat(11)[:21])
            for margin in (0.0, 0.5, 1.0, -1.0):
                case("nn.functional.cosine_embedding_loss", one, two, target, margin, reduction="none")
            for third in (others, m, -m):
                for order, swap in ((2.0, False), (1.0, True), (2.0, True)):
                    case("nn.functional.triplet_margin_loss", one, two, third, 1.0, order, 1e-6, swap, reduction="none")
                    case("nn.functional.triplet_margin_loss", one, two, third, 0.5, order, 0.0, swap, reduction="none")
        finite = m[m.isfinite().all(1)]
        case("nn.functional.triplet_margin_loss", finite, finite, finite + 1.0)
        classes = Plain(torch.arange(21) % 4)
        for reduction in ("none", "mean", "sum"):
            for power in (1, 2):
                for margin in (1.0, 0.0):
                    case("nn.functional.multi_margin_loss", m, classes, power, margin, reduction=reduction)
            labels = torch.tensor([[0, 1, -1, -1], [3, -1, 0, 0], [-1, 0, 1, 2]]).repeat(7, 1)
            case("nn.functional.multilabel_margin_loss", m, Plain(labels), reduction=reduction)
            case("nn.functional.multilabel_soft_margin_loss", m, Plain((m > 1).to(dtype)), reduction=reduction)
            for weight in (None, Plain(t(0, 1, 2, 0.5)), Plain(t(0, 0, 0, 0))):
                for smoothing in (0.0, 0.1):
                    case("nn.functional.cross_entropy", m, classes, weight, reduction=reduction, label_smoothing=smoothing)
                case("nn.functional.nll_loss", m, classes, weight, reduction=reduction)
            ignored = Plain(torch.full((21,), -100))
            case("nn.functional.cross_entropy", m, ignored, reduction=reduction)
            case("nn.functional.nll_loss", m, ignored, reduction=reduction)
            some = Plain(torch.tensor([0, -100, 3] * 7))
            case("nn.functional.cross_entropy", m, some, reduction=reduction)
            case("nn.functional.nll_loss", m, some, reduction=reduction)
            soft = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0]], dtype=dtype).repeat(7, 1)
            case("nn.functional.cross_entropy", m, soft, reduction=reduction)
            case("nn.functional.kl_div", m, soft, reduction=reduction)
            lengths = Plain(torch.tensor([3, 1, 2])), Plain(torch.tensor([2, 2, 0]))
            long = torch.zeros(3, 3, 4, dtype=dtype).log_softmax(-1)
            for zeroed in (False, True):
                targets = Plain(torch.tensor([[1, 2], [1, 1], [3, 3]]))
                case("nn.functional.ctc_loss", long, targets, *lengths, 0, reduction, zeroed)
        for reduction in ("none", "mean"):
            case("torchvision::sigmoid_focal_loss", x, Plain((x > 0).to(dtype)), reduction=reduction)
            case("torchvision::sigmoid_focal_loss", x, Plain((x <= 0).to(dtype)), gamma=0.5, reduction=reduction)
        boxes = t([0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 2, 2], [0, 0, 2, 2], [0.5, 0.5, 0.5, 0.5], [2, 2, 1, 1])
        pairs = [boxes[i].contiguous() for i in torch.cartesian_prod(torch.arange(6), torch.arange(6)).T]
        for op in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
            case(f"torchvision::{op}", *pairs, reduction="none")
        for op in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"):
            case(f"torchvision::{op}", boxes, boxes)


def attention():
    for dtype in REALS.values():
        q = torch.tensor([[1, 0], [0, 1], [1, 1]], dtype=dtype).reshape(1, 1, 3, 2)
        k, v = q.flip(2), q * 2
        masks = [
            [[-inf, -inf, -inf], [0, -inf, 0], [0, 0, 0]],
            [[-inf, -inf, -inf]] * 3,
            [[nan, 0, 0], [inf, 0, 0], [0, 0, 0]],
        ]
        for mask in masks:
            mask = torch.tensor(mask, dtype=dtype)
            case("nn.functional.scaled_dot_product_attention", q, k, v, Plain(mask))
            case("nn.functional.scaled_dot_product_attention", q, k, v, Plain(mask == 0))
        for spoiled in (nan, inf, -inf):
            broken = q.clone()
            broken[0, 0, 1, 0] = spoiled
            case("nn.functional.scaled_dot_product_attention", broken, k, v)
            case("nn.functional.scaled_dot_product_attention", q, broken, v)
            case("nn.functional.scaled_dot_product_attention", q, k, broken)
            case("nn.functional.scaled_dot_product_attention", q, k, broken, is_causal=True)
        x = torch.arange(12.0, dtype=dtype).reshape(3, 1, 4) / 8 - 0.5
        weight, bias = torch.arange(48.0, dtype=dtype).reshape(12, 4) / 64 - 0.25, torch.zeros(12, dtype=dtype)
        out = torch.eye(4, dtype=dtype), torch.zeros(4, dtype=dtype)
        for padding in ([False, False, True], [True, True, True]):
            for weights in (True, False):
                case(
                    "nn.functional.multi_head_attention_forward", x, x, x, 4, 2, weight, bias, None, None, False, 0.0,
                    *out, False, Plain(torch.tensor([padding])), weights,
                )  # fmt: skip


def products():
    for dtype in REALS.values():
        x = torch.tensor([[[1, inf, 0, 2, nan, 0, 0, 0, -1, 1]]], dtype=dtype)
        weight = torch.tensor([[[0.0, 1, 0]], [[1, 0, -1]]], dtype=dtype)
        case("nn.functional.conv1d", x, weight)
        case("nn.functional.conv_transpose1d", x, weight.reshape(1, 2, 3))
        plane = torch.zeros(1, 1, 6, 6, dtype=dtype)
        plane[0, 0, 2, 2], plane[0, 0, 5, 5] = inf, nan
        weight = torch.tensor([[0.0, 1, 0], [1, 0, -1], [0, 0, 2]], dtype=dtype).reshape(1, 1, 3, 3)
        case("nn.functional.conv2d", plane, weight)
        case("nn.functional.linear", plane[0, 0], weight[0, 0].repeat(2, 2))
        for p in (0.0, 1.0):
            case("nn.functional.dropout", rows(dtype), p)
        table = torch.tensor([[1, 2], [1, 3], [nan, 0], [0, 2]], dtype=dtype)
        index, offsets = Plain(torch.tensor([0, 1, 1, 2, 3])), Plain(torch.tensor([0, 3, 3, 4]))
        for mode in ("max", "mean", "sum"):
            case("nn.functional.embedding_bag", index, table, offsets, mode=mode)


def written(to):
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name, data):
            archive.writestr(zipfile.ZipInfo(f"points/{name}", (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)

        for op, file in sorted(FILES.items()):
            stem = op.replace("::", "__")
            whole = {"op": op, "variant": "", "cases": file.cases}
            add(f"{stem}.json", json.dumps(whole, separators=(",", ":"), allow_nan=False))
            add(f"{stem}.safetensors", save(file.tensors))
    print(f"{to}: {len(FILES)} names, {sum(len(f.cases) for f in FILES.values())} calls")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for part in (pointwise, reductions, indexed, norms, pools, losses, attention, products):
        SCALAR[0] = part in (pointwise, losses)
        part()
    written(sys.argv[1])
