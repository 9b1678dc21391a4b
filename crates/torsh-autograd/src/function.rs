//! Functions with a custom derivative.

use std::sync::Arc;

use torsh_tensor::{
    CustomBackward, DType, Device, Result, Shape, Tensor, no_grad, record_function,
};

/// What a function's forward leaves for its backward.
#[derive(Debug, Default)]
pub struct Context {
    saved: Vec<Tensor>,
    constant: u64,
    lazy_zeros: bool,
}

impl Context {
    /// Keeps tensors (operands, results or others) for backward. A later in-place change of one
    /// is noticed.
    pub fn save_for_backward(&mut self, tensors: &[&Tensor]) {
        self.saved = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// Says that result `i` has no derivative.
    pub fn mark_non_differentiable(&mut self, i: usize) {
        self.constant |= 1 << i.min(63);
    }

    /// Whether results that got no gradient are given to backward as zeros (the default) or as
    /// `None`.
    pub fn set_materialize_grads(&mut self, zeros: bool) {
        self.lazy_zeros = !zeros;
    }
}

/// A function whose derivative its author writes (`torch.autograd.Function`). Whatever else
/// backward needs are fields of the type.
///
/// ```
/// use torsh_autograd::{apply, Context, Function};
/// use torsh_tensor::{Result, Tensor};
/// struct Cube;
/// impl Function for Cube {
///     fn forward(&self, cx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         cx.save_for_backward(&[&inputs[0]]);
///         Ok(vec![inputs[0].mul(&inputs[0])?.mul(&inputs[0])?])
///     }
///     fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
///         let g = grads[0].as_ref().expect("zeros are filled in");
///         Ok(vec![Some(g.mul(3.0)?.mul(&saved[0])?.mul(&saved[0])?)])
///     }
/// }
/// let x = Tensor::from_data(&[2.0f32], &[1])?.requires_grad_(true);
/// let y = apply(Cube, &[&x])?.remove(0);
/// y.backward()?;
/// assert_eq!(x.grad().expect("used").item::<f32>()?, 12.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Function: Send + Sync + 'static {
    /// The results; runs without recording.
    fn forward(&self, cx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs (`None` for one that needs none) from those of the results and
    /// the saved tensors. Written in tensor ops, it can itself be differentiated.
    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>>;

    /// The name errors show.
    fn name(&self) -> &str {
        let full = std::any::type_name::<Self>();
        full.rsplit("::").next().unwrap_or(full)
    }
}

struct Recorded<F> {
    f: Arc<F>,
    /// Shape, dtype and device of the results, to fill in zeros.
    like: Option<Vec<(Shape, DType, Device)>>,
}

impl<F: Function> CustomBackward for Recorded<F> {
    fn name(&self) -> &str {
        self.f.name()
    }

    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let Some(like) = &self.like else {
            return self.f.backward(grads, saved);
        };
        let filled = grads
            .iter()
            .zip(like)
            .map(|(g, l)| match g {
                Some(g) => Ok(Some(g.clone())),
                None => Tensor::zeros(&l.0, l.1, l.2).map(Some),
            })
            .collect::<Result<Vec<_>>>()?;
        self.f.backward(&filled, saved)
    }
}

/// Calls a function and records it as one node.
#[torsh_tensor::names_caller]
pub fn apply<F: Function>(f: F, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let f = Arc::new(f);
    let inputs: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
    let mut cx = Context::default();
    let outputs = no_grad(|| f.forward(&mut cx, &inputs))?;
    let like = (!cx.lazy_zeros).then(|| {
        outputs
            .iter()
            .map(|t| (t.shape().clone(), t.dtype(), t.device()))
            .collect()
    });
    record_function(
        &inputs,
        outputs,
        &cx.saved,
        cx.constant,
        Box::new(Recorded { f, like }),
    )
}
