//! The line search for a step that satisfies the strong Wolfe conditions.

use torsh_tensor::{Result, Tensor};

use super::{dot, largest};

/// How much of the expected decrease there must be.
const DECREASE: f64 = 1e-4;
/// How much of the slope may be left.
const CURVATURE: f64 = 0.9;

/// A step's length, and loss, gradient and slope there.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub t: f64,
    pub loss: f64,
    pub grad: Tensor,
    pub slope: f64,
}

/// The minimum of the cubic through two points with their slopes, within bounds.
fn cubic(a: &Point, b: &Point, bounds: Option<(f64, f64)>) -> f64 {
    let (low, high) = bounds.unwrap_or((a.t.min(b.t), a.t.max(b.t)));
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    if !(square >= 0.0) {
        return (low + high) / 2.0;
    }
    let d2 = square.sqrt();
    let (near, far) = if a.t <= b.t { (a, b) } else { (b, a) };
    let place =
        far.t - (far.t - near.t) * ((far.slope + d2 - d1) / (far.slope - near.slope + 2.0 * d2));
    // As Python's max and min, which keep their first argument where it is NaN.
    let place = if low > place { low } else { place };
    if high < place { high } else { place }
}

/// A step along `d` from `start` that satisfies the strong Wolfe conditions, or the best found
/// in `limit` evaluations after the first; and the number of evaluations.
pub(super) fn strong_wolfe(
    at: &mut dyn FnMut(f64) -> Result<(f64, Tensor)>,
    first: f64,
    d: &Tensor,
    start: Point,
    tolerance_change: f64,
    limit: usize,
) -> Result<(Point, usize)> {
    let size = largest(d)?;
    let mut evaluate = |t: f64| -> Result<Point> {
        let (loss, grad) = at(t)?;
        let slope = dot(&grad, d)?;
        Ok(Point {
            t,
            loss,
            grad,
            slope,
        })
    };
    let too_high = |p: &Point| p.loss > start.loss + DECREASE * p.t * start.slope;
    let flat = |p: &Point| p.slope.abs() <= -CURVATURE * start.slope;
    let mut new = evaluate(first)?;
    let mut prev = start.clone();
    let mut rounds = 0;
    let mut bracket = None;
    while rounds < limit {
        if too_high(&new) || (rounds > 1 && new.loss >= prev.loss) {
            bracket = Some([prev.clone(), new.clone()]);
            break;
        }
        if flat(&new) {
            return Ok((new, rounds + 1));
        }
        if new.slope >= 0.0 {
            bracket = Some([prev.clone(), new.clone()]);
            break;
        }
        let bounds = (new.t + 0.01 * (new.t - prev.t), new.t * 10.0);
        let t = cubic(&prev, &new, Some(bounds));
        prev = new;
        new = evaluate(t)?;
        rounds += 1;
    }
    let mut bracket = bracket.unwrap_or([start.clone(), new]);
    let order = |b: &[Point; 2]| {
        if b[0].loss <= b[1].loss {
            (0, 1)
        } else {
            (1, 0)
        }
    };
    let (mut low, mut high) = order(&bracket);
    let mut stuck = false;
    while rounds < limit {
        let (least, most) = (
            bracket[0].t.min(bracket[1].t),
            bracket[0].t.max(bracket[1].t),
        );
        if (most - least) * size < tolerance_change {
            break;
        }
        let mut t = cubic(&bracket[0], &bracket[1], None);
        // A trial at the edge of the bracket, twice or outside it, is moved inside.
        let margin = 0.1 * (most - least);
        if (most - t).min(t - least) < margin {
            if stuck || t >= most || t <= least {
                t = if (t - most).abs() < (t - least).abs() {
                    most - margin
                } else {
                    least + margin
                };
                stuck = false;
            } else {
                stuck = true;
            }
        } else {
            stuck = false;
        }
        let new = evaluate(t)?;
        rounds += 1;
        if too_high(&new) || new.loss >= bracket[low].loss {
            bracket[high] = new;
            (low, high) = order(&bracket);
        } else {
            let done = flat(&new);
            if !done && new.slope * (bracket[high].t - bracket[low].t) >= 0.0 {
                bracket[high] = bracket[low].clone();
            }
            bracket[low] = new;
            if done {
                break;
            }
        }
    }
    let [a, b] = bracket;
    Ok((if low == 0 { a } else { b }, rounds + 1))
}
