//! The tensor: a storage, a layout on it, a dtype, and its place in the recorded graph.

mod parts;

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use torsh_core::{
    DType, Device, Layout, OnceBox, Result, Shape, Shared, Storage, TorshError, WeakShared,
};

use crate::memory::{Creation, Memory, ViewOf};
use crate::node::{Edge, Hook, Node};

/// A strided array of numbers with PyTorch's semantics.
///
/// `Clone` is O(1) and gives another handle of the same tensor: same memory, same place in the
/// recorded graph, as assigning a Python name does. [`Tensor::copy`] copies the data. Shape,
/// strides, dtype and device of a tensor never change; its data changes through the in-place
/// methods, whose names end in `_`, and shows in all views.
#[derive(Clone)]
pub struct Tensor(pub(crate) Shared<Inner>);

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

pub(crate) struct Inner {
    pub(crate) memory: Memory,
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
    pub(crate) contiguous: bool,
    /// Made when the tensor first takes part in recording.
    pub(crate) meta: OnceBox<Meta>,
}

/// A tensor's place in the recorded graph.
pub(crate) struct Meta {
    /// Whether the tensor is a leaf that wants a gradient, or has a `grad_fn`.
    pub(crate) requires_grad: AtomicBool,
    /// Made in inference mode: never to be recorded.
    pub(crate) inference: bool,
    pub(crate) state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) grad_fn: Option<Shared<Node>>,
    pub(crate) output_nr: u32,
    /// The node that adds to `grad`, for a leaf; the node holds the tensor.
    pub(crate) accumulator: Option<WeakShared<Node>>,
    pub(crate) grad: Option<Tensor>,
    pub(crate) hooks: Vec<Hook>,
    /// Called with the leaf once its gradient is added.
    pub(crate) after: Vec<Hook>,
    /// The storage's version at which `grad_fn` of a view was made.
    pub(crate) view_version: u64,
}

impl Meta {
    pub(crate) fn new(requires_grad: bool, inference: bool, state: State) -> Meta {
        Meta {
            requires_grad: AtomicBool::new(requires_grad),
            inference,
            state: Mutex::new(state),
        }
    }
}

impl Tensor {
    #[inline]
    pub(crate) fn from_parts(storage: Shared<Storage>, layout: Layout, dtype: DType) -> Tensor {
        let contiguous = layout.is_contiguous();
        Tensor(Shared::with(|| Inner {
            memory: Memory::Own(storage),
            layout,
            dtype,
            contiguous,
            meta: OnceBox::new(),
        }))
    }

    /// A new row-major tensor whose elements are not written yet.
    pub(crate) fn uninit(shape: Shape, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::uninit_of(&shape, dtype, device)
    }

    /// [`Tensor::uninit`] of a shape that stays where it is.
    pub(crate) fn uninit_of(shape: &Shape, dtype: DType, device: Device) -> Result<Tensor> {
        let n = shape.checked_numel(dtype.size())?;
        let storage = crate::call::allocate(device, dtype, n * dtype.size())?;
        let lay_out = |layout: &mut Layout| layout.make_contiguous(shape);
        Ok(Tensor::laid_out(storage, dtype, true, lay_out).made())
    }

    /// [`Tensor::uninit`] of a dense layout.
    pub(crate) fn uninit_as(layout: Layout, dtype: DType, device: Device) -> Result<Tensor> {
        let bytes = layout.shape.checked_numel(dtype.size())? * dtype.size();
        let storage = crate::call::allocate(device, dtype, bytes)?;
        Ok(Tensor::from_parts(storage, layout, dtype))
    }

    /// A tensor without history, whose layout is made where it stays: to move it costs as much as the rest.
    #[inline(always)]
    fn laid_out(
        storage: Shared<Storage>,
        dtype: DType,
        contiguous: bool,
        lay_out: impl FnOnce(&mut Layout),
    ) -> Tensor {
        let mut t = Tensor(Shared::with(|| Inner {
            memory: Memory::Own(storage),
            layout: Layout::scalar(),
            dtype,
            contiguous,
            meta: OnceBox::new(),
        }));
        if let Some(inner) = Shared::get_mut(&mut t.0) {
            lay_out(&mut inner.layout);
        }
        t
    }

    /// [`Tensor::uninit`] of the shape and strides of a row-major layout, which are not computed again.
    #[inline]
    pub(crate) fn uninit_like(like: &Layout, dtype: DType, device: Device) -> Result<Tensor> {
        let n = like.shape.numel();
        let Some(bytes) = n.checked_mul(dtype.size()) else {
            return Tensor::uninit(like.shape.clone(), dtype, device);
        };
        let storage = crate::call::allocate(device, dtype, bytes)?;
        Ok(Tensor::at_start(storage, like, dtype).made())
    }

    /// A row-major tensor. Not inlined: an allocation's result in memory would be copied with what surrounds it.
    #[inline(never)]
    fn at_start(storage: Shared<Storage>, like: &Layout, dtype: DType) -> Tensor {
        Tensor::laid_out(storage, dtype, true, |layout| {
            layout.clone_from(like);
            layout.offset = 0;
        })
    }

    /// What the thread's mode asks of a tensor with memory of its own, one read for all.
    #[inline]
    pub(crate) fn made(self) -> Tensor {
        let mode = crate::mode::get();
        if mode & (crate::mode::INFERENCE | crate::mode::OBSERVE) != 0 {
            self.made_in(mode);
        }
        self
    }

    #[cold]
    fn made_in(&self, mode: u8) {
        if mode & crate::mode::INFERENCE != 0 {
            self.meta_or_new();
        }
        if mode & crate::mode::OBSERVE != 0 {
            crate::observe::made(self);
        }
    }

    #[inline]
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.0.meta.get()
    }

    pub(crate) fn meta_or_new(&self) -> &Meta {
        self.0.meta.get_or_init(|| self.new_meta())
    }

    /// Whether a tensor that has no place in the graph yet is an inference tensor, and the version
    /// of its storage when it was made, if it is a view.
    #[inline]
    fn origin(&self) -> (bool, u64) {
        // A view of an inference tensor got its place when it was made, and others are none, no
        // matter where they are recorded first.
        match self.view_of() {
            Some(v) => (false, v.version),
            None => (crate::mode::is_inference_mode(), 0),
        }
    }

    /// A place in the graph for a tensor that has none yet.
    fn new_meta(&self) -> Meta {
        let (inference, view_version) = self.origin();
        let state = State {
            view_version,
            ..State::default()
        };
        Meta::new(false, inference, state)
    }

    /// Gives a tensor that has no place in the graph the one behind a node.
    #[inline]
    pub(crate) fn place(&mut self, node: Shared<Node>, output_nr: u32) {
        let (inference, view_version) = self.origin();
        let meta = || Meta {
            requires_grad: AtomicBool::new(true),
            inference,
            state: Mutex::new(State {
                grad_fn: Some(node),
                output_nr,
                accumulator: None,
                grad: None,
                hooks: Vec::new(),
                after: Vec::new(),
                view_version,
            }),
        };
        match Shared::get_mut(&mut self.0) {
            // A fresh tensor, as nearly always.
            Some(inner) => inner.meta = OnceBox::with(meta),
            None => {
                self.0.meta.get_or_init(meta);
            }
        }
    }

    /// Where the tensor comes from, if it is a differentiable view.
    #[inline]
    pub(crate) fn view_of(&self) -> Option<&ViewOf> {
        self.0.memory.view()
    }

    /// The storage's version at which a view's history was made.
    pub(crate) fn view_version(&self, view: &ViewOf) -> u64 {
        self.meta()
            .map_or(view.version, |m| m.state.lock().view_version)
    }

    /// The sizes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2, 3]].shape().to_string(), "[1, 3]");
    /// ```
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.0.layout.shape
    }

    /// The sizes, as a slice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2, 3], [4, 5, 6]].dims(), [2, 3]);
    /// ```
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.0.layout.shape.dims()
    }

    /// The size of one dimension; negative ones count from the end.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2, 3]];
    /// assert_eq!((x.size(0)?, x.size(-1)?), (1, 3));
    /// assert!(x.size(2).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn size(&self, dim: impl crate::IntoDim) -> Result<usize> {
        let d = self.dim("size", dim.value())?;
        self.dims().get(d).copied().ok_or_else(|| {
            TorshError::index("size", format!("dimension {} of a 0-d tensor", dim.value()))
        })
    }

    /// Reads a dimension, and names the op and the tensor where there is no such one.
    #[inline]
    #[track_caller]
    pub(crate) fn dim(&self, op: &'static str, dim: i64) -> Result<usize> {
        // Without a call: two of them are a tenth of what a view costs.
        let n = self.ndim() as i64;
        let from_start = if dim < 0 { dim + n } else { dim };
        if (0..n).contains(&from_start) {
            return Ok(from_start as usize);
        }
        self.dim_apart(op, dim)
    }

    /// [`Tensor::dim`] of a tensor without dimensions, or of none that there is.
    #[cold]
    #[track_caller]
    fn dim_apart(&self, op: &'static str, dim: i64) -> Result<usize> {
        let at = std::panic::Location::caller();
        self.shape()
            .dim(dim)
            .map_err(|e| e.in_op(op, || vec![self.describe()], at))
    }

    /// The number of dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2, 3]].ndim(), 2);
    /// ```
    #[inline]
    pub fn ndim(&self) -> usize {
        self.0.layout.shape.ndim()
    }

    /// The number of elements.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2, 3], [4, 5, 6]].numel(), 6);
    /// ```
    #[inline]
    pub fn numel(&self) -> usize {
        self.0.layout.shape.numel()
    }

    /// Elements from one index to the next, for each dimension.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(x.stride(), [3, 1]);
    /// assert_eq!(x.t()?.stride(), [1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// A sparse tensor has none.
    #[inline]
    pub fn stride(&self) -> &[isize] {
        match self.is_strided() {
            true => &self.0.layout.strides,
            false => &[],
        }
    }

    /// The position of the first element in the storage; 0 for a sparse tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].slice(0, 1, 3)?.storage_offset(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn storage_offset(&self) -> usize {
        self.0.layout.offset
    }

    /// Where the elements lie in the storage: shape, strides and offset. Those of a sparse tensor lie in other tensors, so
    /// only the shape means something.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(x.t()?.memory_layout().strides.as_slice(), [1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[inline]
    pub fn memory_layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The element type.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.0].dtype(), DType::F32);
    /// assert_eq!(tensor![1].dtype(), DType::I64);
    /// ```
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where the data lives.
    ///
    /// ```
    /// # use torsh_tensor::{Device, tensor};
    /// assert_eq!(tensor![1.0].device(), Device::Cpu);
    /// ```
    #[inline]
    pub fn device(&self) -> Device {
        self.storage().device()
    }

    /// How often the data was changed in place, by any of its views; of a sparse tensor, any part of it.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// let before = x.version();
    /// x.select(0, 1)?.fill_(5.0)?;
    /// assert_eq!(x.version(), before + 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn version(&self) -> u64 {
        match self.0.memory.parts() {
            Some(parts) => parts.version(),
            None => self.storage().version(),
        }
    }

    /// Whether the elements lie row-major without gaps. An error for sparse tensors, as in PyTorch.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert!(x.is_contiguous()?);
    /// assert!(!x.t()?.is_contiguous()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn is_contiguous(&self) -> Result<bool> {
        if !self.is_strided() {
            return Err(TorshError::invalid(
                "is_contiguous",
                format!(
                    "{} has the layout {}: its elements do not lie in one memory",
                    self.describe(),
                    self.layout()
                ),
            )
            .with_hint("ask its values()"));
        }
        Ok(self.0.contiguous)
    }

    #[inline]
    pub(crate) fn contiguous_flag(&self) -> bool {
        self.0.contiguous
    }

    /// Whether two handles are the same tensor (Python's `is`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0];
    /// assert!(x.is_same(&x.clone()));
    /// assert!(!x.is_same(&tensor![1.0]));
    /// ```
    pub fn is_same(&self, other: &Tensor) -> bool {
        Shared::ptr_eq(&self.0, &other.0)
    }

    /// Whether two tensors use the same storage.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert!(x.shares_storage(&x.t()?));
    /// assert!(!x.shares_storage(&x.copy()?));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn shares_storage(&self, other: &Tensor) -> bool {
        Shared::ptr_eq(self.storage(), other.storage())
    }

    #[inline]
    pub(crate) fn storage(&self) -> &Shared<Storage> {
        self.0.memory.storage()
    }

    /// The storage without a share in it: whether it is still used, and by whom, can be asked of
    /// it without keeping the memory.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// let storage = x.weak_storage();
    /// let view = x.select(0, 1)?;
    /// drop(x);
    /// assert_eq!(storage.upgrade().map(|s| s.bytes()), Some(8));
    /// drop(view);
    /// assert!(storage.upgrade().is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn weak_storage(&self) -> WeakShared<Storage> {
        Shared::downgrade(self.storage())
    }

    /// `float32[2, 3] cpu`, as errors name an operand.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0, 3.0]].describe(), "float32[1, 3] cpu");
    /// ```
    pub fn describe(&self) -> String {
        format!("{}{} {}", self.dtype(), self.shape(), self.device())
    }

    /// Whether ops on this tensor are recorded.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// assert!(x.requires_grad() && x.mul(2.0)?.requires_grad());
    /// assert!(!tensor![1.0].requires_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.meta()
            .is_some_and(|m| m.requires_grad.load(Ordering::Acquire))
            || self.view_of().is_some_and(|v| {
                v.base
                    .meta()
                    .is_some_and(|m| m.requires_grad.load(Ordering::Acquire))
                    && self.dtype().is_differentiable()
                    // Recording an op on a view out of date is an error; see inplace.rs.
                    && (v.creation == Creation::Recorded || crate::inplace::is_stale(self))
            })
    }

    /// Whether the tensor is no result of a recorded op.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// assert!(x.is_leaf());
    /// assert!(!x.mul(2.0)?.is_leaf());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_leaf(&self) -> bool {
        self.grad_fn().is_none()
    }

    /// Whether the tensor was made in inference mode.
    ///
    /// ```
    /// use torsh_tensor::{inference_mode, tensor};
    /// let x = inference_mode(|| tensor![1.0].mul(2.0))?;
    /// assert!(x.is_inference());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_inference(&self) -> bool {
        self.meta().is_some_and(|m| m.inference)
    }

    /// Asks for a gradient of this leaf (or stops asking), and returns it.
    ///
    /// Panics where that cannot be: the dtype is not floating point or complex, or `false` is
    /// asked of a result. [`Tensor::set_requires_grad`] gives an error instead.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// x.square()?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![6.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn requires_grad_(self, requires_grad: bool) -> Tensor {
        if let Err(e) = self.set_requires_grad(requires_grad) {
            panic!("{e}");
        }
        self
    }

    /// Asks for a gradient of this leaf, or stops asking.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0];
    /// x.set_requires_grad(true)?;
    /// assert!(x.requires_grad());
    /// // Integers have no gradients.
    /// assert!(tensor![1].set_requires_grad(true).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        if requires_grad && !self.dtype().is_differentiable() {
            return Err(TorshError::autograd(
                "requires_grad_",
                format!(
                    "only floating-point and complex tensors can require gradients, got {}",
                    self.describe()
                ),
            )
            .with_hint("convert it first: to_dtype(DType::F32)"));
        }
        if self.is_inference() && requires_grad && !crate::mode::is_inference_mode() {
            return Err(TorshError::autograd(
                "requires_grad_",
                "an inference tensor cannot require gradients outside inference mode",
            )
            .with_hint("copy it outside of inference_mode first"));
        }
        if !self.is_leaf() {
            if requires_grad {
                return Ok(());
            }
            return Err(TorshError::autograd(
                "requires_grad_",
                "you can only change requires_grad flags of leaf variables; this tensor is the result of a recorded op",
            )
            .with_hint("use detach() for a tensor that is cut off from the graph"));
        }
        if requires_grad || self.meta().is_some() {
            self.meta_or_new()
                .requires_grad
                .store(requires_grad, Ordering::Release);
        }
        Ok(())
    }

    /// The node that computed this tensor, where it was recorded.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// assert!(x.grad_fn().is_none());
    /// assert_eq!(x.exp()?.grad_fn().map(|n| n.name()), Some("ExpBackward0".into()));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn grad_fn(&self) -> Option<Shared<Node>> {
        let m = self.history()?;
        m.state.lock().grad_fn.clone()
    }

    /// The tensor's place in the graph, where it has one, up to date.
    fn history(&self) -> Option<&Meta> {
        let Some(view) = self.view_of() else {
            return self.meta();
        };
        crate::inplace::refresh_view(self, view);
        self.meta()
    }

    /// Where this tensor's gradient goes; `None` when it needs none.
    pub(crate) fn gradient_edge(&self) -> Option<Edge> {
        let m = self.history()?;
        let mut s = m.state.lock();
        if let Some(node) = &s.grad_fn {
            return Some(Edge {
                node: node.clone(),
                output_nr: s.output_nr,
            });
        }
        if !m.requires_grad.load(Ordering::Acquire) {
            return None;
        }
        let node = match s.accumulator.as_ref().and_then(WeakShared::upgrade) {
            Some(n) => n,
            None => {
                let n = Node::accumulator(self.clone());
                s.accumulator = Some(Shared::downgrade(&n));
                n
            }
        };
        Some(Edge { node, output_nr: 0 })
    }

    /// The gradient that backward passes have added up; a shared handle.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// x.square()?.backward()?;
    /// x.square()?.backward()?;
    /// // Two passes add up.
    /// assert_eq!(x.grad(), Some(tensor![12.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn grad(&self) -> Option<Tensor> {
        self.meta()?.state.lock().grad.clone()
    }

    /// Whether there is a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// assert!(!x.has_grad());
    /// x.square()?.backward()?;
    /// assert!(x.has_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn has_grad(&self) -> bool {
        self.meta().is_some_and(|m| m.state.lock().grad.is_some())
    }

    /// Puts a gradient in place, of this tensor's shape, dtype and device; or removes it.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// x.set_grad(Some(tensor![0.5]))?;
    /// assert_eq!(x.grad(), Some(tensor![0.5]));
    /// assert!(x.set_grad(Some(tensor![1.0, 2.0])).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        if let Some(g) = &grad
            && (g.shape() != self.shape()
                || g.dtype() != self.dtype()
                || g.device() != self.device())
        {
            return Err(TorshError::autograd(
                "set_grad",
                format!(
                    "the gradient of {} cannot be {}",
                    self.describe(),
                    g.describe()
                ),
            ));
        }
        self.meta_or_new().state.lock().grad = grad;
        Ok(())
    }

    /// Removes the gradient (`set_to_none` of PyTorch).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// x.square()?.backward()?;
    /// x.zero_grad();
    /// assert_eq!(x.grad(), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn zero_grad(&self) {
        if let Some(m) = self.meta() {
            m.state.lock().grad = None;
        }
    }

    /// The same data as a tensor of its own, without a place in the graph.
    #[inline]
    pub(crate) fn without_history(&self) -> Tensor {
        if !self.is_strided() {
            return self.with_place(None);
        }
        let (dtype, contiguous) = (self.0.dtype, self.0.contiguous);
        Tensor::laid_out(self.storage().clone(), dtype, contiguous, |layout| {
            layout.clone_from(&self.0.layout);
        })
    }

    /// The same data cut off from the graph; writing into either shows in both.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// let y = x.detach();
    /// assert!(!y.requires_grad());
    /// y.fill_(5.0)?;
    /// assert_eq!(x.item::<f32>()?, 5.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn detach(&self) -> Tensor {
        if self.is_inference() {
            return self.with_place(Some(Meta::new(false, true, State::default())));
        }
        self.without_history()
    }

    /// Whether this tensor is the only user of its memory: there is no other handle of it, no view,
    /// and nothing else on its storage, which is not lent either.
    pub(crate) fn owns_buffer(&self) -> bool {
        match &self.0.memory {
            Memory::Own(storage) => {
                Shared::is_unique(&self.0)
                    && Shared::strong_count(storage) == 1
                    && storage.is_owned()
            }
            Memory::View(_) | Memory::Parts(_) => false,
        }
    }
}
