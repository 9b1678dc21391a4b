//! Arguments, from an op's schema and its samples.

use crate::methods::METHODS;
use crate::sparse;
use torsh_core::{Generator, Scalar};
use torsh_tensor::record::{OpRecord, Rule, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Device, Param, Signature, Tensor, Type, Value, ops};

pub(crate) const DTYPES: [DType; 12] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::Bool,
    DType::C64,
    DType::C128,
];
const INTS: [i64; 22] = [
    0,
    0,
    0,
    1,
    1,
    1,
    1,
    -1,
    -1,
    2,
    2,
    3,
    4,
    5,
    -2,
    -7,
    63,
    65,
    1 << 31,
    1 << 40,
    i64::MIN,
    i64::MAX,
];
const EXTREME_INTS: [i64; 8] = [
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    1 << 62,
    i64::MIN + 1,
    i64::MAX - 1,
    1 << 24,
    -(1 << 40),
];
const FLOATS: [f64; 16] = [
    0.0,
    -0.0,
    0.5,
    1.0,
    -1.0,
    2.0,
    0.1,
    0.9,
    3.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e300,
    -1e300,
    5e-324,
    1e10,
];
const WORDS: [&str; 22] = [
    "mean",
    "sum",
    "none",
    "max",
    "amax",
    "amin",
    "prod",
    "same",
    "valid",
    "constant",
    "reflect",
    "replicate",
    "circular",
    "nearest",
    "bilinear",
    "bicubic",
    "linear",
    "floor",
    "trunc",
    "ij,jk->ik",
    "",
    "tanh",
];

/// How a case is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// By its name.
    Name,
    /// The record in place, with so many operands before its numbers.
    InPlace(&'static OpRecord, usize),
    /// The method of this number, on the first five arguments.
    Method(usize),
}

/// One call.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) args: Vec<Value>,
    pub(crate) kwargs: Vec<(&'static str, Value)>,
    /// The tensors among the arguments that want gradients.
    pub(crate) leaves: Vec<Tensor>,
    /// 0 for no backward pass; else which kind.
    pub(crate) backward: usize,
    /// A gradient to start from, of any shape.
    pub(crate) gradient: Option<Tensor>,
}

/// Draws a case.
pub(crate) struct Maker {
    state: u64,
    /// Whether the case is one of sparse operands.
    sparse: bool,
}

/// One of so many cases has sparse operands.
const SPARSE: u64 = 4;

impl Maker {
    /// The same case for the same seed and number.
    pub(crate) fn new(seed: u64, number: u64) -> Maker {
        Maker {
            state: (seed << 40) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            sparse: number % SPARSE == SPARSE - 1,
        }
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Clone>(&mut self, list: &[T]) -> T {
        let i = self.below(list.len());
        list[i].clone()
    }

    pub(crate) fn int(&mut self) -> i64 {
        if self.one_in(12) {
            self.of(&EXTREME_INTS)
        } else {
            self.of(&INTS)
        }
    }

    fn float(&mut self) -> f64 {
        self.of(&FLOATS)
    }

    /// Values of any dtype: small ones, and now and then those no index or sum expects.
    pub(crate) fn filled(&mut self, shape: &[usize], dtype: DType) -> Option<Tensor> {
        let n = shape
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n < 1 << 14)?;
        let hostile = self.one_in(3);
        let t = if dtype.is_differentiable() {
            let v: Vec<f64> = (0..n)
                .map(|_| match hostile && self.one_in(3) {
                    true => self.float(),
                    false => (self.below(401) as f64 - 200.0) / 100.0,
                })
                .collect();
            Tensor::from_data(&v, shape)
        } else {
            let high = self.of(&[2, 3, 7]);
            let v: Vec<i64> = (0..n)
                .map(|_| match hostile && self.one_in(3) {
                    true => self.int(),
                    false => self.below(high) as i64,
                })
                .collect();
            Tensor::from_data(&v, shape)
        };
        t.ok()?.to_dtype(dtype).ok()
    }

    pub(crate) fn shape(&mut self) -> Vec<usize> {
        let rank = self.of(&[0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6]);
        let sizes: &[usize] = if rank < 4 {
            &[0, 1, 1, 2, 3, 7]
        } else {
            &[0, 1, 1, 2, 2, 3, 3]
        };
        (0..rank).map(|_| self.of(sizes)).collect()
    }

    /// The same values in another layout.
    fn layout(&mut self, t: &Tensor) -> Option<Tensor> {
        let n = t.ndim();
        let d = if n == 0 { 0 } else { self.below(n) } as i64;
        match self.below(8) {
            0 if n > 1 => t.transpose(0, d).ok(),
            1 if n > 1 => t
                .transpose(0, d)
                .ok()?
                .contiguous()
                .ok()?
                .transpose(0, d)
                .ok(),
            2 if n > 0 => t.slice_step(d, Some(0), None, 2).ok(),
            3 if n > 0 => {
                let wide = Tensor::cat(&[t.clone(), t.clone()], d).ok()?;
                let size = t.dims()[d as usize];
                wide.narrow(d, size.min(1), size).ok()
            }
            4 if n > 0 => {
                let mut dims = t.dims().to_vec();
                dims[d as usize] = self.of(&[0, 1, 2, 3]);
                t.slice_step(d, Some(0), Some(1), 1)
                    .ok()?
                    .expand(&dims[..])
                    .ok()
            }
            5 => t.unsqueeze(d).ok(),
            6 if n > 0 => t.select(d, 0).ok(),
            _ => Some(t.clone()),
        }
    }

    pub(crate) fn tensor(&mut self) -> Tensor {
        if self.sparse
            && self.one_in(2)
            && let Some(t) = self.sparse_tensor()
        {
            return t;
        }
        let dtype = if self.one_in(2) {
            self.of(&DTYPES[..2])
        } else {
            self.of(&DTYPES)
        };
        let shape = self.shape();
        let made = self
            .filled(&shape, dtype)
            .and_then(|t| match self.below(40) {
                0 => t.to_device(Device::Meta).ok(),
                1 => self.huge(&t),
                2 => self.huge(&t.to_device(Device::Meta).ok()?),
                3..=16 => self.layout(&t),
                _ => Some(t),
            });
        made.unwrap_or_else(|| Tensor::from_data(&[0.5f64], [1]).expect("a tensor"))
    }

    /// A tensor of more elements than memory has bytes, all in one place.
    fn huge(&mut self, t: &Tensor) -> Option<Tensor> {
        let one = t.flatten(0).ok()?.slice_step(0, Some(0), Some(1), 1).ok()?;
        let sizes: [&[usize]; 6] = [
            &[1 << 40],
            &[2, 1 << 40],
            &[1 << 20, 1 << 20],
            &[1 << 31, 3, 1],
            &[1, 1, 1 << 32, 2],
            &[1 << 58],
        ];
        let to = self.of(&sizes);
        one.reshape(vec![1usize; to.len()]).ok()?.expand(to).ok()
    }

    fn typed(&mut self, ty: Type) -> Value {
        match ty {
            Type::Tensor => self.tensor().into(),
            Type::Operand if self.one_in(2) => self.tensor().into(),
            Type::Operand | Type::Scalar => self.number(),
            Type::Int => self.int().into(),
            Type::Float => self.float().into(),
            Type::Bool => self.one_in(2).into(),
            Type::Str => self.of(&WORDS).into(),
            Type::DType => self.of(&DTYPES).into(),
            Type::Layout => self.of(&torsh_tensor::TensorLayout::ALL).into(),
            Type::Device => self
                .of(&[Device::Cpu, Device::Cpu, Device::Meta, Device::Cuda(7)])
                .into(),
            Type::Generator => Generator::new(self.next()).into(),
            Type::Any => self.any(),
        }
    }

    fn number(&mut self) -> Value {
        match self.below(5) {
            0 | 1 => self.int().into(),
            2 => self.one_in(2).into(),
            3 => Value::from(Scalar::Complex(self.float(), self.float())),
            _ => self.float().into(),
        }
    }

    /// Whatever comes.
    fn any(&mut self) -> Value {
        match self.below(13) {
            0 => Value::None,
            1 => self.one_in(2).into(),
            2 => self.int().into(),
            3 => self.number(),
            4 => self.of(&WORDS).into(),
            5 => self.of(&DTYPES).into(),
            6 => Value::Ellipsis,
            7 => {
                let mut end = || (!self.one_in(3)).then(|| self.int());
                Value::Slice(end(), end(), end())
            }
            8 => {
                let n = self.below(5);
                Value::List((0..n).map(|_| self.int().into()).collect())
            }
            9 => {
                let n = self.below(4);
                Value::Tuple((0..n).map(|_| self.any()).collect())
            }
            10 => {
                let n = self.below(4);
                Value::List((0..n).map(|_| self.tensor().into()).collect())
            }
            _ => self.tensor().into(),
        }
    }

    fn argument(&mut self, p: &Param) -> Value {
        if self.one_in(25) {
            return self.any();
        }
        if p.optional && self.one_in(3) {
            return Value::None;
        }
        if p.list.is_none() || p.list == Some(true) && self.one_in(3) {
            return self.typed(p.ty);
        }
        let n = self.of(&[0, 1, 1, 2, 2, 3, 3, 4, 5, 70]);
        // Mostly sizes and dimensions that could be meant.
        let tame = self.one_in(2);
        Value::List(
            (0..n)
                .map(|_| match p.ty {
                    Type::Int if tame => Value::Int(self.of(&[0, 1, 1, 2, 3, -1])),
                    ty => self.typed(ty),
                })
                .collect(),
        )
    }

    /// A call of wholly random arguments.
    fn random(&mut self, record: &'static OpRecord) -> (Vec<Value>, Vec<(&'static str, Value)>) {
        let signature = Signature::parse(record.schema).expect("a signature");
        let (mut args, mut kwargs) = (Vec::new(), Vec::new());
        for p in &signature.params {
            let wanted = p.default.is_none();
            if !wanted && self.one_in(2) {
                continue;
            }
            let v = self.argument(p);
            if p.keyword
                || !kwargs.is_empty()
                || args.len()
                    < signature
                        .params
                        .iter()
                        .take_while(|q| q.name != p.name)
                        .count()
            {
                kwargs.push((p.name, v));
            } else {
                args.push(v);
            }
        }
        (args, kwargs)
    }

    /// A sample of the record, or arguments of the right kinds where it has none.
    fn sample(&mut self, record: &'static OpRecord) -> (Vec<Value>, Vec<(&'static str, Value)>) {
        let dtype = self.of(&[DType::F32, DType::F64]);
        match record.samples {
            Samples::Calls(f) => {
                let made = f(&mut Sampler::new(self.next(), dtype)).unwrap_or_default();
                if made.is_empty() {
                    return self.random(record);
                }
                let s = self.of(&made);
                (s.args, s.kwargs)
            }
            Samples::Intervals(intervals) => {
                let shape = self.shape();
                let mut args = Vec::new();
                for _ in intervals {
                    let dtype = if self.one_in(2) {
                        dtype
                    } else {
                        self.of(&DTYPES)
                    };
                    let Some(t) = self.filled(&shape, dtype) else {
                        continue;
                    };
                    args.push(t.into());
                }
                let signature = Signature::parse(record.schema).expect("a signature");
                let mut kwargs = Vec::new();
                for p in signature.params.iter().skip(args.len()) {
                    if p.default.is_none() || self.one_in(2) {
                        kwargs.push((p.name, self.argument(p)));
                    }
                }
                (args, kwargs)
            }
            Samples::Nothing => self.random(record),
        }
    }

    /// Something like a value, but not what was meant.
    fn mutated(&mut self, v: &Value) -> Value {
        if self.one_in(20) {
            return self.any();
        }
        match v {
            Value::Tensor(t) => {
                let made = match self.below(12) {
                    0..=2 => t.to_dtype(self.of(&DTYPES)).ok(),
                    3..=5 => self.layout(t),
                    6 => t.to_device(Device::Meta).ok(),
                    7 => self.huge(t),
                    8 => self.filled(t.dims(), t.dtype()),
                    9 => {
                        let mut dims = t.dims().to_vec();
                        if !dims.is_empty() {
                            let d = self.below(dims.len());
                            dims[d] = self.of(&[0, 1, 2, 3, 7]);
                        }
                        self.filled(&dims, t.dtype())
                    }
                    _ => None,
                };
                Value::Tensor(made.unwrap_or_else(|| self.tensor()))
            }
            Value::List(l) | Value::Tuple(l) => {
                let mut l = l.clone();
                match self.below(5) {
                    0 => drop(l.pop()),
                    1 => {
                        let extra = l.first().cloned().unwrap_or(Value::Int(1));
                        l.push(extra);
                    }
                    2 => l.clear(),
                    _ if !l.is_empty() => {
                        let i = self.below(l.len());
                        l[i] = self.mutated(&l[i]);
                    }
                    _ => {}
                }
                Value::List(l)
            }
            Value::Int(i) => match self.below(4) {
                0 => Value::Int(i.wrapping_neg()),
                1 => Value::Int(i.wrapping_add(1)),
                _ => self.int().into(),
            },
            Value::Float(_) => self.float().into(),
            Value::Bool(b) => Value::Bool(!b),
            Value::Str(_) => self.of(&WORDS).into(),
            Value::DType(_) => self.of(&DTYPES).into(),
            _ => self.any(),
        }
    }

    fn want_gradients(&mut self, v: &mut Value, leaves: &mut Vec<Tensor>) {
        match v {
            Value::Tensor(t) if t.dtype().is_differentiable() && !self.one_in(3) => {
                let leaf = t.detach();
                if leaf.set_requires_grad(true).is_ok() {
                    leaves.push(leaf.clone());
                    *t = leaf;
                }
            }
            Value::List(l) | Value::Tuple(l) => {
                l.iter_mut().for_each(|v| self.want_gradients(v, leaves))
            }
            _ => {}
        }
    }

    /// A target of an in-place op: itself, or a view of something that is no leaf.
    fn target(&mut self, v: &Value) -> Option<Value> {
        let Value::Tensor(t) = v else { return None };
        let whole = if t.requires_grad() {
            t.mul(1).ok()?
        } else {
            t.clone()
        };
        let view = match self.below(4) {
            0 if whole.ndim() > 0 => whole.slice_step(0, Some(0), None, 2).ok()?,
            1 if whole.ndim() > 1 => whole.transpose(0, 1).ok()?,
            _ => whole,
        };
        Some(Value::Tensor(view))
    }

    /// A call of a method, of operands that mostly go together.
    fn method(&mut self) -> Case {
        let which = self.below(METHODS.len());
        let mut args: Vec<Value> = Vec::new();
        let dtype = self.of(&DTYPES);
        let kinds = [
            (&[3usize, 4][..], dtype),
            (
                &[3],
                self.of(&[DType::I64, DType::I64, DType::I32, DType::F32]),
            ),
            (&[3, 4], DType::I64),
            (&[3, 4], dtype),
            (&[3, 4], DType::Bool),
        ];
        for (shape, dtype) in kinds {
            let made = self.filled(shape, dtype).unwrap_or_else(|| self.tensor());
            args.push(match self.below(12) {
                0 => self.tensor().into(),
                1..=3 => self.layout(&made).unwrap_or(made).into(),
                _ => made.into(),
            });
        }
        if self.sparse {
            for v in [0, 3, 4] {
                self.in_layouts(&mut args[v]);
            }
        }
        let mut leaves = Vec::new();
        if self.one_in(2) {
            for v in [0, 3] {
                self.want_gradients(&mut args[v], &mut leaves);
            }
            if let Some(v) = self.target(&args[0]) {
                args[0] = v;
            }
        }
        args.extend([0; 4].map(|_| match self.one_in(2) {
            true => Value::Int(self.of(&[0, 1, 1, 2, 3, -1])),
            false => self.int().into(),
        }));
        args.extend([self.float().into(), self.of(&DTYPES).into()]);
        Case {
            name: METHODS[which].0,
            form: Form::Method(which),
            args,
            kwargs: Vec::new(),
            leaves,
            backward: self.below(5),
            gradient: None,
        }
    }

    pub(crate) fn case(&mut self) -> Case {
        if self.one_in(12) {
            return self.method();
        }
        let names = match self.sparse && !sparse::names().is_empty() {
            true => sparse::names(),
            false => names(),
        };
        let (name, ref records) = names[self.below(names.len())];
        let record = self.of(records);
        let (mut args, mut kwargs) = if self.one_in(3) {
            self.random(record)
        } else {
            self.sample(record)
        };
        for _ in 0..self.of(&[0, 0, 1, 1, 1, 2, 3]) {
            let n = args.len() + kwargs.len();
            if n == 0 {
                break;
            }
            match self.below(n) {
                i if i < args.len() => args[i] = self.mutated(&args[i]),
                i => {
                    let i = i - args.len();
                    kwargs[i].1 = self.mutated(&kwargs[i].1);
                }
            }
        }
        match self.below(40) {
            0 => drop(args.pop()),
            1 => args.push(self.any()),
            2 => kwargs.push(("bogus", self.any())),
            3 => drop(kwargs.pop()),
            4 if !args.is_empty() => args.push(args[0].clone()),
            _ => {}
        }
        if self.sparse {
            let all = args.iter_mut().chain(kwargs.iter_mut().map(|(_, v)| v));
            all.for_each(|v| self.in_layouts(v));
        }
        let (mut leaves, mut backward) = (Vec::new(), 0);
        if !self.one_in(3) {
            backward = 1 + self.below(4);
            for v in args.iter_mut().chain(kwargs.iter_mut().map(|(_, v)| v)) {
                self.want_gradients(v, &mut leaves);
            }
        }
        let mut form = Form::Name;
        if let (Rule::Pointwise(_), Samples::Intervals(operands)) = (record.rule(), record.samples)
            && self.one_in(3)
            && args.len() >= operands.len()
            && args[..operands.len()].iter().all(is_operand)
            && let Some(v) = self.target(&args[0])
        {
            args[0] = v;
            // What its method passes: as many numbers as the schema has.
            let all = Signature::parse(record.schema)
                .expect("a signature")
                .params
                .len();
            args.truncate(operands.len());
            while args.len() < all {
                args.push(self.number());
            }
            kwargs.clear();
            form = Form::InPlace(record, operands.len());
        }
        let gradient = (backward == 3).then(|| self.tensor());
        Case {
            name,
            form,
            args,
            kwargs,
            leaves,
            backward,
            gradient,
        }
    }
}

fn is_operand(v: &Value) -> bool {
    matches!(v, Value::Tensor(_)) || v.number().is_some()
}

pub(crate) type Names = Vec<(&'static str, Vec<&'static OpRecord>)>;

/// The ops called by name, with their records.
fn names() -> &'static Names {
    static NAMES: std::sync::OnceLock<Names> = std::sync::OnceLock::new();
    let only = std::env::var("TORSH_FUZZ_OP").ok();
    NAMES.get_or_init(|| {
        let all = ops::names().into_iter();
        all.filter(|n| only.as_deref().is_none_or(|o| o == *n))
            .filter_map(|n| Some((n, ops::find(n)?)))
            .collect()
    })
}

/// A value as a failure prints it.
pub(crate) fn describe(v: &Value) -> String {
    match v {
        Value::Tensor(t) if !t.layout().is_strided() => {
            let grad = if t.requires_grad() { " grad" } else { "" };
            let dense = t.pattern().map_or(0, |p| p.dense_dim());
            format!("<{} {} {dense} dense{grad}>", t.describe(), t.layout())
        }
        Value::Tensor(t) => {
            let values = match t.numel() <= 12 && t.device() == Device::Cpu {
                true => t
                    .to_vec::<f64>()
                    .map_or_else(|_| " ..".into(), |v| format!(" {v:?}")),
                false => String::new(),
            };
            let grad = if t.requires_grad() { " grad" } else { "" };
            let stride = t.stride();
            format!(
                "<{} {stride:?}+{}{grad}{values}>",
                t.describe(),
                t.storage_offset()
            )
        }
        Value::List(l) | Value::Tuple(l) => {
            format!(
                "[{}]",
                l.iter().map(describe).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Generator(_) => "Generator".into(),
        v => format!("{v:?}"),
    }
}
