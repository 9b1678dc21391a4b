//! Random programs of arithmetic, views, indexing and in-place ops: their gradients, first and
//! second, against finite differences.

use crate::common::{Rng, fails, ints, v};
use torsh_tensor::{Result, Tensor, TorshError, grad, no_grad};

/// One step of a program; the numbers choose tensors and elements, whatever there is.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    Mul(usize, usize),
    Scale(usize, f64),
    Sin(usize),
    View(usize, usize, usize),
    Index(usize, usize),
    AddInPlace(usize, usize),
    MulInPlace(usize, usize),
    ScaleInPlace(usize, f64),
    SinInPlace(usize),
    CopyInPlace(usize, usize),
    FillInPlace(usize, f64),
    IndexAdd(usize, usize, usize),
    Detach(usize),
}

fn program(rng: &mut Rng, steps: usize) -> Vec<Step> {
    (0..steps)
        .map(|_| {
            let (a, b, c) = (rng.below(64), rng.below(64), rng.below(64));
            match rng.below(19) {
                0 => Step::Add(a, b),
                1 => Step::Mul(a, b),
                2 => Step::Scale(a, rng.number()),
                3 => Step::Sin(a),
                4..=7 => Step::View(a, b, c),
                8 => Step::Index(a, b),
                9 | 10 => Step::AddInPlace(a, b),
                11 | 12 => Step::MulInPlace(a, b),
                13 => Step::ScaleInPlace(a, rng.number()),
                14 => Step::SinInPlace(a),
                15 => Step::CopyInPlace(a, b),
                16 => Step::FillInPlace(a, rng.number()),
                17 => Step::IndexAdd(a, b, c),
                _ => Step::Detach(a),
            }
        })
        .collect()
}

/// A view of a vector or matrix, chosen by two numbers.
fn view_of(x: &Tensor, how: usize, which: usize) -> Result<Tensor> {
    let n = x.size(0)?;
    if x.ndim() == 2 {
        return match how % 4 {
            0 => x.transpose(0, 1),
            1 => x.select(which % 2, which % x.size(which % 2)?),
            2 => x.diagonal(),
            _ => x.narrow(0, which % n, 1),
        };
    }
    match how % 5 {
        0 if n % 2 == 0 => x.view([n / 2, 2]),
        1 if n > 1 => x.narrow(0, which % (n - 1), 1 + which % (n - which % (n - 1))),
        2 => x.unsqueeze(which % 2),
        3 if n > 2 => x.as_strided([n.div_ceil(2)], [2 * x.stride()[0] as usize]),
        _ => x.view([n]),
    }
}

/// An operand made to fit another: reshaped, or its sum.
fn fitting(of: &Tensor, like: &Tensor) -> Result<Tensor> {
    if of.numel() == like.numel() {
        return of.reshape(like.shape());
    }
    of.sum()
}

/// Runs a program; returns all tensors it made.
fn run(program: &[Step], x: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut all: Vec<Tensor> = x.iter().map(|x| x.mul(1.0)).collect::<Result<_>>()?;
    for step in program {
        let at = |i: usize| all[i % all.len()].clone();
        let new = match *step {
            Step::Add(a, b) => Some(at(a).add(&fitting(&at(b), &at(a))?)?),
            Step::Mul(a, b) => Some(at(a).mul(&fitting(&at(b), &at(a))?)?),
            Step::Scale(a, by) => Some(at(a).mul(by)?),
            Step::Sin(a) => Some(at(a).sin()?),
            Step::View(a, how, which) => Some(view_of(&at(a), how, which)?),
            Step::Index(a, i) => {
                let n = at(a).size(0)?;
                let index = ints(&[(i % n) as i64, 0, (i * 7 % n) as i64]);
                Some(at(a).index_select(0, &index)?)
            }
            // The operand is copied where it shares memory with the target.
            Step::AddInPlace(a, b) => {
                at(a).add_(&fitting(&at(b), &at(a))?.copy()?)?;
                None
            }
            Step::MulInPlace(a, b) => {
                at(a).mul_(&fitting(&at(b), &at(a))?.copy()?)?;
                None
            }
            Step::ScaleInPlace(a, by) => {
                at(a).mul_(by)?;
                None
            }
            Step::SinInPlace(a) => {
                at(a).sin_()?;
                None
            }
            Step::CopyInPlace(a, b) => {
                at(a).copy_(&fitting(&at(b), &at(a))?.copy()?)?;
                None
            }
            Step::FillInPlace(a, by) => {
                at(a).select(0, 0)?.fill_(by)?;
                None
            }
            Step::IndexAdd(a, b, i) => {
                let n = at(a).size(0)?;
                let index = ints(&[(i % n) as i64, (i * 5 % n) as i64]);
                let source = at(a).index_select(0, &index)?.sin()?;
                let source = source.mul(&fitting(&at(b), &source)?.copy()?)?;
                at(a).index_add_(0, &index, &source)?;
                None
            }
            Step::Detach(a) => Some(at(a).detach().copy()?),
        };
        if let Some(new) = new
            && new.numel() > 0
            && new.ndim() > 0
        {
            all.push(new);
        }
    }
    Ok(all)
}

/// A number that every element of every tensor has a part in.
fn loss(all: &[Tensor]) -> Result<Tensor> {
    let mut sum = None::<Tensor>;
    for (k, y) in all.iter().enumerate() {
        let part = y.sin()?.sum()?.mul(1.0 / (k + 1) as f64)?;
        sum = Some(match sum {
            Some(s) => s.add(&part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| TorshError::Other("no tensors".into()))
}

fn inputs(rng: &mut Rng) -> Result<Vec<Tensor>> {
    [4usize, 6]
        .iter()
        .map(|&n| {
            let v: Vec<f64> = (0..n).map(|_| rng.number()).collect();
            Ok(Tensor::from_data(&v, [n])?.requires_grad_(true))
        })
        .collect()
}

/// Whether a pass failed as it must where a program writes over what backward needs.
fn is_modified(e: &TorshError) -> bool {
    e.to_string().contains("modified by an inplace operation")
}

#[test]
fn gradients_agree_with_finite_differences() -> Result<()> {
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    let (mut checked, mut modified, mut in_place) = (0, 0, 0);
    let (mut compared, mut steep) = (0, 0);
    for round in 0..1500 {
        let steps = 3 + rng.below(10);
        let program = program(&mut rng, steps);
        // Detached parts would be seen by finite differences.
        let program: Vec<Step> = program
            .into_iter()
            .filter(|s| !matches!(s, Step::Detach(_)))
            .collect();
        let x = inputs(&mut rng)?;
        let y = loss(&run(&program, &x)?)?;
        let found = match grad(&[y.clone()], &x, &[], true, false, true) {
            Ok(found) => found,
            Err(e) if is_modified(&e) => {
                modified += 1;
                continue;
            }
            Err(e) => return Err(e),
        };
        checked += 1;
        in_place += usize::from(program.iter().any(|s| {
            matches!(
                s,
                Step::MulInPlace(..) | Step::SinInPlace(..) | Step::CopyInPlace(..)
            )
        }));
        // Not recorded, it gives the same values.
        let plain = no_grad(|| loss(&run(&program, &x)?))?;
        assert_eq!(v(&plain), v(&y), "{round}: {program:?}");
        for (k, have) in found.iter().enumerate() {
            let base = v(&x[k]);
            let have = have.as_ref().map_or(vec![0.; base.len()], v);
            for i in 0..base.len() {
                let at = |step: f64| -> Result<f64> {
                    let mut moved = x.clone();
                    let mut b = base.clone();
                    b[i] += step;
                    moved[k] = Tensor::from_data(&b, [b.len()])?;
                    no_grad(|| Ok(v(&loss(&run(&program, &moved)?)?)[0]))
                };
                let difference = |h: f64| Ok::<f64, TorshError>((at(h)? - at(-h)?) / (2. * h));
                let (want, near) = (difference(1e-5)?, 1e-5);
                // Where two steps disagree, the numbers have become too steep for either.
                if (difference(2e-5)? - want).abs() > near * want.abs().max(1.) {
                    steep += 1;
                    continue;
                }
                compared += 1;
                assert!(
                    (have[i] - want).abs() <= 2. * near * want.abs().max(1.),
                    "round {round}, input {k}, element {i}: {} and {want}\n{program:?}",
                    have[i]
                );
            }
        }
    }
    // The test is about something.
    assert!(compared > 10 * steep, "{compared} {steep}");
    assert!(
        checked > 700 && in_place > 200 && modified > 50,
        "{checked} {in_place} {modified}"
    );
    Ok(())
}

#[test]
fn second_derivatives_agree_with_finite_differences_of_the_first() -> Result<()> {
    let mut rng = Rng(0x1234_5678_9ABC_DEF1);
    let (mut checked, mut compared) = (0, 0);
    for round in 0..500 {
        let steps = 2 + rng.below(6);
        let program = program(&mut rng, steps);
        let program: Vec<Step> = program
            .into_iter()
            .filter(|s| !matches!(s, Step::Detach(_)))
            .collect();
        let x = inputs(&mut rng)?;
        let first = |x: &[Tensor], again: bool| -> Result<Option<Tensor>> {
            let y = loss(&run(&program, x)?)?;
            match grad(&[y], x, &[], true, again, true) {
                Ok(g) => {
                    let mut sum = None::<Tensor>;
                    for g in g.iter().flatten() {
                        let part = g.mul(g)?.sum()?;
                        sum = Some(match sum {
                            Some(s) => s.add(&part)?,
                            None => part,
                        });
                    }
                    Ok(sum)
                }
                Err(e) if is_modified(&e) => Ok(None),
                Err(e) => Err(e),
            }
        };
        let Some(value) = first(&x, true)? else {
            continue;
        };
        if !value.requires_grad() {
            continue;
        }
        let found = match grad(&[value], &x, &[], true, false, true) {
            Ok(found) => found,
            Err(e) if is_modified(&e) => continue,
            Err(e) => return Err(e),
        };
        checked += 1;
        for (k, have) in found.iter().enumerate() {
            let base = v(&x[k]);
            let have = have.as_ref().map_or(vec![0.; base.len()], v);
            let i = rng.below(base.len());
            let at = |step: f64| -> Result<f64> {
                let mut moved = x.clone();
                let mut b = base.clone();
                b[i] += step;
                moved[k] = Tensor::from_data(&b, [b.len()])?.requires_grad_(true);
                Ok(first(&moved, false)?.map_or(0., |t| v(&t)[0]))
            };
            let difference = |h: f64| Ok::<f64, TorshError>((at(h)? - at(-h)?) / (2. * h));
            let (want, near) = (difference(1e-5)?, 1e-4);
            if (difference(2e-5)? - want).abs() > near * want.abs().max(1.) {
                continue;
            }
            compared += 1;
            assert!(
                (have[i] - want).abs() <= 2. * near * want.abs().max(1.),
                "round {round}, input {k}, element {i}: {} and {want}\n{program:?}",
                have[i]
            );
        }
    }
    assert!(checked > 250 && compared > 400, "{checked} {compared}");
    Ok(())
}

#[test]
fn passes_do_not_disturb_each_other() -> Result<()> {
    // Twice the same pass, and the leaves' own gradients, give the same numbers.
    let mut rng = Rng(77);
    for _ in 0..300 {
        let program = program(&mut rng, 10);
        let x = inputs(&mut rng)?;
        let y = loss(&run(&program, &x)?)?;
        if !y.requires_grad() {
            continue;
        }
        let numbers = |g: Vec<Option<Tensor>>| -> Vec<Option<Vec<f64>>> {
            g.iter().map(|g| g.as_ref().map(v)).collect()
        };
        let once = match grad(&[y.clone()], &x, &[], true, false, true) {
            Ok(g) => numbers(g),
            Err(e) => {
                assert!(is_modified(&e), "{e}");
                fails(y.backward(), &["modified by an inplace operation"]);
                continue;
            }
        };
        let again = numbers(grad(&[y.clone()], &x, &[], true, true, true)?);
        assert_eq!(once, again);
        y.backward()?;
        let added: Vec<_> = x.iter().map(|x| x.grad().as_ref().map(v)).collect();
        assert_eq!(once, added);
    }
    Ok(())
}
