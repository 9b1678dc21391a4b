//! Largest and smallest elements, medians and other order statistics, with their positions.

use smallvec::SmallVec;
use torsh_core::attrs::{self, Attributes, Ints};
use torsh_core::{DType, Kernel, Result, TorshError};

use super::super::index::one;
use super::super::sort;
use super::{Reduction, plan, restore};
use crate::call::{Arg, call, call1};
use crate::node::{BackwardCx, Grads};
use crate::record::{InputGrad, OpRecord, PlanCx, Sample, sample};
use crate::sample::Sampler;
use crate::{IntoDim, IntoDims, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &AMAX,
    &AMIN,
    &AMINMAX,
    &MAX,
    &MAX_DIM,
    &MIN,
    &MIN_DIM,
    &ARGMAX,
    &ARGMIN,
    &MEDIAN,
    &MEDIAN_DIM,
    &NANMEDIAN,
    &NANMEDIAN_DIM,
    &KTHVALUE,
    &MODE,
];

fn same<A: Reduction>(c: &PlanCx<'_>) -> Result<crate::record::Plan> {
    plan::<A>(c, &[c.tensor(0)?.dtype()])
}

fn with_positions<A: Reduction>(c: &PlanCx<'_>) -> Result<crate::record::Plan> {
    plan::<A>(c, &[c.tensor(0)?.dtype(), DType::I64])
}

/// All elements that have the result's value share its gradient.
fn evenly<A: Reduction>(c: &BackwardCx<'_>) -> Result<Tensor> {
    let (x, value) = (c.x()?, restore::<A>(c, &c.out()?)?);
    let mask = x
        .eq(&value)?
        .logical_or(&x.isnan()?.logical_and(&value.isnan()?)?)?;
    let count = mask.sum_over(Some(c.attrs::<A>()?.dims()), true, None)?;
    restore::<A>(c, c.g())?
        .div(&count)?
        .expand(x.shape())?
        .where_zero(&mask, false)
}
/// The same for results that no element equals where they are NaN: then all gradients are NaN.
fn among_equal(c: &BackwardCx<'_>) -> Result<Tensor> {
    let (x, value) = (c.x()?, restore::<attrs::Reduce>(c, &c.out()?)?);
    let mask = x.eq(&value)?;
    let dims = c.attrs::<attrs::Reduce>()?.dims();
    let count = mask.sum_over(Some(dims), true, None)?;
    let g = restore::<attrs::Reduce>(c, c.g())?;
    // 0 where something equals the result, and NaN where nothing does.
    let (share, rest) = (g.div(&count)?, g.mul(0.0)?.div(&count)?);
    Tensor::where_(&mask, &share, &rest)
}
const fn shared<A: Reduction>() -> InputGrad {
    InputGrad {
        inputs: 1,
        outputs: 1,
        formula: evenly::<A>,
    }
}
const EVENLY: &[InputGrad] = &[shared::<attrs::Reduce>()];
const AMONG_EQUAL: &[InputGrad] = &[InputGrad {
    inputs: 1,
    outputs: 1,
    formula: among_equal,
}];
const EVENLY_MEDIAN: &[InputGrad] = &[shared::<attrs::Median>()];

/// The gradient goes to where the values came from, by output 1.
fn picked<A: Reduction>(c: &BackwardCx<'_>) -> Result<Grads> {
    let Some(g) = c.grad(0) else {
        return Ok(SmallVec::from_iter([None]));
    };
    if c.input_shape(0).ndim() == 0 {
        return Ok(one(0, g.clone()));
    }
    let dim = c.attrs::<A>()?.dims()[0] as usize;
    let (g, at) = (restore::<A>(c, g)?, restore::<A>(c, &c.output(1)?)?);
    sort::put_back(c, dim, &at, &g)
}

fn alone(s: &mut Sampler) -> Result<Vec<Sample>> {
    Ok(vec![sample![s.distinct(&[3, 4])?]])
}

fn along(s: &mut Sampler) -> Result<Vec<Sample>> {
    let x = s.distinct(&[3, 5])?;
    Ok(vec![sample![x.clone(), 1], sample![x, 0, true]])
}

fn several(s: &mut Sampler) -> Result<Vec<Sample>> {
    let x = s.distinct(&[2, 3, 2])?;
    Ok(vec![
        sample![x.clone()],
        sample![x.clone(), 1],
        sample![x, [0, -1], true],
    ])
}

/// The records and methods of the largest and of the smallest elements. A row has the word, the names with records and
/// kernels, and what the methods give of `[[1, 5], [4, 2]]`: by rows, of all, positions by rows, of all, and by columns.
macro_rules! extremes {
    ($($word:literal $over:ident $OVER:ident $whole:ident $WHOLE:ident $kernel:ident
        $along:ident $ALONG:ident $along_kernel:ident $position:ident $POSITION:ident $position_kernel:ident $position_along:ident
        [$rows:tt $all:literal $at_rows:tt $at:literal $at_columns:tt];)*) => {
        $(
            #[doc = concat!("The ", $word, " elements.")]
            #[torsh_tensor::by_name(Tensor::$over)]
            pub static $OVER: OpRecord = OpRecord::new(
                stringify!($over),
                concat!("The ", $word, " element over dimensions (all when none is named); NaN where there is one. Equal ones share the gradient."),
                "(Tensor input, int[1] dim=[], bool keepdim=False)",
            )
            .kernel(Kernel::$kernel, same::<attrs::Reduce>)
            .grad(AMONG_EQUAL)
            .samples(several);

            #[doc = concat!("The ", $word, " of all elements.")]
            #[torsh_tensor::by_name(Tensor::$whole)]
            pub static $WHOLE: OpRecord = OpRecord::new(
                stringify!($whole),
                concat!("The ", $word, " of all elements; NaN where there is one."),
                "(Tensor input)",
            )
            .kernel(Kernel::$kernel, same::<attrs::Reduce>)
            .grad(EVENLY)
            .samples(alone);

            #[doc = concat!("The ", $word, " elements along a dimension.")]
            #[torsh_tensor::by_name(Tensor::$along)]
            pub static $ALONG: OpRecord = OpRecord::new(
                concat!(stringify!($whole), ".dim"),
                concat!("The ", $word, " element along a dimension and its position, the first of several."),
                "(Tensor input, int dim, bool keepdim=False)",
            )
            .overload()
            .kernel(Kernel::$along_kernel, with_positions::<attrs::Reduce>)
            .backward(sort::picked(picked::<attrs::Reduce>))
            .samples(along);

            #[doc = concat!("The position of the ", $word, " element.")]
            #[torsh_tensor::by_name(Tensor::position(input, &$POSITION, dim, keepdim))]
            pub static $POSITION: OpRecord = OpRecord::new(
                stringify!($position),
                concat!("The position of the ", $word, " element, the first of several, of all (in row-major order) or along a dimension."),
                "(Tensor input, int? dim=None, bool keepdim=False)",
            )
            .kernel(Kernel::$position_kernel, |c| plan::<attrs::Reduce>(c, &[DType::I64]))
            .constant();
        )*

        #[torsh_tensor::functions(extremes)]
        impl Tensor {$(
            #[doc = concat!("The ", $word, " element over dimensions (all when none is named); equal ones share the gradient (`torch.", stringify!($over), "`).")]
            ///
            /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for complex tensors, over no elements, and for a
            /// dimension out of range or named twice.
            #[doc = crate::options::example!(concat!("# use torsh_tensor::tensor;\nlet x = tensor![[1, 5], [4, 2]];\nassert_eq!(x.", stringify!($over), "(1, false)?, tensor!", stringify!($rows), ");"))]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $over(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
                let dims = self.nonempty_dims($OVER.name, dims.dims().as_deref())?;
                call1(&$OVER, &[Arg::T(self)], &attrs::Reduce { dims, keepdim })
            }

            #[doc = concat!("The ", $word, " of all elements, a 0-d tensor; nan where there is one (`torch.", stringify!($whole), "`).")]
            ///
            /// An error for complex tensors and for no elements.
            #[doc = crate::options::example!(concat!("# use torsh_tensor::tensor;\nlet x = tensor![[1, 5], [4, 2]];\nassert_eq!(x.", stringify!($whole), "()?.item::<i64>()?, ", stringify!($all), ");"))]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $whole(&self) -> Result<Tensor> {
                self.whole(&$WHOLE, plain(false))
            }

            #[doc = concat!("The ", $word, " elements along a dimension and their positions (int64), the first of several.")]
            ///
            /// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no elements, and for
            /// a dimension out of range.
            #[doc = crate::options::example!(concat!("# use torsh_tensor::tensor;\nlet x = tensor![[1, 5], [4, 2]];\nassert_eq!(x.", stringify!($along), "(1, false)?, (tensor!", stringify!($rows), ", tensor!", stringify!($at_rows), "));"))]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $along(&self, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
                self.pick(&$ALONG, dim.value(), plain(keepdim))
            }

            #[doc = concat!("The position of the ", $word, " element in row-major order, a 0-d int64 tensor (`torch.", stringify!($position), "`); the first of several.")]
            ///
            /// An error for complex tensors and for no elements.
            #[doc = crate::options::example!(concat!("# use torsh_tensor::tensor;\nlet x = tensor![[1, 5], [4, 2]];\nassert_eq!(x.", stringify!($position), "()?.item::<i64>()?, ", stringify!($at), ");"))]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $position(&self) -> Result<Tensor> {
                self.position(&$POSITION, None, false)
            }

            #[doc = concat!("The positions of the ", $word, " elements along a dimension (int64), which is lost, or kept as size 1 with `keepdim`.")]
            ///
            /// An error for complex tensors, over no elements, and for a dimension out of range.
            #[doc = crate::options::example!(concat!("# use torsh_tensor::tensor;\nlet x = tensor![[1, 5], [4, 2]];\nassert_eq!(x.", stringify!($position_along), "(0, false)?, tensor!", stringify!($at_columns), ");"))]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $position_along(&self, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
                self.position(&$POSITION, Some(dim.value()), keepdim)
            }
        )*}
    };
}

extremes! {
    "largest" amax AMAX max MAX Max max_dim MAX_DIM MaxDim argmax ARGMAX ArgMax argmax_dim
        [[5, 4] 5 [1, 0] 1 [1, 0]];
    "smallest" amin AMIN min MIN Min min_dim MIN_DIM MinDim argmin ARGMIN ArgMin argmin_dim
        [[1, 2] 1 [0, 1] 0 [0, 1]];
}

#[torsh_tensor::by_name(Tensor::aminmax_over)]
pub static AMINMAX: OpRecord = OpRecord::new(
    "aminmax",
    "The smallest and the largest element, of all or along one dimension.",
    "(Tensor input, *, int? dim=None, bool keepdim=False)",
)
.samples(|s| {
    let x = s.distinct(&[3, 4])?;
    Ok(vec![sample![x.clone()], sample![x, dim = 1]])
});

#[torsh_tensor::by_name(Tensor::median)]
pub static MEDIAN: OpRecord = OpRecord::new(
    "median",
    "The median of all elements, the lower of two; NaN where there is one.",
    "(Tensor input)",
)
.kernel(Kernel::Median, same::<attrs::Median>)
.grad(EVENLY_MEDIAN)
.samples(alone);

#[torsh_tensor::by_name(Tensor::median_dim)]
pub static MEDIAN_DIM: OpRecord = OpRecord::new(
    "median.dim",
    "The median along a dimension, the lower of two, and its position; NaN where there is one.",
    "(Tensor input, int dim, bool keepdim=False)",
)
.overload()
.kernel(Kernel::Median, with_positions::<attrs::Median>)
.backward(sort::picked(picked::<attrs::Median>))
.samples(along);

#[torsh_tensor::by_name(Tensor::nanmedian)]
pub static NANMEDIAN: OpRecord = OpRecord::new(
    "nanmedian",
    "The median of all elements that are not NaN, the lower of two.",
    "(Tensor input)",
)
.kernel(Kernel::Median, same::<attrs::Median>)
.grad(EVENLY_MEDIAN)
.samples(alone);

#[torsh_tensor::by_name(Tensor::nanmedian_dim)]
pub static NANMEDIAN_DIM: OpRecord = OpRecord::new(
    "nanmedian.dim",
    "The median along a dimension of what is not NaN, and its position.",
    "(Tensor input, int dim, bool keepdim=False)",
)
.overload()
.kernel(Kernel::Median, with_positions::<attrs::Median>)
.backward(sort::picked(picked::<attrs::Median>))
.samples(along);

#[torsh_tensor::by_name(Tensor::kthvalue)]
pub static KTHVALUE: OpRecord = OpRecord::new(
    "kthvalue",
    "The k-th smallest element (from 1) along a dimension and its position; NaN is the greatest.",
    "(Tensor input, int k, int dim=-1, bool keepdim=False)",
)
.kernel(Kernel::KthValue, with_positions::<attrs::KthValue>)
.backward(sort::picked(picked::<attrs::KthValue>))
.samples(|s| Ok(vec![sample![s.distinct(&[3, 4])?, 2]]));

#[torsh_tensor::by_name(Tensor::mode)]
pub static MODE: OpRecord = OpRecord::new(
    "mode",
    "The most frequent element along a dimension, the smallest of several, and a position of it.",
    "(Tensor input, int dim=-1, bool keepdim=False)",
)
.kernel(Kernel::Mode, with_positions::<attrs::Reduce>)
.backward(sort::picked(picked::<attrs::Reduce>))
.samples(along);

/// The attributes of a reduction of dimensions that are still to be read.
fn plain(keepdim: bool) -> impl FnOnce(Ints) -> attrs::Reduce {
    move |dims| attrs::Reduce { dims, keepdim }
}

/// [`plain`] for medians.
fn median(keepdim: bool, ignore_nan: bool) -> impl FnOnce(Ints) -> attrs::Median {
    move |dims| attrs::Median {
        dims,
        keepdim,
        ignore_nan,
    }
}

#[torsh_tensor::functions]
impl Tensor {
    #[track_caller]
    fn aminmax_over(&self, dim: Option<i64>, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let list = dim.map(|d| [d]);
        let dims = self.reduce_dims("aminmax", list.as_ref().map(|l| &l[..]))?;
        if super::reduced_count(self.shape(), &dims) == 0 {
            let text =
                "cannot compute aminmax over an empty dimension as the operation has no identity.";
            return self.named("aminmax", Err(TorshError::index("", text)));
        }
        let attrs = attrs::Reduce { dims, keepdim };
        let one = |record| call1(record, &[Arg::T(self)], &attrs).map_err(|e| e.renamed("aminmax"));
        Ok((one(&AMIN)?, one(&AMAX)?))
    }

    /// The smallest and the largest element, two 0-d tensors (`torch.aminmax`).
    ///
    /// An error for complex tensors and for no elements.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (least, greatest) = tensor![3, 1, 2].aminmax()?;
    /// assert_eq!((least.item::<i64>()?, greatest.item::<i64>()?), (1, 3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn aminmax(&self) -> Result<(Tensor, Tensor)> {
        self.aminmax_over(None, false)
    }

    /// The smallest and the largest element along a dimension, which is lost, or kept as size 1 with
    /// `keepdim`.
    ///
    /// An error for complex tensors, over no elements, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 5], [4, 2]];
    /// assert_eq!(x.aminmax_dim(1, false)?, (tensor![1, 2], tensor![5, 4]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn aminmax_dim(&self, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.aminmax_over(Some(dim.value()), keepdim)
    }

    /// A reduction of all elements that needs at least one; `over` makes its attributes of the
    /// dimensions.
    #[track_caller]
    fn whole<A: Attributes>(
        &self,
        record: &'static OpRecord,
        over: impl FnOnce(Ints) -> A,
    ) -> Result<Tensor> {
        let dims = match record.kernel {
            // The median of nothing is NaN.
            Some(Kernel::Median) => self.reduce_dims(record.name, None)?,
            _ => self.nonempty_dims(record.name, None)?,
        };
        call1(record, &[Arg::T(self)], &over(dims))
    }

    /// Values and positions along a dimension; `over` makes the attributes of it.
    #[track_caller]
    fn pick<A: Attributes>(
        &self,
        record: &'static OpRecord,
        dim: i64,
        over: impl FnOnce(Ints) -> A,
    ) -> Result<(Tensor, Tensor)> {
        let dims = self.nonempty_dims(record.base_name(), Some(&[dim]))?;
        let mut outs = call(record, &[Arg::T(self)], &over(dims))?;
        let values = outs.remove(0);
        Ok((values, outs.remove(0)))
    }

    #[track_caller]
    fn position(
        &self,
        record: &'static OpRecord,
        dim: Option<i64>,
        keepdim: bool,
    ) -> Result<Tensor> {
        let list = dim.map(|d| [d]);
        let dims = self.nonempty_dims(record.name, list.as_ref().map(|l| &l[..]))?;
        call1(record, &[Arg::T(self)], &attrs::Reduce { dims, keepdim })
    }

    /// The median of all elements, the lower of two, a 0-d tensor (`torch.median`).
    ///
    /// Keeps the dtype; nan where there is one. An error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![4, 1, 3, 2].median()?.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn median(&self) -> Result<Tensor> {
        self.whole(&MEDIAN, median(false, false))
    }

    /// The medians along a dimension and their positions (int64).
    ///
    /// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
    /// elements, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[3, 1, 2], [6, 4, 5]];
    /// assert_eq!(x.median_dim(1, false)?, (tensor![2, 5], tensor![2, 2]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn median_dim(&self, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.pick(&MEDIAN_DIM, dim.value(), median(keepdim, false))
    }

    /// The median of all elements that are not nan, a 0-d tensor (`torch.nanmedian`).
    ///
    /// Keeps the dtype; nan where there is no other. An error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![3.0, f64::NAN, 1.0, 2.0].nanmedian()?.item::<f32>()?, 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanmedian(&self) -> Result<Tensor> {
        self.whole(&NANMEDIAN, median(false, true))
    }

    /// The medians along a dimension of the elements that are not nan, and their positions (int64).
    ///
    /// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
    /// elements, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[3.0, f64::NAN, 1.0, 2.0]];
    /// assert_eq!(x.nanmedian_dim(1, false)?, (tensor![2.0], tensor![3]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanmedian_dim(&self, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.pick(&NANMEDIAN_DIM, dim.value(), median(keepdim, true))
    }

    /// The k-th smallest elements (from 1) along a dimension and their positions (int64;
    /// `torch.kthvalue`).
    ///
    /// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex or bool tensors,
    /// and for `k` or a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[30, 10, 20]].kthvalue(2, 1, false)?, (tensor![20], tensor![2]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn kthvalue(&self, k: i64, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let d = self.dim("kthvalue", dim.value())?;
        let n = self.dims().get(d).copied().unwrap_or(1);
        if k < 1 || k > n as i64 {
            let text =
                format!("selected number k out of range for dimension {d}: {k} of {n} elements");
            return self.named("kthvalue", Err(TorshError::index("", text)));
        }
        let k = k as usize;
        self.pick(&KTHVALUE, d as i64, |dims| attrs::KthValue {
            dims,
            keepdim,
            k,
        })
    }

    /// The most frequent elements along a dimension, the smallest of several, and positions of them
    /// (int64; `torch.mode`).
    ///
    /// The dimension is lost, or kept as size 1 with `keepdim`. An error for complex tensors, over no
    /// elements, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (values, _) = tensor![[1, 2, 2, 3], [5, 5, 4, 4]].mode(1, false)?;
    /// assert_eq!(values, tensor![2, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mode(&self, dim: impl IntoDim, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.pick(&MODE, dim.value(), plain(keepdim))
    }
}
