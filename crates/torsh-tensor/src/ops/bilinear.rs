//! Bilinear maps.

use torsh_core::{Result, TorshError};

use crate::Tensor;
use crate::record::{OpRecord, sample};

pub(crate) const RECORDS: &[&OpRecord] = &[&BILINEAR];

#[torsh_tensor::by_name(Tensor::bilinear)]
pub static BILINEAR: OpRecord = OpRecord::new(
    "nn.functional.bilinear",
    "The sums of products x1[i] * weight[o, i, j] * x2[j] of two tensors [.., i] and [.., j], and a bias [o].",
    "(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None)",
)
.samples(|s| {
    let weight = s.real(&[4, 2, 3])?;
    let call = |a: Tensor, b: Tensor| sample![a, b, weight.clone()];
    let bias = s.real(&[4])?;
    Ok(vec![
        call(s.real(&[2, 2])?, s.real(&[2, 3])?).kw("bias", bias),
        call(s.real(&[2])?, s.real(&[3])?),
    ])
});

fn bilinear(a: &Tensor, b: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let refuse = |why: String| Err(TorshError::shape("", why));
    if a.ndim() != b.ndim() {
        return refuse(format!(
            "input dimensions do not match: got {} and {}",
            a.ndim(),
            b.ndim()
        ));
    }
    let ([batch @ .., inputs1], [other @ .., inputs2]) = (a.dims(), b.dims()) else {
        return refuse("the inputs need a dimension of features, got 0-d tensors".into());
    };
    if let Some(d) = (0..batch.len()).find(|&d| batch[d] != other[d]) {
        return refuse(format!(
            "input batch dimensions do not match at dim {d}: got {} and {}",
            batch[d], other[d]
        ));
    }
    let [outputs, rows, columns] = *weight.dims() else {
        return refuse(format!(
            "weight must be [o, i, j], got {}",
            weight.describe()
        ));
    };
    for (name, have, want) in [("input1", *inputs1, rows), ("input2", *inputs2, columns)] {
        if have != want {
            return refuse(format!(
                "{name} size does not match weight size: got {have} but expected {want}"
            ));
        }
    }
    if let Some(bias) = bias.filter(|t| t.dims() != [outputs]) {
        return refuse(format!(
            "bias size does not match weight size: got {} but expected [{outputs}]",
            bias.shape()
        ));
    }
    for t in [Some(b), Some(weight), bias].into_iter().flatten() {
        if t.dtype() != a.dtype() {
            return Err(TorshError::dtype(
                "",
                format!("expected scalar type {} but found {}", a.dtype(), t.dtype()),
            ));
        }
    }
    let n: usize = batch.iter().product();
    // One product of matrices gives, for each row, the linear map that the other input goes through.
    let maps = weight
        .permute([1, 0, 2])?
        .reshape([rows, outputs * columns])?;
    let maps = a
        .reshape([n, rows])?
        .matmul(&maps)?
        .reshape([n, outputs, columns])?;
    let sums = maps.matmul(&b.reshape([n, columns, 1])?)?;
    let shape: Vec<usize> = batch.iter().copied().chain([outputs]).collect();
    let sums = sums.reshape(shape)?;
    match bias {
        Some(bias) => sums.add(bias),
        None => Ok(sums),
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// The sums of products `x[i] * weight[o, i, j] * input2[j]`, with `x` this tensor, and a bias
    /// `[o]`: `[.., i]` and `[.., j]` give `[.., o]` (`torch.nn.functional.bilinear`).
    ///
    /// An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let weight = tensor![[[1.0, 2.0], [3.0, 4.0]]];
    /// let y = tensor![1.0, 10.0].bilinear(&tensor![1.0, 100.0], &weight, None)?;
    /// assert_eq!(y, tensor![4231.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = input1)]
    #[torsh_tensor::names_caller]
    pub fn bilinear<'b>(
        &self,
        input2: &Tensor,
        weight: &Tensor,
        bias: impl Into<Option<&'b Tensor>>,
    ) -> Result<Tensor> {
        // Not among PyTorch's products.
        let _whole = crate::autocast::off();
        bilinear(self, input2, weight, bias.into()).map_err(|e| e.renamed("bilinear"))
    }
}
