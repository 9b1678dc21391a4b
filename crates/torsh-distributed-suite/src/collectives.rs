//! Checks of the collectives: every one, on several dtypes, sizes and layouts, compared with what one rank computes by
//! itself, bit for bit.

use std::time::Duration;

use torsh_distributed::{P2POp, ProcessGroup, ReduceMode, ReduceOp, Work};
use torsh_tensor::{DType, Device, Result, Tensor, cat};

const SIZES: [usize; 5] = [0, 1, 7, 1000, 70_000];
/// More elements than small operations have: they are not copied.
pub const LARGE: usize = 3_000_000;

reports!("collectives", says);

/// An error unless two tensors have the same dtype, shape and bytes.
pub fn same(what: &str, ours: &Tensor, expected: &Tensor) -> Result<()> {
    let alike = ours.dtype() == expected.dtype() && ours.shape() == expected.shape();
    if !alike {
        return Err(wrong(format!(
            "{what}: {} instead of {}",
            ours.describe(),
            expected.describe()
        )));
    }
    let (a, b) = (ours.to_bytes()?, expected.to_bytes()?);
    let size = ours.dtype().size();
    match a.chunks(size).zip(b.chunks(size)).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(i) => {
            let at = |t: &Tensor| t.flatten(0)?.narrow(0, i, 1).map(|t| t.to_string());
            Err(wrong(format!(
                "{what}: element {i} of {} is {} instead of {}",
                ours.describe(),
                at(ours)?,
                at(expected)?
            )))
        }
    }
}

/// Rank `r`'s values: different in each place, of both signs, with sums that round.
pub fn values(r: usize, n: usize, dtype: DType) -> Result<Tensor> {
    let v: Vec<f32> = (0..n)
        .map(|i| ((i * 7 + r * 13) % 23) as f32 * 0.37 - 4.0 + r as f32 * 0.01)
        .collect();
    let t = Tensor::from_vec(v, &[n])?;
    match dtype {
        DType::Bool => t.gt(0.5),
        DType::U8 => t.abs()?.to_dtype(dtype),
        DType::C64 | DType::C128 => Tensor::complex(&t, &t.flip(0)?)?.to_dtype(dtype),
        _ => t.to_dtype(dtype),
    }
}

/// The reduction of all ranks' values by tensor ops, in rank order.
pub fn reduced(all: &[Tensor], op: ReduceOp) -> Result<Tensor> {
    let dtype = all[0].dtype();
    let wide = match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        d => d,
    };
    let first = |t: &Tensor| -> Result<Tensor> {
        let t = t.to_dtype(wide)?;
        match op {
            ReduceOp::PreMulSum(f) => t.mul(f),
            _ => Ok(t),
        }
    };
    let mut acc = first(&all[0])?;
    for t in &all[1..] {
        let t = first(t)?;
        acc = match (op, dtype) {
            (ReduceOp::Sum | ReduceOp::BOr | ReduceOp::Max, DType::Bool) => acc.logical_or(&t)?,
            (ReduceOp::Product | ReduceOp::BAnd | ReduceOp::Min, DType::Bool) => {
                acc.logical_and(&t)?
            }
            (ReduceOp::BXor, DType::Bool) => acc.logical_xor(&t)?,
            (ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PreMulSum(_), _) => acc.add(&t)?,
            (ReduceOp::Product, _) => acc.mul(&t)?,
            (ReduceOp::Min, _) => acc.minimum(&t)?,
            (ReduceOp::Max, _) => acc.maximum(&t)?,
            (ReduceOp::BAnd, _) => acc.bitwise_and(&t)?,
            (ReduceOp::BOr, _) => acc.bitwise_or(&t)?,
            (ReduceOp::BXor, _) => acc.bitwise_xor(&t)?,
        };
    }
    if op == ReduceOp::Avg {
        acc = acc.div(all.len() as f64)?;
    }
    acc.to_dtype(dtype)
}

/// Whether an operation reduces a dtype.
fn reduces(op: ReduceOp, dtype: DType) -> bool {
    match op {
        ReduceOp::Sum | ReduceOp::Product => true,
        ReduceOp::Avg => dtype.is_differentiable(),
        ReduceOp::Min | ReduceOp::Max => !dtype.is_complex(),
        ReduceOp::BAnd | ReduceOp::BOr | ReduceOp::BXor => {
            dtype.is_integer() || dtype == DType::Bool
        }
        ReduceOp::PreMulSum(_) => dtype.is_floating_point(),
    }
}

const OPS: [ReduceOp; 9] = [
    ReduceOp::Sum,
    ReduceOp::Avg,
    ReduceOp::Product,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::BAnd,
    ReduceOp::BOr,
    ReduceOp::BXor,
    ReduceOp::PreMulSum(0.3),
];

/// Runs all checks. Each rank of the group calls it.
///
/// # Errors
/// What differs.
pub fn run(group: &ProcessGroup) -> Result<()> {
    let steps: [(&str, fn(&ProcessGroup) -> Result<()>); 13] = [
        ("reductions", reductions),
        ("large", large),
        ("engine mode", by_engine),
        ("broadcast", broadcast),
        ("gathers", gathers),
        ("reduce_scatter", reduce_scatter),
        ("all_to_all", all_to_all),
        ("gather and scatter", gather_scatter),
        ("messages", messages),
        ("objects", objects),
        ("coalesced", coalesced),
        ("overlap and groups", overlap_and_groups),
        ("refusals", refusals),
    ];
    for (name, step) in steps {
        step(group).map_err(|e| wrong(format!("{name}: {e}")))?;
    }
    group.barrier()?;
    group.monitored_barrier(Duration::from_secs(20))
}

/// The values of all ranks.
pub fn all_values(g: &ProcessGroup, n: usize, dtype: DType) -> Result<Vec<Tensor>> {
    (0..g.size()).map(|r| values(r, n, dtype)).collect()
}

fn reductions(g: &ProcessGroup) -> Result<()> {
    for dtype in DType::ALL {
        for n in SIZES {
            let all = all_values(g, n, dtype)?;
            for op in OPS {
                let what = format!("all_reduce({op}) of {n} {dtype}");
                let t = all[g.rank()].copy()?;
                if !reduces(op, dtype) {
                    let e = g.all_reduce_(&t, op).err();
                    check(
                        e.is_some_and(|e| e.to_string().contains("reduction")),
                        || what,
                    )?;
                    continue;
                }
                let expected = reduced(&all, op)?;
                let ours = g.all_reduce_(&t, op)?;
                match (op, dtype.is_complex()) {
                    // Tensor ops multiply and divide complex numbers in another order.
                    (ReduceOp::Product | ReduceOp::Avg, true) => {
                        check(ours.allclose(&expected)?, || what)?;
                    }
                    _ => same(&what, &ours, &expected)?,
                }
                if dtype.is_complex() {
                    continue;
                }
                if n <= 1000 && matches!(op, ReduceOp::Sum | ReduceOp::Avg | ReduceOp::Max) {
                    let dst = g.size() - 1;
                    let t = all[g.rank()].copy()?;
                    g.reduce_(&t, dst, op)?;
                    let expected = if g.rank() == dst {
                        &expected
                    } else {
                        &all[g.rank()]
                    };
                    same(&format!("reduce({op}) of {n} {dtype}"), &t, expected)?;
                }
            }
        }
    }
    // A 0-d tensor, one that is not contiguous, and a part of a larger one.
    let own = values(g.rank(), 12, DType::F32)?;
    let all = all_values(g, 12, DType::F32)?;
    let sum = reduced(&all, ReduceOp::Sum)?;
    let scalar = own.select(0, 3)?.copy()?;
    g.all_reduce_(&scalar, ReduceOp::Sum)?;
    same("a 0-d tensor", &scalar, &sum.select(0, 3)?)?;
    let base = own.copy()?.reshape(&[3, 4])?;
    let version = base.version();
    g.all_reduce_(&base.t()?, ReduceOp::Sum)?;
    same("a transposed tensor", &base, &sum.reshape(&[3, 4])?)?;
    check(base.version() > version, || {
        "a collective did not count as an in-place op".into()
    })?;
    let base = own.copy()?;
    g.all_reduce_(&base.narrow(0, 2, 5)?, ReduceOp::Sum)?;
    let parts = [
        own.narrow(0, 0, 2)?,
        sum.narrow(0, 2, 5)?,
        own.narrow(0, 7, 5)?,
    ];
    same(
        "a part of a tensor",
        &base,
        &cat(&[&parts[0], &parts[1], &parts[2]], 0)?,
    )
}

fn large(g: &ProcessGroup) -> Result<()> {
    let all = all_values(g, LARGE, DType::F32)?;
    let sum = reduced(&all, ReduceOp::Sum)?;
    let t = all[g.rank()].copy()?;
    g.all_reduce_(&t, ReduceOp::Sum)?;
    same("all_reduce of 3 million", &t, &sum)?;
    let t = all[g.rank()].copy()?;
    g.reduce_(&t, 0, ReduceOp::Sum)?;
    let expected = if g.rank() == 0 { &sum } else { &all[g.rank()] };
    same("reduce of 3 million", &t, expected)?;
    let t = all[g.rank()].copy()?;
    g.broadcast_(&t, g.size() - 1)?;
    same("broadcast of 3 million", &t, &all[g.size() - 1])?;
    let halves: Vec<Tensor> = all
        .iter()
        .map(|t| t.to_dtype(DType::BF16))
        .collect::<Result<_>>()?;
    let t = halves[g.rank()].copy()?;
    g.all_reduce_(&t, ReduceOp::Avg)?;
    same(
        "all_reduce of 3 million bfloat16",
        &t,
        &reduced(&halves, ReduceOp::Avg)?,
    )
}

fn by_engine(g: &ProcessGroup) -> Result<()> {
    g.set_reduce_mode(ReduceMode::Engine);
    let result = (|| {
        for dtype in [
            DType::F32,
            DType::F64,
            DType::I32,
            DType::I64,
            DType::U8,
            DType::BF16,
        ] {
            for n in [0, 7, 70_000] {
                let all = all_values(g, n, dtype)?;
                for op in [
                    ReduceOp::Sum,
                    ReduceOp::Avg,
                    ReduceOp::Min,
                    ReduceOp::PreMulSum(0.3),
                ] {
                    if !reduces(op, dtype) {
                        continue;
                    }
                    let t = all[g.rank()].copy()?;
                    g.all_reduce_(&t, op)?;
                    let expected = reduced(&all, op)?;
                    let what = format!("the engine's all_reduce({op}) of {n} {dtype}");
                    match dtype.is_floating_point() {
                        true => check(t.allclose(&expected)?, || what)?,
                        false => same(&what, &t, &expected)?,
                    }
                }
            }
        }
        Ok(())
    })();
    g.set_reduce_mode(ReduceMode::Ordered);
    result
}

fn broadcast(g: &ProcessGroup) -> Result<()> {
    for dtype in DType::ALL {
        for n in SIZES {
            for src in 0..g.size() {
                let t = values(g.rank(), n, dtype)?;
                g.broadcast_(&t, src)?;
                same(
                    &format!("broadcast of {n} {dtype}"),
                    &t,
                    &values(src, n, dtype)?,
                )?;
            }
        }
    }
    let base = values(g.rank(), 6, DType::I64)?
        .reshape(&[2, 3])?
        .contiguous()?;
    g.broadcast_(&base.t()?, 0)?;
    same(
        "broadcast of a transposed tensor",
        &base,
        &values(0, 6, DType::I64)?.reshape(&[2, 3])?,
    )
}

fn gathers(g: &ProcessGroup) -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::Bool, DType::I64, DType::C128] {
        for n in SIZES {
            let all = all_values(g, n, dtype)?;
            let got = g.all_gather(&all[g.rank()])?;
            for (r, (t, expected)) in got.iter().zip(&all).enumerate() {
                same(&format!("all_gather of {n} {dtype}, rank {r}"), t, expected)?;
            }
            let whole = cat(&all.iter().collect::<Vec<_>>(), 0)?;
            let out = Tensor::zeros(&[g.size() * n], dtype, Device::Cpu)?;
            g.all_gather_into_(&out, &all[g.rank()])?;
            same(&format!("all_gather_into of {n} {dtype}"), &out, &whole)?;
            // The input is the own part of the result.
            let out = Tensor::zeros(&[g.size() * n], dtype, Device::Cpu)?;
            let own = out.narrow(0, g.rank() * n, n)?;
            own.copy_(&all[g.rank()])?;
            g.all_gather_into_(&out, &own)?;
            same(
                &format!("all_gather_into in place of {n} {dtype}"),
                &out,
                &whole,
            )?;
        }
    }
    // Shapes that differ, also in the number of dimensions, and dtypes.
    let own = |r: usize| -> Result<Tensor> {
        match r % 3 {
            0 => values(r, 2 * (r + 1), DType::F32)?.reshape(&[2, r + 1]),
            1 => values(r, 0, DType::I32),
            _ => values(r, 9000 * r, DType::F64),
        }
    };
    for (r, t) in g.all_gather(&own(g.rank())?)?.iter().enumerate() {
        same(
            &format!("all_gather of unequal shapes, rank {r}"),
            t,
            &own(r)?,
        )?;
    }
    // A result that is not contiguous.
    let out = Tensor::zeros(&[3, g.size()], DType::F32, Device::Cpu)?;
    let row = |r: usize| values(r, 3, DType::F32)?.reshape(&[1, 3]);
    g.all_gather_into_(&out.t()?, &row(g.rank())?)?;
    let rows: Vec<Tensor> = (0..g.size()).map(row).collect::<Result<_>>()?;
    let expected = cat(&rows.iter().collect::<Vec<_>>(), 0)?.t()?;
    same("all_gather_into a transposed result", &out, &expected)
}

fn reduce_scatter(g: &ProcessGroup) -> Result<()> {
    let (n, me) = (g.size(), g.rank());
    for dtype in [DType::F32, DType::BF16, DType::I32, DType::F64] {
        for len in SIZES.into_iter().chain([400_000]) {
            let all = all_values(g, n * len, dtype)?;
            for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max] {
                if !reduces(op, dtype) || (len > 1000 && op == ReduceOp::Max) {
                    continue;
                }
                let what = format!("reduce_scatter({op}) of {len} {dtype}");
                let expected = reduced(&all, op)?.narrow(0, me * len, len)?;
                let out = Tensor::zeros(&[len], dtype, Device::Cpu)?;
                g.reduce_scatter_(&out, &all[me], op)?;
                same(&what, &out, &expected)?;
                let input = all[me].copy()?;
                let own = input.narrow(0, me * len, len)?;
                g.reduce_scatter_(&own, &input, op)?;
                same(&format!("{what} in place"), &own, &expected)?;
                if len <= 1000 {
                    let pieces = |t: &Tensor| -> Result<Vec<Tensor>> {
                        (0..n).map(|r| t.narrow(0, r * len, len)).collect()
                    };
                    let got = g.reduce_scatter(&pieces(&all[me])?, op)?;
                    same(&format!("{what} of a list"), &got, &expected)?;
                }
            }
        }
    }
    let uneven: Vec<Tensor> = (0..n)
        .map(|r| values(me, r + 1, DType::F32))
        .collect::<Result<_>>()?;
    let expected = reduced(&all_values(g, me + 1, DType::F32)?, ReduceOp::Sum)?;
    let got = g.reduce_scatter(&uneven, ReduceOp::Sum)?;
    same("reduce_scatter of an uneven list", &got, &expected)
}

fn all_to_all(g: &ProcessGroup) -> Result<()> {
    let (n, me) = (g.size(), g.rank());
    for dtype in [DType::F32, DType::U8, DType::I64] {
        for len in SIZES {
            let input = values(me, n * len, dtype)?;
            let out = Tensor::zeros(&[n * len], dtype, Device::Cpu)?;
            g.all_to_all_single_(&out, &input)?;
            let parts: Vec<Tensor> = (0..n)
                .map(|r| values(r, n * len, dtype)?.narrow(0, me * len, len))
                .collect::<Result<_>>()?;
            let expected = cat(&parts.iter().collect::<Vec<_>>(), 0)?;
            same(
                &format!("all_to_all_single of {len} {dtype}"),
                &out,
                &expected,
            )?;
        }
    }
    // Rank r sends (r + 1) * (to + 1) rows to each, some of them large.
    let rows = |from: usize, to: usize| (from + 1) * (to + 1) * if to == 0 { 3000 } else { 2 };
    let sent = |from: usize| (0..n).map(|to| rows(from, to)).collect::<Vec<_>>();
    let input = |from: usize| {
        let total: usize = sent(from).iter().sum();
        values(from, total * 2, DType::F32)?.reshape(&[total, 2])
    };
    let received: Vec<usize> = (0..n).map(|from| rows(from, me)).collect();
    let out = Tensor::zeros(&[received.iter().sum(), 2], DType::F32, Device::Cpu)?;
    g.all_to_all_single_with_(&out, &input(me)?, &received, &sent(me))?;
    let parts: Vec<Tensor> = (0..n)
        .map(|from| {
            let start: usize = sent(from)[..me].iter().sum();
            input(from)?.narrow(0, start, rows(from, me))
        })
        .collect::<Result<_>>()?;
    same(
        "all_to_all_single of uneven rows",
        &out,
        &cat(&parts.iter().collect::<Vec<_>>(), 0)?,
    )?;
    let lists: Vec<Tensor> = (0..n)
        .map(|to| values(me, 5 * to + me, DType::I32))
        .collect::<Result<_>>()?;
    for (from, t) in g.all_to_all(&lists)?.iter().enumerate() {
        same(
            "all_to_all of a list",
            t,
            &values(from, 5 * me + from, DType::I32)?,
        )?;
    }
    Ok(())
}

fn gather_scatter(g: &ProcessGroup) -> Result<()> {
    for dtype in [DType::F32, DType::Bool] {
        for n in SIZES {
            let all = all_values(g, n, dtype)?;
            let dst = g.size() - 1;
            match (g.gather(&all[g.rank()], dst)?, g.rank() == dst) {
                (Some(got), true) => {
                    for (t, expected) in got.iter().zip(&all) {
                        same(&format!("gather of {n} {dtype}"), t, expected)?;
                    }
                }
                (None, false) => {}
                _ => return Err(wrong("gather gave its result to another rank")),
            }
            let out = Tensor::zeros(&[n], dtype, Device::Cpu)?;
            g.scatter_(&out, (g.rank() == dst).then_some(&all[..]), dst)?;
            same(&format!("scatter of {n} {dtype}"), &out, &all[g.rank()])?;
        }
    }
    Ok(())
}

fn messages(g: &ProcessGroup) -> Result<()> {
    let (n, me) = (g.size(), g.rank());
    if n == 1 {
        return check(g.send(&values(0, 1, DType::F32)?, 0).is_err(), || {
            "a message to oneself".into()
        });
    }
    let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
    for len in SIZES.into_iter().chain([LARGE]) {
        let from = Tensor::zeros(&[len], DType::F32, Device::Cpu)?;
        let works = g.batch_isend_irecv(&[
            P2POp::Send(values(me, len, DType::F32)?, next),
            P2POp::Receive(from.clone(), previous),
        ])?;
        works.iter().try_for_each(Work::wait)?;
        same(
            &format!("a message of {len}"),
            &from,
            &values(previous, len, DType::F32)?,
        )?;
    }
    // Tags: taken in another order than sent, and many of one tag in their order.
    let sends: Vec<Work> = (0..40u32)
        .map(|i| g.isend_tagged(&values(i as usize, 9000, DType::I32)?, next, i % 4))
        .collect::<Result<_>>()?;
    for tag in [2u32, 0, 3, 1] {
        for i in (0..40).filter(|i| i % 4 == tag) {
            // Another shape of as many elements.
            let t = Tensor::zeros(&[90, 100], DType::I32, Device::Cpu)?;
            g.recv_tagged_(&t.t()?, previous, tag)?;
            let expected = values(i as usize, 9000, DType::I32)?.reshape(&[100, 90])?;
            same(&format!("message {i}"), &t.t()?.contiguous()?, &expected)?;
        }
    }
    sends.iter().try_for_each(Work::wait)
}

fn objects(g: &ProcessGroup) -> Result<()> {
    type Object = (usize, String, Vec<f64>);
    let (n, me) = (g.size(), g.rank());
    for len in [0, 3, 20_000] {
        let object = |r: usize| -> Object { (r, "ä".repeat(r), vec![0.5 + r as f64; len]) };
        let list: Vec<Object> = (0..n).map(object).collect();
        check(g.all_gather_object(&object(me))? == list, || {
            "all_gather_object".into()
        })?;
        let src = n - 1;
        let own = (me == src).then(|| object(7));
        check(g.broadcast_object(own.as_ref(), src)? == object(7), || {
            "broadcast_object".into()
        })?;
        let got = g.gather_object(&object(me), src)?;
        check(got == (me == src).then(|| list.clone()), || {
            "gather_object".into()
        })?;
        let own: Object = g.scatter_object((me == 0).then_some(&list[..]), 0)?;
        check(own == object(me), || "scatter_object".into())?;
        if n > 1 {
            if me == 0 {
                g.send_object(&object(1), 1)?;
                g.send_object(&object(2), 1)?;
            } else if me == 1 {
                check(g.recv_object::<Object>(0)? == object(1), || {
                    "recv_object".into()
                })?;
                check(g.recv_object::<Object>(0)? == object(2), || {
                    "a second recv_object".into()
                })?;
            }
        }
    }
    Ok(())
}

fn coalesced(g: &ProcessGroup) -> Result<()> {
    let (n, me) = (g.size(), g.rank());
    let kinds = [
        (5, DType::F32),
        (0, DType::F32),
        (1000, DType::F32),
        (3, DType::F64),
        (400_000, DType::F32),
        (2, DType::BF16),
        (9, DType::BF16),
    ];
    let list = |r: usize, times: usize| -> Result<Vec<Tensor>> {
        kinds
            .iter()
            .map(|&(len, d)| values(r, times * len, d))
            .collect()
    };
    let all: Vec<Vec<Tensor>> = (0..n).map(|r| list(r, 1)).collect::<Result<_>>()?;
    let wide: Vec<Vec<Tensor>> = (0..n).map(|r| list(r, n)).collect::<Result<_>>()?;
    let of = |lists: &[Vec<Tensor>], i: usize| -> Vec<Tensor> {
        lists.iter().map(|l| l[i].clone()).collect()
    };
    let own = list(me, 1)?;
    g.all_reduce_coalesced_(&own, ReduceOp::Avg)?;
    for (i, t) in own.iter().enumerate() {
        same(
            "all_reduce_coalesced",
            t,
            &reduced(&of(&all, i), ReduceOp::Avg)?,
        )?;
    }
    let own = list(me, 1)?;
    g.broadcast_coalesced_(&own, n - 1)?;
    for (t, expected) in own.iter().zip(&all[n - 1]) {
        same("broadcast_coalesced", t, expected)?;
    }
    let zeros = |times: usize| -> Result<Vec<Tensor>> {
        let zeros = kinds.iter();
        zeros
            .map(|&(len, d)| Tensor::zeros(&[times * len], d, Device::Cpu))
            .collect()
    };
    let outs = zeros(n)?;
    g.all_gather_into_coalesced_(&outs, &all[me])?;
    for (i, t) in outs.iter().enumerate() {
        let parts = of(&all, i);
        same(
            "all_gather_into_coalesced",
            t,
            &cat(&parts.iter().collect::<Vec<_>>(), 0)?,
        )?;
    }
    let outs = zeros(1)?;
    g.reduce_scatter_coalesced_(&outs, &wide[me], ReduceOp::Sum)?;
    for (i, t) in outs.iter().enumerate() {
        let sum = reduced(&of(&wide, i), ReduceOp::Sum)?;
        let len = t.numel();
        same(
            "reduce_scatter_coalesced",
            t,
            &sum.narrow(0, me * len, len)?,
        )?;
    }
    Ok(())
}

fn overlap_and_groups(g: &ProcessGroup) -> Result<()> {
    let (n, me) = (g.size(), g.rank());
    // Many operations at once, small and large, on parts of one tensor and on others.
    let lens = [3, 70_000, 1, 700_000, 12];
    let total: usize = lens.iter().sum();
    let base = values(me, total, DType::F32)?;
    let mut works = Vec::new();
    let mut start = 0;
    for len in lens {
        works.push(g.all_reduce_async(&base.narrow(0, start, len)?, ReduceOp::Sum)?);
        start += len;
    }
    let extra = values(me, 10, DType::I64)?;
    works.push(g.broadcast_async(&extra, 0)?);
    works.iter().rev().try_for_each(Work::wait)?;
    check(works.iter().all(Work::is_completed), || {
        "a work that was waited for is not done".into()
    })?;
    let sum = reduced(&all_values(g, total, DType::F32)?, ReduceOp::Sum)?;
    same("parts of one tensor at once", &base, &sum)?;
    same(
        "a broadcast after them",
        &extra,
        &values(0, 10, DType::I64)?,
    )?;
    // What follows an operation.
    let t = values(me, 4, DType::F64)?;
    let twice = t.clone();
    let work = g.all_reduce_async(&t, ReduceOp::Max)?;
    work.then(move || twice.mul_(2.0).map(|_| ()))?.wait()?;
    let expected = reduced(&all_values(g, 4, DType::F64)?, ReduceOp::Max)?.mul(2.0)?;
    same("then", &t, &expected)?;
    // Groups: all in another order, the even ranks, each alone; and a group of a group.
    let backwards: Vec<usize> = (0..n).rev().collect();
    let Some(all) = g.new_group(&backwards)? else {
        return Err(wrong("a group of all ranks lacks this one"));
    };
    check((all.rank(), all.size()) == (n - 1 - me, n), || {
        "the order of a group".into()
    })?;
    let t = values(me, 5, DType::F32)?;
    all.all_reduce_(&t, ReduceOp::Sum)?;
    let list: Vec<Tensor> = backwards
        .iter()
        .map(|&r| values(r, 5, DType::F32))
        .collect::<Result<_>>()?;
    same(
        "a sum in a group's order",
        &t,
        &reduced(&list, ReduceOp::Sum)?,
    )?;
    let even: Vec<usize> = (0..n).step_by(2).collect();
    let member = all.new_group(&even.iter().map(|r| n - 1 - r).collect::<Vec<_>>())?;
    check(member.is_some() == (me % 2 == 0), || {
        "the members of a group".into()
    })?;
    if let Some(group) = member {
        check(group.ranks() == even, || {
            "the world ranks of a group".into()
        })?;
        let got = group.all_gather(&values(me, 3, DType::U8)?)?;
        for (t, &r) in got.iter().zip(&even) {
            same(
                "all_gather of a group of a group",
                t,
                &values(r, 3, DType::U8)?,
            )?;
        }
    }
    for r in 0..n {
        if let Some(one) = g.new_group(&[r])? {
            let t = values(me, 3, DType::F32)?;
            one.all_reduce_(&t, ReduceOp::PreMulSum(2.0))?;
            same("a group of one", &t, &values(me, 3, DType::F32)?.mul(2.0)?)?;
        }
    }
    Ok(())
}

/// What is refused on the spot leaves the group as it was.
fn refusals(g: &ProcessGroup) -> Result<()> {
    let n = g.size();
    let t = values(g.rank(), 4, DType::F32)?;
    says(g.broadcast_(&t, n), &[&format!("src is rank {n}")])?;
    says(g.all_reduce_(&t, ReduceOp::BXor), &["bxor is of integers"])?;
    let meta = Tensor::zeros(&[2], DType::F32, Device::Meta)?;
    says(g.all_reduce_(&meta, ReduceOp::Sum), &["is on meta"])?;
    says(
        g.all_gather_into_(&t, &values(0, 4 * n + 1, DType::F32)?),
        &["does not hold"],
    )?;
    says(
        g.all_gather_into_(&t.to_dtype(DType::F64)?, &t),
        &["differ in dtype"],
    )?;
    says(
        g.all_to_all_single_with_(&t, &t.copy()?, &vec![0; n], &vec![4; n]),
        &["splits"],
    )?;
    says(
        g.reduce_scatter(&vec![t.clone(); n + 1], ReduceOp::Sum),
        &["give one tensor for each rank"],
    )?;
    says(g.new_group(&[0, 0]), &["twice"])?;
    says(g.new_group(&[]), &["needs a rank"])?;
    let spread = t.narrow(0, 0, 1)?.expand(&[4])?;
    says(g.all_reduce_(&spread, ReduceOp::Sum), &["share memory"])?;
    says(
        g.send_tagged(&t, (g.rank() + 1) % n, 40_000),
        &["tag 40000"],
    )
}
