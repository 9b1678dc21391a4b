//! DDP with COO gradients against one process that has the batches of all ranks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use torsh_distributed::{DistributedDataParallel, ProcessGroup, join};
use torsh_functional as F;
use torsh_nn::construct::Construction;
use torsh_nn::{Embedding, EmbeddingBag, Linear, Module, ModuleExt, Parameter};
use torsh_optim::{Optimizer, SGD, SparseAdam};
use torsh_sparse::{SparseExt, ToSparseOptions};
use torsh_tensor::{DType, Device, EmbeddingOptions, Result, Tensor, TensorLayout};

use crate::models::{batch, classes};
use crate::seeded;

reports!("coo", says);

const USERS: usize = 12;

/// Two tables and a head, in float64.
#[derive(Module)]
struct Recommender {
    users: Embedding,
    items: EmbeddingBag,
    head: Linear,
}

impl Module for Recommender {
    /// Each row has a user and three items.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let user = self.users.forward(&x.select(1, 0)?)?;
        let items = self.items.forward(&x.narrow(1, 1, 3)?)?;
        self.head.forward(&user.mul(&items)?.tanh()?)
    }
}

fn recommender() -> Result<Recommender> {
    Construction::new().dtype(DType::F64).run(|| {
        Ok(Recommender {
            users: Embedding::builder(USERS, 3).sparse(true).build()?,
            items: EmbeddingBag::builder(USERS, 3).sparse(true).build()?,
            head: Linear::new(3, 1),
        })
    })
}

/// Users and items for a step of a rank. The later ranks use more rows than the first.
fn ids(step: usize, rank: usize) -> Result<Tensor> {
    classes(step, rank, &[4, 4], (2 + 3 * rank).min(USERS))
}

fn targets(step: usize, rank: usize) -> Result<Tensor> {
    batch(step, rank + 50, &[4, 1])?.to_dtype(DType::F64)
}

fn loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    F::mse_loss(&m.forward(&ids(step, rank)?)?, &targets(step, rank)?)
}

/// DDP with buckets of a few parameters, so that there are several.
fn wrap<M: Module>(group: &ProcessGroup, model: M) -> Result<DistributedDataParallel<M>> {
    let builder = DistributedDataParallel::builder(model).process_group(group);
    builder
        .first_bucket_mb(0.0001)
        .bucket_cap_mb(0.0001)
        .build()
}

/// An error unless two tensors are equal but for rounding.
fn near(what: &str, step: usize, name: &str, ours: &Tensor, theirs: &Tensor) -> Result<()> {
    let far = ours.sub(theirs)?.abs()?.max()?.item::<f64>()?;
    check(far < 1e-9, || {
        format!("{what}: {name} is {far:e} away from one process's after step {step}")
    })
}

fn near_parameters(what: &str, step: usize, ours: &dyn Module, theirs: &dyn Module) -> Result<()> {
    for ((name, a), (_, b)) in ours
        .named_parameters()
        .iter()
        .zip(theirs.named_parameters())
    {
        near(what, step, name, &a.detach(), &b.detach())?;
    }
    Ok(())
}

/// Compares gradients, their layouts, and where there are none.
fn near_gradients(what: &str, step: usize, ours: &dyn Module, theirs: &dyn Module) -> Result<()> {
    for ((name, a), (_, b)) in ours
        .named_parameters()
        .iter()
        .zip(theirs.named_parameters())
    {
        match (a.grad(), b.grad()) {
            (Some(a), Some(b)) => {
                check(a.layout() == b.layout(), || {
                    format!(
                        "{what}: the gradient of {name} in step {step} is {}, and one process's {}",
                        a.layout(),
                        b.layout()
                    )
                })?;
                near(what, step, name, &a.to_dense()?, &b.to_dense()?)?;
            }
            (a, b) => check(a.is_none() && b.is_none(), || {
                format!("{what}: the gradient of {name} in step {step} is {a:?}, not {b:?}")
            })?,
        }
    }
    Ok(())
}

/// Makes an optimizer of these parameters.
type Make = fn(Vec<Parameter>) -> Result<Box<dyn Optimizer>>;

const OPTIMIZERS: [(&str, Make); 3] = [
    ("SGD", |p| Ok(Box::new(SGD::new(p, 0.5)?))),
    ("SGD with momentum", |p| {
        Ok(Box::new(SGD::builder(p).lr(0.5).momentum(0.9).build()?))
    }),
    // It makes the steps of the dense head, too.
    ("SparseAdam", |p| Ok(Box::new(SparseAdam::new(p, 0.05)?))),
];

/// Tables in data parallel against the whole batch in one process.
pub fn whole_batch(group: &ProcessGroup, steps: usize) -> Result<()> {
    let n = group.size();
    for (name, make) in OPTIMIZERS {
        let what = format!("{name} on {n} ranks");
        let single = seeded(3, recommender)?;
        let ddp = wrap(group, seeded(3 + group.rank() as u64, recommender)?)?;
        let (ours, theirs) = (make(ddp.parameters())?, make(single.parameters())?);
        for step in 0..steps {
            let of_ranks = |f: fn(usize, usize) -> Result<Tensor>| -> Result<Tensor> {
                let all = (0..n).map(|r| f(step, r)).collect::<Result<Vec<_>>>()?;
                Tensor::cat(&all, 0)
            };
            theirs.zero_grad();
            let y = single.forward(&of_ranks(ids)?)?;
            F::mse_loss(&y, &of_ranks(targets)?)?.backward()?;
            theirs.step()?;
            ours.zero_grad();
            loss(&ddp, step, group.rank())?.backward()?;
            near_gradients(&what, step, ddp.module(), &single)?;
            let m = ddp.module();
            for table in [&m.users.weight, &m.items.weight] {
                let g = table
                    .grad()
                    .ok_or_else(|| wrong("a table has no gradient"))?;
                let all = group.all_gather_object(&g.nnz()?)?;
                check(
                    (n == 1 || g.is_coalesced()?) && all.iter().all(|k| *k == all[0]),
                    || format!("{what}: gradients are coalesced, of {all:?} elements"),
                )?;
            }
            ours.step()?;
            near_parameters(&what, step, ddp.module(), &single)?;
        }
        // The tables are in no bucket.
        let names = ddp.buckets().concat();
        check(
            n == 1 || !names.contains(&"users.weight".to_string()),
            || format!("{what}: the buckets are {names:?}"),
        )?;
    }
    Ok(())
}

/// Gradients that add up within `no_sync`, and from step to step.
pub fn no_sync(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let single = seeded(5, recommender)?;
    let ddp = wrap(group, seeded(5, recommender)?)?;
    for step in 0..3 {
        for r in 0..n {
            for k in 0..3 {
                let all = loss(&single, 10 * step + k, r)?;
                all.div(n as f64)?.backward()?;
            }
        }
        {
            let _guard = ddp.no_sync();
            for k in 0..2 {
                loss(&ddp, 10 * step + k, group.rank())?.backward()?;
            }
        }
        loss(&ddp, 10 * step + 2, group.rank())?.backward()?;
        near_gradients("no_sync", step, ddp.module(), &single)?;
    }
    Ok(())
}

/// Two tables, of which a batch takes one.
#[derive(Module)]
struct Tables {
    left: Embedding,
    right: Embedding,
    never: Embedding,
}

impl Module for Tables {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match x.select(0, 0)?.item::<i64>()? {
            0 => self.left.forward(x),
            _ => self.right.forward(x),
        }
    }
}

fn tables() -> Result<Tables> {
    let table = || {
        Embedding::builder(USERS, 2)
            .sparse(true)
            .dtype(DType::F64)
            .build()
    };
    Ok(Tables {
        left: table()?,
        right: table()?,
        never: table()?,
    })
}

/// Tables that some ranks or all of them do not use.
pub fn unused(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    for fixed in [false, true] {
        let what = format!("unused tables on {n} ranks, static_graph({fixed})");
        let single = seeded(5, tables)?;
        let ddp = DistributedDataParallel::builder(seeded(5, tables)?)
            .process_group(group)
            .find_unused_parameters(!fixed)
            .static_graph(fixed)
            .build()?;
        // All ranks go left first. Then odd ones go right, which none did before, and at last nobody.
        let input = |step: usize, rank: usize| -> Result<Tensor> {
            let right = !fixed && rank % 2 == 1 && (1..4).contains(&step);
            let rest = (0..=rank).map(|i| ((i * step + 3) % USERS) as i64);
            let all: Vec<i64> = std::iter::once(i64::from(right)).chain(rest).collect();
            Tensor::from_data(&all, [all.len()])
        };
        for step in 0..5 {
            single.zero_grad();
            ddp.zero_grad();
            for r in 0..n {
                let y = single.forward(&input(step, r)?)?;
                y.sum()?.div(n as f64)?.backward()?;
            }
            ddp.forward(&input(step, group.rank())?)?
                .sum()?
                .backward()?;
            near_gradients(&what, step, ddp.module(), &single)?;
        }
    }
    Ok(())
}

/// A table that is read with a COO gradient where the first index is even.
#[derive(Module)]
struct Mixed {
    weight: Parameter,
}

impl Module for Mixed {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let sparse = x.select(0, 0)?.item::<i64>()? % 2 == 0;
        let options = EmbeddingOptions::new().sparse(sparse);
        self.weight.embedding_with(x, options)
    }
}

fn table() -> Result<Mixed> {
    Ok(Mixed {
        weight: Parameter::new(batch(1, 0, &[USERS, 2])?.to_dtype(DType::F64)?),
    })
}

/// Ranks whose gradients of one parameter have different layouts.
pub fn layouts(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let input = |first: usize, rank: usize| Tensor::from_data(&[first as i64, 7, rank as i64], [3]);
    // In the first step already, and in a later one.
    for late in [false, true] {
        let what = format!("layouts on {n} ranks, late {late}");
        let single = table()?;
        let ddp = DistributedDataParallel::builder(table()?)
            .process_group(group)
            .find_unused_parameters(late)
            .build()?;
        for step in 0..4 {
            let of = |rank: usize| match late && step == 0 {
                true => input(1, rank),
                false => input(rank, rank),
            };
            single.zero_grad();
            ddp.zero_grad();
            for r in 0..n {
                single.forward(&of(r)?)?.sum()?.div(n as f64)?.backward()?;
            }
            ddp.forward(&of(group.rank())?)?.sum()?.backward()?;
            near_gradients(&what, step, ddp.module(), &single)?;
        }
    }
    if n == 1 {
        return Ok(());
    }
    // Nothing says that the layout changes: the average is strided, as it was.
    let (single, ddp) = (table()?, DistributedDataParallel::builder(table()?));
    let ddp = ddp.process_group(group).build()?;
    ddp.forward(&input(1, 0)?)?.sum()?.backward()?;
    ddp.zero_grad();
    for r in 0..n {
        let y = single.forward(&input(r, r)?)?.sum()?;
        y.div(n as f64)?.backward()?;
    }
    let rank = group.rank();
    ddp.forward(&input(rank, rank)?)?.sum()?.backward()?;
    near_gradients("a layout that changes", 1, ddp.module(), &single)
}

/// How the gradients of ranks may be stored; nothing where a rank does not use the matrix.
const KINDS: [Option<TensorLayout>; 7] = [
    None,
    Some(TensorLayout::Strided),
    Some(TensorLayout::SparseCoo),
    Some(TensorLayout::SparseCsr),
    Some(TensorLayout::SparseCsc),
    Some(TensorLayout::SparseBsr),
    Some(TensorLayout::SparseBsc),
];

/// A matrix, and a layer in a bucket of its own.
#[derive(Module)]
struct Layered {
    weight: Parameter,
    head: Linear,
}

impl Module for Layered {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(x)
    }
}

fn layered() -> Result<Layered> {
    Construction::new().dtype(DType::F64).run(|| {
        Ok(Layered {
            weight: Parameter::new(Tensor::zeros([4, 6], DType::F64, Device::Cpu)?),
            head: Linear::new(2, 1),
        })
    })
}

/// What the matrix is multiplied with in a step of a rank, which is its gradient; half of it is 0.
fn factors(step: usize, rank: usize) -> Result<Tensor> {
    let all = batch(step, rank, &[4, 6])?.to_dtype(DType::F64)?;
    all.mul(&all.gt(0.5)?)
}

/// What the layer gets.
fn features(step: usize, rank: usize) -> Result<Tensor> {
    batch(step, rank + 50, &[1, 2])?.to_dtype(DType::F64)
}

/// A model in data parallel whose matrix gets gradients of the layout that is set.
struct Turned {
    ddp: DistributedDataParallel<Layered>,
    layout: Arc<Mutex<TensorLayout>>,
}

impl Turned {
    fn new(group: &ProcessGroup, unused: bool) -> Result<Turned> {
        let (model, layout) = (layered()?, Arc::new(Mutex::new(TensorLayout::Strided)));
        let told = layout.clone();
        model.weight.register_hook(move |g| {
            let layout = *told.lock().unwrap_or_else(PoisonError::into_inner);
            let how = ToSparseOptions::new().layout(layout);
            match (layout.is_strided(), layout.is_blocked()) {
                (true, _) => Ok(None),
                (false, true) => g.to_sparse_with(how.blocksize([2, 3])).map(Some),
                (false, false) => g.to_sparse_with(how).map(Some),
            }
        })?;
        let ddp = DistributedDataParallel::builder(model)
            .process_group(group)
            .find_unused_parameters(unused)
            .first_bucket_mb(0.00001)
            .bucket_cap_mb(0.00001)
            .build()?;
        Ok(Turned { ddp, layout })
    }

    /// A step in which the ranks have gradients of these kinds, against the averages. `coo` says whether that of the
    /// matrix is a COO tensor.
    fn step(
        &self,
        what: &str,
        step: usize,
        kinds: &[Option<TensorLayout>],
        coo: bool,
    ) -> Result<()> {
        let (ddp, n) = (&self.ddp, kinds.len());
        let rank = ddp.process_group().rank();
        if let Some(layout) = kinds[rank] {
            *self.layout.lock().unwrap_or_else(PoisonError::into_inner) = layout;
        }
        ddp.zero_grad();
        let loss = ddp.run(|m| {
            let y = m.head.forward(&features(step, rank)?)?.sum()?;
            match kinds[rank] {
                None => Ok(y),
                Some(_) => y.add(&m.weight.mul(&factors(step, rank)?)?.sum()?),
            }
        })?;
        loss.backward()?;
        let what = format!("{what}: {kinds:?}");
        let used = (0..n).filter(|r| kinds[*r].is_some());
        let of_matrix = used.map(|r| factors(step, r)).collect::<Result<Vec<_>>>()?;
        let of_layer = (0..n)
            .map(|r| features(step, r))
            .collect::<Result<Vec<_>>>()?;
        match (ddp.module().weight.grad(), of_matrix.is_empty()) {
            (None, true) => {}
            (Some(got), false) => {
                let wanted = Tensor::stack(&of_matrix, 0)?.sum_dim(0, false)?;
                near(
                    &what,
                    step,
                    "weight",
                    &got.to_dense()?,
                    &wanted.div(n as f64)?,
                )?;
                check(coo == got.is_sparse(), || {
                    format!("{what}: the average in step {step} is {}", got.layout())
                })?;
            }
            (got, _) => {
                return Err(wrong(format!(
                    "{what}: the average in step {step} is {got:?}"
                )));
            }
        }
        let wanted = Tensor::cat(&of_layer, 0)?.sum_dim(0, true)?.div(n as f64)?;
        let got = ddp.module().head.weight.grad();
        let got = got.ok_or_else(|| wrong("the layer has no gradient"))?;
        near(&what, step, "head.weight", &got, &wanted)
    }
}

/// The combinations of layouts, and of ranks that do not use the matrix: in the first step, of a parameter that is in a
/// bucket, and of one whose COO gradients are collected.
fn all_combinations(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let (coo, strided) = (
        vec![Some(TensorLayout::SparseCoo); n],
        vec![Some(TensorLayout::Strided); n],
    );
    for unused in [false, true] {
        let (listed, in_bucket) = (Turned::new(group, unused)?, Turned::new(group, unused)?);
        listed.step("collected", 0, &coo, true)?;
        in_bucket.step("in a bucket", 0, &strided, false)?;
        // All of two ranks, and a part of those of more.
        for nth in (0..KINDS.len() * KINDS.len()).step_by(n - 1) {
            let kind = |rank: usize| match rank {
                0 => KINDS[nth / KINDS.len()],
                rank => KINDS[(nth + rank - 1) % KINDS.len()],
            };
            let kinds: Vec<Option<TensorLayout>> = (0..n).map(kind).collect();
            if !unused && kinds.contains(&None) {
                continue;
            }
            let mut layouts = kinds.iter().flatten();
            let sparse = layouts.all(|layout| *layout == TensorLayout::SparseCoo);
            Turned::new(group, unused)?.step("first", 0, &kinds, sparse)?;
            listed.step("collected", nth + 1, &kinds, sparse)?;
            if !unused {
                in_bucket.step("in a bucket", nth + 1, &kinds, false)?;
                continue;
            }
            let late = Turned::new(group, true)?;
            late.step("late", 0, &strided, false)?;
            late.step("late", 1, &kinds, sparse)?;
            late.step("late", 2, &coo, true)?;
        }
    }
    Ok(())
}

/// Ranks whose COO gradients have different sparse dimensions: the same error on all.
fn unlike_dimensions(group: &ProcessGroup) -> Result<()> {
    let (model, dims) = (layered()?, 1 + group.rank().min(1) as i64);
    model.weight.register_hook(move |g| {
        let how = ToSparseOptions::new().sparse_dim(dims);
        g.to_sparse_with(how).map(Some)
    })?;
    let ddp = DistributedDataParallel::builder(model).process_group(group);
    let ddp = ddp.build()?;
    let loss = ddp.run(|m| {
        m.head
            .forward(&features(0, 0)?)?
            .sum()?
            .add(&m.weight.sum()?)
    })?;
    let done = loss.backward();
    let text = done
        .as_ref()
        .map_or_else(|e| e.to_string(), |()| String::new());
    let all = group.all_gather_object(&text)?;
    check(all.iter().all(|t| *t == text), || {
        format!("the errors of the ranks are {all:?}")
    })?;
    says(
        done,
        &[
            "the gradients of weight",
            "rank 0: torch.sparse_coo of 4 elements and 1 sparse dimensions",
            "rank 1: torch.sparse_coo of 24 elements and 2 sparse dimensions",
        ],
    )
}

/// Nothing but the buckets is sent for strided gradients, once the ranks know that there are no others.
fn traffic(group: &ProcessGroup) -> Result<()> {
    let (model, kinds) = (
        Turned::new(group, false)?,
        vec![Some(TensorLayout::Strided); group.size()],
    );
    model.step("traffic", 0, &kinds, false)?;
    // Another order of the buckets.
    model.step("traffic", 1, &kinds, false)?;
    group.reset_stats();
    model.step("traffic", 2, &kinds, false)?;
    let sent = group.stats().kinds;
    let sent: Vec<(&str, u64)> = sent.iter().map(|(k, s)| (&k[..], s.operations)).collect();
    let buckets = model.ddp.buckets().len() as u64;
    check(sent == [("all_reduce", buckets)], || {
        format!("a step with strided gradients in {buckets} buckets sends {sent:?}")
    })
}

/// Ranks whose gradients of one parameter have all combinations of layouts. A rank that waits in vain is an error soon.
pub fn combinations(group: &ProcessGroup) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    let patience = group.timeout();
    group.set_timeout(Duration::from_secs(60));
    let done = traffic(group)
        .and_then(|()| all_combinations(group))
        .and_then(|()| unlike_dimensions(group));
    group.set_timeout(patience);
    done
}

/// Ranks with different numbers of batches.
pub fn uneven(group: &ProcessGroup) -> Result<()> {
    let n = group.size();
    let single = seeded(5, recommender)?;
    let ddp = wrap(group, seeded(5, recommender)?)?;
    let (ours, theirs) = (
        SparseAdam::new(ddp.parameters(), 0.05)?,
        SparseAdam::new(single.parameters(), 0.05)?,
    );
    // Rank r makes r + 1 steps; those that are over add nothing.
    for step in 0..n {
        theirs.zero_grad();
        for r in step..n {
            loss(&single, step, r)?.div(n as f64)?.backward()?;
        }
        theirs.step()?;
    }
    join(&ddp, || {
        for step in 0..=group.rank() {
            ours.zero_grad();
            loss(&ddp, step, group.rank())?.backward()?;
            ours.step()?;
        }
        Ok(())
    })?;
    near_parameters("join", n, ddp.module(), &single)
}

/// All of it, as a part of the checks of data parallel.
///
/// # Errors
/// What differs.
pub fn run(group: &ProcessGroup) -> Result<()> {
    whole_batch(group, 6)?;
    no_sync(group)?;
    unused(group)?;
    layouts(group)?;
    combinations(group)?;
    uneven(group)
}
