//! Comparison of results and gradients that may be sparse.

use crate::compare::{Of, compare, default_tolerance};
use crate::exact::{Accepted, Again, Exact, largest_of, operands, wide, widened};
use crate::executor::{Call, Executor, Outcome};
use crate::layouts::Memory;
use crate::panics;
use crate::parts::{Kind, Operand, Parts};
use crate::tensors::{Dtype, TensorData};

use super::arrange::{Arrangement, as_int32};

/// What must come of a call.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) outputs: Vec<Operand>,
    /// One for each leaf of the call, where gradients are asked for.
    pub(super) grads: Option<Vec<Option<Operand>>>,
    /// The dense operation defines it.
    pub(super) dense: bool,
}

/// Compares results, then gradients, which are called by their numbers; tells how those passed that are not within the default
/// tolerance.
pub(super) fn check(
    wanted: &Wanted,
    outcome: &Outcome<Operand>,
    arrangement: Arrangement,
    exact: &Exact<'_>,
    numbers: &[usize],
) -> Result<Vec<Accepted>, String> {
    let mut accepted = Vec::new();
    if outcome.outputs.len() != wanted.outputs.len() {
        let (want, got) = (wanted.outputs.len(), outcome.outputs.len());
        return Err(format!("number of outputs: expected {want}, got {got}"));
    }
    let mut same = |of: Of, i: usize, got: &Operand, want: &Operand| -> Result<(), String> {
        let by = Alignment {
            stored: wanted.dense && of == Of::Gradient,
            gradient: of == Of::Gradient,
            arrangement,
        };
        let (got, want) = by.values(got, want)?;
        let Err(difference) = compare(&got, &want, default_tolerance(want.dtype)) else {
            return Ok(());
        };
        match exact.accept(of, i, &got, &want) {
            Ok(how) => {
                let what = match of {
                    Of::Output => "output",
                    Of::Gradient => "gradient",
                };
                accepted.push(how.at(format_args!("{what} {i}")));
                Ok(())
            }
            Err(why) => Err(format!("{difference}{why}")),
        }
    };
    for (i, (got, want)) in outcome.outputs.iter().zip(&wanted.outputs).enumerate() {
        same(Of::Output, i, got, want).map_err(|e| format!("output {i} {e}"))?;
    }
    let Some(grads) = &wanted.grads else {
        return Ok(accepted);
    };
    let got = match &outcome.grads {
        Some(Ok(got)) => got,
        Some(Err(e)) => return Err(format!("gradient: error: {e}")),
        None => return Err("gradient: none computed".to_string()),
    };
    if got.len() != grads.len() {
        let (want, got) = (grads.len(), got.len());
        return Err(format!("number of gradients: expected {want}, got {got}"));
    }
    for ((got, want), &i) in got.iter().zip(grads).zip(numbers) {
        match (got, want) {
            (None, None) => {}
            (Some(_), None) => return Err(format!("gradient {i}: expected none, got one")),
            (None, Some(_)) => return Err(format!("gradient {i}: expected one, got none")),
            (Some(got), Some(want)) => {
                same(Of::Gradient, i, got, want).map_err(|e| format!("gradient {i} {e}"))?;
            }
        }
    }
    Ok(accepted)
}

/// How two tensors are brought to the same elements.
#[derive(Clone, Copy)]
struct Alignment {
    /// They are compared at the elements that the expected one stores, whatever the layout of the other.
    stored: bool,
    gradient: bool,
    arrangement: Arrangement,
}

impl Alignment {
    /// The elements to compare, in one order, got and wanted.
    fn values(self, got: &Operand, want: &Operand) -> Result<(TensorData, TensorData), String> {
        let ((_, shape), (_, wanted)) = (got.dtype_and_shape(), want.dtype_and_shape());
        if shape != wanted {
            return Err(format!("shape: expected {wanted:?}, got {shape:?}"));
        }
        if let Operand::Sparse(got) = got {
            consistent(got)?;
        }
        match (got, want) {
            (Operand::Strided(got), Operand::Strided(want)) => {
                // Indices of a tensor whose indices were made int32.
                let narrow = self.arrangement == Arrangement::Int32
                    && (got.dtype, want.dtype) == (Dtype::Int32, Dtype::Int64);
                let want = if narrow { as_int32(want) } else { want.clone() };
                Ok((got.clone(), want))
            }
            (Operand::Strided(got), Operand::Sparse(want)) if self.stored => {
                Ok((want.taken_from(got)?, want.values.clone()))
            }
            (Operand::Sparse(got), Operand::Sparse(want)) if self.stored => {
                if got.kind == want.kind && got.indices == want.indices {
                    return Ok((got.values.clone(), want.values.clone()));
                }
                Ok((want.taken_from(&got.dense()?)?, want.values.clone()))
            }
            (Operand::Sparse(got), Operand::Sparse(want)) if got.kind == want.kind => {
                self.of_one_layout(got, want)
            }
            _ => Err(format!(
                "layout: expected {}, got {}",
                want.layout(),
                got.layout()
            )),
        }
    }

    fn of_one_layout(self, got: &Parts, want: &Parts) -> Result<(TensorData, TensorData), String> {
        if got.dense_dim != want.dense_dim {
            return Err(format!(
                "dense dimensions: expected {}, got {}",
                want.dense_dim, got.dense_dim
            ));
        }
        if want.kind == Kind::Coo {
            // Duplicates of an operand may show in the flag, and nowhere else.
            // PyTorch does not say of each gradient that is in order that it is.
            let other = got.coalesced != want.coalesced && !(self.gradient && got.coalesced);
            if other && self.arrangement != Arrangement::Split {
                return Err(format!(
                    "coalesced: expected {}, got {}",
                    want.coalesced, got.coalesced
                ));
            }
            let ((indices, got), (wanted, want)) = (got.summed()?, want.summed()?);
            return match indices == wanted {
                true => Ok((got, want)),
                false => Err(other_elements(&indices, &wanted)),
            };
        }
        for (part, (got, want)) in got.indices.iter().zip(&want.indices).enumerate() {
            let part = ["compressed", "plain"].get(part).unwrap_or(&"further");
            let narrow = self.arrangement == Arrangement::Int32 && got.dtype == Dtype::Int32;
            let want = if narrow { &as_int32(want) } else { want };
            let exactly = default_tolerance(want.dtype);
            compare(got, want, exactly).map_err(|e| format!("{part} indices: {e}"))?;
        }
        Ok((got.values.clone(), want.values.clone()))
    }
}

/// What is wrong with a sparse result in itself.
fn consistent(got: &Parts) -> Result<(), String> {
    if got.values.dtype != got.dtype {
        return Err(format!(
            "values of {} in a tensor of {}",
            got.values.dtype, got.dtype
        ));
    }
    got.places().map_err(|e| format!("its parts: {e}"))?;
    got.check_order()
}

/// The first stored element that only one side has.
fn other_elements(got: &[Vec<i64>], want: &[Vec<i64>]) -> String {
    let counts = format!(
        "stored elements: expected {}, got {}",
        want.len(),
        got.len()
    );
    let lacking = want.iter().find(|i| got.binary_search(i).is_err());
    let more = got.iter().find(|i| want.binary_search(i).is_err());
    match (lacking, more) {
        (Some(index), _) => format!("{counts}; that at {index:?} is not there"),
        (None, Some(index)) => format!("{counts}; that at {index:?} is none of PyTorch's"),
        (None, None) => counts,
    }
}

/// A call that can be made in float64.
pub(super) struct Wide<'a> {
    pub(super) call: Call<Operand<Memory>>,
    pub(super) wanted: Wanted,
    pub(super) executor: &'a dyn Executor,
}

impl Again for Wide<'_> {
    fn op(&self) -> &str {
        &self.call.op
    }

    fn wide(&self, moved: bool) -> Option<Outcome> {
        let call = widened(&self.call, &|operand: &Operand<Memory>| match operand {
            Operand::Strided(memory) => Operand::Strided(wide(memory, moved)),
            Operand::Sparse(parts) => {
                let values = wide(&parts.values, moved);
                Operand::Sparse(Box::new(Parts {
                    dtype: values.dtype,
                    values,
                    ..(**parts).clone()
                }))
            }
        });
        let outcome = panics::catch(|| self.executor.sparse(&call)).ok()?.ok()?;
        let values = |got: &Operand, want: &Operand, stored| {
            let by = Alignment {
                stored,
                gradient: false,
                arrangement: Arrangement::Given,
            };
            by.values(got, want).ok().map(|(got, _)| got)
        };
        let outputs = outcome.outputs.iter().zip(&self.wanted.outputs);
        let outputs: Option<Vec<_>> = outputs.map(|(g, w)| values(g, w, false)).collect();
        let grads = match (&outcome.grads, &self.wanted.grads) {
            (Some(Ok(got)), Some(want)) => {
                let one = |(got, want): (&Option<Operand>, &Option<Operand>)| match (got, want) {
                    (Some(got), Some(want)) => values(got, want, self.wanted.dense),
                    _ => None,
                };
                Some(Ok(got.iter().zip(want).map(one).collect()))
            }
            _ => None,
        };
        Some(Outcome {
            outputs: outputs?,
            grads,
        })
    }

    fn largest(&self) -> f64 {
        largest_of(operands(&self.call).map(values))
    }

    fn cotangent(&self) -> usize {
        let cotangents = self.call.cotangents.iter().flatten();
        let sizes = cotangents.map(|(_, c)| values(c).shape.iter().product());
        sizes.max().unwrap_or(0)
    }
}

fn values(operand: &Operand<Memory>) -> &Memory {
    match operand {
        Operand::Strided(memory) => memory,
        Operand::Sparse(parts) => &parts.values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::Element;

    fn ints(shape: &[usize], v: &[i64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&i| Element::Int(i)).collect();
        TensorData::from_elements(Dtype::Int64, shape, &e)
    }

    fn coo(coalesced: bool, index: &[i64], values: &[i64]) -> Operand {
        Operand::Sparse(Box::new(Parts {
            kind: Kind::Coo,
            shape: vec![4],
            dtype: Dtype::Int64,
            dense_dim: 0,
            coalesced,
            indices: vec![ints(&[1, index.len()], index)],
            values: ints(&[values.len()], values),
            requires_grad: false,
        }))
    }

    fn equal(
        got: &Operand,
        want: &Operand,
        stored: bool,
        arrangement: Arrangement,
    ) -> Result<(), String> {
        let (got, want) = Alignment {
            stored,
            gradient: false,
            arrangement,
        }
        .values(got, want)?;
        compare(&got, &want, default_tolerance(want.dtype))
    }

    #[test]
    fn coo_tensors_are_compared_coalesced() {
        let want = coo(true, &[0, 2], &[5, 7]);
        let given = Arrangement::Given;
        let fails = |got: &Operand, part: &str| {
            let e = equal(got, &want, false, given).unwrap_err();
            assert!(e.contains(part), "{e}");
        };
        assert_eq!(equal(&want, &want, false, given), Ok(()));
        let other = coo(false, &[2, 0, 2], &[3, 5, 4]);
        fails(&other, "coalesced: expected true");
        assert_eq!(equal(&other, &want, false, Arrangement::Split), Ok(()));
        fails(&coo(true, &[2, 0], &[7, 5]), "comes before");
        fails(&coo(true, &[0, 3], &[5, 7]), "[2] is not there");
        fails(&coo(true, &[0, 1, 2], &[5, 0, 7]), "[1] is none");
        fails(&coo(true, &[0, 2], &[5, 8]), "expected 7, got 8");
        fails(&coo(true, &[0, 4], &[5, 7]), "out of bounds");
        fails(
            &Operand::Strided(ints(&[4], &[5, 0, 7, 0])),
            "layout: expected coo",
        );
    }

    #[test]
    fn gradients_of_dense_operations_are_compared_where_elements_are_stored() {
        let want = coo(true, &[0, 2], &[5, 7]);
        let given = Arrangement::Given;
        let dense = Operand::Strided(ints(&[4], &[5, 1, 7, 1]));
        assert_eq!(equal(&dense, &want, true, given), Ok(()));
        let more = coo(true, &[0, 1, 2], &[5, 9, 7]);
        assert_eq!(equal(&more, &want, true, given), Ok(()));
        let less = coo(true, &[0], &[5]);
        assert!(equal(&less, &want, true, given).is_err());
        let shape = Operand::Strided(ints(&[5], &[5, 1, 7, 1, 0]));
        assert!(
            equal(&shape, &want, true, given)
                .unwrap_err()
                .contains("shape")
        );
    }
}
