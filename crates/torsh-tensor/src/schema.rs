//! PyTorch's signatures as text, and binding arguments to them.

use torsh_core::{DType, Device, Generator, Result, Scalar, TensorLayout, TorshError};

use crate::{Argument, Operand, Tensor, Value};

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
    /// How elements are stored.
    Layout,
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

/// A default value as written, for a parameter of type `ty`; `None` where it is no value.
fn parse_value(text: &str, ty: Type) -> Option<Value> {
    let quoted = |q: char| {
        let inner = text.strip_prefix(q)?.strip_suffix(q)?;
        (!inner.contains(q)).then(|| Value::Str(inner.to_string()))
    };
    match text {
        "None" => Some(Value::None),
        "True" => Some(Value::Bool(true)),
        "False" => Some(Value::Bool(false)),
        "inf" => Some(Value::Float(f64::INFINITY)),
        "-inf" => Some(Value::Float(f64::NEG_INFINITY)),
        _ if text.starts_with('\'') => quoted('\''),
        _ if text.starts_with('"') => quoted('"'),
        _ if text.starts_with('[') => {
            let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim();
            if inner.is_empty() {
                return Some(Value::List(Vec::new()));
            }
            let items = inner.split(',').map(|s| parse_value(s.trim(), ty));
            items.collect::<Option<Vec<Value>>>().map(Value::List)
        }
        _ => match text.parse::<i64>() {
            Ok(i) if ty != Type::Float => Some(Value::Int(i)),
            // Digits first: no `nan` and no `infinity`.
            _ if text
                .trim_start_matches('-')
                .starts_with(|c: char| c.is_ascii_digit()) =>
            {
                text.parse().ok().map(Value::Float)
            }
            _ => None,
        },
    }
}

/// A type as written: what it is, whether it is a list (and one item stands for one), and whether
/// `None` is taken; `None` where there is no such type.
fn parse_type(text: &str) -> Option<(Type, Option<bool>, bool)> {
    let (rest, mut optional) = match text.strip_suffix('?') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (mut base, list) = match rest.split_once('[') {
        Some((base, length)) => {
            let length = length.strip_suffix(']')?;
            if !length.chars().all(|c| c.is_ascii_digit()) {
                return None;
            }
            (base, Some(length))
        }
        None => (rest, None),
    };
    // Lists of optional items.
    if list.is_some()
        && let Some(b) = base.strip_suffix('?')
    {
        (base, optional) = (b, true);
    }
    let ty = match base {
        "Tensor" => Type::Tensor,
        "Operand" => Type::Operand,
        "Scalar" => Type::Scalar,
        "int" | "SymInt" => Type::Int,
        "float" => Type::Float,
        "bool" => Type::Bool,
        "str" => Type::Str,
        "ScalarType" => Type::DType,
        "Layout" => Type::Layout,
        "Device" => Type::Device,
        "Generator" => Type::Generator,
        "Any" => Type::Any,
        _ => return None,
    };
    // `int[1]`: a single integer stands for a list, as in Python.
    let list = list.map(|length| !length.is_empty() || ty == Type::Int);
    Some((ty, list, optional))
}

/// Whether a default is a value that the parameter takes.
fn default_fits(p: &Param, v: &Value) -> bool {
    match v {
        Value::None => p.optional || p.ty == Type::Any,
        Value::List(items) => p.list.is_some() && items.iter().all(|i| fits(p.ty, i)),
        v => p.list != Some(false) && fits(p.ty, v),
    }
}

/// What stands between the commas of a list, but not of a list within it.
fn parts(inner: &'static str) -> std::result::Result<Vec<&'static str>, String> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (i, ch) in inner.char_indices() {
        match ch {
            '[' => depth += 1,
            ']' => match depth.checked_sub(1) {
                Some(d) => depth = d,
                None => return Err("a ']' without its '['".into()),
            },
            '(' | ')' => return Err("parentheses within the parameters".into()),
            ',' if depth == 0 => {
                parts.push(inner[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err("a '[' without its ']'".into());
    }
    parts.push(inner[start..].trim());
    Ok(parts)
}

fn parse_param(part: &'static str, keyword: bool) -> std::result::Result<Param, String> {
    let (declared, default) = match part.split_once('=') {
        Some((d, v)) => (d.trim(), Some(v.trim())),
        None => (part, None),
    };
    let Some((type_text, name)) = declared.rsplit_once(' ') else {
        return Err(format!("'{part}' is not a type and a name"));
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(fine) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("'{name}' is no name"));
    }
    let Some((ty, list, optional)) = parse_type(type_text.trim()) else {
        return Err(format!("there is no type '{}'", type_text.trim()));
    };
    let mut param = Param {
        name,
        ty,
        list,
        optional,
        default: None,
        keyword,
    };
    if let Some(text) = default {
        match parse_value(text, ty) {
            Some(v) if default_fits(&param, &v) => param.default = Some(v),
            _ => return Err(format!("'{name}' of type {type_text} cannot be {text}")),
        }
    }
    Ok(param)
}

fn parse_params(text: &'static str) -> std::result::Result<Vec<Param>, String> {
    let Some(open) = text.trim().strip_prefix('(') else {
        return Err("it starts with '('".into());
    };
    let Some((inner, after)) = open.split_once(')') else {
        return Err("the closing ')' is missing".into());
    };
    if !(after.is_empty() || after.trim_start().starts_with("->")) {
        return Err(format!("'{after}' behind the parameters"));
    }
    let mut params: Vec<Param> = Vec::new();
    if inner.trim().is_empty() {
        return Ok(params);
    }
    let mut keyword = false;
    for part in parts(inner)? {
        if part == "*" {
            if keyword {
                return Err("a second '*'".into());
            }
            keyword = true;
            continue;
        }
        let param = parse_param(part, keyword)?;
        if params.iter().any(|p| p.name == param.name) {
            return Err(format!("a second '{}'", param.name));
        }
        params.push(param);
    }
    Ok(params)
}

impl Signature {
    /// Reads `(Tensor input, int[1]? dim=None, *, ScalarType? dtype=None)`; results after `->` are
    /// for the reader. An `Operand` is a tensor or a number, `Any` is whatever comes.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Type};
    /// let s = Signature::parse("(Tensor input, float p=0.5)")?;
    /// assert_eq!((s.params[1].name, s.params[1].ty), ("p", Type::Float));
    /// assert!(Signature::parse("(Tensor input, floot p=0.5)").is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Text that is no signature, a type that is not there, a name that comes twice, and a default
    /// that its parameter does not take.
    pub fn parse(text: &'static str) -> Result<Signature> {
        match parse_params(text) {
            Ok(params) => Ok(Signature { params }),
            Err(why) => Err(TorshError::invalid(
                "",
                format!("{why}, in the signature {text}"),
            )),
        }
    }

    /// Puts arguments in the order of the parameters; `Err` says why they do not fit.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Tensor, Value, tensor};
    /// let signature = Signature::parse("(Tensor input, int dim=-1)")?;
    /// let bound = signature.bind(&[Value::from(&tensor![1.0])], &[]).expect("it fits");
    /// assert_eq!(bound.int(1), -1);
    /// assert!(signature.bind(&[], &[]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
        Type::Layout => matches!(v, Value::Layout(_)),
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
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(int n, float p=0.5)")?.bind(&[Value::Int(3)], &[]).expect("it fits");
    /// assert!(matches!(bound.value(0), Value::Int(3)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn value(&self, i: usize) -> &Value {
        self.values.get(i).unwrap_or(&Value::None)
    }

    /// The value of parameter `i` as the type of an option.
    ///
    /// ```
    /// use torsh_tensor::{DType, Signature};
    /// let bound = Signature::parse("(ScalarType? dtype=None, float p=0.5)")?.bind(&[], &[]).expect("it fits");
    /// assert_eq!((bound.get::<Option<DType>>(0)?, bound.get::<f64>(1)?), (None, 0.5));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A value that the type does not have.
    pub fn get<T: Argument>(&self, i: usize) -> Result<T> {
        T::read(self, i)
    }

    /// How many parameters there are.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(int n, float p=0.5)")?.bind(&[Value::Int(3)], &[]).expect("it fits");
    /// assert_eq!(bound.len(), 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// use torsh_tensor::Signature;
    /// assert!(Signature::parse("()")?.bind(&[], &[]).expect("it fits").is_empty());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether parameter `i` is `None`.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(int n, int? m=None)")?.bind(&[Value::Int(3)], &[]).expect("it fits");
    /// assert!(bound.is_none(1) && !bound.is_none(0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_none(&self, i: usize) -> bool {
        matches!(self.value(i), Value::None)
    }

    /// A tensor.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Tensor, Value, tensor};
    /// let bound = Signature::parse("(Tensor x)")?.bind(&[Value::from(&tensor![1])], &[]).expect("it fits");
    /// assert_eq!(*bound.tensor(0)?, tensor![1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::{Signature, Tensor};
    /// let bound = Signature::parse("(Tensor? x=None)")?.bind(&[], &[]).expect("it fits");
    /// assert!(bound.opt_tensor(0).is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn opt_tensor(&self, i: usize) -> Option<&Tensor> {
        match self.value(i) {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// A tensor or number.
    ///
    /// ```
    /// use torsh_tensor::{Operand, Signature, Value};
    /// let bound = Signature::parse("(Operand x)")?.bind(&[Value::Int(2)], &[]).expect("it fits");
    /// assert_eq!(bound.operand(0)?.to_tensor()?.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::{Signature, Tensor, Value, tensor};
    /// let list = Value::from(vec![tensor![1], tensor![2]]);
    /// let bound = Signature::parse("(Tensor[] xs)")?.bind(&[list], &[]).expect("it fits");
    /// assert_eq!(bound.tensors(0), [tensor![1], tensor![2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn tensors(&self, i: usize) -> Vec<Tensor> {
        self.value(i).tensors()
    }

    /// A number; 0 where it is none.
    ///
    /// ```
    /// use torsh_tensor::{Scalar, Signature, Value};
    /// let bound = Signature::parse("(Scalar x)")?.bind(&[Value::Int(2)], &[]).expect("it fits");
    /// assert_eq!(bound.scalar(0), Scalar::Int(2));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn scalar(&self, i: usize) -> Scalar {
        self.value(i).number().unwrap_or(Scalar::Int(0))
    }

    /// A number, where given.
    ///
    /// ```
    /// use torsh_tensor::{Scalar, Signature};
    /// let bound = Signature::parse("(Scalar? x=None)")?.bind(&[], &[]).expect("it fits");
    /// assert_eq!(bound.opt_scalar(0), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn opt_scalar(&self, i: usize) -> Option<Scalar> {
        self.value(i).number()
    }

    /// An integer.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(int n)")?.bind(&[Value::Int(3)], &[]).expect("it fits");
    /// assert_eq!(bound.int(0), 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn int(&self, i: usize) -> i64 {
        self.scalar(i).to_i64()
    }

    /// An integer, where given.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(int? n=None)")?.bind(&[], &[("n", Value::Int(3))]).expect("it fits");
    /// assert_eq!(bound.opt_int(0), Some(3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn opt_int(&self, i: usize) -> Option<i64> {
        self.opt_scalar(i).map(Scalar::to_i64)
    }

    /// A real number.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(float p)")?.bind(&[Value::Int(3)], &[]).expect("it fits");
    /// assert_eq!(bound.float(0), 3.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn float(&self, i: usize) -> f64 {
        self.scalar(i).to_f64()
    }

    /// A real number, where given.
    ///
    /// ```
    /// use torsh_tensor::Signature;
    /// let bound = Signature::parse("(float? p=None)")?.bind(&[], &[]).expect("it fits");
    /// assert_eq!(bound.opt_float(0), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn opt_float(&self, i: usize) -> Option<f64> {
        self.opt_scalar(i).map(Scalar::to_f64)
    }

    /// A flag.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(bool keepdim=False)")?.bind(&[Value::Bool(true)], &[]).expect("it fits");
    /// assert!(bound.bool(0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn bool(&self, i: usize) -> bool {
        matches!(self.value(i), Value::Bool(true))
    }

    /// A list of integers; empty where none is given.
    ///
    /// ```
    /// use torsh_tensor::{Signature, Value};
    /// let bound = Signature::parse("(int[] size)")?.bind(&[Value::from(vec![2i64, 3])], &[]).expect("it fits");
    /// assert_eq!(bound.ints(0), [2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn ints(&self, i: usize) -> Vec<i64> {
        self.opt_ints(i).unwrap_or_default()
    }

    /// A list of integers, where given.
    ///
    /// ```
    /// use torsh_tensor::Signature;
    /// let bound = Signature::parse("(int[]? dim=None)")?.bind(&[], &[]).expect("it fits");
    /// assert_eq!(bound.opt_ints(0), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::Signature;
    /// let bound = Signature::parse("(str mode='constant')")?.bind(&[], &[]).expect("it fits");
    /// assert_eq!(bound.str(0), "constant");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn str(&self, i: usize) -> &str {
        match self.value(i) {
            Value::Str(s) => s,
            _ => "",
        }
    }

    /// A dtype, where given.
    ///
    /// ```
    /// use torsh_tensor::Signature;
    /// let bound = Signature::parse("(ScalarType? dtype=None)")?.bind(&[], &[]).expect("it fits");
    /// assert_eq!(bound.dtype(0), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn dtype(&self, i: usize) -> Option<DType> {
        match self.value(i) {
            Value::DType(d) => Some(*d),
            _ => None,
        }
    }

    /// A layout, where given.
    ///
    /// ```
    /// use torsh_tensor::{Signature, TensorLayout, Value};
    /// let signature = Signature::parse("(Layout layout)")?;
    /// let bound = signature.bind(&[Value::Layout(TensorLayout::SparseCoo)], &[]).expect("it fits");
    /// assert_eq!(bound.layout(0), Some(TensorLayout::SparseCoo));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn layout(&self, i: usize) -> Option<TensorLayout> {
        match self.value(i) {
            Value::Layout(l) => Some(*l),
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
