//! Shapes, strides and layouts.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::{Result, TorshError};

/// Dimensions or strides, inline up to rank 6.
///
/// ```
/// use torsh_core::{Dims, Shape};
/// let dims: Dims = [2usize, 3].into_iter().collect();
/// assert_eq!(Shape::from(dims), [2, 3]);
/// ```
pub type Dims = SmallVec<[usize; 6]>;
/// Strides in elements, inline up to rank 6.
///
/// ```
/// use torsh_core::{Layout, Shape, Strides};
/// let transposed = Layout::new(Shape::new(&[3, 2]), Strides::from_slice(&[1, 3]), 0);
/// assert!(transposed.is_dense() && !transposed.is_contiguous());
/// ```
pub type Strides = SmallVec<[isize; 6]>;

/// The sizes of a tensor's dimensions.
///
/// ```
/// use torsh_core::Shape;
/// let shape = Shape::new(&[2, 3]);
/// assert_eq!((shape.ndim(), shape.numel(), shape[1]), (2, 6, 3));
/// assert_eq!(shape.to_string(), "[2, 3]");
/// ```
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(Dims);

/// The copy that every op call makes several times: of all bytes at once, without a loop.
#[inline(always)]
fn copy_small<T: Copy>(v: &SmallVec<[T; 6]>) -> SmallVec<[T; 6]> {
    if v.spilled() {
        return SmallVec::from_slice(v);
    }
    // SAFETY: a vector that has not spilled holds its elements inline and owns nothing else, and
    // the elements are `Copy`.
    unsafe { std::ptr::read(v) }
}

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Shape {
        Shape(copy_small(&self.0))
    }
}

impl Shape {
    /// Returns a shape of these sizes.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert_eq!(Shape::new(&[2, 3]), [2, 3]);
    /// ```
    #[inline]
    pub fn new(dims: &[usize]) -> Shape {
        Shape(Dims::from_slice(dims))
    }

    /// The sizes.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements, which is 1 without dimensions.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert_eq!((Shape::new(&[2, 3]).numel(), Shape::default().numel()), (6, 1));
    /// ```
    #[inline]
    pub fn numel(&self) -> usize {
        self.0.iter().fold(1usize, |n, &d| n.saturating_mul(d))
    }

    /// Sets the size of dimension `dim`.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// let mut shape = Shape::new(&[2, 3]);
    /// shape.set(1, 5);
    /// assert_eq!(shape, [2, 5]);
    /// ```
    #[inline]
    pub fn set(&mut self, dim: usize, size: usize) {
        self.0[dim] = size;
    }

    /// Puts a dimension before the one that is at `dim`, or behind the last.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// let mut shape = Shape::new(&[2, 3]);
    /// shape.insert(1, 7);
    /// assert_eq!(shape, [2, 7, 3]);
    /// ```
    #[inline]
    pub fn insert(&mut self, dim: usize, size: usize) {
        self.0.insert(dim, size);
    }

    /// Takes a dimension away.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// let mut shape = Shape::new(&[2, 3]);
    /// shape.remove(0);
    /// assert_eq!(shape, [3]);
    /// ```
    #[inline]
    pub fn remove(&mut self, dim: usize) {
        self.0.remove(dim);
    }

    /// Swaps the sizes of two dimensions.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// let mut shape = Shape::new(&[2, 3, 4]);
    /// shape.swap(0, 2);
    /// assert_eq!(shape, [4, 3, 2]);
    /// ```
    #[inline]
    pub fn swap(&mut self, a: usize, b: usize) {
        self.0.swap(a, b);
    }

    /// The number of elements, or an error where the product or its bytes overflow. Sizes of 0 are
    /// left out of the product that is checked, so that no product of some of the sizes, as strides
    /// and the results of reductions have them, overflows for a shape that passes.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert_eq!(Shape::new(&[2, 3]).checked_numel(4)?, 6);
    /// let error = Shape::new(&[1 << 62]).checked_numel(4).unwrap_err();
    /// assert!(error.to_string().contains("has more elements than memory can address"));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn checked_numel(&self, element_size: usize) -> Result<usize> {
        let overflow = || {
            TorshError::invalid(
                "",
                format!("shape {self} has more elements than memory can address"),
            )
        };
        let (mut n, mut empty) = (1usize, false);
        for &d in &self.0 {
            empty |= d == 0;
            n = n.checked_mul(d.max(1)).ok_or_else(overflow)?;
        }
        let size = if empty { 1 } else { element_size };
        match n.checked_mul(size) {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(if empty { 0 } else { n }),
            _ => Err(overflow()),
        }
    }

    /// Returns the strides of a row-major tensor of this shape.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert_eq!(Shape::new(&[2, 3, 4]).contiguous_strides().as_slice(), [12, 4, 1]);
    /// ```
    #[inline]
    pub fn contiguous_strides(&self) -> Strides {
        let mut s = Strides::from_elem(1, self.0.len());
        let mut step = 1isize;
        for i in (0..self.0.len()).rev() {
            s[i] = step;
            step = step.wrapping_mul(self.0[i].max(1) as isize);
        }
        s
    }

    /// Whether a tensor of this shape can be expanded to `to`.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert!(Shape::new(&[1, 3]).can_broadcast_to(&Shape::new(&[2, 2, 3])));
    /// assert!(!Shape::new(&[2, 3]).can_broadcast_to(&Shape::new(&[3])));
    /// ```
    pub fn can_broadcast_to(&self, to: &Shape) -> bool {
        self.ndim() <= to.ndim()
            && self
                .0
                .iter()
                .rev()
                .zip(to.0.iter().rev())
                .all(|(&a, &b)| a == b || a == 1)
    }

    /// Returns the shape that two operands broadcast to, or an error that names both.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert_eq!(Shape::new(&[2, 1, 4]).broadcast(&Shape::new(&[3, 1]))?, [2, 3, 4]);
    /// let error = Shape::new(&[2, 3]).broadcast(&Shape::new(&[4])).unwrap_err();
    /// assert!(error.to_string().contains("dimension 1 from the end has sizes 3 and 4"));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[track_caller]
    pub fn broadcast(&self, other: &Shape) -> Result<Shape> {
        if self.0 == other.0 {
            return Ok(self.clone());
        }
        let n = self.ndim().max(other.ndim());
        let mut out = Dims::from_elem(1, n);
        for i in 0..n {
            let a = if i < self.ndim() {
                self.0[self.ndim() - 1 - i]
            } else {
                1
            };
            let b = if i < other.ndim() {
                other.0[other.ndim() - 1 - i]
            } else {
                1
            };
            out[n - 1 - i] = if a == b || b == 1 {
                a
            } else if a == 1 {
                b
            } else {
                return Err(TorshError::shape("", format!("cannot broadcast shapes {self} and {other}"))
                    .with_hint(format!(
                        "dimension {} from the end has sizes {a} and {b}; sizes must be equal, or one of them 1",
                        i + 1
                    )));
            };
        }
        Ok(Shape(out))
    }

    /// Reads a dimension that may count from the end. A 0-d shape has the dimensions 0 and -1.
    ///
    /// ```
    /// use torsh_core::Shape;
    /// assert_eq!((Shape::new(&[2, 3]).dim(-1)?, Shape::default().dim(0)?), (1, 0));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn dim(&self, dim: i64) -> Result<usize> {
        wrap_dim(dim, self.ndim())
    }
}

/// Reads a dimension of a tensor of `ndim` dimensions, negative from the end; 0-d tensors accept
/// 0 and -1, as in PyTorch.
///
/// ```
/// use torsh_core::shape::wrap_dim;
/// assert_eq!(wrap_dim(-2, 3)?, 1);
/// assert!(wrap_dim(3, 3).unwrap_err().to_string().contains("in range of [-3, 2], but got 3"));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
#[inline]
#[track_caller]
pub fn wrap_dim(dim: i64, ndim: usize) -> Result<usize> {
    let n = ndim.max(1) as i64;
    if dim < -n || dim >= n {
        return Err(TorshError::index(
            "",
            format!(
                "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
                -n,
                n - 1
            ),
        ));
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Dims> for Shape {
    fn from(d: Dims) -> Shape {
        Shape(d)
    }
}
impl From<&[usize]> for Shape {
    fn from(d: &[usize]) -> Shape {
        Shape::new(d)
    }
}
impl From<Vec<usize>> for Shape {
    fn from(d: Vec<usize>) -> Shape {
        Shape(d.into())
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(d: [usize; N]) -> Shape {
        Shape::new(&d)
    }
}
impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        self.0.as_slice() == other
    }
}
impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        self.0.as_slice() == other
    }
}

/// Where the elements of a tensor lie in its storage: shape, strides and offset, in elements.
///
/// ```
/// use torsh_core::{Layout, Shape};
/// let rows = Layout::contiguous(Shape::new(&[2, 3]));
/// let columns = rows.permute(&[1, 0]);
/// assert_eq!((columns.shape.dims(), columns.strides.as_slice()), (&[3, 2][..], &[1, 3][..]));
/// ```
#[derive(PartialEq, Eq, Debug)]
pub struct Layout {
    /// The sizes.
    pub shape: Shape,
    /// Elements from one index to the next in each dimension.
    pub strides: Strides,
    /// The first element's position.
    pub offset: usize,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Layout {
        Layout {
            shape: self.shape.clone(),
            strides: copy_small(&self.strides),
            offset: self.offset,
        }
    }

    /// A copy from place to place: by way of the stack, it would be put together from parts.
    #[inline]
    fn clone_from(&mut self, from: &Layout) {
        let spilled = |l: &Layout| l.shape.0.spilled() || l.strides.spilled();
        if spilled(self) || spilled(from) {
            *self = from.clone();
            return;
        }
        // SAFETY: vectors that have not spilled hold their elements inline and own nothing else,
        // and the elements are `Copy`; the two places are different ones.
        unsafe { std::ptr::copy_nonoverlapping(from, self, 1) }
    }
}

impl Layout {
    /// Returns a layout of no dimensions, and so of one element, the first.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// assert_eq!((Layout::scalar().shape.numel(), Layout::scalar().extent()), (1, Some((0, 1))));
    /// ```
    #[inline]
    pub fn scalar() -> Layout {
        Layout {
            shape: Shape(Dims::new()),
            strides: Strides::new(),
            offset: 0,
        }
    }

    /// Returns a row-major layout, whose first element is the storage's.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// assert_eq!(Layout::contiguous(Shape::new(&[2, 3])).strides.as_slice(), [3, 1]);
    /// ```
    #[inline]
    pub fn contiguous(shape: Shape) -> Layout {
        let strides = shape.contiguous_strides();
        Layout {
            shape,
            strides,
            offset: 0,
        }
    }

    /// Makes a layout without dimensions a row-major one, where it stays.
    #[doc(hidden)]
    #[inline]
    pub fn make_contiguous(&mut self, shape: &Shape) {
        if shape.ndim() == 0 {
            return;
        }
        self.shape.0.extend_from_slice(shape);
        self.strides.resize(shape.ndim(), 1);
        let mut step = 1isize;
        for (s, &n) in self.strides.iter_mut().zip(shape.iter()).rev() {
            *s = step;
            step = step.wrapping_mul(n.max(1) as isize);
        }
    }

    /// Returns a layout of these parts: strides and offset in elements, a stride for each dimension.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape, Strides};
    /// let column = Layout::new(Shape::new(&[4]), Strides::from_slice(&[3]), 1); // Of a matrix of 4 x 3.
    /// assert_eq!(column.extent(), Some((1, 11)));
    /// ```
    #[inline]
    pub fn new(shape: Shape, strides: Strides, offset: usize) -> Layout {
        debug_assert_eq!(shape.ndim(), strides.len());
        Layout {
            shape,
            strides,
            offset,
        }
    }

    /// Whether the elements lie row-major without gaps.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let rows = Layout::contiguous(Shape::new(&[2, 3]));
    /// assert!(rows.is_contiguous() && !rows.permute(&[1, 0]).is_contiguous());
    /// ```
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(&self.shape, &self.strides)
    }

    /// Whether the elements fill a range of the storage without gaps or repeats, in any order of
    /// the dimensions.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// assert!(Layout::contiguous(Shape::new(&[2, 3])).permute(&[1, 0]).is_dense());
    /// ```
    pub fn is_dense(&self) -> bool {
        is_dense(&self.shape, &self.strides)
    }

    /// Whether two different indices reach the same element (an expanded tensor, or `as_strided`
    /// with overlapping windows). May answer `true` for exotic layouts that do not.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let row = Layout::contiguous(Shape::new(&[1, 3]));
    /// assert!(!row.may_overlap_itself() && row.expand(&Shape::new(&[4, 3]))?.may_overlap_itself());
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    pub fn may_overlap_itself(&self) -> bool {
        let mut order: SmallVec<[usize; 6]> = (0..self.shape.ndim())
            .filter(|&d| self.shape[d] > 1)
            .collect();
        order.sort_by_key(|&d| self.strides[d].unsigned_abs());
        let mut reach = 0usize;
        for d in order {
            let s = self.strides[d].unsigned_abs();
            if s <= reach {
                return true;
            }
            reach += s * (self.shape[d] - 1);
        }
        false
    }

    /// Refuses a layout whose number of elements or whose reach overflows, in elements of
    /// `element_size` bytes: what every view goes through before arithmetic on it.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape, Strides};
    /// let before_the_start = Layout::new(Shape::new(&[3]), Strides::from_slice(&[-1]), 1);
    /// assert!(before_the_start.check(4).unwrap_err().to_string().contains("reach further than memory"));
    /// ```
    pub fn check(&self, element_size: usize) -> Result<()> {
        if self.shape.checked_numel(element_size)? == 0 {
            return Ok(());
        }
        let most = isize::MAX as i128 / element_size.max(1) as i128;
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            let span = (n as i128 - 1) * s as i128;
            if span < 0 {
                low += span;
            } else {
                high += span;
            }
        }
        if low < 0 || high >= most {
            return Err(TorshError::invalid(
                "",
                format!(
                    "shape {}, strides {:?} and offset {} reach further than memory does",
                    self.shape, self.strides, self.offset
                ),
            ));
        }
        Ok(())
    }

    /// Returns the range of storage elements that the layout can reach: first and one past the last; `None`
    /// when it has no elements.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let layout = Layout::contiguous(Shape::new(&[2, 3]));
    /// assert_eq!((layout.extent(), Layout::contiguous(Shape::new(&[0])).extent()), (Some((0, 6)), None));
    /// ```
    pub fn extent(&self) -> Option<(usize, usize)> {
        let (mut low, mut high) = (self.offset as isize, self.offset as isize);
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            if n == 0 {
                return None;
            }
            let span = (n as isize - 1) * s;
            if span < 0 {
                low += span;
            } else {
                high += span;
            }
        }
        Some((low as usize, high as usize + 1))
    }

    /// Returns the layout of the same elements seen with shape `to`; the dimensions must broadcast.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let row = Layout::contiguous(Shape::new(&[1, 3])).expand(&Shape::new(&[4, 3]))?;
    /// assert_eq!(row.strides.as_slice(), [0, 1]);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    pub fn expand(&self, to: &Shape) -> Result<Layout> {
        if !self.shape.can_broadcast_to(to) {
            return Err(TorshError::shape("", format!("cannot expand shape {} to {to}", self.shape))
                .with_hint("sizes are compared from the last dimension; each must be equal, or 1 in the tensor"));
        }
        Ok(Layout::new(
            to.clone(),
            self.broadcast_strides(to),
            self.offset,
        ))
    }

    /// Returns the strides that walk this layout as if it had the shape `to`, which it broadcasts to.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let row = Layout::contiguous(Shape::new(&[3]));
    /// assert_eq!(row.broadcast_strides(&Shape::new(&[2, 3])).as_slice(), [0, 1]);
    /// ```
    #[inline]
    pub fn broadcast_strides(&self, to: &Shape) -> Strides {
        let lead = to.ndim() - self.shape.ndim();
        let mut s = Strides::from_elem(0, to.ndim());
        for d in 0..self.shape.ndim() {
            s[lead + d] = if self.shape[d] == 1 && to[lead + d] != 1 {
                0
            } else {
                self.strides[d]
            };
        }
        s
    }

    /// Returns the layout with dimensions in the given order.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let layout = Layout::contiguous(Shape::new(&[2, 3, 4])).permute(&[2, 0, 1]);
    /// assert_eq!((layout.shape.dims(), layout.strides.as_slice()), (&[4, 2, 3][..], &[1, 12, 4][..]));
    /// ```
    pub fn permute(&self, order: &[usize]) -> Layout {
        Layout::new(
            Shape(order.iter().map(|&d| self.shape[d]).collect()),
            order.iter().map(|&d| self.strides[d]).collect(),
            self.offset,
        )
    }

    /// Returns the layout in which the same elements have shape `to` (same number of elements); `None` where that
    /// needs a copy.
    ///
    /// ```
    /// use torsh_core::{Layout, Shape};
    /// let rows = Layout::contiguous(Shape::new(&[2, 6]));
    /// let parts = rows.reshape(&Shape::new(&[2, 3, 2])).expect("no copy is needed");
    /// assert_eq!(parts.strides.as_slice(), [6, 2, 1]);
    /// assert!(rows.permute(&[1, 0]).reshape(&Shape::new(&[12])).is_none());
    /// ```
    pub fn reshape(&self, to: &Shape) -> Option<Layout> {
        if self.shape.numel() == 0 {
            return Some(Layout::new(
                to.clone(),
                to.contiguous_strides(),
                self.offset,
            ));
        }
        let mut strides = Strides::from_elem(0, to.ndim());
        let mut view = to.ndim() as isize - 1;
        let mut base_stride = *self.strides.last().unwrap_or(&1);
        let (mut tensor_numel, mut view_numel) = (1usize, 1usize);
        for d in (0..self.shape.ndim()).rev() {
            tensor_numel *= self.shape[d];
            // A run of dimensions ends where the next outer one does not continue it in memory.
            let ends = d == 0
                || (self.shape[d - 1] != 1
                    && self.strides[d - 1] != tensor_numel as isize * base_stride);
            if ends {
                while view >= 0 && (view_numel < tensor_numel || to[view as usize] == 1) {
                    strides[view as usize] = view_numel as isize * base_stride;
                    view_numel *= to[view as usize];
                    view -= 1;
                }
                if view_numel != tensor_numel {
                    return None;
                }
                if d > 0 {
                    base_stride = self.strides[d - 1];
                    tensor_numel = 1;
                    view_numel = 1;
                }
            }
        }
        while view >= 0 {
            // What is left can only be ones (the tensor was 0-d, or its leading sizes are 1).
            if to[view as usize] != 1 {
                return None;
            }
            strides[view as usize] = view_numel as isize * base_stride;
            view -= 1;
        }
        Some(Layout::new(to.clone(), strides, self.offset))
    }
}

/// Whether strides are row-major for a shape; sizes of 1 may have any stride.
#[inline]
pub fn is_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1isize;
    for d in (0..shape.len()).rev() {
        let n = shape[d];
        if n == 0 {
            return true;
        }
        if n != 1 {
            if strides[d] != step {
                return shape.contains(&0);
            }
            step *= n as isize;
        }
    }
    true
}

/// Whether the elements fill a range without gaps or repeats, in any order of the dimensions.
pub fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    let mut order: SmallVec<[usize; 6]> = (0..shape.len()).filter(|&d| shape[d] != 1).collect();
    if shape.contains(&0) {
        return true;
    }
    order.sort_by_key(|&d| strides[d]);
    let mut step = 1isize;
    for d in order {
        if strides[d] != step {
            return false;
        }
        step *= shape[d] as isize;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting() {
        let a = Shape::new(&[2, 1, 4]);
        assert_eq!(a.broadcast(&Shape::new(&[3, 1])).expect("fits"), [2, 3, 4]);
        let e = Shape::new(&[2, 3])
            .broadcast(&Shape::new(&[3, 4]))
            .expect_err("does not fit");
        assert!(
            e.to_string()
                .contains("cannot broadcast shapes [2, 3] and [3, 4]")
        );
        assert_eq!(
            Shape::new(&[0]).broadcast(&Shape::new(&[1])).expect("fits"),
            [0]
        );
    }

    #[test]
    fn reshape_without_copy_where_possible() {
        let l = Layout::contiguous(Shape::new(&[2, 3, 4]));
        assert_eq!(
            l.reshape(&Shape::new(&[6, 4]))
                .expect("view")
                .strides
                .as_slice(),
            &[4, 1]
        );
        let t = l.permute(&[1, 0, 2]);
        assert!(t.reshape(&Shape::new(&[6, 4])).is_none());
        assert_eq!(
            t.reshape(&Shape::new(&[3, 2, 2, 2]))
                .expect("view")
                .strides
                .as_slice(),
            &[4, 12, 2, 1]
        );
        let scalar = Layout::contiguous(Shape::default());
        assert_eq!(
            scalar.reshape(&Shape::new(&[1, 1])).expect("view").shape,
            [1, 1]
        );
        let e = Layout::contiguous(Shape::new(&[1]))
            .expand(&Shape::new(&[5]))
            .expect("expands");
        assert_eq!(e.reshape(&Shape::new(&[5, 1])).expect("view").strides[0], 0);
    }

    #[test]
    fn overlap_and_density() {
        let l = Layout::contiguous(Shape::new(&[2, 3])).permute(&[1, 0]);
        assert!(l.is_dense() && !l.is_contiguous() && !l.may_overlap_itself());
        let e = Layout::contiguous(Shape::new(&[1, 3]))
            .expand(&Shape::new(&[4, 3]))
            .expect("expands");
        assert!(e.may_overlap_itself());
        assert_eq!(e.extent(), Some((0, 3)));
    }

    #[test]
    fn huge_shapes_are_refused() {
        assert!(Shape::new(&[usize::MAX, 2]).checked_numel(4).is_err());
        assert!(Shape::new(&[1 << 62]).checked_numel(4).is_err());
        assert!(Shape::new(&[usize::MAX, 0]).checked_numel(4).is_err());
        assert_eq!(
            Shape::new(&[1 << 62, 0]).checked_numel(4).expect("empty"),
            0
        );
    }
}
