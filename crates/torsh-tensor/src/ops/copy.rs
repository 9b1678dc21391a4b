//! Copies: between dtypes, devices and layouts, and into existing tensors.

use smallvec::SmallVec;
use torsh_core::attrs::{CopyTo, Fill, MemoryFormat, NONE};
use torsh_core::{DType, Device, Kernel, Layout, Result, Scalar, Shape, TorshError};

use crate::call::{
    Arg, by_rule, call1, holds, in_place_by_rule, make_node, memory_order_strides, write_fresh,
    write_into,
};
use crate::record::{OpRecord, Plan, PlanCx, sample};
use crate::{Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&TO_DTYPE, &CLONE, &CONTIGUOUS, &COPY_, &FILL_, &ZERO_];

/// A copy's result.
fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    let &CopyTo {
        dtype,
        memory_format,
    } = c.attrs()?;
    let mut plan = Plan::one(dtype, x.shape().clone(), dtype);
    if memory_format == MemoryFormat::Preserve && !x.contiguous_flag() {
        plan.outputs[0].strides = Some(memory_order_strides(x.shape(), x.stride()));
    }
    Ok(plan)
}

/// For ops that write in place.
fn no_plan(_: &PlanCx<'_>) -> Result<Plan> {
    Err(TorshError::invalid(
        "",
        "the op writes into a tensor that is there",
    ))
}

pub static TO_DTYPE: OpRecord = OpRecord::new(
    "to",
    "The tensor converted to another dtype.",
    "(Tensor input, ScalarType dtype)",
)
.kernel(Kernel::Copy, plan)
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.g().clone())])))
.by_name(|b| {
    b.tensor(0)?
        .to_dtype(b.dtype(1).unwrap_or(DType::F32))
        .map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, DType::F64]]));

#[torsh_tensor::by_name(Tensor::copy(input))]
pub static CLONE: OpRecord = OpRecord::new(
    "clone",
    "A copy of the tensor with its own memory.",
    "(Tensor input, *, Any memory_format=None)",
)
.kernel(Kernel::Copy, plan)
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.g().clone())])))
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?], sample![s.real(&[])?]]));

#[torsh_tensor::by_name(Tensor::contiguous)]
pub static CONTIGUOUS: OpRecord = OpRecord::new(
    "contiguous",
    "The tensor itself when it is row-major, else a row-major copy.",
    "(Tensor input)",
)
.kernel(Kernel::Copy, plan)
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.g().clone())])))
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

/// Writes the second operand over the first, broadcast and converted.
#[torsh_tensor::by_name(Tensor::copy_)]
pub static COPY_: OpRecord = OpRecord::new(
    "copy_",
    "Copies a tensor over this one, broadcast and converted.",
    "(Tensor input, Operand src)",
)
.kernel(Kernel::Copy, no_plan)
.grads(0, 0, |c| {
    let first = if c.needs(0) { Some(c.zeros(0)?) } else { None };
    Ok(SmallVec::from_iter([
        first,
        c.needs(1).then(|| c.g().clone()),
    ]))
});

#[torsh_tensor::by_name(Tensor::copy_)]
pub static FILL_: OpRecord = OpRecord::new(
    "fill_",
    "Writes one number over all elements.",
    "(Tensor input, Operand value)",
)
.kernel(Kernel::Fill, no_plan)
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.zeros(0)?)])));

#[torsh_tensor::by_name(Tensor::zero_)]
pub static ZERO_: OpRecord =
    OpRecord::new("zero_", "Writes zeros over all elements.", "(Tensor input)")
        .kernel(Kernel::Fill, no_plan)
        .grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.zeros(0)?)])));

#[torsh_tensor::functions]
impl Tensor {
    /// The tensor converted to `dtype` (`Tensor.to`); itself when it has that dtype already.
    /// Fractions are cut off, integers wrap, complex numbers lose their imaginary part. Every dtype
    /// from every other.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.7, -1.7].to_dtype(DType::I64)?, tensor![1, -1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        call1(
            &TO_DTYPE,
            &[Arg::T(self)],
            &CopyTo {
                dtype,
                memory_format: MemoryFormat::Preserve,
            },
        )
    }

    /// A copy with its own memory, recorded (`Tensor.clone`); row-major, or in the memory order of
    /// a dense tensor such as a channels-last one. The copy of a sparse tensor has its own indices too.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// let y = x.copy()?;
    /// y.zero_()?;
    /// assert_eq!(x, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(name = clone)]
    #[torsh_tensor::names_caller]
    pub fn copy(&self) -> Result<Tensor> {
        let attrs = CopyTo {
            dtype: self.dtype(),
            memory_format: match self.memory_layout().is_dense() {
                true => MemoryFormat::Preserve,
                false => MemoryFormat::Contiguous,
            },
        };
        call1(&CLONE, &[Arg::T(self)], &attrs)
    }

    /// The tensor itself when it is row-major, else a row-major copy (`Tensor.contiguous`).
    ///
    /// Shape, dtype and values stay.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let t = tensor![[1, 2], [3, 4]].t()?;
    /// assert!(!t.is_contiguous()?);
    /// assert_eq!(t.contiguous()?.stride(), [2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.contiguous_flag() {
            return Ok(self.clone());
        }
        call1(&CONTIGUOUS, &[Arg::T(self)], &self.row_major())
    }

    /// The attributes of a row-major copy.
    fn row_major(&self) -> CopyTo {
        CopyTo {
            dtype: self.dtype(),
            memory_format: MemoryFormat::Contiguous,
        }
    }

    /// A copy of the data in the layout that `like` has (dense), not recorded. Sparse ones share their indices.
    pub(crate) fn copy_like(&self, like: &Tensor) -> Result<Tensor> {
        if !self.is_strided() {
            return self.copy_stored();
        }
        if like.contiguous_flag() || !like.memory_layout().is_dense() {
            return call1(&CLONE, &[Arg::T(self)], &self.row_major());
        }
        let n = self.numel() * self.dtype().size();
        let storage = crate::call::allocate(self.device(), self.dtype(), n)?;
        let layout = Layout::new(
            self.shape().clone(),
            like.memory_layout().strides.clone(),
            0,
        );
        let out = Tensor::from_parts(storage, layout, self.dtype());
        write_fresh(&CLONE, &out, &[Arg::T(self)], NONE)?;
        Ok(out)
    }

    /// Copies `src` over this tensor, broadcast and converted (`Tensor.copy_`); returns this
    /// tensor. An error where `src` does not broadcast to this shape, and for a leaf that requires
    /// a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [0.0, 0.0]];
    /// x.copy_(&tensor![1, 2])?;
    /// assert_eq!(x, tensor![[1.0, 2.0], [1.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn copy_<'a>(&self, src: impl Into<Operand<'a>>) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let src = match src.into() {
            Operand::Number(n) => return self.fill_(n),
            o => o.to_tensor()?,
        };
        self.copy_from(&src, at).map_err(|e| {
            // A copy between devices is made of a move, whose caller is here. (An error of earlier work
            // has an op and a caller of its own.)
            let e = match e.info().is_some_and(|i| i.op == "to_device") {
                true => e.renamed("copy_").at(at),
                false => e,
            };
            e.in_op("copy_", || vec![self.describe(), src.describe()], at)
        })?;
        Ok(self.clone())
    }

    fn copy_from(&self, src: &Tensor, at: &'static std::panic::Location<'static>) -> Result<()> {
        if !self.is_strided() {
            return in_place_by_rule("copy_", self, &[Arg::T(src)], NONE);
        }
        let dense;
        let src = match by_rule("to_dense", &[Arg::T(src)], NONE) {
            Some(strided) => {
                dense = strided?;
                &dense
            }
            None => src,
        };
        crate::inplace::check(self, src.requires_grad() || self.requires_grad())?;
        if self.is_same(src) {
            return Ok(());
        }
        let moved;
        let src = match src.device() == self.device() {
            true => src,
            false => {
                moved = src.arriving(self.dtype(), self.device())?;
                &moved
            }
        };
        // An overlapping source is read before it is written over.
        let source = match crate::inplace::check_overlap(self, src) {
            Ok(()) => src.expand_for(self.shape())?,
            Err(_) => src.copy()?.expand_for(self.shape())?,
        };
        let args = [Arg::T(self), Arg::T(&source)];
        write_into(&COPY_, self.dtype(), self, &[Arg::T(&source)], NONE)?;
        let recorded = crate::mode::is_grad_enabled()
            && self.dtype().is_differentiable()
            && (self.requires_grad() || source.requires_grad());
        if !recorded {
            return crate::inplace::rebase(self, None);
        }
        let node = make_node(&COPY_, &args, NONE, std::slice::from_ref(self), at, None)?;
        crate::inplace::rebase(self, Some(node))
    }

    /// The tensor in another dtype on another device, converted where that can be done: either
    /// device may lack the other's dtype.
    fn arriving(&self, dtype: DType, device: Device) -> Result<Tensor> {
        if holds(self.device(), dtype)? {
            return self.to_dtype(dtype)?.to_device(device);
        }
        let between = match holds(device, self.dtype())? {
            true => device,
            false => Device::Cpu,
        };
        self.to_device(between)?.to_dtype(dtype)?.to_device(device)
    }

    /// A detached or recorded tensor of the shape a copy writes into.
    fn expand_for(&self, shape: &Shape) -> Result<Tensor> {
        // Leading sizes of 1 may be more than the target has, as in PyTorch.
        let mut t = self.clone();
        while t.ndim() > shape.ndim() && t.dims()[0] == 1 {
            t = t.squeeze_dim(0)?;
        }
        if t.shape() == shape {
            Ok(t)
        } else {
            t.expand(shape)
        }
    }

    /// Writes one number over all elements; returns this tensor. An error for a leaf that requires
    /// a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// x.fill_(7)?;
    /// assert_eq!(x, tensor![7.0, 7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn fill_(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        self.fill_at(&FILL_, value.into(), at)
            .map_err(|e| e.in_op("fill_", || vec![self.describe()], at))?;
        Ok(self.clone())
    }

    fn fill_at(
        &self,
        record: &'static OpRecord,
        value: Scalar,
        at: &'static std::panic::Location<'static>,
    ) -> Result<()> {
        super::index::check_number(value, self.dtype())?;
        if !self.is_strided() {
            let value = Arg::N(value);
            return in_place_by_rule(record.base_name(), self, &[value], NONE);
        }
        let recorded = crate::mode::is_grad_enabled() && self.requires_grad();
        // One value may be written to one place many times, but not recorded.
        if recorded {
            crate::inplace::check(self, true)?;
        } else {
            crate::inplace::check_history(self, false)?;
        }
        write_into(record, self.dtype(), self, &[], &Fill { value })?;
        if !recorded {
            return Ok(());
        }
        let node = make_node(
            record,
            &[Arg::T(self)],
            NONE,
            std::slice::from_ref(self),
            at,
            None,
        )?;
        crate::inplace::rebase(self, Some(node))
    }

    /// Writes zeros over all elements; returns this tensor. An error for a leaf that requires a
    /// gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// x.zero_()?;
    /// assert_eq!(x, tensor![0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn zero_(&self) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        self.fill_at(&ZERO_, Scalar::Int(0), at)
            .map_err(|e| e.in_op("zero_", || vec![self.describe()], at))?;
        Ok(self.clone())
    }
}
