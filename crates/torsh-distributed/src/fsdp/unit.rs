//! A unit: parameters that are gathered and reduced together, and when that happens.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};
use torsh_core::alloc::long_lived;
use torsh_nn::Parameter;
use torsh_tensor::{DType, Result, Tensor, TorshError, is_grad_enabled, no_grad};

use super::backward::record;
use super::param::ShardedParam;
use crate::{DeviceMesh, FullyShardOptions, ProcessGroup, ReduceMode, ReduceOp, Work};

/// Whether the whole values are there.
enum Gather {
    Away,
    /// Under way, into these buffers.
    Coming(Work, Vec<Tensor>),
    There,
}

struct State {
    gather: Gather,
    /// Inputs of the forward calls under way: as they came, and as the modules see them.
    inputs: Vec<(Tensor, Tensor)>,
    /// Recorded calls whose backward has not come.
    calls: usize,
    /// Backward passes of this unit under way.
    backward: usize,
    /// Whether gradients are reduced at the end of a backward pass.
    sync: bool,
}

/// What a root knows of the run under way.
#[derive(Default)]
struct Run {
    /// Which units ran forward, by their number in `inner`, in this run and in the one before.
    order: Vec<usize>,
    last: Vec<usize>,
    /// Those that were recorded, in order.
    recorded: Vec<usize>,
    /// How many of `recorded` the backward pass has not reached.
    ahead: usize,
    /// Backward passes under way.
    backward: usize,
    reducing: VecDeque<Reducing>,
}

/// Gradients on their way.
struct Reducing {
    unit: Arc<Unit>,
    work: Work,
    /// The parameters' numbers, and where their shares come to.
    outs: Vec<(usize, Tensor)>,
    /// How the shares become this rank's.
    then: Then,
    #[allow(dead_code, reason = "kept alive")]
    inputs: Vec<Tensor>,
}

enum Then {
    /// They are.
    Nothing,
    /// Each rank of the replicating dimension has a part of them.
    GatherParts,
    /// They are added over the replicating dimension, and divided.
    Add,
}

/// Parameters that are gathered and reduced together.
pub(crate) struct Unit {
    /// The module's type.
    pub(crate) name: String,
    params: RwLock<Arc<Vec<ShardedParam>>>,
    /// How often each parameter appears in the module.
    counts: RwLock<HashMap<usize, usize>>,
    pub(crate) mesh: DeviceMesh,
    pub(crate) shard: ProcessGroup,
    /// The ranks that hold the same pieces, of a mesh of two dimensions.
    pub(crate) replicate: Option<ProcessGroup>,
    pub(crate) options: FullyShardOptions,
    /// The units within the module.
    pub(crate) inner: Vec<Arc<Unit>>,
    /// The outermost unit around this one, and this one's number in it.
    root: Mutex<Option<(Weak<Unit>, usize)>>,
    /// A tensor that asks for gradients, so that a unit is recorded whose input does not.
    pub(crate) anchor: Tensor,
    state: Mutex<State>,
    run: Mutex<Run>,
}

static UNITS: OnceLock<Mutex<Vec<Weak<Unit>>>> = OnceLock::new();

fn units() -> &'static Mutex<Vec<Weak<Unit>>> {
    UNITS.get_or_init(Mutex::default)
}

/// The unit that a parameter belongs to, and its number in it.
pub(crate) fn owner(p: &Parameter) -> Option<(Arc<Unit>, usize)> {
    p.unsharded()?;
    let all: Vec<Arc<Unit>> = units().lock().iter().filter_map(Weak::upgrade).collect();
    all.into_iter().find_map(|u| {
        let at = u.params().iter().position(|q| q.parameter.is_same(p))?;
        Some((u, at))
    })
}

/// The unit of which a tensor is a piece, and the piece's number in it.
pub(crate) fn owner_of_piece(piece: &Tensor) -> Option<(Arc<Unit>, usize)> {
    let all: Vec<Arc<Unit>> = units().lock().iter().filter_map(Weak::upgrade).collect();
    all.into_iter().find_map(|u| {
        let at = u.params().iter().position(|q| q.piece.is_same(piece))?;
        Some((u, at))
    })
}

/// A backward pass under way, counted by its unit and by the root.
struct Counted<'a>(&'a Unit, &'a Unit);

impl<'a> Counted<'a> {
    fn new(unit: &'a Unit, root: &'a Unit) -> Self {
        unit.state.lock().backward += 1;
        root.run.lock().backward += 1;
        Counted(unit, root)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.state.lock().backward -= 1;
        self.1.run.lock().backward -= 1;
    }
}

impl Unit {
    #[allow(clippy::too_many_arguments, reason = "called once")]
    pub(crate) fn new(
        name: String,
        params: Vec<ShardedParam>,
        counts: HashMap<usize, usize>,
        mesh: DeviceMesh,
        shard: ProcessGroup,
        replicate: Option<ProcessGroup>,
        options: FullyShardOptions,
        inner: Vec<Arc<Unit>>,
    ) -> Result<Arc<Unit>> {
        let anchor = Tensor::zeros([0], DType::F32, torsh_tensor::Device::Cpu)?;
        anchor.set_requires_grad(true)?;
        let unit = Arc::new(Unit {
            name,
            params: RwLock::new(Arc::new(params)),
            counts: RwLock::new(counts),
            mesh,
            shard,
            replicate,
            options,
            inner,
            root: Mutex::new(None),
            anchor,
            state: Mutex::new(State {
                gather: Gather::Away,
                inputs: Vec::new(),
                calls: 0,
                backward: 0,
                sync: true,
            }),
            run: Mutex::default(),
        });
        for (i, u) in unit.inner.iter().enumerate() {
            *u.root.lock() = Some((Arc::downgrade(&unit), i));
        }
        let mut all = units().lock();
        all.retain(|u| u.strong_count() > 0);
        all.push(Arc::downgrade(&unit));
        Ok(unit)
    }

    pub(crate) fn params(&self) -> Arc<Vec<ShardedParam>> {
        self.params.read().clone()
    }

    /// How often a parameter appears in the module.
    pub(crate) fn count(&self, p: &Parameter) -> Option<usize> {
        self.counts.read().get(&p.id()).copied()
    }

    /// Puts others in the place of all parameters, in the same order.
    pub(crate) fn set_params(&self, params: Vec<ShardedParam>) {
        let old = std::mem::replace(&mut *self.params.write(), Arc::new(params));
        let mut counts = self.counts.write();
        for (old, new) in old.iter().zip(self.params().iter()) {
            if let Some(n) = counts.remove(&old.parameter.id()) {
                counts.insert(new.parameter.id(), n);
            }
        }
        self.state.lock().gather = Gather::Away;
    }

    /// The outermost unit around this one, and this one's number in it.
    fn root(self: &Arc<Unit>) -> (Arc<Unit>, Option<usize>) {
        match &*self.root.lock() {
            Some((root, i)) => match root.upgrade() {
                Some(root) => (root, Some(*i)),
                None => (self.clone(), None),
            },
            None => (self.clone(), None),
        }
    }

    /// This unit and those within.
    pub(crate) fn family(self: &Arc<Unit>) -> Vec<Arc<Unit>> {
        let mut all = self.inner.clone();
        all.push(self.clone());
        all
    }

    pub(crate) fn set_sync(&self, sync: bool) {
        self.state.lock().sync = sync;
    }

    /// Begins to gather, if nobody has.
    pub(crate) fn start_gather(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !matches!(state.gather, Gather::Away) {
            return Ok(());
        }
        let params = self.params();
        let (mut buffers, mut inputs) = (Vec::new(), Vec::new());
        for p in params.iter().filter(|p| !p.is_empty()) {
            buffers.push(p.buffer()?);
            inputs.push(no_grad(|| p.travelling())?);
        }
        if buffers.is_empty() {
            params.iter().try_for_each(ShardedParam::restore)?;
            state.gather = Gather::There;
            return Ok(());
        }
        let work = self
            .shard
            .all_gather_into_coalesced_async(&buffers, &inputs)?;
        state.gather = Gather::Coming(work, buffers);
        Ok(())
    }

    /// Gathers, and waits until the whole values are there.
    pub(crate) fn gather(&self) -> Result<()> {
        self.start_gather()?;
        let mut state = self.state.lock();
        if let Gather::Coming(work, buffers) = &mut state.gather {
            work.wait()?;
            let mut buffers = std::mem::take(buffers).into_iter();
            state.gather = Gather::There;
            for p in self.params().iter() {
                match p.is_empty() {
                    true => p.restore()?,
                    false => match buffers.next() {
                        Some(buffer) => p.come_back(&buffer)?,
                        None => p.restore()?,
                    },
                }
            }
        }
        Ok(())
    }

    /// Gives the memory of the whole values back.
    pub(crate) fn release(&self) -> Result<()> {
        let mut state = self.state.lock();
        match &state.gather {
            Gather::Away => return Ok(()),
            Gather::Coming(work, _) => work.wait()?,
            Gather::There => {}
        }
        state.gather = Gather::Away;
        self.params().iter().try_for_each(ShardedParam::release)
    }

    /// Puts the wholes in the place of the pieces, or the pieces back.
    pub(crate) fn show(&self, whole: bool) -> Result<()> {
        for p in self.params().iter() {
            if whole && p.whole.requires_grad() != p.piece.requires_grad() {
                p.whole.set_requires_grad(p.piece.requires_grad())?;
            }
            match whole {
                true => p.parameter.unshard()?,
                false => p.parameter.reshard()?,
            }
        }
        Ok(())
    }

    /// Takes everything back to how it is between steps.
    pub(crate) fn reset(self: &Arc<Unit>) -> Result<()> {
        self.finish_reducing(0)?;
        for u in self.family() {
            u.show(false)?;
            u.release()?;
            u.state.lock().inputs.clear();
        }
        Ok(())
    }

    /// Ahead of the module's forward: gathers, and gives the input that the module runs on.
    pub(crate) fn before_forward(self: &Arc<Unit>, x: &Tensor) -> Result<Tensor> {
        let (root, number) = self.root();
        let again = root.run.lock().backward > 0;
        if number.is_none() && !again {
            root.reset()?;
            let mut run = root.run.lock();
            run.last = std::mem::take(&mut run.order);
            run.recorded.clear();
        }
        self.gather()?;
        if !again {
            root.prefetch_forward(number)?;
        }
        let policy = &self.options.mp_policy;
        let mut x = x.clone();
        if let Some(dtype) = policy.param_dtype
            && policy.cast_forward_inputs
            && x.dtype().is_differentiable()
        {
            x = x.to_dtype(dtype)?;
        }
        self.show(true)?;
        let mut run_on = x.clone();
        if is_grad_enabled() && x.requires_grad() {
            run_on = x.detach();
            run_on.set_requires_grad(true)?;
        }
        self.state.lock().inputs.push((x, run_on.clone()));
        Ok(run_on)
    }

    /// A forward that began ends in an error.
    pub(crate) fn forward_failed(self: &Arc<Unit>) -> Result<()> {
        self.state.lock().inputs.pop();
        self.show(false)?;
        let busy = self.state.lock().backward > 0;
        if busy { Ok(()) } else { self.release() }
    }

    /// After the module's forward: releases, and gives the result as the rest of the model sees it.
    pub(crate) fn after_forward(self: &Arc<Unit>, y: &Tensor) -> Result<Tensor> {
        let (outer, x) = self.state.lock().inputs.pop().ok_or_else(|| {
            TorshError::invalid(
                "fully_shard",
                format!("{} ended a forward that did not begin", self.name),
            )
        })?;
        let (root, number) = self.root();
        let again = root.run.lock().backward > 0;
        let busy = !self.state.lock().inputs.is_empty();
        if !busy {
            self.show(false)?;
        }
        let mut y = y.clone();
        if let Some(dtype) = self.options.mp_policy.output_dtype
            && y.dtype().is_differentiable()
        {
            y = y.to_dtype(dtype)?;
        }
        let recorded = is_grad_enabled() && y.requires_grad();
        let keep = match self.options.reshard_after_forward {
            _ if again || busy => true,
            _ if !recorded => false,
            Some(reshard) => !reshard,
            None => number.is_none() && !self.inner.is_empty(),
        };
        if !keep {
            self.release()?;
        }
        if number.is_none() && !again {
            // What was fetched for a unit that did not run.
            for u in &self.inner {
                if matches!(u.state.lock().gather, Gather::Coming(..)) {
                    u.release()?;
                }
            }
        }
        if !recorded {
            return Ok(y);
        }
        if let Some(i) = number
            && !again
        {
            root.run.lock().recorded.push(i);
        }
        self.state.lock().calls += 1;
        record(self, &outer, &x, y)
    }

    /// Begins to gather the unit that ran after this one in the run before.
    fn prefetch_forward(self: &Arc<Unit>, number: Option<usize>) -> Result<()> {
        let next = {
            let mut run = self.run.lock();
            let at = run.order.len();
            match number {
                None => run.last.first().copied(),
                Some(i) => {
                    run.order.push(i);
                    match run.last.get(at) == Some(&i) {
                        true => run.last.get(at + 1).copied(),
                        false => None,
                    }
                }
            }
        };
        match next.and_then(|i| self.inner.get(i)) {
            Some(u) if self.options.prefetch => u.start_gather(),
            _ => Ok(()),
        }
    }

    /// Begins to gather the unit whose backward comes after this one's.
    fn prefetch_backward(self: &Arc<Unit>, number: Option<usize>) -> Result<()> {
        let next = {
            let mut run = self.run.lock();
            let ahead = match number {
                None => Some(run.recorded.len()),
                Some(i) => {
                    let ahead = run.ahead.min(run.recorded.len());
                    run.recorded[..ahead].iter().rposition(|r| *r == i)
                }
            };
            match ahead {
                Some(ahead) => {
                    run.ahead = ahead;
                    ahead.checked_sub(1).map(|i| run.recorded[i])
                }
                None => None,
            }
        };
        match next.and_then(|i| self.inner.get(i)) {
            Some(u) if self.options.prefetch => u.start_gather(),
            _ => Ok(()),
        }
    }

    /// The versions of the pieces, which tell whether somebody wrote to them.
    pub(crate) fn versions(&self) -> Vec<u64> {
        self.params().iter().map(|p| p.padded.version()).collect()
    }

    /// A recorded call is over, or never comes.
    pub(crate) fn call_is_over(&self) {
        let mut state = self.state.lock();
        state.calls = state.calls.saturating_sub(1);
    }

    /// The backward pass of one call: gathers, runs `pass`, reduces and releases.
    pub(crate) fn backward(
        self: &Arc<Unit>,
        versions: &[u64],
        pass: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if let Some(i) = (self.versions().iter().zip(versions)).position(|(a, b)| a != b) {
            let params = self.params();
            let name = params.get(i).map_or("", |p| p.name.as_str());
            return Err(TorshError::autograd(
                "fully_shard",
                format!(
                    "{name} of {} was changed between its forward and its backward",
                    self.name
                ),
            )
            .with_hint("make the optimizer's step after backward"));
        }
        let (root, number) = self.root();
        {
            let _counted = Counted::new(self, &root);
            self.gather()?;
            root.prefetch_backward(number)?;
            if let Err(e) = pass().and_then(|()| self.check_layouts()) {
                // What has come so far is no gradient of anything.
                for u in root.family() {
                    for p in u.params().iter() {
                        p.whole.set_grad(None)?;
                    }
                }
                return Err(e);
            }
        }
        let (more, sync, busy) = {
            let state = self.state.lock();
            (state.calls > 0, state.sync, state.backward > 0)
        };
        if !busy {
            self.release()?;
        }
        let ends = number.is_none() && root.run.lock().backward == 0;
        if sync && (ends || !more) {
            self.start_reducing(&root)?;
        }
        if ends {
            // Units whose other calls got no gradient.
            for u in &self.inner {
                if u.state.lock().sync {
                    u.start_reducing(&root)?;
                }
                u.release()?;
            }
        }
        root.finish_reducing(if ends || number.is_none() { 0 } else { 1 })
    }

    /// Refuses gradients of the wholes that cannot be reduced.
    fn check_layouts(&self) -> Result<()> {
        let params = self.params();
        params.iter().try_for_each(|p| match p.whole.grad() {
            Some(grad) => p.check_layout(&self.name, &grad),
            None => Ok(()),
        })
    }

    /// Begins to reduce the gradients of the wholes, where there are any. A parameter that got none while others did
    /// takes part with zeros.
    fn start_reducing(self: &Arc<Unit>, root: &Arc<Unit>) -> Result<()> {
        let params = self.params();
        let mut grads: Vec<Option<Tensor>> = Vec::with_capacity(params.len());
        for p in params.iter() {
            grads.push(p.whole.grad());
            p.whole.set_grad(None)?;
        }
        if grads.iter().all(Option::is_none) {
            return Ok(());
        }
        let dtype = self.options.mp_policy.reduce_dtype;
        let hierarchical =
            self.replicate.is_some() && self.mesh.flat_group().reduce_mode() == ReduceMode::Engine;
        let (mut inputs, mut outs) = (Vec::new(), Vec::new());
        no_grad(|| {
            for (i, (p, grad)) in params.iter().zip(grads).enumerate() {
                if !p.piece.requires_grad() {
                    continue;
                }
                let dtype = dtype.unwrap_or(p.whole.dtype());
                let flat = p.flat_grad(grad, dtype)?;
                let room = p.rows.padded();
                let (flat, share) = match &self.replicate {
                    Some(replicate) if !hierarchical => {
                        let parts = replicate.size();
                        (
                            parts_first(&flat, self.shard.size(), parts)?,
                            room.div_ceil(parts),
                        )
                    }
                    _ => (flat, room),
                };
                // It becomes the piece's gradient, which the optimizer keeps as long as it wants.
                let out = long_lived(|| Tensor::zeros([share], dtype, flat.device()))?;
                outs.push((i, out));
                inputs.push(flat);
            }
            Ok(())
        })?;
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for ((_, out), input) in outs.iter().zip(&inputs) {
            if input.numel() > 0 {
                to.push(out.clone());
                from.push(input.clone());
            }
        }
        let (group, op, then) = match self.replicate {
            None => (&self.shard, ReduceOp::Avg, Then::Nothing),
            Some(_) if hierarchical => (&self.shard, ReduceOp::Sum, Then::Add),
            // All ranks add in rank order, so the sums are those of one dimension.
            Some(_) => (self.mesh.flat_group(), ReduceOp::Avg, Then::GatherParts),
        };
        let work = group.reduce_scatter_coalesced_async(&to, &from, op)?;
        root.run.lock().reducing.push_back(Reducing {
            unit: self.clone(),
            work,
            outs,
            then,
            inputs,
        });
        Ok(())
    }

    /// Waits for reductions until at most `left` are under way.
    fn finish_reducing(self: &Arc<Unit>, left: usize) -> Result<()> {
        loop {
            let first = {
                let mut run = self.run.lock();
                match run.reducing.len() > left {
                    true => run.reducing.pop_front(),
                    false => None,
                }
            };
            let Some(r) = first else {
                return Ok(());
            };
            r.work.wait()?;
            no_grad(|| r.finish())?;
        }
    }
}

impl Reducing {
    fn finish(&self) -> Result<()> {
        let params = self.unit.params();
        for (i, out) in &self.outs {
            let Some(p) = params.get(*i) else { continue };
            let share = match (&self.then, &self.unit.replicate) {
                (Then::GatherParts, Some(replicate)) if out.numel() > 0 => {
                    let n = out.numel() * replicate.size();
                    let all = long_lived(|| Tensor::empty([n], out.dtype(), out.device()))?;
                    replicate.all_gather_into_(&all, out)?
                }
                (Then::Add, Some(replicate)) if out.numel() > 0 => {
                    replicate.all_reduce_(out, ReduceOp::Sum)?;
                    out.div_(self.unit.mesh.flat_group().size() as f64)?
                }
                _ => out.clone(),
            };
            p.add_grad(&share)?;
        }
        Ok(())
    }
}

/// The pieces of a flat gradient, each cut into `parts` for the ranks of the replicating dimension, in the order of the
/// ranks of the whole mesh: of shape `[parts, pieces, share]`, flat, where zeros fill the last share.
fn parts_first(flat: &Tensor, pieces: usize, parts: usize) -> Result<Tensor> {
    let room = flat.numel() / pieces.max(1);
    let share = room.div_ceil(parts);
    let mut flat = flat.reshape([pieces, room])?;
    if share * parts != room {
        let wide = Tensor::zeros([pieces, share * parts], flat.dtype(), flat.device())?;
        wide.narrow(1, 0, room)?.copy_(&flat)?;
        flat = wide;
    }
    let parts_first = flat
        .reshape([pieces, parts, share])?
        .transpose(0, 1)?
        .contiguous()?;
    parts_first.reshape([parts * pieces * share])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_in_the_order_of_the_mesh() {
        // Two pieces of 3 elements, two replicas: shares of 2, the last filled up.
        let flat = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[6]).expect("values");
        let parts = parts_first(&flat, 2, 2).expect("parts");
        let values = parts.to_vec::<f32>().expect("values");
        assert_eq!(values, [1.0, 2.0, 4.0, 5.0, 3.0, 0.0, 6.0, 0.0]);
    }
}
