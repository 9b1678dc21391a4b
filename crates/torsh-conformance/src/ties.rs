//! Indices of equal values. Where PyTorch promises no order of ties, any distinct indices that
//! gather the expected values are right.

use crate::case::{Case, Value};
use crate::tensors::{Element, TensorData};

/// An output that holds such indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieRule {
    /// Which output holds the indices.
    pub indices: usize,
    /// The dimension of the input they point along.
    pub dim: i64,
    /// Whether one line may hold an index only once (sort and topk).
    pub distinct: bool,
}

impl TieRule {
    /// The rule for this call, if it has one.
    pub fn of(case: &Case) -> Option<TieRule> {
        let dim = |position| case.arg(position, "dim").map_or(Some(-1), Value::as_int);
        let rule = |indices, dim, distinct| {
            Some(TieRule {
                indices,
                dim,
                distinct,
            })
        };
        match case.op.as_str() {
            "topk" => rule(1, dim(2)?, true),
            "sort" | "argsort" => {
                if case.arg(3, "stable") == Some(&Value::Bool(true)) {
                    return None;
                }
                rule(usize::from(case.op == "sort"), dim(1)?, true)
            }
            "mode" => rule(1, dim(1)?, false),
            "kthvalue" => rule(1, dim(2)?, false),
            // Without `dim` there is one value and no index.
            "median" | "nanmedian" => rule(1, case.arg(1, "dim")?.as_int()?, false),
            _ => None,
        }
    }

    /// Whether `got` are as good as the expected indices of `input`.
    ///
    /// # Errors
    /// The first index out of range, used twice, or pointing to another value.
    pub fn check(
        &self,
        input: &TensorData,
        got: &TensorData,
        want: &TensorData,
    ) -> Result<(), String> {
        if got.dtype != want.dtype {
            return Err(format!("dtype: expected {}, got {}", want.dtype, got.dtype));
        }
        if got.shape != want.shape {
            return Err(format!(
                "shape: expected {:?}, got {:?}",
                want.shape, got.shape
            ));
        }
        let lines = Lines::new(self.dim, input, got)?;
        let mut used = vec![usize::MAX; input.numel()];
        for at in 0..got.numel() {
            let index = || got.index_of(at);
            let (g, w) = (got.get(at), want.get(at));
            let place = lines
                .place(at, g)
                .ok_or_else(|| format!("at {:?}: index {g} is out of range", index()))?;
            let wanted = lines
                .place(at, w)
                .ok_or_else(|| format!("at {:?}: the case's index {w} is bad", index()))?;
            if !input.get(place).same(input.get(wanted)) {
                return Err(format!(
                    "at {:?}: index {g} points to {}, the expected {w} to {}",
                    index(),
                    input.get(place),
                    input.get(wanted)
                ));
            }
            if self.distinct && std::mem::replace(&mut used[place], at) != usize::MAX {
                return Err(format!("at {:?}: index {g} comes twice", index()));
            }
        }
        Ok(())
    }

    /// The input's gradient where the values were taken from the places that `indices` name.
    ///
    /// # Errors
    /// Indices out of range.
    pub fn gradient(
        &self,
        input: &TensorData,
        indices: &TensorData,
        cotangent: &TensorData,
    ) -> Result<TensorData, String> {
        let lines = Lines::new(self.dim, input, indices)?;
        let mut sums = vec![0.0; input.numel()];
        for at in 0..indices.numel() {
            let place = lines
                .place(at, indices.get(at))
                .ok_or("an index is out of range")?;
            match cotangent.get(at) {
                Element::Float(x) => sums[place] += x,
                other => return Err(format!("a cotangent of {other}")),
            }
        }
        let elements: Vec<_> = sums.into_iter().map(Element::Float).collect();
        Ok(TensorData::from_elements(
            input.dtype,
            &input.shape,
            &elements,
        ))
    }
}

/// Maps a position of the index tensor and an index to a position of the input.
struct Lines {
    /// Elements after the dimension, of both.
    inner: usize,
    /// Size of the dimension in the input.
    size: usize,
    /// Size of the dimension in the index tensor.
    count: usize,
}

impl Lines {
    fn new(dim: i64, input: &TensorData, indices: &TensorData) -> Result<Lines, String> {
        let rank = input.shape.len();
        if rank == 0 {
            return Ok(Lines {
                inner: 1,
                size: 1,
                count: 1,
            });
        }
        let axis = usize::try_from(if dim < 0 { dim + rank as i64 } else { dim })
            .ok()
            .filter(|&a| a < rank)
            .ok_or_else(|| format!("dim {dim} of {rank} dimensions"))?;
        // A reduction without `keepdim` dropped the dimension.
        let count = if indices.shape.len() == rank {
            indices.shape[axis]
        } else {
            1
        };
        let inner: usize = input.shape[axis + 1..].iter().product();
        let outer: usize = input.shape[..axis].iter().product();
        if indices.numel() != outer * count * inner {
            return Err(format!(
                "indices of shape {:?} into {:?}",
                indices.shape, input.shape
            ));
        }
        Ok(Lines {
            inner,
            size: input.shape[axis],
            count,
        })
    }

    fn place(&self, at: usize, index: Element) -> Option<usize> {
        let Element::Int(index) = index else {
            return None;
        };
        let index = usize::try_from(index).ok().filter(|&i| i < self.size)?;
        let (line, inner) = (at / self.inner, at % self.inner);
        Some((line / self.count * self.size + index) * self.inner + inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Expect;
    use crate::tensors::Dtype;

    fn floats(shape: &[usize], v: &[f64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&x| Element::Float(x)).collect();
        TensorData::from_elements(Dtype::Float64, shape, &e)
    }

    fn ints(shape: &[usize], v: &[i64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&x| Element::Int(x)).collect();
        TensorData::from_elements(Dtype::Int64, shape, &e)
    }

    const SORT: TieRule = TieRule {
        indices: 1,
        dim: -1,
        distinct: true,
    };

    #[test]
    fn ties_may_swap_but_not_repeat_or_miss() {
        let input = floats(&[2, 3], &[1.0, 1.0, 2.0, f64::NAN, f64::NAN, 0.0]);
        let want = ints(&[2, 3], &[0, 1, 2, 2, 0, 1]);
        let check = |v: &[i64]| SORT.check(&input, &ints(&[2, 3], v), &want);
        assert_eq!(check(&[1, 0, 2, 2, 1, 0]), Ok(()));
        assert!(check(&[1, 1, 2, 2, 1, 0]).unwrap_err().contains("twice"));
        assert!(
            check(&[0, 2, 1, 2, 1, 0])
                .unwrap_err()
                .contains("points to")
        );
        assert!(check(&[0, 1, 3, 2, 1, 0]).unwrap_err().contains("range"));
        assert!(check(&[0, 1, -1, 2, 1, 0]).unwrap_err().contains("range"));
        assert!(
            SORT.check(&input, &ints(&[6], &[0; 6]), &want)
                .unwrap_err()
                .contains("shape")
        );
    }

    #[test]
    fn reductions_point_along_their_dimension() {
        let mode = TieRule {
            indices: 1,
            dim: 0,
            distinct: false,
        };
        let input = floats(&[3, 2], &[1.0, 5.0, 1.0, 6.0, 2.0, 5.0]);
        let want = ints(&[2], &[1, 2]);
        assert_eq!(mode.check(&input, &ints(&[2], &[0, 0]), &want), Ok(()));
        assert!(mode.check(&input, &ints(&[2], &[0, 1]), &want).is_err());
        let kept = ints(&[1, 2], &[1, 2]);
        assert_eq!(mode.check(&input, &ints(&[1, 2], &[0, 0]), &kept), Ok(()));
        let grad = mode.gradient(&input, &ints(&[2], &[0, 2]), &floats(&[2], &[10.0, 20.0]));
        assert_eq!(grad, Ok(floats(&[3, 2], &[10.0, 0.0, 0.0, 0.0, 0.0, 20.0])));
        let scalar = floats(&[], &[3.0]);
        assert_eq!(
            SORT.check(&scalar, &ints(&[], &[0]), &ints(&[], &[0])),
            Ok(())
        );
    }

    #[test]
    fn the_rule_follows_the_arguments() {
        let case = |op: &str, args: Vec<Value<_>>, kwargs: Vec<(&str, Value<_>)>| Case {
            op: op.to_string(),
            dtype: String::new(),
            sample: 0,
            args: std::iter::once(Value::None).chain(args).collect(),
            kwargs: kwargs
                .into_iter()
                .map(|(k, v)| (k.to_string(), v))
                .collect(),
            after: Vec::new(),
            eigenvalues: false,
            dense: false,
            expect: Expect::Error(String::new()),
        };
        let int = Value::Int;
        assert_eq!(TieRule::of(&case("sort", vec![], vec![])), Some(SORT));
        let stable = vec![("stable", Value::Bool(true))];
        assert_eq!(TieRule::of(&case("sort", vec![], stable.clone())), None);
        assert_eq!(TieRule::of(&case("argsort", vec![], stable)), None);
        let topk = TieRule::of(&case("topk", vec![int(3), int(1)], vec![]));
        assert_eq!(
            topk,
            Some(TieRule {
                indices: 1,
                dim: 1,
                distinct: true
            })
        );
        let argsort = TieRule::of(&case("argsort", vec![], vec![("dim", int(0))]));
        assert_eq!(
            argsort,
            Some(TieRule {
                indices: 0,
                dim: 0,
                distinct: true
            })
        );
        assert_eq!(TieRule::of(&case("median", vec![], vec![])), None);
        assert!(TieRule::of(&case("median", vec![int(0)], vec![])).is_some());
        assert_eq!(TieRule::of(&case("max", vec![int(0)], vec![])), None);
    }
}
