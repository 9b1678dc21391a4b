//! COO gradients of several ranks: each rank gets the indices and values of all.

use std::fmt;

use serde::{Deserialize, Serialize};
use torsh_core::attrs::NONE;
use torsh_tensor::call::Arg;
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, TorshError};

use crate::group::ProcessGroup;

/// How a rank sends its gradient of a parameter, as ranks tell it one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// There is none.
    Absent,
    /// With all elements: a strided one, and one of a compressed layout, of which ranks do not send indices.
    Strided,
    /// As a COO tensor of so many sparse dimensions and elements.
    Coo { sparse_dim: usize, nnz: usize },
    /// It cannot be read, for this reason.
    Unreadable(String),
}

impl Form {
    /// The form of a gradient.
    pub(crate) fn of(grad: Option<&Tensor>) -> Form {
        let coo = grad.filter(|g| g.is_sparse()).and_then(Tensor::pattern);
        match (grad, coo) {
            (None, _) => Form::Absent,
            (_, None) => Form::Strided,
            (_, Some(p)) => Form::Coo {
                sparse_dim: p.sparse_dim(),
                nnz: p.nnz(),
            },
        }
    }

    pub(crate) fn is_coo(&self) -> bool {
        matches!(self, Form::Coo { .. })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Absent => f.write_str("none"),
            Form::Strided => write!(f, "{}", TensorLayout::Strided),
            Form::Coo { sparse_dim, nnz } => write!(
                f,
                "{} of {nnz} elements and {sparse_dim} sparse dimensions",
                TensorLayout::SparseCoo
            ),
            Form::Unreadable(why) => write!(f, "one that cannot be read ({why})"),
        }
    }
}

/// The error of all ranks where the gradients of a parameter do not go together.
fn unlike(op: &'static str, name: &str, why: &str, forms: &[&Form]) -> TorshError {
    let ranks = forms.iter().enumerate();
    let ranks: Vec<String> = ranks.map(|(r, form)| format!("rank {r}: {form}")).collect();
    TorshError::invalid(
        op,
        format!(
            "the gradients of {name} {why}, and have no average; they are {}",
            ranks.join("; ")
        ),
    )
}

/// Why something failed, without the place.
pub(crate) fn reason(e: &TorshError) -> String {
    e.info()
        .map_or_else(|| e.to_string(), |i| i.message.clone())
}

/// The forms of all ranks, each with one for each parameter.
pub(crate) fn forms(
    op: &'static str,
    group: &ProcessGroup,
    own: Vec<Form>,
) -> Result<Vec<Vec<Form>>> {
    let all = group.all_gather_object(&own)?;
    match all.iter().position(|forms| forms.len() != own.len()) {
        None => Ok(all),
        Some(rank) => Err(TorshError::invalid(
            op,
            format!(
                "rank {rank} of group {} has {} gradients where this rank has {}",
                group.name(),
                all[rank].len(),
                own.len()
            ),
        )
        .with_hint("build the same model on every rank, with the same parameters frozen")),
    }
}

/// A parameter with this rank's gradient.
pub(crate) struct Part<'a> {
    pub(crate) name: &'a str,
    pub(crate) parameter: &'a Tensor,
    pub(crate) grad: Option<Tensor>,
}

/// What all ranks have of a gradient.
pub(crate) struct Gathered {
    /// Whether one of them sends a gradient with all elements, which is not in the sum.
    pub(crate) strided: bool,
    /// This rank's, where it does.
    pub(crate) own: Option<Tensor>,
    /// The sum of the COO gradients in the order of the ranks, coalesced, where there is one.
    pub(crate) sum: Option<Tensor>,
}

/// A flat tensor from which parts are taken in turn.
struct Cursor {
    flat: Tensor,
    at: usize,
}

impl Cursor {
    fn take(&mut self, shape: &[usize]) -> Result<Tensor> {
        let n = shape.iter().product::<usize>();
        let part = self.flat.narrow(0, self.at, n)?;
        self.at += n;
        part.reshape(shape)
    }
}

/// The parts of all ranks, which have these numbers of elements, one behind the other.
fn exchange(
    group: &ProcessGroup,
    own: &[Tensor],
    lengths: &[usize],
    dtype: DType,
    device: Device,
) -> Result<Vec<Cursor>> {
    let flat = own
        .iter()
        .map(|t| t.reshape([t.numel()]))
        .collect::<Result<Vec<_>>>()?;
    let flat = match flat.is_empty() {
        true => Tensor::zeros([0], dtype, device)?,
        false => Tensor::cat(&flat, 0)?,
    };
    let all = group.all_gather_flat(&flat, lengths)?;
    Ok(all.into_iter().map(|flat| Cursor { flat, at: 0 }).collect())
}

/// A COO tensor in which no index comes twice.
fn coalesced(t: &Tensor) -> Result<Tensor> {
    sparse::call1("coalesce", &[Arg::T(&t.detach())], NONE)
}

/// A sparse gradient with all its elements.
pub(crate) fn strided(grad: &Tensor) -> Result<Tensor> {
    sparse::call1("to_dense", &[Arg::T(&grad.detach())], NONE)
}

/// A gradient as it is sent: an index that comes twice travels once, and those of compressed layouts do not.
fn sent(grad: &Tensor) -> Result<Tensor> {
    match grad.layout() {
        TensorLayout::Strided => Ok(grad.detach()),
        TensorLayout::SparseCoo => coalesced(grad),
        _ => strided(grad),
    }
}

/// A parameter of which some rank has a COO gradient.
struct Stored<'a> {
    /// Its place among the parts.
    at: usize,
    parameter: &'a Tensor,
    sparse_dim: usize,
    /// How many elements each rank has, where its gradient is a COO tensor.
    nnz: Vec<Option<usize>>,
    /// In which dtype values travel.
    dtype: DType,
}

impl<'a> Stored<'a> {
    /// The parameter at a place among the parts, with the forms of all ranks; `None` where no rank has a COO gradient.
    fn of(
        op: &'static str,
        at: usize,
        part: &Part<'a>,
        forms: &[&Form],
        send_as: Option<DType>,
    ) -> Result<Option<Stored<'a>>> {
        if forms.iter().any(|f| matches!(f, Form::Unreadable(_))) {
            return Err(unlike(op, part.name, "cannot all be read", forms));
        }
        let mut first = None;
        let mut nnz = Vec::with_capacity(forms.len());
        for form in forms {
            let &&Form::Coo {
                sparse_dim,
                nnz: own,
            } = form
            else {
                nnz.push(None);
                continue;
            };
            nnz.push(Some(own));
            if *first.get_or_insert(sparse_dim) != sparse_dim {
                let why = "have different sparse dimensions";
                return Err(unlike(op, part.name, why, forms)
                    .with_hint("read the parameter by the same functions on every rank"));
            }
        }
        let dtype = part.parameter.dtype();
        Ok(first.map(|sparse_dim| Stored {
            at,
            parameter: part.parameter,
            sparse_dim,
            nnz,
            dtype: send_as
                .filter(|_| dtype.is_floating_point())
                .unwrap_or(dtype),
        }))
    }

    /// The shape of an element.
    fn element(&self) -> &[usize] {
        let dims = self.parameter.dims();
        dims.get(self.sparse_dim..).unwrap_or_default()
    }

    /// How many indices and how many values a rank sends.
    fn lengths(&self, rank: usize) -> [usize; 2] {
        let n = self.nnz[rank].unwrap_or(0);
        [
            n * self.sparse_dim,
            n * self.element().iter().product::<usize>(),
        ]
    }

    /// The sum over the ranks of what they sent.
    fn sum(&self, indices: &mut [Cursor], values: &mut [Cursor]) -> Result<Tensor> {
        let (mut index, mut value) = (Vec::new(), Vec::new());
        for (rank, nnz) in self.nnz.iter().enumerate() {
            let Some(nnz) = *nnz else { continue };
            index.push(indices[rank].take(&[self.sparse_dim, nnz])?);
            value.push(values[rank].take(&[&[nnz][..], self.element()].concat())?);
        }
        let once = index.len() == 1;
        let pattern = Pattern::coo(self.parameter.dims(), &Tensor::cat(&index, 1)?, once)?;
        let values = Tensor::cat(&value, 0)?.to_dtype(self.parameter.dtype())?;
        coalesced(&sparse::from_values(&pattern, &values)?)
    }
}

/// Collects the COO gradients of all ranks. Values travel in the dtype `send_as`, where there is one. Nothing is recorded.
///
/// All ranks call it with the same parameters. Each may have another number of elements of a gradient, one of another
/// layout, or no gradient.
///
/// # Errors
/// The same on all ranks: a gradient that one of them cannot read; different numbers of sparse dimensions.
pub(crate) fn gather(
    op: &'static str,
    group: &ProcessGroup,
    parts: &[Part<'_>],
    send_as: Option<DType>,
) -> Result<Vec<Gathered>> {
    let (mut own, mut grads) = (Vec::new(), Vec::new());
    for part in parts {
        let grad = part.grad.as_ref().map(sent).transpose();
        own.push(match &grad {
            Ok(grad) => Form::of(grad.as_ref()),
            // The others wait for what this rank says.
            Err(e) => Form::Unreadable(reason(e)),
        });
        grads.push(grad.unwrap_or_default());
    }
    let all = forms(op, group, own)?;
    let mut gathered = Vec::with_capacity(parts.len());
    let mut stored: Vec<Stored<'_>> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let forms: Vec<&Form> = all.iter().map(|forms| &forms[i]).collect();
        gathered.push(Gathered {
            strided: forms.contains(&&Form::Strided),
            own: grads[i].take_if(|g| g.layout().is_strided()),
            sum: None,
        });
        stored.extend(Stored::of(op, i, part, &forms, send_as)?);
    }
    let Some(device) = stored.first().map(|s| s.parameter.device()) else {
        return Ok(gathered);
    };
    let mut dtypes: Vec<DType> = Vec::new();
    for s in &stored {
        if !dtypes.contains(&s.dtype) {
            dtypes.push(s.dtype);
        }
    }
    for dtype in dtypes {
        let of_dtype: Vec<&Stored<'_>> = stored.iter().filter(|s| s.dtype == dtype).collect();
        let lengths = |which: usize| -> Vec<usize> {
            let of_rank = |rank| {
                of_dtype
                    .iter()
                    .map(|s| s.lengths(rank)[which])
                    .sum::<usize>()
            };
            (0..all.len()).map(of_rank).collect()
        };
        let (mut index, mut value): (Vec<Tensor>, Vec<Tensor>) = Default::default();
        for grad in of_dtype.iter().filter_map(|s| grads[s.at].as_ref()) {
            index.extend(grad.pattern().map(|p| p.indices().clone()));
            value.push(sparse::values(grad)?.to_dtype(dtype)?);
        }
        let mut indices = exchange(group, &index, &lengths(0), DType::I64, device)?;
        let mut values = exchange(group, &value, &lengths(1), dtype, device)?;
        for s in of_dtype {
            gathered[s.at].sum = Some(s.sum(&mut indices, &mut values)?);
        }
    }
    Ok(gathered)
}

/// The average over so many ranks, written into the sum.
pub(crate) fn average(sum: Tensor, ranks: usize) -> Result<Tensor> {
    sparse::values(&sum)?.div_(ranks as f64)?;
    Ok(sum)
}
