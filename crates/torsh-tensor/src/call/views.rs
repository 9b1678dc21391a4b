//! Views: layouts within the memory of another tensor.

use super::*;

pub(super) fn view(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let Some(Arg::T(x)) = args.first() else {
        return Err(TorshError::invalid("", "a view needs a tensor"));
    };
    if !x.is_strided() {
        return sparse::dispatch(record, args, attrs).map(first);
    }
    let cx = ViewCx {
        layout: x.memory_layout(),
        dtype: x.dtype(),
        attrs,
    };
    let creation = if mode::is_grad_enabled() {
        Creation::Recorded
    } else {
        Creation::NoGrad
    };
    let dtype = x.dtype();
    let out = match record.rule {
        Rule::View(f) => make_view(x, dtype, creation, |layout| {
            f(&cx, layout)?;
            within(layout, dtype, x)
        })?,
        Rule::ViewAs(f) => {
            let (mut layout, dtype) = f(&cx)?;
            within(&mut layout, dtype, x)?;
            if !crate::storage::aligned_for(x.storage(), dtype) {
                return Err(TorshError::invalid(
                    "",
                    format!("the memory is not aligned for {dtype}: it does not begin at a multiple of {} bytes", crate::storage::alignment(dtype)),
                )
                .with_hint("view a copy, as t.copy()?: new memory is aligned for every dtype"));
            }
            if record.is_differentiable() {
                make_view(x, dtype, creation, becomes(layout))?
            } else {
                // The bits as another dtype: nothing that autograd could follow.
                Tensor::from_parts(x.storage().clone(), layout, dtype)
            }
        }
        _ => return Err(TorshError::invalid("", "not a view")),
    };
    record_one(record, args, attrs, out, at)
}

/// Strides beyond this are none that memory could have.
const LONGEST: usize = isize::MAX as usize / 64;

/// Whether a layout without negative strides plainly lies inside of a storage, nothing overflowing
/// on the way: what [`check_view`] finds out of any layout.
#[inline]
fn lies_within(layout: &Layout, element_size: usize, storage: &Storage) -> bool {
    let (mut numel, mut last) = (element_size, layout.offset);
    for (&n, &s) in layout.shape.iter().zip(&layout.strides) {
        let s = s as usize;
        let (product, overflow) = numel.overflowing_mul(n);
        if n == 0 || overflow || s > LONGEST {
            return false;
        }
        let Some(span) = (n - 1).checked_mul(s) else {
            return false;
        };
        (numel, last) = (product, last.saturating_add(span));
    }
    numel <= isize::MAX as usize
        && layout.shape.ndim() == layout.strides.len()
        && last.saturating_add(1).saturating_mul(element_size) <= storage.bytes()
        && storage.device() != Device::Meta
}

/// Refuses a view of a tensor that overflows or leaves its storage.
#[inline]
fn within(layout: &mut Layout, dtype: DType, x: &Tensor) -> Result<()> {
    match lies_within(layout, dtype.size(), x.storage()) {
        true => Ok(()),
        false => check_view(layout, dtype, x),
    }
}

/// What [`within`] does about layouts that are not plain.
#[cold]
fn check_view(layout: &mut Layout, dtype: DType, x: &Tensor) -> Result<()> {
    if layout.shape.ndim() != layout.strides.len() {
        return Err(TorshError::invalid(
            "",
            format!(
                "the view's shape {} does not have as many dimensions as its strides {:?}",
                layout.shape, layout.strides
            ),
        ));
    }
    layout.check(dtype.size())?;
    // Where there is no second index its distance means nothing, but later views compute with it.
    for (&n, s) in layout.shape.iter().zip(&mut layout.strides) {
        if n <= 1 && s.unsigned_abs() > LONGEST {
            *s = 1;
        }
    }
    if let Some((_, end)) = layout.extent()
        && x.device() != Device::Meta
        && end * dtype.size() > x.storage().bytes()
    {
        return Err(TorshError::invalid(
            "",
            format!(
                "the view reaches element {end} of a storage of {} elements",
                x.storage().bytes() / dtype.size()
            ),
        ));
    }
    Ok(())
}

/// What one of several views takes: the tensor, its place in the graph and its node's record.
const VIEW_BYTES: usize =
    size_of::<crate::tensor::Inner>() + size_of::<Tensor>() + 3 * size_of::<Output>();

/// Several views of one tensor, recorded as the results of one node. Writing into one of them in
/// place is refused while gradients are recorded, as PyTorch refuses it.
#[track_caller]
pub(crate) fn call_views(
    record: &'static OpRecord,
    x: &Tensor,
    layouts: impl Iterator<Item = Layout>,
    attrs: &dyn Attributes,
) -> Result<Outputs> {
    let at = Location::caller();
    let args = [Arg::T(x)];
    if !x.is_strided() {
        return sparse::dispatch(record, &args, attrs).map_err(|e| in_op(e, record, &args, at));
    }
    let creation = if mode::is_grad_enabled() {
        Creation::Multiple
    } else {
        Creation::NoGrad
    };
    // How many there are is a caller's number, which no storage bounds.
    let n = layouts.size_hint().0;
    torsh_core::alloc::check(n, VIEW_BYTES).map_err(|e| in_op(e.into(), record, &args, at))?;
    let outs: Outputs = layouts
        .map(|l| make_view(x, x.dtype(), creation, becomes(l)))
        .collect::<Result<_>>()?;
    if outs.is_empty() {
        return Ok(outs);
    }
    let record_them =
        || record_all(record, &args, attrs, outs, at).map_err(|e| in_op(e, record, &args, at));
    if mode::get() & mode::OBSERVE != 0 {
        return observe::op(record, &args, attrs, at, record_them);
    }
    record_them()
}

/// A change of a view's layout into one that is made already.
pub(crate) fn becomes(layout: Layout) -> impl FnOnce(&mut Layout) -> Result<()> {
    |l| {
        *l = layout;
        Ok(())
    }
}

/// A tensor of another layout on the same storage, which knows its base where gradients are
/// possible. The layout is that of `x` until `change` makes another of it, where it stays: to move
/// it would cost as much as the rest.
#[inline]
pub(crate) fn make_view(
    x: &Tensor,
    dtype: DType,
    creation: Creation,
    change: impl FnOnce(&mut Layout) -> Result<()>,
) -> Result<Tensor> {
    let inference = x.is_inference();
    let memory = || {
        if !dtype.is_differentiable() && !inference {
            return Memory::Own(x.storage().clone());
        }
        let version = x.version();
        Memory::View(match x.view_of() {
            Some(v) => ViewOf {
                base: v.base.clone(),
                creation: match v.creation {
                    Creation::Recorded => creation,
                    other => other,
                },
                version,
            },
            None => ViewOf {
                base: x.clone(),
                creation,
                version,
            },
        })
    };
    let mut out = Tensor(Shared::with(|| Inner {
        memory: memory(),
        layout: Layout::scalar(),
        dtype,
        contiguous: false,
        meta: OnceBox::new(),
    }));
    if let Some(inner) = Shared::get_mut(&mut out.0) {
        inner.layout.clone_from(x.memory_layout());
        change(&mut inner.layout)?;
        inner.contiguous = inner.layout.is_contiguous();
        // A view is an inference tensor when its base is one, wherever it is made.
        if inference {
            let version = x.version();
            let state = State {
                view_version: version,
                ..State::default()
            };
            inner.meta = OnceBox::with(|| Meta::new(false, true, state));
        }
    }
    Ok(out)
}
