//! The recorded graph: nodes, edges, and the values saved for backward.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use smallvec::SmallVec;
use torsh_core::{
    Attributes, DType, Device, Layout, OnceBox, Result, SavedAttributes, Scalar, Shape, Shared,
    TorshError, WeakShared,
};

use crate::Tensor;
use crate::record::OpRecord;
use crate::tensor::{Inner, Meta, State};

mod context;

pub use context::BackwardCx;

/// Gradients of a node's operands, `None` where there is none.
pub type Grads = SmallVec<[Option<Tensor>; 3]>;

/// A hook on a gradient: may replace it.
pub(crate) type HookFn = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;

/// A hook and the number it is removed by.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) id: u64,
    pub(crate) f: HookFn,
}

/// A hook on a whole node: gets the gradients of its outputs, may replace them.
pub type NodeHookFn = Arc<dyn Fn(&mut [Option<Tensor>]) -> Result<()> + Send + Sync>;

/// An edge to the output of a node a gradient flows to.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: Shared<Node>,
    pub(crate) output_nr: u32,
}

impl Edge {
    /// Where the tensor is that the gradient is of.
    #[inline]
    pub(crate) fn device(&self) -> Option<Device> {
        let output = self.node.outputs.get(self.output_nr as usize);
        output.map(|o| o.device)
    }

    /// Whether both lead to the same output of the same node.
    #[inline]
    pub(crate) fn is(&self, other: &Edge) -> bool {
        Shared::ptr_eq(&self.node, &other.node) && self.output_nr == other.output_nr
    }
}

/// What a node knows of one of its operands.
pub(crate) struct Input {
    pub(crate) edge: Option<Edge>,
    pub(crate) spec: InputSpec,
}

/// Shape and dtype of an operand: its own, or a number's, or else those of output 0.
pub(crate) struct InputSpec {
    own: Option<Shared<(Shape, DType)>>,
    number: Option<DType>,
}

impl InputSpec {
    pub(crate) const AS_OUTPUT: InputSpec = InputSpec {
        own: None,
        number: None,
    };

    #[inline]
    pub(crate) fn number(dtype: DType) -> InputSpec {
        InputSpec {
            own: None,
            number: Some(dtype),
        }
    }

    #[inline]
    pub(crate) fn own(shape: &Shape, dtype: DType) -> InputSpec {
        InputSpec {
            own: Some(Shared::with(|| (shape.clone(), dtype))),
            number: None,
        }
    }
}

/// The shape of numbers.
static NO_DIMENSIONS: LazyLock<Shape> = LazyLock::new(Shape::default);

/// What a node knows of one of its results.
#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

/// An operand or result kept for backward: its data and the version it had, never its history.
#[derive(Clone)]
pub(crate) struct Saved {
    /// The data alone: a tensor of its own, which nobody else has.
    data: Tensor,
    version: u64,
}

/// One saved operand: a tensor or a number.
pub(crate) enum SavedArg {
    Tensor(Saved),
    Number(Scalar),
    Nothing,
}

#[derive(Default)]
pub(crate) struct SavedSet {
    pub(crate) inputs: SmallVec<[SavedArg; 2]>,
    pub(crate) outputs: SmallVec<[Option<Saved>; 1]>,
}

/// What a node does in backward.
pub(crate) enum Kind {
    /// An op of the table.
    Op {
        record: &'static OpRecord,
        attrs: SavedAttributes,
    },
    /// Adds to a leaf's gradient.
    Accumulate(Tensor),
    /// An in-place op on a view, seen from the view's base.
    CopySlices(Box<CopySlices>),
    /// A user's function, and where each tensor it saved comes from.
    Custom {
        f: Box<dyn CustomBackward>,
        sources: Vec<Source>,
    },
}

/// The op, and where the window it wrote lies in its base.
pub(crate) struct CopySlices {
    pub(crate) inner: Shared<Node>,
    pub(crate) base: Layout,
    pub(crate) view: Layout,
}

/// Where a tensor that a user's function saved comes from: its history is found there again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Input(usize),
    Output(usize),
    Elsewhere,
}

/// The backward of a user's function (`autograd::Function` in the face crate).
pub trait CustomBackward: Send + Sync {
    /// The function's name, as errors show it.
    fn name(&self) -> &str;
    /// The gradients of the operands, from those of the results (`None` where a result got none).
    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>>;
}

/// One recorded op.
pub struct Node {
    pub(crate) kind: Kind,
    /// Nodes are numbered as they are made, so every edge leads to a smaller number.
    pub(crate) seq: u64,
    pub(crate) inputs: SmallVec<[Input; 2]>,
    pub(crate) outputs: SmallVec<[Output; 1]>,
    /// `None` once a backward pass has freed it.
    pub(crate) saved: Mutex<Option<SavedSet>>,
    /// Where the saved values are computed again, for a node inside of a checkpoint.
    pub(crate) checkpoint: Option<(Arc<crate::checkpoint::Checkpoint>, usize)>,
    pub(crate) hooks: OnceBox<Mutex<Hooks>>,
    pub(crate) site: Option<&'static Location<'static>>,
}

#[derive(Default)]
pub(crate) struct Hooks {
    /// On the gradient of one output.
    pub(crate) tensor: Vec<(u32, Hook)>,
    /// Before the node runs, on all its outputs' gradients; after, on its operands'.
    pub(crate) pre: Vec<(u64, NodeHookFn)>,
    pub(crate) post: Vec<(u64, NodeHookFn)>,
    /// Tensors that keep the gradient that flows through them.
    pub(crate) retain: Vec<(u32, WeakShared<Inner>)>,
}

static SEQ: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_seq() -> u64 {
    SEQ.fetch_add(1, Ordering::Relaxed)
}

impl SavedSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    /// All tensors, operands first.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Saved> {
        let inputs = self.inputs.iter().filter_map(|a| match a {
            SavedArg::Tensor(s) => Some(s),
            _ => None,
        });
        inputs.chain(self.outputs.iter().flatten())
    }

    /// A number that tells sets of values of different shapes and dtypes apart.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut h = DefaultHasher::new();
        for s in self.tensors() {
            s.data.dims().hash(&mut h);
            s.data.dtype().hash(&mut h);
        }
        (self.inputs.len(), self.outputs.len()).hash(&mut h);
        h.finish()
    }

    /// The same values by reference count.
    pub(crate) fn share(&self) -> SavedSet {
        SavedSet {
            inputs: self
                .inputs
                .iter()
                .map(|a| match a {
                    SavedArg::Tensor(s) => SavedArg::Tensor(s.clone()),
                    SavedArg::Number(n) => SavedArg::Number(*n),
                    SavedArg::Nothing => SavedArg::Nothing,
                })
                .collect(),
            outputs: self.outputs.clone(),
        }
    }
}

impl Saved {
    pub(crate) fn of(t: &Tensor, version: u64) -> Saved {
        Saved {
            data: t.without_history(),
            version,
        }
    }

    /// The tensor again, with `edge` as its history.
    #[inline]
    fn unpack(
        &self,
        edge: impl FnOnce() -> Option<Edge>,
        describe: impl FnOnce() -> String,
    ) -> Result<Tensor> {
        if self.data.version() != self.version {
            return Err(self.modified(describe()));
        }
        let edge = if crate::mode::is_grad_enabled() {
            edge()
        } else {
            None
        };
        let Some(e) = edge else {
            return Ok(self.data.clone());
        };
        let state = State {
            grad_fn: Some(e.node),
            output_nr: e.output_nr,
            ..State::default()
        };
        let meta = Meta::new(true, crate::mode::is_inference_mode(), state);
        Ok(self.data.with_place(Some(meta)))
    }

    #[cold]
    fn modified(&self, what: String) -> TorshError {
        let spec = (self.data.dtype(), self.data.shape());
        modified(spec, &what, [self.data.version(), self.version])
            .with_hint("use the op that is not in place, or copy() the tensor before it is changed; detect_anomaly names the forward call")
    }

    /// The version that it had when it was saved.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn spec(&self) -> (DType, &Shape) {
        (self.data.dtype(), self.data.shape())
    }
}

/// The error for a tensor that is at version `now` in place of `expected`.
#[cold]
pub(crate) fn modified(
    (dtype, shape): (DType, &Shape),
    what: &str,
    [now, expected]: [u64; 2],
) -> TorshError {
    TorshError::autograd(
        "backward",
        format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: [{dtype}{shape}], which is {what}, is at version {now}; expected version {expected} instead"
        ),
    )
}

impl Node {
    #[inline]
    pub(crate) fn new(
        kind: Kind,
        inputs: SmallVec<[Input; 2]>,
        outputs: SmallVec<[Output; 1]>,
        saved: SavedSet,
        site: Option<&'static Location<'static>>,
    ) -> Shared<Node> {
        let leaf = matches!(kind, Kind::Accumulate(_));
        let mut node = Shared::with(|| Node {
            kind,
            seq: 0,
            checkpoint: None,
            inputs,
            outputs,
            saved: Mutex::new(Some(saved)),
            hooks: OnceBox::new(),
            site,
        });
        // Leaves come last: everything that adds to them has run by then.
        if !leaf && let Some(node) = Shared::get_mut(&mut node) {
            node.number();
        }
        node
    }

    /// The node of an op, which `fill` completes where it stays: to move its parts there would cost
    /// as much as to make them.
    #[inline]
    pub(crate) fn of_op(
        record: &'static OpRecord,
        site: &'static Location<'static>,
        fill: impl FnOnce(&mut Node) -> Result<()>,
    ) -> Result<Shared<Node>> {
        let mut node = Shared::with(|| Node {
            kind: Kind::Op {
                record,
                attrs: SavedAttributes::NOTHING,
            },
            seq: 0,
            checkpoint: None,
            inputs: SmallVec::new(),
            outputs: SmallVec::new(),
            saved: Mutex::new(Some(SavedSet::default())),
            hooks: OnceBox::new(),
            site: Some(site),
        });
        if let Some(node) = Shared::get_mut(&mut node) {
            fill(node)?;
            node.number();
        }
        Ok(node)
    }

    /// Gives a node its number, once those that its edges lead to have theirs.
    #[inline]
    fn number(&mut self) {
        // Nodes that save nothing (accumulators, the history of views) may be made in one of the
        // two runs only, so they are not counted.
        if crate::mode::get() & crate::mode::CHECKPOINT != 0 {
            self.divert();
        }
        self.seq = next_seq();
    }

    #[cold]
    fn divert(&mut self) {
        let saved = self.saved.get_mut();
        if let Some(set) = saved.take_if(|s| !s.is_empty()) {
            let (set, checkpoint) = crate::checkpoint::divert(set);
            *saved = Some(set);
            self.checkpoint = checkpoint;
        }
    }

    /// What is saved, of a node that is still being made.
    #[inline]
    pub(crate) fn saving(&mut self) -> &mut SavedSet {
        self.saved.get_mut().get_or_insert_default()
    }

    pub(crate) fn accumulator(leaf: Tensor) -> Shared<Node> {
        let out = Output {
            shape: leaf.shape().clone(),
            dtype: leaf.dtype(),
            device: leaf.device(),
        };
        Node::new(
            Kind::Accumulate(leaf),
            SmallVec::new(),
            SmallVec::from_buf([out]),
            SavedSet::default(),
            None,
        )
    }

    /// PyTorch's name for it, as `MulBackward0`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![1.0].requires_grad_(true).mul(2.0)?;
    /// assert_eq!(y.grad_fn().expect("it was recorded").name(), "MulBackward0");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Op { record, .. } => {
                let base = record.base_name().rsplit('.').next().unwrap_or_default();
                let camel: String = base
                    .split('_')
                    .map(|w| {
                        let mut c = w.chars();
                        c.next().map_or(String::new(), |f| {
                            f.to_uppercase().collect::<String>() + c.as_str()
                        })
                    })
                    .collect();
                format!("{camel}Backward0")
            }
            Kind::Accumulate(_) => "AccumulateGrad".into(),
            Kind::CopySlices(_) => "CopySlices".into(),
            Kind::Custom { f, .. } => format!("{}Backward", f.name()),
        }
    }

    /// The record of the op whose call the node is of; `None` for one of a leaf, of an in-place op on
    /// a view, and of a user's function.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![1.0].requires_grad_(true).sin()?;
    /// let node = y.grad_fn().expect("it was recorded");
    /// assert_eq!(node.record().map(|r| r.base_name()), Some("sin"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn record(&self) -> Option<&'static OpRecord> {
        match &self.kind {
            Kind::Op { record, .. } => Some(record),
            _ => None,
        }
    }

    /// What that call was given beside its tensors: by name with
    /// [`Attributes::fields`](torsh_core::Attributes::fields), of which [`attrs::read`](crate::attrs::read)
    /// makes it again.
    ///
    /// ```
    /// use torsh_core::attrs::display;
    /// use torsh_tensor::tensor;
    /// let y = tensor![[1.0, 2.0]].requires_grad_(true).softmax(1)?;
    /// let node = y.grad_fn().expect("it is recorded");
    /// assert_eq!(node.record().map(|r| r.name), Some("softmax"));
    /// assert_eq!(node.attributes().map(|a| display(a).to_string()).as_deref(), Some("dim=1"));
    /// assert_eq!(format!("{node:#?}"), "<SoftmaxBackward0 of softmax(dim=1)>");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn attributes(&self) -> Option<&dyn Attributes> {
        match &self.kind {
            Kind::Op { attrs, .. } => Some(attrs.get()),
            _ => None,
        }
    }

    /// The forward call that made the node, where known.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![1.0].requires_grad_(true).sin()?;
    /// let node = y.grad_fn().expect("it was recorded");
    /// assert!(node.location().is_some());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.site
    }

    /// The nodes the gradients flow to, `None` for operands that need none.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// let node = x.mul(2.0)?.sin()?.grad_fn().expect("it was recorded");
    /// let (next, _) = node.next_functions().remove(0).expect("x needs a gradient");
    /// assert_eq!(next.name(), "MulBackward0");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn next_functions(&self) -> Vec<Option<(Shared<Node>, u32)>> {
        self.inputs
            .iter()
            .map(|i| i.edge.as_ref().map(|e| (e.node.clone(), e.output_nr)))
            .collect()
    }

    /// The leaf whose gradient this node adds to, for an accumulator.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// let node = x.sin()?.grad_fn().expect("it was recorded");
    /// let (leaf, _) = node.next_functions().remove(0).expect("x needs a gradient");
    /// assert!(leaf.variable().expect("a leaf").is_same(&x));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn variable(&self) -> Option<&Tensor> {
        match &self.kind {
            Kind::Accumulate(t) => Some(t),
            _ => None,
        }
    }

    /// The shapes and dtypes of the op's results.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// let y = tensor![[1.0, 2.0]].requires_grad_(true).sin()?;
    /// let node = y.grad_fn().expect("it was recorded");
    /// let (shape, dtype) = node.outputs().next().expect("one result");
    /// assert_eq!((shape.dims(), dtype), (&[1, 2][..], DType::F32));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn outputs(&self) -> impl Iterator<Item = (&Shape, DType)> {
        self.outputs.iter().map(|o| (&o.shape, o.dtype))
    }

    pub(crate) fn input_spec(&self, i: usize) -> (&Shape, DType) {
        match self.inputs[i].spec {
            InputSpec {
                own: Some(ref s), ..
            } => (&s.0, s.1),
            InputSpec {
                number: Some(dtype),
                ..
            } => (&NO_DIMENSIONS, dtype),
            _ => (&self.outputs[0].shape, self.outputs[0].dtype),
        }
    }

    /// Whether the node keeps the gradient of this output in the tensor's `.grad`.
    pub(crate) fn retains(&self, output_nr: u32, tensor: &Shared<Inner>) -> bool {
        let of = |(nr, t): &(u32, WeakShared<Inner>)| {
            *nr == output_nr && t.upgrade().is_some_and(|t| Shared::ptr_eq(&t, tensor))
        };
        let hooks = self.hooks.get();
        hooks.is_some_and(|h| h.lock().retain.iter().any(of))
    }

    pub(crate) fn hooks_or_new(&self) -> &Mutex<Hooks> {
        self.hooks.get_or_init(Mutex::default)
    }

    /// Calls `f` with the gradients of the outputs before the node runs; it may replace them.
    pub fn register_prehook(&self, f: NodeHookFn) -> u64 {
        let id = next_seq();
        self.hooks_or_new().lock().pre.push((id, f));
        id
    }

    /// Calls `f` with the gradients of the operands after the node ran; it may replace them.
    pub fn register_hook(&self, f: NodeHookFn) -> u64 {
        let id = next_seq();
        self.hooks_or_new().lock().post.push((id, f));
        id
    }

    /// Removes a hook; whether there was one.
    pub fn remove_hook(&self, id: u64) -> bool {
        let Some(h) = self.hooks.get() else {
            return false;
        };
        let mut h = h.lock();
        let before = h.pre.len() + h.post.len() + h.tensor.len();
        h.pre.retain(|(i, _)| *i != id);
        h.post.retain(|(i, _)| *i != id);
        h.tensor.retain(|(_, k)| k.id != id);
        before != h.pre.len() + h.post.len() + h.tensor.len()
    }
}

/// `<SumBackward0>`; with `{:#?}` the call as well, `<SumBackward0 of sum(dims=[1], ..)>`.
impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Op { record, attrs } if f.alternate() => {
                let given = torsh_core::attrs::display(attrs.get());
                write!(f, "<{} of {}({given})>", self.name(), record.name)
            }
            _ => write!(f, "<{}>", self.name()),
        }
    }
}

impl Drop for Node {
    /// A long chain must not be dropped by recursion: the nodes only this one holds are taken
    /// apart one by one.
    fn drop(&mut self) {
        let mut stack: Vec<Shared<Node>> = Vec::new();
        take_edges(self, &mut stack);
        while let Some(node) = stack.pop() {
            Shared::drop_with(node, |node| take_edges(node, &mut stack));
        }
    }
}

fn take_edges(node: &mut Node, stack: &mut Vec<Shared<Node>>) {
    for input in &mut node.inputs {
        if let Some(e) = input.edge.take() {
            // Only what would be freed here needs the stack.
            if Shared::strong_count(&e.node) == 1 {
                stack.push(e.node);
            }
        }
    }
    if let Kind::CopySlices(c) = &node.kind
        && Shared::strong_count(&c.inner) == 1
    {
        stack.push(c.inner.clone());
    }
}
