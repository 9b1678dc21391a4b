//! The softmax with Gumbel noise.

use torsh_core::{Result, TorshError};

use crate::Tensor;
use crate::options::options;
use crate::record::{OpRecord, sample};

pub(crate) const RECORDS: &[&OpRecord] = &[&GUMBEL_SOFTMAX];

#[torsh_tensor::by_name(Tensor::gumbel_softmax_with(.., GumbelSoftmaxOptions { tau, hard, dim }))]
pub static GUMBEL_SOFTMAX: OpRecord = OpRecord::new(
    "nn.functional.gumbel_softmax",
    "Draws from the categorical distributions of logits along a dimension, relaxed by a temperature: the softmax of (logits + Gumbel noise) / tau. Hard draws are one-hot and have the relaxed ones' gradient.",
    "(Tensor logits, float tau=1, bool hard=False, float eps=1e-10, int dim=-1)",
)
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![
        sample![x.clone(), tau = 0.5],
        sample![x, hard = true, dim = 0],
    ])
});

options! {
    /// PyTorch's keyword arguments of `F.gumbel_softmax`.
    ///
    /// ```
    /// use torsh_tensor::GumbelSoftmaxOptions;
    /// let options = GumbelSoftmaxOptions::new();
    /// assert_eq!(options.tau, 1.0);
    /// assert!(!options.hard);
    /// assert_eq!(options.dim, -1);
    /// assert_eq!(options.tau(0.25).tau, 0.25);
    /// ```
    GumbelSoftmaxOptions {
        /// The temperature: small ones give nearly one-hot draws. Above 0.
        tau: f64 = 1.0;
        /// Whether draws are one-hot.
        hard: bool = false;
        /// The dimension along which the logits are one distribution.
        dim: i64 = -1;
    }
}

fn gumbel_softmax(logits: &Tensor, options: &GumbelSoftmaxOptions) -> Result<Tensor> {
    let GumbelSoftmaxOptions { tau, hard, dim } = *options;
    if !(tau > 0.0 && tau.is_finite()) {
        return Err(TorshError::invalid(
            "",
            format!("tau should be above 0 and finite, got {tau}"),
        ));
    }
    if !logits.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", logits.dtype()),
        ));
    }
    let noise = crate::no_grad(|| {
        logits
            .detach()
            .empty_like()?
            .exponential_(1.0)?
            .log()?
            .neg()
    })?;
    let soft = logits.add(&noise)?.div(tau)?.softmax(dim)?;
    if !hard {
        return Ok(soft);
    }
    let (_, index) = soft.detach().max_dim(dim, true)?;
    let one_hot = soft.detach().zeros_like()?.scatter_(dim, &index, 1.0)?;
    one_hot.sub(&soft.detach())?.add(&soft)
}

#[torsh_tensor::functions]
impl Tensor {
    /// Draws from the categorical distributions of logits along the last dimension, relaxed at
    /// temperature 1 (`torch.nn.functional.gumbel_softmax`; Jang et al., 2017). Floating-point
    /// dtypes; the result has the same shape and sums to 1.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let logits = tensor![[0.0, 100.0, 0.0]];
    /// assert!(logits.gumbel_softmax()?.allclose(&tensor![[0.0, 1.0, 0.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = logits)]
    #[track_caller]
    pub fn gumbel_softmax(&self) -> Result<Tensor> {
        self.gumbel_softmax_with(GumbelSoftmaxOptions::default())
    }

    /// [`Tensor::gumbel_softmax`] with another temperature `tau` or dimension `dim`, or `hard`
    /// (one-hot) draws.
    ///
    /// An error for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::{GumbelSoftmaxOptions, tensor};
    /// let logits = tensor![[0.0, 1.0, 2.0]];
    /// let draw = logits.gumbel_softmax_with(GumbelSoftmaxOptions::new().hard(true))?;
    /// // One of the three is 1.
    /// assert_eq!(draw.sum()?.item::<f32>()?, 1.0);
    /// assert_eq!(draw.count_nonzero()?.item::<i64>()?, 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = logits)]
    #[torsh_tensor::names_caller]
    pub fn gumbel_softmax_with(&self, options: GumbelSoftmaxOptions) -> Result<Tensor> {
        gumbel_softmax(self, &options).map_err(|e| e.renamed("gumbel_softmax"))
    }
}
