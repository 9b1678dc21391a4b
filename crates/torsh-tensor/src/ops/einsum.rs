//! Einstein summation: an equation is parsed into labels, then operands are contracted two at a
//! time by batched products.

use torsh_core::{Result, TorshError};

use crate::record::{OpRecord, Sample, sample};
use crate::{DiagonalOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&EINSUM, &EINSUM_EQUATION];

/// The operands first, as lists of calls have it.
#[torsh_tensor::by_name(Tensor::einsum(equation, tensors))]
pub static EINSUM: OpRecord = OpRecord::new(
    "einsum",
    "Sums of products by an equation of dimension labels, as 'bij,bjk->bik'.",
    "(Tensor[] tensors, str equation)",
)
.samples(|s| {
    let mut call = |equation: &str, shapes: &[&[usize]]| {
        let tensors = shapes
            .iter()
            .map(|d| s.real(d).map(Value::from))
            .collect::<Result<Vec<Value>>>()?;
        Ok::<Sample, TorshError>(sample![Value::List(tensors), equation])
    };
    Ok(vec![
        call("ij->ji", &[&[2, 3]])?,
        call("ii->i", &[&[3, 3]])?,
        call("bij,bjk->bik", &[&[2, 2, 3], &[2, 3, 2]])?,
        call("...ik,...jk,jm->...im", &[&[2, 2, 3], &[1, 2, 3], &[2, 2]])?,
        call("i,j", &[&[2], &[3]])?,
    ])
});

/// PyTorch's own order of the arguments.
#[torsh_tensor::by_name(Tensor::einsum)]
pub static EINSUM_EQUATION: OpRecord = OpRecord::new(
    "einsum.equation",
    "The same, with the equation first.",
    "(str equation, Tensor[] operands)",
)
.overload();

/// The labels of dimensions: letters by their code, the dimensions under an ellipsis from
/// [`ELLIPSIS`] on, counted so that they align at the right.
type Labels = Vec<u32>;
const ELLIPSIS: u32 = 1 << 16;

fn invalid(message: impl Into<String>) -> TorshError {
    TorshError::invalid("einsum", message)
}

/// The letters of one side, and where among them its ellipsis is.
fn letters(text: &str, what: &str) -> Result<(Labels, Option<usize>)> {
    let mut labels = Labels::new();
    let mut ellipsis = None;
    let mut rest = text.chars().peekable();
    while let Some(ch) = rest.next() {
        match ch {
            ' ' => {}
            'a'..='z' | 'A'..='Z' => labels.push(u32::from(ch)),
            '.' => {
                if ellipsis.is_some() {
                    return Err(invalid(format!(
                        "found '.' for {what} for which an ellipsis was already found"
                    )));
                }
                if rest.next() != Some('.') || rest.next() != Some('.') {
                    return Err(invalid(format!(
                        "found '.' for {what} that is not part of any ellipsis"
                    )));
                }
                ellipsis = Some(labels.len());
            }
            other => {
                return Err(invalid(format!(
                    "invalid subscript given at {what}: '{other}', subscripts must be in [a-zA-Z]"
                )));
            }
        }
    }
    Ok((labels, ellipsis))
}

/// A tensor and the labels of its dimensions, each once.
struct Operand {
    tensor: Tensor,
    labels: Labels,
}

impl Operand {
    fn size(&self, label: u32) -> Option<usize> {
        let at = self.labels.iter().position(|&l| l == label)?;
        Some(self.tensor.dims()[at])
    }

    /// Takes the diagonal over dimensions that share a label.
    fn new(tensor: &Tensor, labels: Labels, index: usize) -> Result<Operand> {
        let mut o = Operand {
            tensor: tensor.clone(),
            labels,
        };
        let mut i = 0;
        while i < o.labels.len() {
            let Some(j) = (i + 1..o.labels.len()).find(|&j| o.labels[j] == o.labels[i]) else {
                i += 1;
                continue;
            };
            let (m, n) = (o.tensor.dims()[i], o.tensor.dims()[j]);
            if m != n {
                return Err(invalid(format!(
                    "subscript {} is repeated for operand {index} but the sizes don't match, {n} != {m}",
                    name(o.labels[i])
                )));
            }
            // The diagonal comes last.
            o.tensor = o
                .tensor
                .diagonal_with(DiagonalOptions::new().dim1(i as i64).dim2(j as i64))?;
            let label = o.labels.remove(i);
            o.labels.remove(j - 1);
            o.labels.push(label);
        }
        Ok(o)
    }

    /// Sums over the labels that `keep` does not hold, in the tensor's own dtype.
    fn reduce(self, keep: impl Fn(u32) -> bool) -> Result<Operand> {
        let dims: Vec<i64> = (0..self.labels.len())
            .filter(|&d| !keep(self.labels[d]))
            .map(|d| d as i64)
            .collect();
        if dims.is_empty() {
            return Ok(self);
        }
        let dtype = self.tensor.dtype();
        let labels = self.labels.iter().copied().filter(|&l| keep(l)).collect();
        Ok(Operand {
            tensor: self.tensor.sum_dim(&dims[..], false)?.to_dtype(dtype)?,
            labels,
        })
    }

    /// Drops dimensions of size 1 that `other` has in full: they broadcast.
    fn drop_ones(self, other: &Operand) -> Result<Operand> {
        let ones: Vec<usize> = (0..self.labels.len())
            .filter(|&d| self.tensor.dims()[d] == 1 && other.labels.contains(&self.labels[d]))
            .filter(|&d| other.size(self.labels[d]) != Some(1))
            .collect();
        if ones.is_empty() {
            return Ok(self);
        }
        let dims: Vec<i64> = ones.iter().map(|&d| d as i64).collect();
        let labels = (0..self.labels.len())
            .filter(|d| !ones.contains(d))
            .map(|d| self.labels[d])
            .collect();
        Ok(Operand {
            tensor: self.tensor.squeeze(&dims[..])?,
            labels,
        })
    }

    /// The dimensions in the order of these labels.
    fn ordered(&self, labels: &[u32]) -> Result<Tensor> {
        let order: Vec<i64> = labels
            .iter()
            .filter_map(|l| self.labels.iter().position(|m| m == l))
            .map(|d| d as i64)
            .collect();
        if order.iter().enumerate().all(|(i, &d)| i as i64 == d) {
            return Ok(self.tensor.clone());
        }
        self.tensor.permute(&order[..])
    }
}

fn name(label: u32) -> String {
    match char::from_u32(label) {
        Some(ch) if label < ELLIPSIS => ch.to_string(),
        _ => "...".to_string(),
    }
}

/// The contraction of two operands, over the labels of both that `keep` does not hold.
fn contract(a: Operand, b: Operand, keep: impl Fn(u32) -> bool) -> Result<Operand> {
    let (a, b) = (a.drop_ones(&b)?, b);
    let b = b.drop_ones(&a)?;
    let a_labels = a.labels.clone();
    let a = a.reduce(|l| keep(l) || b.labels.contains(&l))?;
    let b = b.reduce(|l| keep(l) || a_labels.contains(&l))?;
    let pick = |from: &Operand, f: &dyn Fn(u32) -> bool| -> Labels {
        from.labels.iter().copied().filter(|&l| f(l)).collect()
    };
    let batch = pick(&a, &|l| keep(l) && b.labels.contains(&l));
    let terms = pick(&a, &|l| !keep(l) && b.labels.contains(&l));
    let left = pick(&a, &|l| !b.labels.contains(&l));
    let right = pick(&b, &|l| !a.labels.contains(&l));
    let labels = [&batch[..], &left, &right].concat();
    let count =
        |o: &Operand, list: &[u32]| list.iter().filter_map(|&l| o.size(l)).product::<usize>();
    let sizes: Vec<usize> = [(&a, &batch), (&a, &left), (&b, &right)]
        .into_iter()
        .flat_map(|(o, list)| list.iter().filter_map(|&l| o.size(l)))
        .collect();
    let (x, y) = (
        a.ordered(&[&batch[..], &left, &terms].concat())?,
        b.ordered(&[&batch[..], &terms, &right].concat())?,
    );
    if terms.is_empty() {
        // Nothing is summed: a product of elements.
        let mut along: Vec<usize> = x.dims().to_vec();
        along.extend(right.iter().map(|_| 1));
        let mut other: Vec<usize> = y.dims()[..batch.len()].to_vec();
        other.extend(left.iter().map(|_| 1));
        other.extend(&y.dims()[batch.len()..]);
        return Ok(Operand {
            tensor: x.reshape(along)?.mul(&y.reshape(other)?)?,
            labels,
        });
    }
    let (n, m, k, p) = (
        count(&a, &batch),
        count(&a, &left),
        count(&a, &terms),
        count(&b, &right),
    );
    let product = if batch.is_empty() {
        x.reshape([m, k])?.mm(&y.reshape([k, p])?)?
    } else {
        x.reshape([n, m, k])?.bmm(&y.reshape([n, k, p])?)?
    };
    Ok(Operand {
        tensor: product.reshape(sizes)?,
        labels,
    })
}

#[torsh_tensor::functions]
impl Tensor {
    /// Sums of products by an equation of dimension labels (`torch.einsum`), as `"bij,bjk->bik"`.
    ///
    /// A letter names a dimension of each operand; repeated in one operand it takes the diagonal.
    /// `...` stands for dimensions that broadcast. What the part after `->` does not name is summed;
    /// without it the result has the labels that occur once, in alphabetical order.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let a = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let trace = Tensor::einsum("ii", &[&a])?;
    /// assert_eq!(trace.item::<f32>()?, 5.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn einsum<T: std::borrow::Borrow<Tensor>>(
        equation: &str,
        operands: &[T],
    ) -> Result<Tensor> {
        if operands.is_empty() {
            return Err(invalid("must provide at least one operand"));
        }
        let (inputs, output) = match equation.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (equation, None),
        };
        let parts: Vec<&str> = inputs.split(',').collect();
        if parts.len() != operands.len() {
            let more = if parts.len() > operands.len() {
                "fewer"
            } else {
                "more"
            };
            return Err(invalid(format!(
                "{more} operands were provided than specified in the equation: {} for {}",
                operands.len(),
                parts.len()
            )));
        }
        let mut list = Vec::with_capacity(operands.len());
        let mut under_ellipsis = 0;
        let mut parsed = Vec::with_capacity(operands.len());
        for (i, (part, t)) in parts.iter().zip(operands).enumerate() {
            let (labels, ellipsis) = letters(part, &format!("operand {i}"))?;
            let n = t.borrow().ndim();
            if labels.len() > n || (labels.len() < n && ellipsis.is_none()) {
                let hint = if ellipsis.is_none() {
                    " and no ellipsis was given"
                } else {
                    ""
                };
                return Err(invalid(format!(
                    "the number of subscripts in the equation ({}) does not match the number of dimensions ({n}) for operand {i}{hint}",
                    labels.len()
                )));
            }
            under_ellipsis = under_ellipsis.max(n - labels.len());
            parsed.push((labels, ellipsis));
        }
        let mut sizes: Vec<(u32, usize)> = Vec::new();
        let mut occurrences: Vec<(u32, usize)> = Vec::new();
        for (i, ((mut labels, ellipsis), t)) in parsed.into_iter().zip(operands).enumerate() {
            let t = t.borrow();
            for &l in &labels {
                match occurrences.iter_mut().find(|(m, _)| *m == l) {
                    Some((_, n)) => *n += 1,
                    None => occurrences.push((l, 1)),
                }
            }
            if let Some(at) = ellipsis {
                let hidden = t.ndim() - labels.len();
                let first = ELLIPSIS + (under_ellipsis - hidden) as u32;
                labels.splice(at..at, first..first + hidden as u32);
            }
            for (&l, &n) in labels.iter().zip(t.dims()) {
                match sizes.iter_mut().find(|(m, _)| *m == l) {
                    None => sizes.push((l, n)),
                    Some((_, have)) if *have == n || n == 1 => {}
                    Some((_, have)) if *have == 1 => *have = n,
                    Some((_, have)) => {
                        return Err(invalid(format!(
                            "subscript {} has size {n} for operand {i} which does not broadcast with previously seen size {have}",
                            name(l)
                        )));
                    }
                }
            }
            list.push(Operand::new(t, labels, i)?);
        }
        let hidden = ELLIPSIS..ELLIPSIS + under_ellipsis as u32;
        let result: Labels = match output {
            Some(text) => {
                let (mut labels, ellipsis) = letters(text, "the output")?;
                for (i, l) in labels.iter().enumerate() {
                    if labels[..i].contains(l) {
                        return Err(invalid(format!(
                            "output subscript {} appears more than once in the output",
                            name(*l)
                        )));
                    }
                    if !occurrences.iter().any(|(m, _)| m == l) {
                        return Err(invalid(format!(
                            "output subscript {} does not appear in the equation for any input operand",
                            name(*l)
                        )));
                    }
                }
                if let Some(at) = ellipsis {
                    labels.splice(at..at, hidden);
                }
                labels
            }
            None => {
                let mut once: Labels = occurrences
                    .iter()
                    .filter(|(_, n)| *n == 1)
                    .map(|(l, _)| *l)
                    .collect();
                once.sort_unstable();
                hidden.chain(once).collect()
            }
        };
        let renamed = |e: TorshError| e.renamed("einsum");
        let mut rest = list.into_iter();
        let Some(mut left) = rest.next() else {
            return Err(invalid("must provide at least one operand"));
        };
        let mut waiting: Vec<Operand> = rest.rev().collect();
        while let Some(next) = waiting.pop() {
            let keep =
                |l: u32| result.contains(&l) || waiting.iter().any(|o| o.labels.contains(&l));
            left = contract(left, next, keep).map_err(renamed)?;
        }
        // One operand alone is summed as `sum` does it, which widens integers.
        let dims: Vec<i64> = (0..left.labels.len())
            .filter(|&d| !result.contains(&left.labels[d]))
            .map(|d| d as i64)
            .collect();
        if !dims.is_empty() {
            left.tensor = left.tensor.sum_dim(&dims[..], false).map_err(renamed)?;
            left.labels.retain(|l| result.contains(l));
        }
        // An ellipsis of the output that stands for nothing here has no dimension in any operand.
        left.ordered(&result).map_err(renamed)
    }
}
