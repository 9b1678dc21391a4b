//! PyTorch's signatures as text, and binding arguments to them.

use torsh_core::{DType, Device, Generator, Result, Scalar, TorshError};

use crate::{Operand, Tensor, Value};

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    /// A tensor.
    Tensor,
    /// A tensor or a number.
    Operand,
    /// A number.
    Scalar,
    /// An integer.
    Int,
    /// A real number.
    Float,
    /// A bool.
    Bool,
    /// Text.
    Str,
    /// A dtype.
    DType,
    /// A device.
    Device,
    /// A generator.
    Generator,
    /// Whatever comes.
    Any,
}

/// One parameter of a signature.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub ty: Type,
    /// Whether it takes a list of that, and whether one item alone stands for a list.
    pub list: Option<bool>,
    /// Whether it takes `None`.
    pub optional: bool,
    /// Its value when not given; `None` where it must be given.
    pub default: Option<Value>,
    /// Whether it can only be given by name.
    pub keyword: bool,
}

/// A parsed signature.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The parameters in order.
    pub params: Vec<Param>,
}

fn parse_default(text: &'static str, ty: Type) -> Value {
    match text {
        "None" => Value::None,
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        "inf" => Value::Float(f64::INFINITY),
        _ if text.starts_with(['\'', '"']) => {
            Value::Str(text.trim_matches(['\'', '"']).to_string())
        }
        _ if text.starts_with('[') => Value::List(
            text.trim_matches(['[', ']'])
                .split(',')
                .filter(|s| !s.trim().is_empty())
                .map(|s| parse_default(s.trim(), ty))
                .collect(),
        ),
        _ => match text.parse::<i64>() {
            Ok(i) if ty != Type::Float => Value::Int(i),
            _ => Value::Float(text.parse().unwrap_or(f64::NAN)),
        },
    }
}

impl Signature {
    /// Reads `(Tensor input, int[1]? dim=None, *, ScalarType? dtype=None)`; what follows the
    /// closing parenthesis is for the reader. An `Operand` is a tensor or a number.
    pub fn parse(text: &'static str) -> Signature {
        let inner = text.trim().trim_start_matches('(');
        let inner = &inner[..inner.rfind(')').unwrap_or(inner.len())];
        let mut params = Vec::new();
        let mut keyword = false;
        let mut depth = 0;
        let mut start = 0;
        let mut parts = Vec::new();
        for (i, ch) in inner.char_indices() {
            match ch {
                '[' => depth += 1,
                ']' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(&inner[start..i]);
                    start = i + 1;
                }
                _ => {}
            }
        }
        parts.push(&inner[start..]);
        for part in parts {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            if part == "*" {
                keyword = true;
                continue;
            }
            let (decl, default) = match part.split_once('=') {
                Some((d, v)) => (d.trim(), Some(v.trim())),
                None => (part, None),
            };
            let (ty_text, name) = decl.rsplit_once(' ').unwrap_or(("Any", decl));
            let optional = ty_text.contains('?');
            let plain = ty_text.replace('?', "");
            let (base, list) = match plain.split_once('[') {
                // int[1]: a single integer stands for a list, as in Python.
                Some((b, n)) => (b.to_string(), Some(n != "]" || b == "int")),
                None => (plain, None),
            };
            let ty = match base.trim() {
                "Tensor" => Type::Tensor,
                "Operand" => Type::Operand,
                "Scalar" => Type::Scalar,
                "int" | "SymInt" => Type::Int,
                "float" => Type::Float,
                "bool" => Type::Bool,
                "str" => Type::Str,
                "ScalarType" | "dtype" => Type::DType,
                "Device" => Type::Device,
                "Generator" => Type::Generator,
                _ => Type::Any,
            };
            params.push(Param {
                name,
                ty,
                list,
                optional,
                default: default.map(|d| parse_default(d, ty)),
                keyword,
            });
        }
        Signature { params }
    }

    /// Puts arguments in the order of the parameters; `Err` says why they do not fit.
    pub fn bind(
        &self,
        args: &[Value],
        kwargs: &[(&str, Value)],
    ) -> std::result::Result<Bound, String> {
        let mut values: Vec<Option<Value>> = vec![None; self.params.len()];
        let mut args = args;
        let positional = self.params.iter().filter(|p| !p.keyword).count();
        // `x.permute(0, 1)` and `x.permute((0, 1))`: trailing integers make up a last list, unless
        // they can be other arguments, as in `F.max_pool2d(x, 3, 2)`.
        let gathered;
        let lists = |p: &Param| match p.ty {
            Type::Int => p.list.is_some(),
            // `Tensor[1]` is written for Python's `*tensors`.
            Type::Tensor => p.list == Some(true),
            _ => false,
        };
        if let Some(at) = self.params.iter().position(|p| !p.keyword && lists(p)) {
            let last = at + 1 == positional
                || self.params[at + 1..]
                    .iter()
                    .all(|p| p.keyword || p.default.is_some() && p.ty != Type::Int);
            let ty = self.params[at].ty;
            if last && args.len() > at + 1 && args[at..].iter().all(|v| fits(ty, v)) {
                let mut v = args[..at].to_vec();
                v.push(Value::List(args[at..].to_vec()));
                gathered = v;
                args = &gathered;
            }
        }
        if args.len() > positional {
            return Err(format!(
                "takes {positional} positional arguments, got {}",
                args.len()
            ));
        }
        for (slot, v) in values.iter_mut().zip(args) {
            *slot = Some(v.clone());
        }
        for (name, v) in kwargs {
            let canonical = match *name {
                "axis" => "dim",
                "keepdims" => "keepdim",
                n => n,
            };
            let at = self
                .params
                .iter()
                .position(|p| {
                    p.name == canonical
                        || p.name == *name
                        || (p.name == "input" && *name == "self")
                        || (p.name == "self" && *name == "input")
                })
                .ok_or_else(|| format!("has no argument '{name}'"))?;
            if values[at].is_some() {
                return Err(format!("got '{name}' twice"));
            }
            values[at] = Some(v.clone());
        }
        let mut out = Vec::with_capacity(values.len());
        for (p, v) in self.params.iter().zip(values) {
            let v = match v {
                Some(v) => v,
                None => match &p.default {
                    Some(d) => {
                        out.push(d.clone());
                        continue;
                    }
                    None => return Err(format!("misses '{}'", p.name)),
                },
            };
            out.push(accept(p, v)?);
        }
        Ok(Bound { values: out })
    }
}

fn accept(p: &Param, v: Value) -> std::result::Result<Value, String> {
    let refuse = |v: &Value| Err(format!("'{}' cannot be a {}", p.name, v.kind()));
    if matches!(v, Value::None) {
        return if p.optional || p.ty == Type::Any {
            Ok(v)
        } else {
            refuse(&v)
        };
    }
    match p.list {
        Some(single) => match v {
            Value::List(items) | Value::Tuple(items) => {
                for i in &items {
                    // Lists of optional tensors hold None.
                    if !(fits(p.ty, i) || p.optional && matches!(i, Value::None)) {
                        return Err(format!("'{}' cannot hold a {}", p.name, i.kind()));
                    }
                }
                Ok(Value::List(items))
            }
            v if single && fits(p.ty, &v) => Ok(Value::List(vec![v])),
            v => refuse(&v),
        },
        None if fits(p.ty, &v) => Ok(v),
        None => refuse(&v),
    }
}

fn fits(ty: Type, v: &Value) -> bool {
    match ty {
        Type::Any => true,
        Type::Tensor => matches!(v, Value::Tensor(_)),
        Type::Operand => matches!(v, Value::Tensor(_)) || v.number().is_some(),
        Type::Scalar => v.number().is_some(),
        Type::Int => matches!(v, Value::Int(_)),
        Type::Float => matches!(v, Value::Float(_) | Value::Int(_)),
        Type::Bool => matches!(v, Value::Bool(_)),
        Type::Str => matches!(v, Value::Str(_)),
        Type::DType => matches!(v, Value::DType(_)),
        Type::Device => matches!(v, Value::Device(_)),
        Type::Generator => matches!(v, Value::Generator(_)),
    }
}

/// Arguments in the order of a signature's parameters, of the types it names.
#[derive(Clone, Debug)]
pub struct Bound {
    values: Vec<Value>,
}

impl Bound {
    /// The value of parameter `i`.
    pub fn value(&self, i: usize) -> &Value {
        self.values.get(i).unwrap_or(&Value::None)
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether parameter `i` is `None`.
    pub fn is_none(&self, i: usize) -> bool {
        matches!(self.value(i), Value::None)
    }

    /// A tensor.
    pub fn tensor(&self, i: usize) -> Result<&Tensor> {
        match self.value(i) {
            Value::Tensor(t) => Ok(t),
            v => Err(TorshError::invalid(
                "",
                format!("argument {i} must be a Tensor, not {}", v.kind()),
            )),
        }
    }

    /// A tensor, where given.
    pub fn opt_tensor(&self, i: usize) -> Option<&Tensor> {
        match self.value(i) {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// A tensor or number.
    pub fn operand(&self, i: usize) -> Result<Operand<'_>> {
        match self.value(i) {
            Value::Tensor(t) => Ok(Operand::Ref(t)),
            v => v.number().map(Operand::Number).ok_or_else(|| {
                TorshError::invalid(
                    "",
                    format!(
                        "argument {i} must be a Tensor or a number, not {}",
                        v.kind()
                    ),
                )
            }),
        }
    }

    /// The tensors of a list.
    pub fn tensors(&self, i: usize) -> Vec<Tensor> {
        self.value(i).tensors()
    }

    /// A number; 0 where it is none.
    pub fn scalar(&self, i: usize) -> Scalar {
        self.value(i).number().unwrap_or(Scalar::Int(0))
    }

    /// A number, where given.
    pub fn opt_scalar(&self, i: usize) -> Option<Scalar> {
        self.value(i).number()
    }

    /// An integer.
    pub fn int(&self, i: usize) -> i64 {
        self.scalar(i).to_i64()
    }

    /// An integer, where given.
    pub fn opt_int(&self, i: usize) -> Option<i64> {
        self.opt_scalar(i).map(Scalar::to_i64)
    }

    /// A real number.
    pub fn float(&self, i: usize) -> f64 {
        self.scalar(i).to_f64()
    }

    /// A real number, where given.
    pub fn opt_float(&self, i: usize) -> Option<f64> {
        self.opt_scalar(i).map(Scalar::to_f64)
    }

    /// A flag.
    pub fn bool(&self, i: usize) -> bool {
        matches!(self.value(i), Value::Bool(true))
    }

    /// A list of integers; empty where none is given.
    pub fn ints(&self, i: usize) -> Vec<i64> {
        self.opt_ints(i).unwrap_or_default()
    }

    /// A list of integers, where given.
    pub fn opt_ints(&self, i: usize) -> Option<Vec<i64>> {
        match self.value(i) {
            Value::Int(v) => Some(vec![*v]),
            v => v.items().map(|l| {
                l.iter()
                    .filter_map(Value::number)
                    .map(Scalar::to_i64)
                    .collect()
            }),
        }
    }

    /// A list of real numbers, where given.
    pub fn opt_floats(&self, i: usize) -> Option<Vec<f64>> {
        self.value(i).items().map(|l| {
            l.iter()
                .filter_map(Value::number)
                .map(Scalar::to_f64)
                .collect()
        })
    }

    /// Text; empty where none is given.
    pub fn str(&self, i: usize) -> &str {
        match self.value(i) {
            Value::Str(s) => s,
            _ => "",
        }
    }

    /// A dtype, where given.
    pub fn dtype(&self, i: usize) -> Option<DType> {
        match self.value(i) {
            Value::DType(d) => Some(*d),
            _ => None,
        }
    }

    /// A device, where given.
    pub fn device(&self, i: usize) -> Option<Device> {
        match self.value(i) {
            Value::Device(d) => Some(*d),
            _ => None,
        }
    }

    /// A generator, where given.
    pub fn generator(&self, i: usize) -> Option<&Generator> {
        match self.value(i) {
            Value::Generator(g) => Some(g),
            _ => None,
        }
    }
}
