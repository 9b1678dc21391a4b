//! Strided tensors from the elements that lines store, and back.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use torsh_core::{Element, Result, TorshError};

use super::number::Index;
use super::product::check_sizes;
use super::rows::{check_pointers, out_of_range};
use super::split::{even, first_of, share};
use super::tuning;
use crate::multiversion;
use crate::shares::Parts;

/// Elements that are looked at together: most of them are 0.
const TOGETHER: usize = 16;

multiversion! {
    /// How many units of a line are not all 0; NaN is not 0, and -0 is.
    fn count_line<A, T: Element>(line: &[T], unit: usize) -> usize {
        let zero = T::default();
        if unit != 1 {
            let units = line.chunks_exact(unit);
            return units.filter(|u| u.iter().any(|v| *v != zero)).count();
        }
        // Few enough at once for a count of 32 bits.
        let few = |few: &[T]| few.iter().fold(0u32, |n, v| n.wrapping_add(u32::from(*v != zero)));
        line.chunks(1 << 20).map(|c| few(c) as usize).sum()
    }

    /// Writes position and value of the units of a line that are not all 0; `None` if there is no place for one of
    /// them, or a place for more.
    fn store_line<A, T: Element>(line: &[T], unit: usize, columns: &mut [i64], values: &mut [T]) -> Option<()> {
        let zero = T::default();
        let mut k = 0;
        let mut put = |at: usize| {
            *columns.get_mut(k)? = at as i64;
            values[k * unit..][..unit].copy_from_slice(&line[at * unit..][..unit]);
            k += 1;
            Some(())
        };
        if unit == 1 {
            for (first, few) in (0..line.len()).step_by(TOGETHER).zip(line.chunks(TOGETHER)) {
                if few.iter().fold(false, |any, v| any | (*v != zero)) {
                    for (at, v) in (first..).zip(few) {
                        if *v != zero {
                            put(at)?;
                        }
                    }
                }
            }
        } else {
            for (at, values) in line.chunks_exact(unit).enumerate() {
                if values.iter().any(|v| *v != zero) {
                    put(at)?;
                }
            }
        }
        (k == columns.len()).then_some(())
    }
}

/// Where the lines of a strided tensor begin in a list of those of its units that are not all 0. `x` has `lines` lines
/// of `width` units, which are `unit` numbers each; `pointers` has an element more than there are lines.
///
/// ```
/// use torsh_backend_cpu::sparse::{count_stored, stored};
/// let x = [0.0, 2.0, -0.0, 0.0, f32::NAN, 3.0];
/// let mut pointers = [9; 3];
/// count_stored(&x, [2, 3, 1], &mut pointers)?;
/// assert_eq!(pointers, [0, 1, 3]);
/// let (mut columns, mut values) = ([9; 3], [9.0; 3]);
/// stored(&x, [2, 3, 1], &pointers, &mut columns, &mut values)?;
/// assert_eq!((columns, values[0], values[2]), ([1, 1, 2], 2.0, 3.0));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the sizes do not go together.
pub fn count_stored<T: Element>(
    x: &[T],
    [lines, width, unit]: [usize; 3],
    pointers: &mut [i64],
) -> Result<()> {
    let line = check_line(x.len(), [lines, width, unit])?;
    let have = pointers.len();
    let Some((first, counts)) = pointers.split_first_mut().filter(|p| p.1.len() == lines) else {
        return Err(no_pointers(have, lines));
    };
    *first = 0;
    if line == 0 {
        counts.fill(0);
        return Ok(());
    }
    let ends = even(lines, line.saturating_mul(tuning::STRIDED) + tuning::ROW);
    share(&ends, Parts::new(&mut *counts, 1), |range, part| {
        let all = x[range.start * line..range.end * line].chunks_exact(line);
        for (to, line) in part.into_slice().iter_mut().zip(all) {
            *to = count_line(line, unit) as i64;
        }
        Ok(())
    })?;
    let mut total = 0;
    for count in counts {
        total += *count;
        *count = total;
    }
    Ok(())
}

/// The units of a strided tensor that are not all 0, line by line: their positions in the line, and their numbers.
/// `pointers` are those of [`count_stored`], whose example shows it.
///
/// # Errors
/// If the sizes do not go together, or there are not as many as `pointers` say.
pub fn stored<T: Element>(
    x: &[T],
    [lines, width, unit]: [usize; 3],
    pointers: &[i64],
    columns: &mut [i64],
    values: &mut [T],
) -> Result<()> {
    let line = check_line(x.len(), [lines, width, unit])?;
    let (count, have) = (columns.len(), pointers.len());
    if have.checked_sub(1) != Some(lines) {
        return Err(no_pointers(have, lines));
    }
    check_pointers(pointers, count)?;
    check_sizes(values.len(), count, unit, "the list of values")?;
    if count == 0 {
        let zero = T::default();
        return match x.iter().any(|v| *v != zero) {
            true => Err(changed()),
            false => Ok(()),
        };
    }
    if line == 0 {
        return Err(changed());
    }
    let cuts = even(lines, line.saturating_mul(tuning::STRIDED) + tuning::ROW);
    let ends: Vec<usize> = cuts.iter().map(|&line| pointers[line].place()).collect();
    let results = (
        Parts::new(columns, 1),
        Parts::new(values, unit),
        Parts::none(),
        Parts::none(),
    );
    share(&ends, results, |range, (columns, values, ..)| {
        if range.is_empty() {
            return Ok(());
        }
        // Lines of parts without elements go to the part beside them, so that each line is looked at.
        let first = ends.partition_point(|&end| end < range.start);
        let last = match range.end == count {
            true => cuts.len() - 1,
            false => ends.partition_point(|&end| end <= range.start),
        };
        let (mut columns, mut values) = (columns.into_slice(), values.into_slice());
        for at in cuts[first]..cuts[last] {
            let count = pointers[at + 1].place() - pointers[at].place();
            let (own_columns, other_columns) = columns.split_at_mut(count);
            let (own_values, other_values) = values.split_at_mut(count * unit);
            let line = &x[at * line..][..line];
            store_line(line, unit, own_columns, own_values).ok_or_else(changed)?;
            (columns, values) = (other_columns, other_values);
        }
        Ok(())
    })
}

/// The length of a line.
fn check_line(len: usize, [lines, width, unit]: [usize; 3]) -> Result<usize> {
    let line = width.checked_mul(unit).ok_or_else(|| {
        TorshError::shape("", format!("{width} units of {unit} numbers are too many"))
    })?;
    check_sizes(len, lines, line, "the tensor")?;
    Ok(line)
}

#[cold]
fn changed() -> TorshError {
    TorshError::invalid("", "the tensor changed while it was read")
}

#[cold]
fn no_pointers(have: usize, lines: usize) -> TorshError {
    TorshError::shape("", format!("there are {have} pointers for {lines} lines"))
}

/// Writes what lines store into a strided tensor, and zeros elsewhere. There are `entries` matrices of as many elements
/// and `lines` lines each, which are `width` units long; `pointers` says where lines begin, counted from the first
/// element of the matrix, `columns` where each unit lies in its line. Each unit has `unit` numbers.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::fill_lines;
/// let mut out = [MaybeUninit::uninit(); 6];
/// fill_lines(&[0i64, 1, 2], &[2, 0], &[5.0f32, 6.0], [1, 2, 3, 1], &mut out)?;
/// // SAFETY: every element was written.
/// let out = out.map(|v| unsafe { v.assume_init() });
/// assert_eq!(out, [0.0, 0.0, 5.0, 6.0, 0.0, 0.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If an index is out of range, or the sizes do not go together.
pub fn fill_lines<T: Element, I: Index>(
    pointers: &[I],
    columns: &[I],
    values: &[T],
    [entries, lines, width, unit]: [usize; 4],
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    let count = columns.len();
    let all = entries.checked_mul(lines).ok_or_else(|| {
        TorshError::shape(
            "",
            format!("{entries} matrices of {lines} lines are too many"),
        )
    })?;
    let line = check_line(out.len(), [all, width, unit])?;
    check_sizes(values.len(), count, unit, "the list of values")?;
    check_sizes(
        pointers.len(),
        entries,
        lines.saturating_add(1),
        "the list of pointers",
    )?;
    if out.is_empty() {
        return Ok(());
    }
    let nnz = count / entries;
    if nnz * entries != count {
        return Err(TorshError::shape(
            "",
            format!("{count} elements are not as many for each of {entries} matrices"),
        ));
    }
    for own in pointers.chunks_exact(lines + 1) {
        check_pointers(own, nnz)?;
    }
    let each = line.saturating_mul(tuning::STRIDED) + tuning::ROW + count / all * tuning::MOVE;
    share(&even(all, each), Parts::new(out, line), |range, part| {
        for (at, to) in range.zip(part.into_slice().chunks_exact_mut(line)) {
            let (entry, row) = (at / lines, at % lines);
            let ends = &pointers[entry * (lines + 1) + row..][..2];
            clear(to);
            for e in entry * nnz + ends[0].place()..entry * nnz + ends[1].place() {
                let at = columns[e].place();
                if at >= width {
                    return Err(beyond(columns, width));
                }
                write(&mut to[at * unit..][..unit], &values[e * unit..][..unit]);
            }
        }
        Ok(())
    })
}

/// Writes units at some places into a strided tensor, and zeros elsewhere. The `places` are row-major positions of
/// units, of which each has `unit` numbers; they ascend.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::fill_places;
/// let mut out = [MaybeUninit::uninit(); 4];
/// fill_places(&[1, 3], &[5, 6], 1, &mut out)?;
/// // SAFETY: every element was written.
/// assert_eq!(out.map(|v| unsafe { v.assume_init() }), [0, 5, 0, 6]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the places do not ascend or one is out of range, or the sizes do not go together.
pub fn fill_places<T: Element>(
    places: &[i64],
    values: &[T],
    unit: usize,
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    check_sizes(values.len(), places.len(), unit, "the list of values")?;
    let count = out.len().checked_div(unit).unwrap_or(0);
    check_sizes(out.len(), count, unit, "the result")?;
    if out.is_empty() {
        return Ok(());
    }
    let n = places.len();
    // The first of all, whatever the part that meets one.
    let wrong = || {
        let outside = out_of_range(places, count, "column");
        outside.unwrap_or_else(|| {
            let late = places.windows(2).find(|w| w[0] >= w[1]);
            let text = late.map(|w| format!(": {} is out of order", w[1]));
            let text = text.unwrap_or_default();
            TorshError::invalid("", format!("the places do not ascend{text}"))
        })
    };
    if [places.first(), places.last()]
        .into_iter()
        .flatten()
        .any(|p| p.place() >= count)
    {
        return Err(wrong());
    }
    let each = unit.saturating_mul(tuning::STRIDED) + n / count * tuning::MOVE;
    let written = AtomicUsize::new(0);
    share(&even(count, each), Parts::new(out, unit), |range, part| {
        let to = part.into_slice();
        clear(to);
        let from = first_of(0..n, |e| places[e].place() < range.start);
        let end = first_of(from..n, |e| places[e].place() < range.end);
        for (e, place) in (from..end).zip(&places[from..end]) {
            let at = place.place();
            if !range.contains(&at) || e > from && places[e - 1] >= *place {
                return Err(wrong());
            }
            let at = at - range.start;
            write(&mut to[at * unit..][..unit], &values[e * unit..][..unit]);
        }
        written.fetch_add(end - from, Relaxed);
        Ok(())
    })?;
    // Each part has checked that its places are its own, so that none was counted twice.
    match written.into_inner() == n {
        true => Ok(()),
        false => Err(wrong()),
    }
}

#[cold]
fn beyond<I: Index>(indices: &[I], bound: usize) -> TorshError {
    out_of_range(indices, bound, "column")
        .unwrap_or_else(|| TorshError::index("", "an index is out of range"))
}

/// The memory of a result filled with zeros, on several threads.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::zeroed;
/// assert_eq!(zeroed(&mut [MaybeUninit::<f32>::uninit(); 2]), [0.0, 0.0]);
/// ```
pub fn zeroed<T: Element>(out: &mut [MaybeUninit<T>]) -> &mut [T] {
    crate::shares::share_chunks(
        out,
        tuning::CLEARED,
        tuning::STRIDED * tuning::CLEARED / 1000,
        |_, part| {
            clear(part);
        },
    );
    // SAFETY: every element was written, and has the memory of its type.
    unsafe { &mut *(std::ptr::from_mut(out) as *mut [T]) }
}

/// Zeros, which are an element of every type.
#[inline(always)]
fn clear<T: Element>(to: &mut [MaybeUninit<T>]) {
    for to in to {
        to.write(T::default());
    }
}

#[inline(always)]
fn write<T: Element>(to: &mut [MaybeUninit<T>], from: &[T]) {
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
}
