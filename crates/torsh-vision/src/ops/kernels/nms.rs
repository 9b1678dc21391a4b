//! Non-maximum suppression.
//!
//! Boxes are taken in blocks of the best ones left. In a block they are compared with each other one after the other; then
//! all the rest is compared with the block's kept ones at once, in vectors and on several threads.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Mutex;

use torsh_core::kernel::HostCall;
use torsh_core::{Result, pool};

use super::tuning::{NMS_BLOCK, NMS_LANES};
use super::{Real, Work, mismatch, shares, sizes, widest};
use crate::ops::attrs;

pub(super) fn nms<T: Real>(c: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let threshold = T::below(c.attrs::<attrs::VisionNms>()?.threshold);
    let ([n, four], [scores_n]) = (sizes::<2>(c, 0)?, sizes::<1>(c, 1)?);
    let (boxes, scores) = (c.input::<T>(0)?, c.input::<T>(1)?);
    let classes: Option<Cow<'_, [i64]>> = match c.input_shape(2) {
        Ok(_) if n > 0 => Some(c.input(2)?),
        _ => None,
    };
    let labelled = classes.as_ref().is_none_or(|l| l.len() == n);
    if four != 4
        || scores_n != n
        || c.output_shape(0)? != [n]
        || !labelled
        || u32::try_from(n).is_err()
    {
        return Err(mismatch());
    }
    let (keep, count) = (c.output::<i64>(0)?, c.output::<i64>(1)?);
    let [count] = count else {
        return Err(mismatch());
    };
    let order = order(&scores);
    let kept = match classes {
        None => select(&boxes, &order, threshold),
        Some(classes) => select_classes(&boxes, &order, &classes, threshold),
    };
    *count = kept.len() as i64;
    for (to, i) in keep.iter_mut().zip(kept) {
        *to = i64::from(i);
    }
    Ok(())
}

/// The indices by falling score, equal ones as they are.
fn order<T: Real>(scores: &[T]) -> Vec<u32> {
    let mut keyed: Vec<(u64, u32)> = (0u32..)
        .zip(scores)
        .map(|(i, s)| (s.falling(), i))
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, i)| i).collect()
}

/// The kept boxes where only those of one class compete, in the given order.
fn select_classes<T: Real>(boxes: &[T], order: &[u32], classes: &[i64], threshold: T) -> Vec<u32> {
    // The places in the order, by class.
    let mut places: Vec<u32> = (0..order.len() as u32).collect();
    let class = |place: u32| classes[order[place as usize] as usize];
    places.sort_by_key(|&p| class(p));
    let groups: Vec<&[u32]> = places.chunk_by(|&a, &b| class(a) == class(b)).collect();
    let one = |group: &[u32]| {
        let ids: Vec<u32> = group.iter().map(|&p| order[p as usize]).collect();
        select(boxes, &ids, threshold)
    };
    let kept: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let run = |range: std::ops::Range<usize>| {
        let found: Vec<u32> = groups[range].iter().flat_map(|g| one(g)).collect();
        if let Ok(mut kept) = kept.lock() {
            kept.extend(found);
        }
    };
    // With few classes the threads share the boxes of each.
    match groups.len() >= 4 * pool::num_threads() {
        true => pool::parallel_for(groups.len(), 1, &run),
        false => run(0..groups.len()),
    }
    let mut marked = vec![false; order.len()];
    for i in kept.into_inner().unwrap_or_default() {
        marked[i as usize] = true;
    }
    order
        .iter()
        .copied()
        .filter(|&i| marked[i as usize])
        .collect()
}

/// The coordinates of boxes, a list for each, and their areas.
struct Boxes<T> {
    lists: [Vec<T>; 5],
    ids: Vec<u32>,
}

impl<T: Real> Boxes<T> {
    fn new(boxes: &[T], ids: &[u32]) -> Boxes<T> {
        let mut lists: [Vec<T>; 5] = std::array::from_fn(|_| Vec::with_capacity(ids.len()));
        for &i in ids {
            let b = &boxes[4 * i as usize..][..4];
            for (list, &v) in lists.iter_mut().zip(b) {
                list.push(v);
            }
            lists[4].push((b[2] - b[0]) * (b[3] - b[1]));
        }
        Boxes {
            lists,
            ids: ids.to_vec(),
        }
    }

    fn at(&self, i: usize) -> [T; 5] {
        std::array::from_fn(|k| self.lists[k][i])
    }

    /// Drops the first boxes and the dead ones of the rest.
    fn compact(&mut self, first: usize, dead: &mut Vec<u8>) {
        let mut n = 0;
        for i in first..self.ids.len() {
            if dead[i] == 0 {
                for list in &mut self.lists {
                    list[n] = list[i];
                }
                self.ids[n] = self.ids[i];
                n += 1;
            }
        }
        for list in &mut self.lists {
            list.truncate(n);
        }
        self.ids.truncate(n);
        dead.clear();
        dead.resize(n, 0);
    }
}

/// Whether a worse box overlaps a better one by more than the threshold. Comparisons are such that a nan in a coordinate
/// does what it does in torchvision.
#[inline(always)]
fn overlaps<T: Real>(a: &[T; 5], b: [T; 5], threshold: T) -> bool {
    let larger = |x: T, y: T| if x < y { y } else { x };
    let smaller = |x: T, y: T| if y < x { y } else { x };
    let w = smaller(a[2], b[2]) - larger(a[0], b[0]);
    let h = smaller(a[3], b[3]) - larger(a[1], b[1]);
    let inter = larger(T::zero(), w) * larger(T::zero(), h);
    inter / (a[4] + b[4] - inter) > threshold
}

/// Marks boxes that any of the better ones overlaps.
struct Mark<'a, T> {
    better: &'a [[T; 5]],
    boxes: [&'a [T]; 5],
    dead: &'a mut [u8],
    threshold: T,
}

impl<T: Real> Work for Mark<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let n = self.dead.len();
        let [x1, y1, x2, y2, area] = self.boxes.map(|l| &l[..n]);
        let mut at = 0;
        while at + NMS_LANES <= n {
            let block = |l: &[T]| -> [T; NMS_LANES] { std::array::from_fn(|k| l[at + k]) };
            let (x1, y1, x2, y2, area) = (block(x1), block(y1), block(x2), block(y2), block(area));
            let mut dead = [0u8; NMS_LANES];
            for a in self.better {
                for k in 0..NMS_LANES {
                    let b = [x1[k], y1[k], x2[k], y2[k], area[k]];
                    dead[k] |= u8::from(overlaps(a, b, self.threshold));
                }
            }
            for (to, d) in self.dead[at..at + NMS_LANES].iter_mut().zip(dead) {
                *to |= d;
            }
            at += NMS_LANES;
        }
        for i in at..n {
            let b = [x1[i], y1[i], x2[i], y2[i], area[i]];
            if self.better.iter().any(|a| overlaps(a, b, self.threshold)) {
                self.dead[i] = 1;
            }
        }
    }
}

/// The boxes that remain of those in the given order.
fn select<T: Real>(boxes: &[T], order: &[u32], threshold: T) -> Vec<u32> {
    let mut left = Boxes::new(boxes, order);
    let mut dead = vec![0u8; order.len()];
    let mut kept = Vec::new();
    let mut better = Vec::with_capacity(NMS_BLOCK);
    let mut first = 0;
    while first < left.ids.len() {
        // The next block of boxes that are left.
        better.clear();
        let end = (first + NMS_BLOCK).min(left.ids.len());
        for i in first..end {
            if dead[i] != 0 {
                continue;
            }
            let a = left.at(i);
            kept.push(left.ids[i]);
            better.push(a);
            widest(Mark {
                better: std::slice::from_ref(&a),
                boxes: std::array::from_fn(|k| &left.lists[k][i + 1..end]),
                dead: &mut dead[i + 1..end],
                threshold,
            });
        }
        first = end;
        let (lists, better) = (&left.lists, &better);
        // Comparing a box with one other takes about a nanosecond. The closure does not fail.
        let _ = shares(&mut dead[first..], 1, better.len(), |range, dead| {
            widest(Mark {
                better,
                boxes: std::array::from_fn(|k| &lists[k][first + range.start..first + range.end]),
                dead,
                threshold,
            });
            Ok(())
        });
        let gone = dead[first..].iter().filter(|&&d| d != 0).count();
        if gone * 4 > left.ids.len() - first {
            left.compact(first, &mut dead);
            first = 0;
        }
    }
    kept
}
