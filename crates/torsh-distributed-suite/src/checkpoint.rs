//! Checkpoints: any layout to any other, resumed training, saves beside training, failures in the middle of a save.

use std::fs;
use std::path::{Path, PathBuf};

use torsh_core::Generator;
use torsh_distributed::checkpoint::{self, Piece, State};
use torsh_distributed::{
    DeviceMesh, FullyShardOptions, ProcessGroup, ReduceOp, full_state_dict, fully_shard,
};
use torsh_nn::{Linear, Module, ModuleExt, Sequential, sequential};
use torsh_optim::lr_scheduler::{LRScheduler, StepLR};
use torsh_optim::{Adam, Optimizer};
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Result, Tensor, no_grad};

reports!("checkpoint");

/// A folder of all ranks that goes away again.
struct Folder {
    group: ProcessGroup,
    path: PathBuf,
}

impl Folder {
    fn new(group: &ProcessGroup, name: &str) -> Result<Folder> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let own = (group.rank() == 0).then(|| {
            let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name = format!("torsh-suite-{name}-{}-{n}", std::process::id());
            std::env::temp_dir().join(name)
        });
        let path: PathBuf = group.broadcast_object(own.as_ref(), 0)?;
        Ok(Folder {
            group: group.clone(),
            path,
        })
    }

    /// Removes it when all are done with it.
    fn remove(self) -> Result<()> {
        self.group.barrier()?;
        if self.group.rank() == 0 {
            fs::remove_dir_all(&self.path)?;
        }
        self.group.barrier()
    }
}

/// The tensors that are split: names, shapes and dtypes of all kinds.
const TENSORS: [(&str, &[usize], DType); 7] = [
    ("rows", &[7, 3], DType::F32),
    ("wide", &[4, 6, 2], DType::F64),
    ("half", &[9, 2], DType::BF16),
    ("numbers", &[5], DType::I64),
    ("flags", &[6], DType::Bool),
    ("single", &[], DType::F32),
    ("empty", &[0, 3], DType::F32),
];

/// What a tensor holds, the same on all ranks.
fn whole(shape: &[usize], dtype: DType, seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let value = |i: usize| ((i * 37 + seed * 11) % 101) as f32 * 0.25 - 7.0;
    let data: Vec<f32> = (0..n).map(value).collect();
    Tensor::from_vec(data, shape.to_vec())?.to_dtype(dtype)
}

/// How a group splits tensors.
#[derive(Clone, Copy, Debug)]
enum Split {
    /// Rows, as many for each, rounded up.
    Rows,
    /// The last dimension, as even as it goes.
    Columns,
    /// Rows and columns: a grid of two ranks by the others, where they are even.
    Grid,
    /// All ranks have all.
    Whole,
}

/// Where a rank's share of `n` begins and how long it is.
fn share(n: usize, rank: usize, ranks: usize) -> (usize, usize) {
    let (from, to) = (rank * n / ranks, (rank + 1) * n / ranks);
    (from, to - from)
}

fn place(split: Split, shape: &[usize], rank: usize, ranks: usize) -> (Vec<usize>, Vec<usize>) {
    let mut offset = vec![0; shape.len()];
    let mut size = shape.to_vec();
    if shape.is_empty() {
        return (offset, size);
    }
    let last = shape.len() - 1;
    match split {
        Split::Whole => {}
        Split::Rows => {
            let chunk = shape[0].div_ceil(ranks);
            offset[0] = (rank * chunk).min(shape[0]);
            size[0] = chunk.min(shape[0] - offset[0]);
        }
        Split::Columns => (offset[last], size[last]) = share(shape[last], rank, ranks),
        Split::Grid if last == 0 || !ranks.is_multiple_of(2) => {
            (offset[0], size[0]) = share(shape[0], rank, ranks);
        }
        Split::Grid => {
            (offset[0], size[0]) = share(shape[0], rank / (ranks / 2), 2);
            (offset[last], size[last]) = share(shape[last], rank % (ranks / 2), ranks / 2);
        }
    }
    (offset, size)
}

fn part(whole: &Tensor, offset: &[usize], size: &[usize]) -> Result<Tensor> {
    let mut out = whole.clone();
    for (d, (&from, &n)) in offset.iter().zip(size).enumerate() {
        out = out.narrow(d, from, n)?;
    }
    out.copy()
}

/// A rank's pieces: with their values, or zeros.
fn pieces(group: &ProcessGroup, split: Split, zeros: bool) -> Result<Vec<Piece>> {
    let mut out = Vec::new();
    for (seed, (name, shape, dtype)) in TENSORS.into_iter().enumerate() {
        let (offset, size) = place(split, shape, group.rank(), group.size());
        let tensor = match zeros {
            true => Tensor::zeros(size, dtype, Device::Cpu)?,
            false => part(&whole(shape, dtype, seed)?, &offset, &size)?,
        };
        out.push(Piece::new(name, shape, offset, &tensor)?);
    }
    Ok(out)
}

fn check_pieces(found: &[Piece], what: &str) -> Result<()> {
    for (seed, piece) in found.iter().enumerate() {
        let (name, shape, dtype) = TENSORS[seed];
        let expected = part(
            &whole(shape, dtype, seed)?,
            piece.offset(),
            piece.tensor().dims(),
        )?;
        let same = piece.tensor().to_bytes()? == expected.to_bytes()?;
        check(same, || {
            format!(
                "{what}: {name} has {} instead of {expected}",
                piece.tensor()
            )
        })?;
    }
    Ok(())
}

/// Runs on the first `n` ranks, while the others wait.
fn on_first(
    group: &ProcessGroup,
    n: usize,
    f: impl FnOnce(&ProcessGroup) -> Result<()>,
) -> Result<()> {
    let ranks: Vec<usize> = (0..n).collect();
    let some = group.new_group(&ranks)?;
    some.as_ref().map_or(Ok(()), f)?;
    group.barrier()
}

/// Saved in one layout, loaded in all others, at every number of ranks.
fn layouts(group: &ProcessGroup) -> Result<()> {
    let all = [Split::Rows, Split::Columns, Split::Grid, Split::Whole];
    for from in all {
        let dir = Folder::new(group, "layouts")?;
        let saved = pieces(group, from, false)?;
        checkpoint::save_in(group, &dir.path, &State::new().tensors("t", &saved))?;
        for n in 1..=group.size() {
            on_first(group, n, |g| {
                for to in all {
                    let found = pieces(g, to, true)?;
                    checkpoint::load_in(g, &dir.path, &State::new().tensors("t", &found))?;
                    let ranks = group.size();
                    check_pieces(
                        &found,
                        &format!("{from:?} at {ranks} ranks to {to:?} at {n}"),
                    )?;
                }
                Ok(())
            })?;
        }
        if group.rank() == 0 {
            // In one process without a group, as an ordinary dict of tensors.
            let dict = checkpoint::read_part(&dir.path, "t")?;
            for (seed, (name, shape, dtype)) in TENSORS.into_iter().enumerate() {
                let expected = whole(shape, dtype, seed)?;
                check(dict.get(name)?.as_tensor()? == &expected, || {
                    format!("{from:?}: read_part differs in {name}")
                })?;
            }
        }
        dir.remove()?;
    }
    Ok(())
}

fn net() -> Result<Sequential> {
    let net = sequential![Linear::new(5, 7), Linear::new(7, 3)];
    no_grad(|| {
        for (i, p) in net.parameters().iter().enumerate() {
            p.copy_(&whole(p.dims(), DType::F32, i)?.mul(0.05)?)?;
        }
        Ok(())
    })?;
    Ok(net)
}

/// A step on data that the step's number decides, with noise of the rank's generator. Returns the loss of all ranks.
fn step(
    group: &ProcessGroup,
    net: &Sequential,
    optimizer: &dyn Optimizer,
    number: usize,
    noise: &Generator,
) -> Result<f32> {
    optimizer.zero_grad();
    let x = whole(&[4, 5], DType::F32, number * 16 + group.rank())?;
    let x = x.add(&Tensor::randn_with([4, 5], DType::F32, Device::Cpu, noise)?)?;
    let loss = net.forward(&x)?.square()?.mean()?;
    loss.backward()?;
    for p in net.parameters() {
        if p.unsharded().is_none()
            && let Some(grad) = p.grad()
        {
            group.all_reduce_(&grad, ReduceOp::Avg)?;
        }
    }
    optimizer.step()?;
    let loss = loss.detach();
    group.all_reduce_(&loss, ReduceOp::Avg)?;
    loss.item::<f32>()
}

/// A run that is interrupted goes on bit for bit.
fn resumed(group: &ProcessGroup) -> Result<()> {
    let dir = Folder::new(group, "resumed")?;
    let start = || -> Result<_> {
        let net = net()?;
        let adam = Adam::new(net.parameters(), 0.05)?;
        let scheduler = StepLR::new(&adam, 2, 0.5)?;
        let noise = Generator::new(100 + group.rank() as u64);
        Ok((net, adam, scheduler, noise))
    };
    let (first, adam, scheduler, noise) = start()?;
    let mut losses = Vec::new();
    let mut saving = None;
    for number in 0..8 {
        if number == 3 {
            let state = State::new()
                .model(&first)
                .optimizer(&adam)
                .scheduler(&scheduler)
                .per_rank("noise", &noise)
                .value("step", number as u64);
            // Training goes on while this is written.
            saving = Some(checkpoint::save_async_in(group, &dir.path, &state)?);
        }
        losses.push(step(group, &first, &adam, number, &noise)?);
        scheduler.step()?;
    }
    if let Some(saving) = saving {
        saving.wait()?;
    }
    let (second, adam, scheduler, noise) = start()?;
    let state = State::new()
        .model(&second)
        .optimizer(&adam)
        .scheduler(&scheduler)
        .per_rank("noise", &noise);
    let loaded = checkpoint::load_in(group, &dir.path, &state)?;
    let from = loaded.value("step").and_then(|v| v.as_u64());
    let from = from.ok_or_else(|| wrong("the value `step` is lost"))? as usize;
    for (number, &before) in losses.iter().enumerate().skip(from) {
        let loss = step(group, &second, &adam, number, &noise)?;
        scheduler.step()?;
        check(loss.to_bits() == before.to_bits(), || {
            format!("the loss of step {number} is {loss} after the checkpoint and was {before}")
        })?;
    }
    for ((name, a), (_, b)) in first.state_dict().iter().zip(second.state_dict().iter()) {
        check(a.to_bytes()? == b.to_bytes()?, || {
            format!("{name} differs after resuming")
        })?;
    }
    dir.remove()
}

/// A sharded model and its optimizer at other numbers of ranks, and whole.
fn sharded(group: &ProcessGroup) -> Result<()> {
    let dir = Folder::new(group, "sharded")?;
    let build = |g: &ProcessGroup| -> Result<_> {
        let mut net = net()?;
        let mesh = DeviceMesh::from_group(g, &[g.size()], &["dp"])?;
        fully_shard(&mut net, &mesh, FullyShardOptions::default())?;
        let adam = Adam::new(net.parameters(), 0.05)?;
        Ok((net, adam))
    };
    let (net, adam) = build(group)?;
    let noise = Generator::new(7 + group.rank() as u64);
    for number in 0..3 {
        step(group, &net, &adam, number, &noise)?;
    }
    checkpoint::save_in(group, &dir.path, &State::new().model(&net).optimizer(&adam))?;
    let expected = full_state_dict(&net)?;
    if group.rank() == 0 {
        let read = checkpoint::read_state_dict(&dir.path)?;
        check(read.len() == expected.len(), || {
            format!("read_state_dict has {} tensors", read.len())
        })?;
        for (name, t) in expected.iter() {
            check(read.get(name) == Some(t), || {
                format!("read_state_dict differs in {name}")
            })?;
        }
    }
    let states = checkpoint::read_part(&dir.path, "optimizer")?;
    for n in 1..=group.size() {
        on_first(group, n, |g| {
            let (other, adam) = build(g)?;
            no_grad(|| {
                other
                    .parameters()
                    .iter()
                    .try_for_each(|p| p.zero_().map(drop))
            })?;
            checkpoint::load_in(g, &dir.path, &State::new().model(&other).optimizer(&adam))?;
            for (name, t) in full_state_dict(&other)?.iter() {
                check(expected.get(name) == Some(t), || {
                    format!(
                        "{name} differs at {n} ranks after a save at {}",
                        group.size()
                    )
                })?;
            }
            // Saved again, the optimizer's states are the same wholes.
            let again = Folder::new(g, "again")?;
            checkpoint::save_in(g, &again.path, &State::new().model(&other).optimizer(&adam))?;
            let read = checkpoint::read_part(&again.path, "optimizer")?;
            for name in expected.keys() {
                for key in ["exp_avg", "exp_avg_sq", "step"] {
                    let of = |v: &Value| -> Result<Value> {
                        Ok(v.get("state")?.get(name)?.get(key)?.clone())
                    };
                    check(of(&states)? == of(&read)?, || {
                        format!("the optimizer's {key} of {name} differs at {n} ranks")
                    })?;
                }
            }
            again.remove()
        })?;
    }
    if group.rank() == 0 {
        // One process without a group: a model that is not sharded.
        let plain = net_and_adam()?;
        checkpoint::load_alone(&dir.path, &State::new().model(&plain.0).optimizer(&plain.1))?;
        for (name, t) in plain.0.state_dict().iter() {
            check(expected.get(name) == Some(t), || {
                format!("{name} differs in one process")
            })?;
        }
    }
    group.barrier()?;
    dir.remove()
}

fn net_and_adam() -> Result<(Sequential, Adam)> {
    let net = net()?;
    let adam = Adam::new(net.parameters(), 0.05)?;
    Ok((net, adam))
}

/// A state of one tensor that says which save it is of.
fn version(value: f64) -> Result<Vec<Piece>> {
    let t = Tensor::full([600], value, DType::F32, Device::Cpu)?;
    Ok(vec![Piece::whole("version", &t)])
}

fn check_version(group: &ProcessGroup, dir: &Path, value: f64) -> Result<()> {
    let found = version(-1.0)?;
    checkpoint::load_in(group, dir, &State::new().tensors("v", &found))?;
    let found = found[0].tensor().max()?.item::<f64>()?;
    check(found == value, || {
        format!("the checkpoint is of save {found}, not {value}")
    })
}

/// The text of an error that has to be.
fn error<T>(result: Result<T>, what: &str) -> Result<String> {
    match result {
        Ok(_) => Err(wrong(format!("{what} is no error"))),
        Err(e) => Ok(e.to_string()),
    }
}

/// Saves that fail or are killed leave the checkpoint that was there.
fn interrupted(group: &ProcessGroup) -> Result<()> {
    let dir = Folder::new(group, "interrupted")?;
    let last = group.size() - 1;
    let save = |value: f64| {
        checkpoint::save_in(
            group,
            &dir.path,
            &State::new().tensors("v", &version(value)?),
        )
    };
    save(1.0)?;

    // One rank cannot write its part: an error on all, which names it.
    let broken = vec![Piece::new(
        "broken",
        [group.size(), 2],
        [group.rank(), 0],
        &Tensor::empty(
            [1, 2],
            DType::F32,
            if group.rank() == last {
                Device::Meta
            } else {
                Device::Cpu
            },
        )?,
    )?];
    let (v, b) = (version(2.0)?, &broken);
    let bad = State::new().tensors("v", &v).tensors("b", b);
    let text = error(
        checkpoint::save_in(group, &dir.path, &bad),
        "a rank that cannot write",
    )?;
    check(
        text.contains("meta") && (group.rank() == last || text.contains(&format!("rank {last}"))),
        || format!("the error does not name the rank: {text}"),
    )?;
    check_version(group, &dir.path, 1.0)?;
    let saving = checkpoint::save_async_in(group, &dir.path, &bad)?;
    error(saving.wait(), "a rank that cannot copy")?;
    check_version(group, &dir.path, 1.0)?;

    // Parts that should be the same on all ranks and are not.
    if group.size() > 1 {
        let value = State::new().value("seed", group.rank() as u64);
        let text = error(
            checkpoint::save_in(group, &dir.path, &value),
            "a value that differs",
        )?;
        check(
            text.contains("seed differs between rank 0 and rank 1"),
            || text.clone(),
        )?;
        check_version(group, &dir.path, 1.0)?;
    }

    // What a process that was killed leaves: files without an index, and an index that did not get its name.
    let left = dir.path.join(format!("pieces-{:024x}", 7));
    let unfinished = dir.path.join(".checkpoint.json.1.0.tmp");
    let others = dir.path.join("pieces-of-mine");
    if group.rank() == 0 {
        for folder in [&left, &others] {
            fs::create_dir(folder)?;
            fs::write(folder.join("rank-00000-of-00001.safetensors"), b"cut")?;
        }
        fs::write(&unfinished, b"{")?;
    }
    check_version(group, &dir.path, 1.0)?;
    save(3.0)?;
    check_version(group, &dir.path, 3.0)?;
    if group.rank() == 0 {
        check(!left.exists() && !unfinished.exists(), || {
            "leftovers are still there".into()
        })?;
        check(others.exists(), || {
            "a folder of somebody else was removed".into()
        })?;
        fs::remove_dir_all(&others)?;
        let names = fs::read_dir(&dir.path)?.count();
        check(names == 2, || {
            format!("the folder has {names} entries, not the index and one folder")
        })?;
    }

    // Two saves beside training, one after the other.
    let both = [4.0, 5.0].map(|v| -> Result<_> {
        checkpoint::save_async_in(group, &dir.path, &State::new().tensors("v", &version(v)?))
    });
    for saving in both {
        saving?.wait()?;
    }
    check_version(group, &dir.path, 5.0)?;
    dir.remove()
}

/// Files that are cut off, damaged or missing: errors with file and tensor on all ranks, and nothing is changed.
fn damaged(group: &ProcessGroup) -> Result<()> {
    let dir = Folder::new(group, "damaged")?;
    let saved = pieces(group, Split::Rows, false)?;
    checkpoint::save_in(group, &dir.path, &State::new().tensors("t", &saved))?;
    let file = "rank-00000-of-";
    let path = || -> Result<PathBuf> {
        for entry in fs::read_dir(&dir.path)? {
            let at = entry?.path();
            let Ok(inner) = fs::read_dir(&at) else {
                continue;
            };
            for entry in inner {
                let at = entry?.path();
                if at
                    .file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with(file))
                {
                    return Ok(at);
                }
            }
        }
        Err(wrong("rank 0 wrote no file"))
    };
    let path = path()?;
    let bytes = fs::read(&path)?;
    group.barrier()?;
    let mut damage: Vec<(&str, Option<Vec<u8>>)> = vec![
        ("cut off", Some(bytes[..bytes.len() - 1].to_vec())),
        ("missing", None),
    ];
    let mut flipped = bytes.clone();
    if let Some(last) = flipped.last_mut() {
        *last ^= 1;
    }
    damage.push(("damaged", Some(flipped)));
    for (what, content) in damage {
        if group.rank() == 0 {
            match content {
                Some(content) => fs::write(&path, content)?,
                None => fs::remove_file(&path)?,
            }
        }
        group.barrier()?;
        // All ranks read all pieces, so all meet it.
        let found = pieces(group, Split::Whole, true)?;
        let loaded = checkpoint::load_in(group, &dir.path, &State::new().tensors("t", &found));
        let text = error(loaded, &format!("a file that is {what}"))?;
        check(text.contains(file) && text.contains("tensor t."), || {
            format!("the error of a file that is {what} names no file and tensor: {text}")
        })?;
        for piece in &found {
            let zeros = Tensor::zeros(piece.tensor().dims(), piece.dtype(), Device::Cpu)?;
            check(piece.tensor() == &zeros, || {
                format!("a load of a file that is {what} changed {}", piece.name())
            })?;
        }
        group.barrier()?;
        if group.rank() == 0 {
            fs::write(&path, &bytes)?;
        }
        group.barrier()?;
    }
    // A tensor of another shape, and one that is not there.
    let shapes = vec![Piece::whole(
        "rows",
        &Tensor::zeros([7, 4], DType::F32, Device::Cpu)?,
    )];
    let text = error(
        checkpoint::load_in(group, &dir.path, &State::new().tensors("t", &shapes)),
        "another shape",
    )?;
    check(text.contains("[7, 3]") && text.contains("[7, 4]"), || {
        text.clone()
    })?;
    let names = vec![Piece::whole(
        "other",
        &Tensor::zeros([1], DType::F32, Device::Cpu)?,
    )];
    let text = error(
        checkpoint::load_in(group, &dir.path, &State::new().tensors("t", &names)),
        "a tensor that is not there",
    )?;
    check(text.contains("t.other"), || text.clone())?;
    dir.remove()
}

/// All checks of checkpoints.
pub fn run(group: &ProcessGroup) -> Result<()> {
    let sections: [(&str, fn(&ProcessGroup) -> Result<()>); 5] = [
        ("layouts", layouts),
        ("resumed", resumed),
        ("sharded", sharded),
        ("interrupted", interrupted),
        ("damaged", damaged),
    ];
    for (name, section) in sections {
        section(group).map_err(|e| wrong(format!("{name} at {} ranks: {e}", group.size())))?;
    }
    Ok(())
}

/// One of the checks, by its name.
pub fn section(group: &ProcessGroup, name: &str) -> Result<()> {
    match name {
        "layouts" => layouts(group),
        "resumed" => resumed(group),
        "sharded" => sharded(group),
        "interrupted" => interrupted(group),
        "damaged" => damaged(group),
        other => Err(wrong(format!("there is no section {other}"))),
    }
}

/// The seconds of a save, of the pause of a save beside training, of that save in all, and of a load, of `bytes` bytes in
/// pieces of all ranks: the best of three, the slowest rank's.
pub fn measure(group: &ProcessGroup, bytes: usize) -> Result<[f64; 4]> {
    const TENSORS: usize = 16;
    let rows = (bytes / 4 / 1024 / TENSORS / group.size()).max(1);
    let own: Vec<Piece> = (0..TENSORS)
        .map(|i| {
            let t = Tensor::full([rows, 1024], i as f64, DType::F32, Device::Cpu)?;
            let shape = [rows * group.size(), 1024];
            Piece::new(format!("t{i}"), shape, [rows * group.rank(), 0], &t)
        })
        .collect::<Result<_>>()?;
    let state = State::new().tensors("t", &own);
    let dir = Folder::new(group, "measure")?;
    let mut best = [f64::INFINITY; 4];
    for _ in 0..3 {
        group.barrier()?;
        let start = std::time::Instant::now();
        checkpoint::save_in(group, &dir.path, &state)?;
        let save = start.elapsed();
        group.barrier()?;
        let start = std::time::Instant::now();
        let saving = checkpoint::save_async_in(group, &dir.path, &state)?;
        let pause = start.elapsed();
        saving.wait()?;
        let both = start.elapsed();
        group.barrier()?;
        let start = std::time::Instant::now();
        checkpoint::load_in(group, &dir.path, &state)?;
        let load = start.elapsed();
        for (best, time) in best.iter_mut().zip([save, pause, both, load]) {
            let slowest = group.all_gather_object(&time.as_secs_f64())?;
            *best = best.min(slowest.into_iter().fold(0.0, f64::max));
        }
    }
    dir.remove()?;
    Ok(best)
}
