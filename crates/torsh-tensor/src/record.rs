//! The op record: everything ToRSh knows about an op, in one static.

use smallvec::SmallVec;
use torsh_core::kernel::KernelKey;
use torsh_core::pointwise::KeepsZeros;
use torsh_core::{
    Attributes, DType, Device, Kernel, Layout, Result, SavedAttributes, Scalar, Shape, Strides,
    TorshError,
};

use crate::Tensor;
use crate::Value;
use crate::autocast::Autocast;
use crate::call::{Arg, DefinitionCx, Outputs};
use crate::node::{BackwardCx, Grads};
use crate::schema::Bound;

/// What an op is, as far as the dispatcher cares.
#[derive(Clone, Copy)]
pub enum Rule {
    /// Broadcast, promote, one kernel of the pointwise table.
    Pointwise(Pointwise),
    /// Another layout on the same storage.
    View(fn(&ViewCx<'_>, &mut Layout) -> Result<()>),
    /// Another layout on the same storage, with another dtype (in units of which the layout
    /// counts).
    ViewAs(fn(&ViewCx<'_>) -> Result<(Layout, DType)>),
    /// A kernel whose outputs the rule plans.
    Kernel(fn(&PlanCx<'_>) -> Result<Plan>),
    /// Written in other ops; never reaches the dispatcher itself.
    Composite,
}

/// The dtype rules of pointwise ops; see `torsh_core::pointwise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointwise {
    /// The promoted dtype in and out.
    Promote,
    /// The promoted dtype in and out; bool operands are refused, as PyTorch's `-` does.
    Number,
    /// The promoted dtype, integers and bool as the default dtype.
    Float,
    /// The promoted dtype in, bool out.
    Bool,
    /// As `Bool`, and half-precision operands compare with complex numbers too.
    Equality,
    /// The promoted dtype in, its real type out.
    Real,
}

/// What a view rule reads.
pub struct ViewCx<'a> {
    /// The tensor that is viewed.
    pub layout: &'a Layout,
    /// Its dtype.
    pub dtype: DType,
    /// The call's other arguments.
    pub attrs: &'a dyn Attributes,
}

impl ViewCx<'_> {
    /// The call's attributes, of the op's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    #[inline]
    pub fn attrs<T: Attributes>(&self) -> Result<&T> {
        self.attrs.expect()
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.layout.shape
    }
}

/// What a plan reads: the operands and the other arguments.
pub struct PlanCx<'a> {
    pub(crate) args: &'a [Arg<'a>],
    /// The arguments that are no tensors.
    pub attrs: &'a dyn Attributes,
}

impl<'a> PlanCx<'a> {
    /// Operand `i`, which must be there.
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor> {
        match self.args.get(i) {
            Some(Arg::T(t)) => Ok(t),
            _ => Err(TorshError::invalid(
                "",
                format!("operand {i} must be a tensor"),
            )),
        }
    }
    /// Operand `i`, where given.
    pub fn opt_tensor(&self, i: usize) -> Option<&'a Tensor> {
        match self.args.get(i) {
            Some(Arg::T(t)) => Some(t),
            _ => None,
        }
    }
    /// How many operands there are, absent ones included.
    pub fn len(&self) -> usize {
        self.args.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }
    /// The call's attributes, of the op's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    #[inline]
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.attrs.expect()
    }
}

/// One result to allocate.
pub struct Spec {
    /// Its dtype.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// Its strides where they are not row-major: those of the same elements in another order, none of
    /// which lies beyond as many as the shape has.
    pub strides: Option<Strides>,
    /// The shape the kernel sees, of as many elements, where it differs (a reduction's with its
    /// dimensions kept).
    pub kernel_shape: Option<Shape>,
}

impl Spec {
    /// A row-major result.
    ///
    /// ```
    /// use torsh_tensor::record::Spec;
    /// use torsh_tensor::{DType, Shape};
    /// let spec = Spec::new(Shape::from([2, 3]), DType::F32);
    /// assert_eq!((spec.shape.dims(), spec.dtype), (&[2, 3][..], DType::F32));
    /// ```
    pub fn new(shape: Shape, dtype: DType) -> Spec {
        Spec {
            dtype,
            shape,
            strides: None,
            kernel_shape: None,
        }
    }
}

/// The dtype a kernel computes in, and what to allocate for it.
pub struct Plan {
    /// The dtype to compute in.
    pub compute: DType,
    /// The results.
    pub outputs: SmallVec<[Spec; 2]>,
    /// Where the op runs; where not given, on the device of its operands.
    pub device: Option<Device>,
}

impl Plan {
    /// One row-major result.
    ///
    /// ```
    /// use torsh_tensor::record::Plan;
    /// use torsh_tensor::{DType, Shape};
    /// // A comparison computes in the operands' dtype and gives bools.
    /// let plan = Plan::one(DType::F32, Shape::from([2]), DType::Bool);
    /// assert_eq!((plan.compute, plan.outputs[0].dtype), (DType::F32, DType::Bool));
    /// ```
    pub fn one(compute: DType, shape: Shape, dtype: DType) -> Plan {
        // Not collected: an iterator would move what has some 200 bytes three times.
        let mut outputs = SmallVec::new();
        outputs.push(Spec::new(shape, dtype));
        Plan {
            compute,
            outputs,
            device: None,
        }
    }

    /// Several results.
    ///
    /// ```
    /// use torsh_tensor::record::{Plan, Spec};
    /// use torsh_tensor::{DType, Shape};
    /// let shape = Shape::from([2]);
    /// let specs = [Spec::new(shape.clone(), DType::F32), Spec::new(shape, DType::I64)];
    /// assert_eq!(Plan::many(DType::F32, specs).outputs.len(), 2);
    /// ```
    pub fn many(compute: DType, outputs: impl IntoIterator<Item = Spec>) -> Plan {
        Plan {
            compute,
            outputs: outputs.into_iter().collect(),
            device: None,
        }
    }

    /// The plan on a device, for an op that makes a tensor of no other.
    #[must_use]
    pub fn on(mut self, device: Device) -> Plan {
        self.device = Some(device);
        self
    }
}

/// The gradient of one operand of an op.
#[derive(Clone, Copy)]
pub struct InputGrad {
    /// Which operands the formula reads; a bit each.
    pub inputs: u64,
    /// Which results it reads; a bit each.
    pub outputs: u64,
    /// The formula. Broadcasting and promotion are undone by the engine.
    pub formula: fn(&BackwardCx<'_>) -> Result<Tensor>,
}

/// How gradients flow through an op. There is no silent "not at all".
#[derive(Clone, Copy)]
pub enum Backward {
    /// The op is written in others, whose gradients it has.
    Composite,
    /// The results are no differentiable function of the operands (indices, bools, shapes).
    NonDifferentiable,
    /// There is a derivative, but nobody wrote it: asking for it is an error that says so.
    Missing,
    /// A formula per operand.
    PerInput(&'static [InputGrad]),
    /// One formula for all operands.
    Full {
        /// Which operands it reads; a bit each.
        inputs: u64,
        /// Which results it reads; a bit each.
        outputs: u64,
        /// Results that are never differentiable (indices); a bit each.
        constant: u64,
        /// The formula.
        formula: fn(&BackwardCx<'_>) -> Result<Grads>,
    },
}

/// The arguments of one sample call.
#[derive(Clone, Debug)]
pub struct Sample {
    /// By position.
    pub args: Vec<Value>,
    /// By name.
    pub kwargs: Vec<(&'static str, Value)>,
}

impl Sample {
    /// A call with these arguments.
    ///
    /// ```
    /// use torsh_tensor::{Value, record::Sample};
    /// let call = Sample::new([Value::Int(3)]).kw("dim", 1i64);
    /// assert_eq!((call.args.len(), call.kwargs.len()), (1, 1));
    /// ```
    pub fn new(args: impl IntoIterator<Item = Value>) -> Sample {
        Sample {
            args: args.into_iter().collect(),
            kwargs: Vec::new(),
        }
    }

    /// With one more argument by position.
    ///
    /// ```
    /// use torsh_tensor::record::Sample;
    /// assert_eq!(Sample::new([]).arg(3).args.len(), 1);
    /// ```
    #[must_use]
    pub fn arg(mut self, value: impl Into<Value>) -> Sample {
        self.args.push(value.into());
        self
    }

    /// With an argument by name.
    #[must_use]
    pub fn kw(mut self, name: &'static str, value: impl Into<Value>) -> Sample {
        self.kwargs.push((name, value.into()));
        self
    }
}

/// A [`Sample`]: arguments by position and then by name, each of which becomes a [`Value`].
///
/// ```
/// use torsh_tensor::{record::sample, tensor};
/// let call = sample![tensor![1.0, 2.0], 3, dim = [0, 1], keepdim = true];
/// assert_eq!((call.args.len(), call.kwargs.len()), (2, 2));
/// ```
pub use crate::__sample as sample;

#[doc(hidden)]
#[macro_export]
macro_rules! __sample {
    (@ $sample:expr;) => {
        $sample
    };
    (@ $sample:expr; $name:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__sample!(@ $sample.kw(stringify!($name), $value); $($($rest)*)?)
    };
    (@ $sample:expr; $value:expr $(, $($rest:tt)*)?) => {
        $crate::__sample!(@ $sample.arg($value); $($($rest)*)?)
    };
    ($($arguments:tt)*) => {
        $crate::__sample!(@ $crate::record::Sample::new([]); $($arguments)*)
    };
}

/// Where the sample calls of an op come from.
#[derive(Clone, Copy)]
pub enum Samples {
    /// Operands drawn from these intervals, in several shapes.
    Intervals(&'static [(f64, f64)]),
    /// A function that makes them.
    Calls(fn(&mut crate::sample::Sampler) -> Result<Vec<Sample>>),
    /// None, for ops that have no derivative to check.
    Nothing,
}

/// An op's results, computed by other ops.
pub type Definition = fn(&DefinitionCx<'_>) -> Result<Outputs>;

/// Everything known about an op. See `docs/architecture/ops.md`, "How to add an op".
///
/// Which kernel runs on what a plan allocates is the kernel's to trust, so only `unsafe` code pairs
/// them, with [`OpRecord::with_kernel`]:
///
/// ```compile_fail,E0133
/// use torsh_core::{Kernel, Shape};
/// use torsh_tensor::DType;
/// use torsh_tensor::record::{OpRecord, Plan};
/// static FORGED: OpRecord = OpRecord::new("forged", "", "")
///     .with_kernel(Kernel::Arange, |_| Ok(Plan::one(DType::I32, Shape::new(&[4]), DType::F64)));
/// ```
///
/// ```compile_fail,E0133
/// use torsh_core::Kernel;
/// use torsh_tensor::record::{OpRecord, Pointwise};
/// static FORGED: OpRecord =
///     OpRecord::new("forged", "", "").with_pointwise(Pointwise::Real, Kernel::Arange);
/// ```
///
/// ```compile_fail,E0616
/// use torsh_tensor::record::{OpRecord, Rule};
/// fn forged(mut record: OpRecord, rule: Rule) -> OpRecord {
///     record.rule = rule;
///     record
/// }
/// ```
pub struct OpRecord {
    /// PyTorch's name, with the overload after a dot where the last part names one
    /// (`sum.dim`, `nn.functional.relu`).
    pub name: &'static str,
    /// PyTorch's own name.
    base: &'static str,
    /// What it computes.
    pub doc: &'static str,
    /// PyTorch's signature; of an internal op its operands and, behind `*`, the fields of its attributes.
    pub schema: &'static str,
    /// Whether only other ops call it.
    internal: bool,
    /// Shapes and dtypes. Not public, nor is the key: what goes together is the kernel's Safety.
    pub(crate) rule: Rule,
    /// The kernel's key.
    pub(crate) kernel: Option<Kernel>,
    /// Whether the op may be called with any operands and attributes, because its plan checks all
    /// that its kernel relies on. The built-in ones leave part of that to their methods.
    pub(crate) open: bool,
    /// Whether it gives 0 for 0, and so runs on the values of a sparse operand.
    pub(crate) keeps_zeros: Option<KeepsZeros>,
    /// The results in other ops, for devices without the kernel.
    pub definition: Option<Definition>,
    /// The derivative.
    pub backward: Backward,
    /// Makes the numbers of a pointwise row from those that its schema binds.
    pub(crate) numbers: Option<fn(&[Scalar]) -> SavedAttributes>,
    /// The call by name.
    pub by_name: Option<fn(&Bound) -> Result<Value>>,
    /// Sample calls.
    pub samples: Samples,
    /// What it does with its operands in an autocast region.
    pub autocast: Autocast,
}

impl OpRecord {
    /// A composite op; the other kinds are made from it by the methods below.
    ///
    /// ```
    /// use torsh_tensor::record::OpRecord;
    /// static TWICE: OpRecord = OpRecord::new("twice", "Each element times 2.", "(Tensor input)");
    /// assert_eq!(TWICE.base_name(), "twice");
    /// ```
    pub const fn new(name: &'static str, doc: &'static str, schema: &'static str) -> OpRecord {
        OpRecord {
            name,
            base: name,
            doc,
            schema,
            internal: false,
            rule: Rule::Composite,
            kernel: None,
            open: false,
            keeps_zeros: None,
            definition: None,
            backward: Backward::Composite,
            numbers: None,
            by_name: None,
            samples: Samples::Nothing,
            autocast: Autocast::Keep,
        }
    }

    /// Says that the part of the name after the last dot is an overload's: `sum.dim` is called
    /// as `sum`.
    #[must_use]
    pub const fn overload(mut self) -> OpRecord {
        let bytes = self.name.as_bytes();
        let mut i = bytes.len();
        while i > 0 {
            i -= 1;
            if bytes[i] == b'.' {
                self.base = self.name.split_at(i).0;
                break;
            }
        }
        self
    }

    /// Says that other ops call this one, and programs do not: `ops::call` knows no such name. The schema lists the
    /// operands of the call and, behind `*`, the fields of its attributes.
    #[must_use]
    pub const fn internal(mut self) -> OpRecord {
        self.internal = true;
        self
    }

    /// Whether only other ops call it.
    ///
    /// ```
    /// use torsh_tensor::ops;
    /// let record = ops::records().find(|r| r.name == "convolution").expect("what conv2d calls");
    /// assert!(record.is_internal() && record.schema.starts_with("(Tensor input, Tensor weight, Tensor? bias, *, "));
    /// assert!(ops::find("convolution").is_none());
    /// ```
    pub const fn is_internal(&self) -> bool {
        self.internal
    }

    /// A pointwise op. (`with_pointwise` of other crates is `unsafe`.)
    #[must_use]
    pub(crate) const fn pointwise(mut self, rule: Pointwise, kernel: Kernel) -> OpRecord {
        self.rule = Rule::Pointwise(rule);
        self.kernel = Some(kernel);
        self.backward = Backward::Missing;
        self
    }

    /// Says that the op gives 0 for 0, and so runs on the values of a sparse operand.
    #[must_use]
    pub(crate) const fn keeps_zeros(mut self, kind: KeepsZeros) -> OpRecord {
        self.keeps_zeros = Some(kind);
        self
    }

    /// An op with its own plan and kernel, whose method checks what the plan does not.
    /// (`with_kernel` of other crates is `unsafe`.)
    #[must_use]
    pub(crate) const fn kernel(
        mut self,
        kernel: Kernel,
        plan: fn(&PlanCx<'_>) -> Result<Plan>,
    ) -> OpRecord {
        self.rule = Rule::Kernel(plan);
        self.kernel = Some(kernel);
        self.backward = Backward::Missing;
        self
    }

    /// An op with its own plan and a key that the crate declares. Kernels of such keys check what they are called with, so
    /// crates without `unsafe` can define such ops.
    ///
    /// ```
    /// use torsh_core::kernel::KernelKey;
    /// use torsh_core::attrs::NONE;
    /// use torsh_tensor::call::Arg;
    /// use torsh_tensor::record::{OpRecord, Plan};
    /// static DOUBLE: KernelKey = KernelKey::new("Double", "demo").with_host(|call| {
    ///     let x = call.input::<f32>(0)?;
    ///     let y = call.output::<f32>(0)?;
    ///     y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = 2.0 * x);
    ///     Ok(())
    /// });
    /// static TWICE: OpRecord = OpRecord::new("twice", "", "").with_key(&DOUBLE, |c| {
    ///     let x = c.tensor(0)?;
    ///     Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
    /// });
    /// let y = TWICE.call1(&[Arg::T(&torsh_tensor::tensor![1.0, 2.0])], NONE)?;
    /// assert_eq!(y, torsh_tensor::tensor![2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub const fn with_key(
        self,
        key: &'static KernelKey,
        plan: fn(&PlanCx<'_>) -> Result<Plan>,
    ) -> OpRecord {
        let mut record = self.kernel(Kernel::Extension(key), plan);
        record.open = true;
        record
    }

    /// A view: the rule makes the layout of the tensor, which it is given, that of the view.
    #[must_use]
    pub const fn view(mut self, layout: fn(&ViewCx<'_>, &mut Layout) -> Result<()>) -> OpRecord {
        self.rule = Rule::View(layout);
        self.backward = Backward::Missing;
        self
    }

    /// A view with another dtype.
    #[must_use]
    pub const fn view_as(mut self, layout: fn(&ViewCx<'_>) -> Result<(Layout, DType)>) -> OpRecord {
        self.rule = Rule::ViewAs(layout);
        self.backward = Backward::Missing;
        self
    }

    /// The op in other ops, which computes it on devices that lack its kernel. It gets the operands
    /// without their history, float32 in place of the half types, and for pointwise ops in the dtype
    /// to compute in; what it returns is converted to the dtypes and layouts of the plan.
    #[must_use]
    pub const fn definition(mut self, definition: Definition) -> OpRecord {
        self.definition = Some(definition);
        self
    }

    /// How gradients flow.
    #[must_use]
    pub const fn backward(mut self, backward: Backward) -> OpRecord {
        self.backward = backward;
        self
    }

    /// A derivative by one formula for all operands, which reads the operands and results whose
    /// bits are set.
    #[must_use]
    pub const fn grads(
        mut self,
        inputs: u64,
        outputs: u64,
        formula: fn(&BackwardCx<'_>) -> Result<Grads>,
    ) -> OpRecord {
        self.backward = Backward::Full {
            inputs,
            outputs,
            constant: 0,
            formula,
        };
        self
    }

    /// The derivative of an op of one operand, by a formula that reads the operand (bit 0 of
    /// `inputs`) and results.
    #[must_use]
    pub const fn grad(mut self, one: &'static [InputGrad]) -> OpRecord {
        self.backward = Backward::PerInput(one);
        self
    }

    /// No derivative, by nature.
    #[must_use]
    pub const fn constant(mut self) -> OpRecord {
        self.backward = Backward::NonDifferentiable;
        self
    }

    /// Numbers after the operands of a pointwise op, made from those that its schema binds.
    #[must_use]
    pub(crate) const fn numbers(mut self, bind: fn(&[Scalar]) -> SavedAttributes) -> OpRecord {
        self.numbers = Some(bind);
        self
    }

    /// The call by name.
    #[must_use]
    pub const fn by_name(mut self, f: fn(&Bound) -> Result<Value>) -> OpRecord {
        self.by_name = Some(f);
        self
    }

    /// Sample calls, for gradcheck.
    #[must_use]
    pub const fn samples(
        mut self,
        f: fn(&mut crate::sample::Sampler) -> Result<Vec<Sample>>,
    ) -> OpRecord {
        self.samples = Samples::Calls(f);
        self
    }

    /// Operands drawn from intervals, for gradcheck.
    #[must_use]
    pub const fn intervals(mut self, intervals: &'static [(f64, f64)]) -> OpRecord {
        self.samples = Samples::Intervals(intervals);
        self
    }

    /// What it does with its operands in an autocast region.
    #[must_use]
    pub const fn autocast(mut self, class: Autocast) -> OpRecord {
        self.autocast = class;
        self
    }

    /// The attributes of a call of a pointwise row with these numbers, in the order of the row;
    /// nothing for an op without numbers.
    pub fn with_numbers(&self, numbers: &[Scalar]) -> SavedAttributes {
        self.numbers
            .map_or(SavedAttributes::NOTHING, |bind| bind(numbers))
    }

    /// Shapes and dtypes.
    ///
    /// ```
    /// use torsh_tensor::record::Rule;
    /// let records = torsh_tensor::ops::find("sin").expect("an op");
    /// assert!(matches!(records[0].rule(), Rule::Pointwise(_)));
    /// ```
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// The kernel's key, where it has one.
    ///
    /// ```
    /// use torsh_core::Kernel;
    /// let records = torsh_tensor::ops::find("sin").expect("an op");
    /// assert_eq!(records[0].kernel_key(), Some(Kernel::Sin));
    /// ```
    pub const fn kernel_key(&self) -> Option<Kernel> {
        self.kernel
    }

    /// PyTorch's own name, without an overload's.
    ///
    /// ```
    /// let records = torsh_tensor::ops::find("sum").expect("an op");
    /// assert!(records.iter().all(|r| r.base_name() == "sum"));
    /// ```
    #[inline]
    pub const fn base_name(&self) -> &'static str {
        self.base
    }

    /// Whether gradients can flow through it.
    ///
    /// ```
    /// let differentiable = |op| torsh_tensor::ops::find(op).expect("an op")[0].is_differentiable();
    /// assert!(differentiable("sin"));
    /// assert!(!differentiable("isnan"));
    /// ```
    pub fn is_differentiable(&self) -> bool {
        !matches!(
            self.backward,
            Backward::NonDifferentiable | Backward::Missing
        )
    }
}

impl std::fmt::Debug for OpRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name, self.schema)
    }
}
