//! Steps of some rows of a parameter: those that a COO gradient names.
//!
//! The rows lie anywhere, so what such a step waits for is memory: rows are fetched some time before their turn.

use torsh_core::{DType, Result, TorshError, View, pool};

use super::ParameterStep;
use crate::machine::tuning;
use crate::machine::tuning::index_rows::{AHEAD, FETCHED};
use crate::machine::tuning::optim::{ROW, ROW_ELEMENT};
use crate::memory::element::Packed;
use crate::memory::stream;

/// The rows of a parameter that a gradient is of.
pub(super) struct SteppedRows<'a> {
    /// Their numbers, which rise and are those of rows that the parameter has.
    index: &'a [Packed<i64>],
    /// Elements of a row.
    width: usize,
}

impl<'a> SteppedRows<'a> {
    /// Checks that `index` lists rows of a row-major parameter, one for each row of a row-major gradient, and that it
    /// rises: so no row stands twice, and threads write rows of their own.
    pub(super) fn new(
        param: &View<'_>,
        grad: &View<'_>,
        index: &View<'a>,
    ) -> Result<SteppedRows<'a>> {
        let dtype = param.dtype();
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(TorshError::dtype(
                "",
                format!("a step of some rows is of float32 or float64, not {dtype}"),
            ));
        }
        let n = index.numel();
        let width = grad.numel().checked_div(n).unwrap_or(0);
        let row_major = param.is_contiguous() && grad.is_contiguous() && index.is_contiguous();
        let fits = grad.dtype() == dtype
            && grad.numel() == n * width
            && param.numel().checked_rem(width).unwrap_or(0) == 0;
        if index.dtype() != DType::I64 || index.shape().len() != 1 || !row_major || !fits {
            return Err(TorshError::invalid(
                "",
                format!("{index:?} cannot be the rows of {param:?} that the gradient {grad:?} has"),
            ));
        }
        if width == 0 {
            return Ok(SteppedRows { index: &[], width });
        }
        // SAFETY: the view is of `n` adjacent int64 (checked), one at least, which nobody writes while its call runs;
        // they may lie at any address.
        let index = unsafe { std::slice::from_raw_parts(index.ptr().cast::<Packed<i64>>(), n) };
        let rows = (param.numel() / width) as i64;
        let mut least = 0;
        for i in index.iter().map(|i| i.0) {
            if i < least || i >= rows {
                return Err(refused(i, least, rows));
            }
            least = i + 1;
        }
        Ok(SteppedRows { index, width })
    }

    /// Makes a step of these rows of the parameter that they were checked with.
    pub(super) fn step(&self, parameter: &ParameterStep<'_>) {
        let (width, size) = (self.width, parameter.dtype.size());
        let bytes = width * size;
        let states = parameter.operands.state.iter().filter(|s| !s.is_null());
        let written = bytes * (1 + states.count());
        let ahead = (AHEAD / written.max(1)).clamp(1, 32);
        let at = |i: usize| {
            let row = self.index[i].0 as usize;
            parameter.operands.apart(row * width, i * width, size)
        };
        let fetch = |i: usize| {
            let o = at(i);
            for p in o.state.into_iter().chain([o.param]) {
                if !p.is_null() {
                    stream::prefetch_write_row(p, bytes.min(FETCHED));
                }
            }
        };
        let grain = tuning::items(ROW + ROW_ELEMENT * width);
        pool::parallel_for(self.index.len(), grain, &|range| {
            for i in range.clone().take(ahead) {
                fetch(i);
            }
            for i in range.clone() {
                if i + ahead < range.end {
                    fetch(i + ahead);
                }
                // SAFETY: `at` gives row `i` of the gradient, and one that parameter and state have (checked), of
                // `width` elements of the step's dtype each. The caller has locked them, and no other row has its
                // number.
                unsafe { parameter.loops(&at(i), width) };
            }
        });
    }
}

/// The error of a number in a list of rows, of which those from `least` on may follow.
#[cold]
fn refused(i: i64, least: i64, rows: i64) -> TorshError {
    match (0..rows).contains(&i) {
        true => TorshError::invalid(
            "",
            format!(
                "row {i} of a gradient follows its row {}: they must rise, and each stand once",
                least - 1
            ),
        )
        .with_hint(
            "a pattern of the layout torch.sparse_coo whose indices are not so must not say that it is coalesced",
        ),
        false => TorshError::index(
            "",
            format!("index {i} is out of bounds for the {rows} rows of the parameter"),
        ),
    }
}
