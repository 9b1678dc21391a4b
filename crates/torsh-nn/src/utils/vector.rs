//! Parameters as one vector.

use torsh_tensor::{Result, Tensor, TorshError, no_grad};

/// The elements of all parameters in one dimension (`torch.nn.utils.parameters_to_vector`);
/// gradients flow back.
///
/// ```
/// use torsh_nn::utils::{parameters_to_vector, vector_to_parameters};
/// use torsh_nn::{Linear, ModuleExt};
/// let layer = Linear::new(2, 3);
/// let vector = parameters_to_vector(layer.parameters())?;
/// assert_eq!(vector.dims(), [9]);
/// vector_to_parameters(&vector.mul(0.0)?.add(2.0)?, layer.parameters())?;
/// assert_eq!(layer.bias.unwrap().to_vec::<f32>()?, [2.0; 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn parameters_to_vector<P: AsRef<Tensor>>(
    parameters: impl IntoIterator<Item = P>,
) -> Result<Tensor> {
    let parts: Vec<Tensor> = parameters
        .into_iter()
        .map(|p| p.as_ref().reshape([-1]))
        .collect::<Result<_>>()?;
    match parts.iter().find(|p| p.device() != parts[0].device()) {
        Some(other) => Err(TorshError::invalid(
            "parameters_to_vector",
            format!(
                "parameters are on the devices {} and {}",
                parts[0].device(),
                other.device()
            ),
        )),
        None => Tensor::cat(&parts, 0),
    }
}

/// Copies the elements of a vector into parameters, in order
/// (`torch.nn.utils.vector_to_parameters`). An error, which leaves all as they were, unless there
/// are as many.
///
/// ```
/// # use torsh_nn::{Linear, Module, ModuleExt, utils};
/// # use torsh_tensor::tensor;
/// let layer = Linear::new(2, 1);
/// utils::vector_to_parameters(&tensor![3.0, 4.0, 5.0], layer.parameters())?;
/// assert_eq!(layer.forward(&tensor![1.0, 10.0])?, tensor![48.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn vector_to_parameters<P: AsRef<Tensor>>(
    vector: &Tensor,
    parameters: impl IntoIterator<Item = P>,
) -> Result<()> {
    let parameters: Vec<Tensor> = parameters.into_iter().map(|p| p.as_ref().clone()).collect();
    let total: usize = parameters.iter().map(Tensor::numel).sum();
    if vector.dims() != [total] {
        return Err(TorshError::shape(
            "vector_to_parameters",
            format!(
                "the parameters have {total} elements and the vector is {}",
                vector.describe()
            ),
        ));
    }
    no_grad(|| {
        let mut from = 0;
        for p in &parameters {
            let n = p.numel();
            p.copy_(&vector.narrow(0, from, n)?.reshape(p.shape())?)?;
            from += n;
        }
        Ok(())
    })
}
