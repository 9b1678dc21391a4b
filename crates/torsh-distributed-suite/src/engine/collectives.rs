//! Checks of collectives.

use torsh_core::{DType, Result};
use torsh_distributed::engine::EngineOp;

use super::tools::{Rank, SIZES, bytes, empty, part, parts, same, size_between};

/// From each rank, in all sizes.
pub(super) fn broadcast(r: &mut Rank<'_>) -> Result<()> {
    for root in 0..r.n {
        for (case, len) in SIZES.into_iter().enumerate() {
            let want = bytes(root, 99, case, len);
            let mut memory = if r.rank == root {
                want.clone()
            } else {
                empty(len)
            };
            let request = r.broadcast(part(&mut memory), root)?;
            r.wait(request)?;
            same(&format!("{len} bytes of rank {root}"), &memory, &want)?;
        }
    }
    Ok(())
}

/// Sizes that differ from pair to pair.
pub(super) fn all_to_all(r: &mut Rank<'_>) -> Result<()> {
    let (rank, n) = (r.rank, r.n);
    for case in 0..8 {
        let mut out: Vec<_> = (0..n)
            .map(|to| bytes(rank, to, case, size_between(rank, to, case)))
            .collect();
        let mut into: Vec<_> = (0..n)
            .map(|from| empty(size_between(from, rank, case)))
            .collect();
        let request = r.all_to_all(&parts(&mut out), &parts(&mut into))?;
        r.wait(request)?;
        for (from, got) in into.iter().enumerate() {
            let want = bytes(from, rank, case, size_between(from, rank, case));
            same(&format!("rank {from}'s part in case {case}"), got, &want)?;
        }
    }
    Ok(())
}

/// Sizes that differ from rank to rank, parts apart and one after the other, own parts in place.
pub(super) fn all_gather(r: &mut Rank<'_>) -> Result<()> {
    let (rank, n) = (r.rank, r.n);
    for case in 0..8 {
        let want: Vec<_> = (0..n)
            .map(|from| bytes(from, 98, case, size_between(from, 1, case)))
            .collect();
        let mut out = want[rank].clone();
        let mut into: Vec<_> = want.iter().map(|w| empty(w.len())).collect();
        let request = r.all_gather(part(&mut out), &parts(&mut into))?;
        r.wait(request)?;
        for (from, got) in into.iter().enumerate() {
            same(
                &format!("rank {from}'s part in case {case}"),
                got,
                &want[from],
            )?;
        }
        // One memory, in which the own part is already.
        let whole = want.concat();
        let mut memory = empty(whole.len());
        let start: usize = want[..rank].iter().map(Vec::len).sum();
        memory[start..start + want[rank].len()].copy_from_slice(&want[rank]);
        let mut rest = memory.as_mut_slice();
        let mut pieces = Vec::new();
        for w in &want {
            let (piece, others) = rest.split_at_mut(w.len());
            pieces.push(part(piece));
            rest = others;
        }
        let request = r.all_gather(pieces[rank], &pieces)?;
        r.wait(request)?;
        same(
            &format!("all parts of case {case} in place"),
            &memory,
            &whole,
        )?;
    }
    Ok(())
}

/// To each rank.
pub(super) fn gather(r: &mut Rank<'_>) -> Result<()> {
    let (rank, n) = (r.rank, r.n);
    for case in 0..2 * n {
        let root = case % n;
        let mut out = bytes(rank, root, case, size_between(rank, root, case));
        let mut into: Vec<_> = match rank == root {
            true => (0..n)
                .map(|from| empty(size_between(from, root, case)))
                .collect(),
            false => Vec::new(),
        };
        let request = r.gather(part(&mut out), &parts(&mut into), root)?;
        r.wait(request)?;
        for (from, got) in into.iter().enumerate() {
            let want = bytes(from, root, case, size_between(from, root, case));
            same(&format!("rank {from}'s part at rank {root}"), got, &want)?;
        }
    }
    Ok(())
}

/// From each rank.
pub(super) fn scatter(r: &mut Rank<'_>) -> Result<()> {
    let (rank, n) = (r.rank, r.n);
    for case in 0..2 * n {
        let root = case % n;
        let mut out: Vec<_> = match rank == root {
            true => (0..n)
                .map(|to| bytes(root, to, case, size_between(root, to, case)))
                .collect(),
            false => Vec::new(),
        };
        let mut into = empty(size_between(root, rank, case));
        let request = r.scatter(&parts(&mut out), part(&mut into), root)?;
        r.wait(request)?;
        let want = bytes(root, rank, case, size_between(root, rank, case));
        same(&format!("rank {root}'s part"), &into, &want)?;
    }
    Ok(())
}

/// Several collectives of each kind under way, waited for from the last to the first.
pub(super) fn many(r: &mut Rank<'_>) -> Result<()> {
    const EACH: usize = 6;
    const LEN: usize = 12_345;
    let (rank, n) = (r.rank, r.n);
    let mut gathered: Vec<Vec<_>> = (0..EACH)
        .map(|_| (0..n).map(|_| empty(LEN)).collect())
        .collect();
    let mut exchanged = gathered.clone();
    let mut cast: Vec<_> = (0..EACH)
        .map(|i| {
            if rank == i % n {
                bytes(rank, 97, i, LEN)
            } else {
                empty(LEN)
            }
        })
        .collect();
    let mut own: Vec<_> = (0..EACH).map(|i| bytes(rank, 96, i, LEN)).collect();
    let mut out: Vec<Vec<_>> = (0..EACH)
        .map(|i| (0..n).map(|to| bytes(rank, to, i, LEN)).collect())
        .collect();
    let mut requests = Vec::new();
    for i in 0..EACH {
        requests.push(r.all_gather(part(&mut own[i]), &parts(&mut gathered[i]))?);
        requests.push(r.broadcast(part(&mut cast[i]), i % n)?);
        requests.push(r.all_to_all(&parts(&mut out[i]), &parts(&mut exchanged[i]))?);
    }
    r.wait_all(requests.into_iter().rev())?;
    for i in 0..EACH {
        same(
            &format!("broadcast {i}"),
            &cast[i],
            &bytes(i % n, 97, i, LEN),
        )?;
        for from in 0..n {
            same(
                &format!("all_gather {i}, rank {from}"),
                &gathered[i][from],
                &bytes(from, 96, i, LEN),
            )?;
            same(
                &format!("all_to_all {i}, rank {from}"),
                &exchanged[i][from],
                &bytes(from, rank, i, LEN),
            )?;
        }
    }
    Ok(())
}

/// Each dtype and operation that the engine reduces, with numbers whose results are exact.
pub(super) fn all_reduce(r: &mut Rank<'_>) -> Result<()> {
    use DType::*;
    let n = r.n;
    for dtype in [U8, I8, I16, I32, I64, F32, F64, BF16] {
        for op in [
            EngineOp::Sum,
            EngineOp::Product,
            EngineOp::Min,
            EngineOp::Max,
        ] {
            if !r.engine().reduces(dtype, op) {
                continue;
            }
            // Fewer elements than ranks, none, and several pieces.
            for count in [0, 1, 5, 3001] {
                let value = |rank: usize, i: usize| (1 + (rank * 3 + i) % 2) as i64;
                let mut memory: Vec<u8> = (0..count)
                    .flat_map(|i| number(dtype, value(r.rank, i)))
                    .collect();
                let request = r.all_reduce(part(&mut memory), dtype, op)?;
                r.wait(request)?;
                let result = |i: usize| {
                    let all = (0..n).map(|rank| value(rank, i));
                    match op {
                        EngineOp::Sum => all.sum(),
                        EngineOp::Product => all.product(),
                        EngineOp::Min => all.min().unwrap_or(0),
                        EngineOp::Max => all.max().unwrap_or(0),
                    }
                };
                let want: Vec<u8> = (0..count).flat_map(|i| number(dtype, result(i))).collect();
                same(
                    &format!("{op:?} of {count} {}", dtype.name()),
                    &memory,
                    &want,
                )?;
            }
        }
    }
    Ok(())
}

/// A small number's bytes in a dtype; the wrapped ones, where it does not fit an integer.
fn number(dtype: DType, x: i64) -> Vec<u8> {
    match dtype {
        DType::F32 => (x as f32).to_ne_bytes().to_vec(),
        DType::F64 => (x as f64).to_ne_bytes().to_vec(),
        DType::I16 => (x as i16).to_ne_bytes().to_vec(),
        DType::I32 => (x as i32).to_ne_bytes().to_vec(),
        DType::I64 => x.to_ne_bytes().to_vec(),
        _ => (x as u8).to_ne_bytes().to_vec(),
    }
}
