//! Starting backward passes, and hooks on tensors.

use std::panic::Location;
use std::sync::Arc;

use torsh_core::{Result, Shared, TorshError, WeakShared};

use crate::engine::{self, Run};
use crate::node::{Edge, Hook, Node, next_seq};
use crate::tensor::Inner;
use crate::{Device, Tensor};

/// A hook that is removed by [`HookHandle::remove`].
///
/// It keeps neither tensor nor graph alive.
pub struct HookHandle {
    id: u64,
    tensor: WeakShared<Inner>,
    /// The node of the hook; the tensor's own changes with every in-place op.
    node: WeakShared<Node>,
}

impl std::fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookHandle({})", self.id)
    }
}

impl HookHandle {
    /// Removes the hook.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// let hook = x.register_hook(|g| g.mul(10.0).map(Some))?;
    /// hook.remove();
    /// x.sum()?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn remove(self) {
        if let Some(t) = self.tensor.upgrade().map(Tensor)
            && let Some(m) = t.meta()
        {
            let mut state = m.state.lock();
            state.hooks.retain(|h| h.id != self.id);
            state.after.retain(|h| h.id != self.id);
        }
        if let Some(node) = self.node.upgrade() {
            node.remove_hook(self.id);
        }
    }
}

/// The gradient a backward pass starts with: the given one, checked, or a one.
fn root(output: &Tensor, grad: Option<&Tensor>) -> Result<(Edge, Tensor)> {
    crate::inplace::check_stale(output).map_err(|e| e.renamed("backward"))?;
    let edge = output.gradient_edge().ok_or_else(|| {
        TorshError::autograd(
            "backward",
            format!("{} does not require grad and does not have a grad_fn", output.describe()),
        )
        .with_hint("call requires_grad_(true) on the parameters before they are used, and do not compute under no_grad")
    })?;
    let g = match grad {
        Some(g) => {
            if g.shape() != output.shape() {
                return Err(TorshError::autograd(
                    "backward",
                    format!(
                        "mismatch in shape: the gradient has {} and the output {}",
                        g.shape(),
                        output.shape()
                    ),
                ));
            }
            if g.dtype().is_complex() != output.dtype().is_complex() {
                return Err(TorshError::autograd(
                    "backward",
                    format!(
                        "mismatch in dtype: the gradient is {} and the output {}; both must be complex or neither",
                        g.dtype(),
                        output.dtype()
                    ),
                ));
            }
            if g.dtype() != output.dtype() {
                g.to_dtype(output.dtype())?
            } else {
                g.clone()
            }
        }
        None => {
            if output.numel() != 1 {
                return Err(TorshError::autograd(
                    "backward",
                    format!(
                        "grad can be implicitly created only for scalar outputs, got {}",
                        output.describe()
                    ),
                )
                .with_hint(
                    "reduce it with sum() or mean(), or use backward_with and give a gradient",
                ));
            }
            if output.dtype().is_complex() {
                return Err(TorshError::autograd(
                    "backward",
                    "grad can be implicitly created only for real scalar outputs but got a complex one",
                ));
            }
            Tensor::ones(output.shape(), output.dtype(), output.device())?
        }
    };
    Ok((edge, g))
}

/// The gradients of `outputs` with respect to `inputs` (`torch.autograd.grad`).
///
/// `grad_outputs` weighs the outputs (`None` for one-element ones). An input that the outputs do
/// not depend on is an error, or `None` with `allow_unused`.
///
/// ```
/// use torsh_tensor::{grad, tensor};
/// let x = tensor![3.0].requires_grad_(true);
/// let y = x.square()?;
/// let dy = grad(&[y], &[x.clone()], &[None], false, false, false)?;
/// assert_eq!(dy[0], Some(tensor![6.0]));
/// // The leaf's own gradient is left alone.
/// assert!(!x.has_grad());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: &[Option<Tensor>],
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    let at = Location::caller();
    let options = (retain_graph, create_graph, allow_unused);
    grads_of(outputs, inputs, grad_outputs, options).map_err(|e| e.at(at))
}

fn grads_of(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: &[Option<Tensor>],
    (retain_graph, create_graph, allow_unused): (bool, bool, bool),
) -> Result<Vec<Option<Tensor>>> {
    if !grad_outputs.is_empty() && grad_outputs.len() != outputs.len() {
        return Err(TorshError::autograd(
            "grad",
            format!(
                "got {} outputs and {} gradients for them",
                outputs.len(),
                grad_outputs.len()
            ),
        ));
    }
    let mut edges = Vec::with_capacity(inputs.len());
    for (i, t) in inputs.iter().enumerate() {
        edges.push(t.gradient_edge().ok_or_else(|| {
            TorshError::autograd(
                "grad",
                format!("input {i} ({}) does not require grad", t.describe()),
            )
            .with_hint("call requires_grad_(true) on it before it is used")
        })?);
    }
    let mut roots = Vec::with_capacity(outputs.len());
    for (i, t) in outputs.iter().enumerate() {
        roots.push(root(t, grad_outputs.get(i).and_then(Option::as_ref))?);
    }
    let run = Run {
        retain_graph: retain_graph || create_graph,
        create_graph,
        inputs: Some(&edges),
    };
    let found = engine::run(roots, &run)?;
    if !allow_unused && let Some(i) = found.iter().position(Option::is_none) {
        return Err(TorshError::autograd(
            "grad",
            format!(
                "input {i} ({}) appears to not have been used in the graph",
                inputs[i].describe()
            ),
        )
        .with_hint("pass allow_unused to get None for it"));
    }
    Ok(found)
}

/// Adds the gradients of several outputs to their leaves' `.grad` (`torch.autograd.backward`).
///
/// ```
/// # use torsh_tensor::tensor;
/// let x = tensor![3.0].requires_grad_(true);
/// let (a, b) = (x.square()?, x.mul(10.0)?);
/// torsh_tensor::backward(&[a, b], &[None, None], false, false)?;
/// assert_eq!(x.grad(), Some(tensor![16.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn backward(
    outputs: &[Tensor],
    grads: &[Option<Tensor>],
    retain_graph: bool,
    create_graph: bool,
) -> Result<()> {
    let at = Location::caller();
    let run = Run {
        retain_graph: retain_graph || create_graph,
        create_graph,
        inputs: None,
    };
    let roots = outputs.iter().enumerate();
    roots
        .map(|(i, t)| root(t, grads.get(i).and_then(Option::as_ref)))
        .collect::<Result<Vec<_>>>()
        .and_then(|roots| engine::run(roots, &run))
        .map(drop)
        .map_err(|e| e.at(at))
}

impl Tensor {
    /// Adds the gradient of this one-element tensor to the `.grad` of every leaf it was computed
    /// from, and frees what the graph kept.
    ///
    /// Where it fails (no memory is left, say), some leaves may have their gradients already: set them
    /// to zero and compute the loss anew before another try.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad_(true);
    /// x.square()?.sum()?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 4.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn backward(&self) -> Result<()> {
        backward(std::slice::from_ref(self), &[None], false, false)
    }

    /// [`Tensor::backward`] from a given gradient, of this tensor's shape; `retain_graph` keeps
    /// the graph for another pass, `create_graph` records the pass itself for higher orders. A leaf and a gradient that was
    /// recorded hold each other: call [`Tensor::zero_grad`] before the leaf is dropped, or use [`grad`].
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad_(true);
    /// x.square()?.backward_with(tensor![1.0, 10.0], false, false)?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 40.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn backward_with(
        &self,
        grad: impl Into<Option<Tensor>>,
        retain_graph: bool,
        create_graph: bool,
    ) -> Result<()> {
        backward(
            std::slice::from_ref(self),
            &[grad.into()],
            retain_graph,
            create_graph,
        )
    }

    /// Keeps the gradient of this result in its `.grad` (a leaf's is kept anyway).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// let y = x.mul(2.0)?;
    /// y.retain_grad()?;
    /// y.square()?.backward()?;
    /// assert_eq!(y.grad(), Some(tensor![12.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn retain_grad(&self) -> Result<()> {
        if !self.requires_grad() {
            return Err(TorshError::autograd(
                "retain_grad",
                "can't retain_grad on a tensor that has requires_grad=false",
            ));
        }
        if let Some(edge) = self.gradient_edge()
            && edge.node.variable().is_none()
        {
            edge.node
                .hooks_or_new()
                .lock()
                .retain
                .push((edge.output_nr, Shared::downgrade(&self.0)));
        }
        Ok(())
    }

    /// Whether [`Tensor::retain_grad`] was called on this result; `false` for a leaf.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![3.0].requires_grad_(true).mul(2.0)?;
    /// assert!(!y.retains_grad());
    /// y.retain_grad()?;
    /// assert!(y.retains_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn retains_grad(&self) -> bool {
        let edge = self.gradient_edge();
        edge.is_some_and(|e| e.node.variable().is_none() && e.node.retains(e.output_nr, &self.0))
    }

    /// Calls `f` with this tensor's gradient in every backward pass; what it returns replaces the
    /// gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// x.register_hook(|g| g.mul(10.0).map(Some))?;
    /// x.mul(2.0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![20.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn register_hook(
        &self,
        f: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let Some(edge) = self.gradient_edge() else {
            return Err(TorshError::autograd(
                "register_hook",
                "cannot register a hook on a tensor that doesn't require gradient",
            ));
        };
        let id = next_seq();
        let hook = Hook { id, f: Arc::new(f) };
        let handle = HookHandle {
            id,
            tensor: Shared::downgrade(&self.0),
            node: Shared::downgrade(&edge.node),
        };
        if edge.node.variable().is_some() {
            self.meta_or_new().state.lock().hooks.push(hook);
        } else {
            edge.node
                .hooks_or_new()
                .lock()
                .tensor
                .push((edge.output_nr, hook));
        }
        Ok(handle)
    }

    /// Calls `f` with this leaf after each backward pass has added to its gradient
    /// (`register_post_accumulate_grad_hook`). The hook may read, change and remove the gradient. It is called as soon as
    /// the leaf has its gradient, while the pass goes on.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0].requires_grad_(true);
    /// x.register_post_accumulate_grad_hook(|x| {
    ///     let half = x.grad().map(|g| g.mul(0.5)).transpose()?;
    ///     x.set_grad(half)
    /// })?;
    /// x.mul(4.0)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![2.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The tensor does not require a gradient, or is no leaf.
    #[torsh_tensor::names_caller]
    pub fn register_post_accumulate_grad_hook(
        &self,
        f: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let edge = self.gradient_edge();
        let Some(edge) = edge.filter(|e| e.node.variable().is_some()) else {
            return Err(TorshError::autograd(
                "register_post_accumulate_grad_hook",
                format!("{} is no leaf that requires a gradient", self.describe()),
            ));
        };
        crate::engine::note_after();
        let id = next_seq();
        let f = Arc::new(move |t: &Tensor| f(t).map(|()| None));
        self.meta_or_new().state.lock().after.push(Hook { id, f });
        Ok(HookHandle {
            id,
            tensor: Shared::downgrade(&self.0),
            node: Shared::downgrade(&edge.node),
        })
    }

    /// Whether data and gradients of this tensor are on the host.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// assert!(Tensor::zeros([1], DType::F32, Device::Cpu)?.is_cpu());
    /// assert!(!Tensor::zeros([1], DType::F32, Device::Meta)?.is_cpu());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_cpu(&self) -> bool {
        self.device() == Device::Cpu
    }
}
