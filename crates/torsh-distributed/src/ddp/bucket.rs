//! Buckets: which gradients travel together, and where they lie.

use std::sync::Arc;

use torsh_nn::Parameter;
use torsh_tensor::{DType, Device, Result, Tensor};

/// A parameter that is trained.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) parameter: Parameter,
    pub(super) tensor: Tensor,
}

/// Where a gradient lies in its bucket.
#[derive(Clone, Debug)]
pub(super) struct Place {
    shape: Vec<usize>,
    stride: Vec<usize>,
    offset: usize,
}

impl Place {
    /// The place's part of a flat tensor.
    pub(super) fn view(&self, flat: &Tensor) -> Result<Tensor> {
        let storage = flat.untyped_storage()?.clone();
        let offset = flat.storage_offset() + self.offset;
        Tensor::from_storage(storage, flat.dtype(), &self.shape, &self.stride, offset)
    }
}

/// Gradients that are sent together.
pub(super) struct Bucket {
    /// Positions among the slots.
    pub(super) params: Vec<usize>,
    pub(super) places: Arc<[Place]>,
    pub(super) parameters: Arc<[(String, Tensor)]>,
    numel: usize,
    dtype: DType,
    device: Device,
    /// The flat tensor and its views; made when the first gradient comes.
    memory: Option<(Tensor, Vec<Tensor>)>,
    /// How many gradients of the step are not there yet.
    pub(super) left: usize,
}

/// The strides of a gradient: the parameter's own, where they leave no gaps.
fn strides(t: &Tensor) -> Vec<usize> {
    if t.memory_layout().is_dense() && t.stride().iter().all(|&s| s >= 0) {
        return t.stride().iter().map(|&s| s as usize).collect();
    }
    let mut out = vec![1; t.ndim()];
    for i in (1..t.ndim()).rev() {
        out[i - 1] = out[i] * t.dims()[i].max(1);
    }
    out
}

impl Bucket {
    fn new(params: Vec<usize>, slots: &[Slot]) -> Bucket {
        let first = &slots[params[0]].tensor;
        let (dtype, device) = (first.dtype(), first.device());
        let mut numel = 0;
        let mut places = Vec::with_capacity(params.len());
        for &i in &params {
            let t = &slots[i].tensor;
            places.push(Place {
                shape: t.dims().to_vec(),
                stride: strides(t),
                offset: numel,
            });
            numel += t.numel();
        }
        let named = params.iter().map(|i| &slots[*i]);
        Bucket {
            left: params.len(),
            parameters: named.map(|s| (s.name.clone(), s.tensor.clone())).collect(),
            params,
            places: places.into(),
            numel,
            dtype,
            device,
            memory: None,
        }
    }

    /// The flat tensor and a view for each parameter.
    pub(super) fn memory(&mut self) -> Result<&(Tensor, Vec<Tensor>)> {
        let made = match self.memory.take() {
            Some(made) => made,
            None => {
                let flat = Tensor::zeros([self.numel], self.dtype, self.device)?;
                let views = self.places.iter().map(|p| p.view(&flat));
                let views = views.collect::<Result<Vec<_>>>()?;
                (flat, views)
            }
        };
        Ok(self.memory.insert(made))
    }

    pub(super) fn flat(&mut self) -> Result<Tensor> {
        Ok(self.memory()?.0.clone())
    }

    pub(super) fn view(&mut self, at: usize) -> Result<Tensor> {
        Ok(self.memory()?.1[at].clone())
    }
}

/// Buckets of parameters in the order in which their gradients come, of one dtype and device each: the first of `first`
/// bytes, the others of `cap` (each gets what fills it).
pub(super) fn assign(order: &[usize], slots: &[Slot], first: usize, cap: usize) -> Vec<Bucket> {
    struct Open {
        key: (DType, Device),
        params: Vec<usize>,
        bytes: usize,
        closed: usize,
    }
    let mut open: Vec<Open> = Vec::new();
    let mut done: Vec<Vec<usize>> = Vec::new();
    for &i in order {
        let t = &slots[i].tensor;
        let key = (t.dtype(), t.device());
        let at = open.iter().position(|o| o.key == key).unwrap_or_else(|| {
            open.push(Open {
                key,
                params: Vec::new(),
                bytes: 0,
                closed: 0,
            });
            open.len() - 1
        });
        let o = &mut open[at];
        o.params.push(i);
        o.bytes += t.numel() * t.dtype().size();
        let limit = if o.closed == 0 { first.min(cap) } else { cap };
        if o.bytes >= limit {
            done.push(std::mem::take(&mut o.params));
            o.bytes = 0;
            o.closed += 1;
        }
    }
    done.extend(open.into_iter().map(|o| o.params).filter(|p| !p.is_empty()));
    // A bucket of another dtype may have been open for long: its first gradient says where it belongs.
    let when = |p: &Vec<usize>| order.iter().position(|i| *i == p[0]);
    done.sort_by_cached_key(when);
    done.into_iter().map(|p| Bucket::new(p, slots)).collect()
}

/// For each slot, its bucket and its position there, where it is in one.
pub(super) fn positions(buckets: &[Bucket], slots: usize) -> Vec<Option<(usize, usize)>> {
    let mut out = vec![None; slots];
    for (b, bucket) in buckets.iter().enumerate() {
        for (at, &i) in bucket.params.iter().enumerate() {
            out[i] = Some((b, at));
        }
    }
    out
}
