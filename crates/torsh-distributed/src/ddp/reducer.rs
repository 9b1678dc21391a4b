//! The reducer: sends gradients while the backward pass goes on.
//!
//! A step is a forward pass (`before_forward`, `after_forward`) and the backward pass that follows. Each parameter's hook
//! calls `arrived` once its gradient is added up. The gradient is copied into its bucket, of which it becomes a view. Full
//! buckets are sent in their order, which is the same on all ranks. When the last is on its way, the same call waits for
//! all of them: the optimizer that follows reads averages.
//! `sparse.rs` has what is different for COO gradients.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use torsh_nn::Buffer;
use torsh_tensor::{
    DType, Device, Node, Result, Shared, Tensor, TorshError, is_grad_enabled, no_grad_guard,
};

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use crate::work::Work;

use super::Outputs;
use super::bucket::{Bucket, Slot, assign, positions};
use super::hooks::{AllReduceHook, CommHook, CommStep, CompressHook, GradBucket, has_data};
use super::join_options::JoinOptions;
use super::options::Options;

pub(super) const OP: &str = "DistributedDataParallel";

/// What a rank says of a parameter that has a COO gradient in this step and is in a bucket; of others 1 or 0, whether it
/// used them.
pub(super) const LATE: i32 = 2;

/// Where a step is.
enum Phase {
    /// There was no forward pass yet.
    Fresh,
    /// A forward pass within `no_sync`: gradients add up on this rank.
    Local,
    /// A forward pass; no gradient came yet.
    Expecting,
    /// Gradients come.
    Backward,
    /// All gradients are averages.
    Done,
    /// An error ended the step.
    Failed(String),
}

/// Whether the buckets are in the order in which gradients come.
#[derive(Clone, Copy, PartialEq)]
enum Rebuild {
    /// The first step is not over.
    Waiting,
    /// The next step begins with it.
    Due,
    Done,
}

/// What the ranks of a join told one another at the beginning of a step.
pub(super) struct Joined {
    pub(super) options: JoinOptions,
    /// The ranks that made the last step.
    pub(super) active: Vec<usize>,
}

pub(super) struct State {
    phase: Phase,
    pub(super) buckets: Vec<Bucket>,
    pub(super) place: Vec<Option<(usize, usize)>>,
    /// Which parameters have COO gradients, and are in no bucket; `None` until the ranks told one another.
    pub(super) coo: Option<Vec<bool>>,
    /// Which parameters in buckets have one in this step on this rank.
    pub(super) late: Vec<usize>,
    ready: Vec<bool>,
    /// How many gradients of the step are not there yet.
    left: usize,
    /// The next bucket to send.
    next: usize,
    pending: Vec<(usize, CommStep)>,
    order: Vec<usize>,
    rebuild: Rebuild,
    /// Which parameters got a gradient since the last averages.
    used: Vec<bool>,
    /// Which parameters of this step's graph get none.
    unused: Vec<usize>,
    /// The same for all steps of a static graph.
    never: Option<Vec<usize>>,
    /// Whether the ranks know which parameters no rank uses, for a static graph.
    usage_known: bool,
    usage: Option<(Tensor, Option<Work>)>,
    hook: Option<Arc<dyn CommHook>>,
    pub(super) join: Option<Joined>,
}

pub(super) struct Reducer {
    pub(super) group: ProcessGroup,
    pub(super) slots: Vec<Slot>,
    pub(super) buffers: Vec<(String, Buffer)>,
    pub(super) options: Options,
    no_sync: AtomicUsize,
    /// Slots by the place of their memory, to find a leaf's.
    at: HashMap<(usize, usize), Vec<usize>>,
    state: Mutex<State>,
}

fn key(t: &Tensor) -> (usize, usize) {
    // A sparse tensor has no memory of its own, and is found by none.
    let storage = t
        .untyped_storage()
        .map_or(0, |s| Shared::as_ptr(s) as usize);
    (storage, t.storage_offset())
}

impl Reducer {
    pub(super) fn new(
        group: ProcessGroup,
        slots: Vec<Slot>,
        buffers: Vec<(String, Buffer)>,
        options: Options,
    ) -> Reducer {
        // Gradients come about in the reverse order of the parameters; the first step shows how.
        let order: Vec<usize> = (0..slots.len()).rev().collect();
        let buckets = assign(
            &order,
            &slots,
            options.first_bucket_bytes,
            options.bucket_cap_bytes,
        );
        let mut at: HashMap<_, Vec<usize>> = HashMap::new();
        for (i, slot) in slots.iter().enumerate() {
            at.entry(key(&slot.tensor)).or_default().push(i);
        }
        let n = slots.len();
        let state = State {
            phase: Phase::Fresh,
            place: positions(&buckets, n),
            buckets,
            coo: None,
            late: Vec::new(),
            ready: vec![false; n],
            left: n,
            next: 0,
            pending: Vec::new(),
            order: Vec::new(),
            rebuild: Rebuild::Waiting,
            used: vec![false; n],
            unused: Vec::new(),
            never: None,
            usage_known: false,
            usage: None,
            hook: None,
            join: None,
        };
        Reducer {
            group,
            slots,
            buffers,
            options,
            no_sync: AtomicUsize::new(0),
            at,
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn enter_no_sync(&self) {
        self.no_sync.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn leave_no_sync(&self) {
        self.no_sync.fetch_sub(1, Ordering::AcqRel);
    }

    fn syncs(&self) -> bool {
        self.no_sync.load(Ordering::Acquire) == 0
    }

    /// The names of the parameters of each bucket.
    pub(super) fn bucket_names(&self) -> Vec<Vec<String>> {
        let s = self.state.lock();
        let names = |b: &Bucket| {
            b.params
                .iter()
                .map(|i| self.slots[*i].name.clone())
                .collect()
        };
        s.buckets.iter().map(names).collect()
    }

    pub(super) fn set_hook(&self, hook: Arc<dyn CommHook>) -> Result<()> {
        let mut dtypes: Vec<DType> = self.slots.iter().map(|s| s.tensor.dtype()).collect();
        dtypes.dedup();
        hook.check(&dtypes)?;
        let mut s = self.state.lock();
        if let Some(old) = &s.hook {
            return Err(TorshError::invalid(
                "register_comm_hook",
                format!(
                    "the model has the communication hook '{}' already",
                    old.name()
                ),
            ));
        }
        if !matches!(s.phase, Phase::Fresh) {
            return Err(TorshError::invalid(
                "register_comm_hook",
                "the model was used already: a hook is registered before the first forward pass",
            ));
        }
        s.hook = Some(hook);
        Ok(())
    }

    /// One rank's gradients are averages already: nothing is copied or sent.
    fn alone(&self, s: &State) -> bool {
        self.group.size() == 1
            && s.hook.is_none()
            && self.options.mixed_precision.reduce_dtype.is_none()
    }

    /// Whether the ranks tell one another which parameters they use.
    fn tells_usage(&self, s: &State) -> bool {
        self.options.find_unused_parameters && !self.options.static_graph
            || self.options.static_graph && !s.usage_known
    }

    /// The parameters without a gradient, for a message.
    fn missing(&self, s: &State) -> String {
        let missing: Vec<&str> = (0..self.slots.len())
            .filter(|i| !s.ready[*i])
            .map(|i| self.slots[i].name.as_str())
            .collect();
        let shown = missing.len().min(8);
        let rest = match missing.len() - shown {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        format!(
            "{}{rest} (of {} parameters)",
            missing[..shown].join(", "),
            self.slots.len()
        )
    }

    /// What comes before a model runs. Says whether the step's gradients are sent.
    pub(super) fn before_forward(&self, training: bool) -> Result<bool> {
        if !is_grad_enabled() {
            return Ok(false);
        }
        for slot in &self.slots {
            if !slot.parameter.is_current() {
                return Err(TorshError::invalid(
                    OP,
                    format!("the parameter {} was replaced (by to_dtype or to_device) after the model was wrapped", slot.name),
                )
                .with_hint("convert or move the model before it is wrapped"));
            }
        }
        let sync = self.syncs();
        let mut s = self.state.lock();
        match &s.phase {
            Phase::Backward => {
                let missing = self.missing(&s);
                return Err(TorshError::invalid(
                    OP,
                    format!("the backward pass of the step before did not reach all parameters, so that gradients were not averaged; without a gradient on rank {} of group {}: {missing}", self.group.rank(), self.group.name()),
                )
                .with_hint("let all outputs take part in the loss, or wrap with find_unused_parameters(true); steps that only add up gradients belong into no_sync()"));
            }
            Phase::Failed(why) => {
                return Err(TorshError::invalid(
                    OP,
                    format!(
                        "the step before failed, and gradients are not the same on all ranks: {why}"
                    ),
                )
                .with_hint("start again from the last checkpoint"));
            }
            _ => {}
        }
        let buffers = training && sync && self.sends_buffers();
        let mut src = 0;
        if s.join.is_some() {
            let rows = self.shake(&mut s, Some((buffers, sync)))?;
            src = rows.first;
        }
        self.prepare(&mut s, src, buffers, sync)?;
        Ok(sync)
    }

    pub(super) fn sends_buffers(&self) -> bool {
        self.options.broadcast_buffers && !self.buffers.is_empty() && self.group.size() > 1
    }

    /// New buckets after the first step, and the buffers of rank `src`.
    pub(super) fn prepare(
        &self,
        s: &mut State,
        src: usize,
        buffers: bool,
        sync: bool,
    ) -> Result<()> {
        if sync && s.rebuild == Rebuild::Due {
            self.rebuild(s, src)?;
        }
        if buffers {
            let all: Vec<Tensor> = self.buffers.iter().map(|(_, b)| b.detach()).collect();
            self.group.broadcast_coalesced_(&all, src)?;
        }
        Ok(())
    }

    /// Buckets in the order in which rank `src` got its gradients.
    fn rebuild(&self, s: &mut State, src: usize) -> Result<()> {
        s.rebuild = Rebuild::Done;
        if self.alone(s) {
            return Ok(());
        }
        let n = self.slots.len();
        let mut order: Vec<i64> = s.order.drain(..).map(|i| i as i64).collect();
        // Parameters that got no gradient are not among them.
        order.resize(n, -1);
        if self.group.size() > 1 {
            let t = Tensor::from_data(&order, [n])?;
            self.group.broadcast_(&t, src)?;
            order = t.to_vec::<i64>()?;
        }
        let mut seen = vec![false; n];
        let known = order.into_iter().filter_map(|i| usize::try_from(i).ok());
        let mut order: Vec<usize> = known
            .filter(|i| *i < n && !std::mem::replace(&mut seen[*i], true))
            .collect();
        order.extend((0..n).rev().filter(|i| !seen[*i]));
        self.assign(s, order);
        Ok(())
    }

    /// Buckets of the parameters in this order, without those that have COO gradients.
    pub(super) fn assign(&self, s: &mut State, mut order: Vec<usize>) {
        if let Some(coo) = &s.coo {
            order.retain(|i| !coo[*i]);
        }
        let (first, cap) = (
            self.options.first_bucket_bytes,
            self.options.bucket_cap_bytes,
        );
        let buckets = assign(&order, &self.slots, first, cap);
        let same = buckets.len() == s.buckets.len()
            && buckets
                .iter()
                .zip(&s.buckets)
                .all(|(a, b)| a.params == b.params);
        if !same {
            s.place = positions(&buckets, self.slots.len());
            s.buckets = buckets;
        }
    }

    /// What comes after a model ran.
    pub(super) fn after_forward(&self, sync: bool, outputs: &dyn Outputs) -> Result<()> {
        if !is_grad_enabled() {
            return Ok(());
        }
        let mut s = self.state.lock();
        if !sync {
            s.phase = Phase::Local;
            return Ok(());
        }
        self.reset(&mut s);
        s.phase = Phase::Expecting;
        if self.options.static_graph {
            s.unused = match &s.never {
                Some(never) => never.clone(),
                None => self.unreached(outputs),
            };
            s.never = Some(s.unused.clone());
        } else if self.options.find_unused_parameters {
            s.unused = self.unreached(outputs);
        }
        if s.unused.len() == self.slots.len() {
            // No gradient will come that could begin.
            let _quiet = no_grad_guard();
            s.phase = Phase::Backward;
            let done = self.begin(&mut s).and_then(|()| self.send(&mut s));
            return self.keep_failure(&mut s, done);
        }
        Ok(())
    }

    fn reset(&self, s: &mut State) {
        s.ready.fill(false);
        s.left = self.slots.len();
        s.late.clear();
        s.next = 0;
        s.pending.clear();
        s.usage = None;
        for b in &mut s.buckets {
            b.left = b.params.len();
        }
        if s.rebuild == Rebuild::Waiting {
            s.order.clear();
        }
    }

    /// The parameters that no output was computed from.
    fn unreached(&self, outputs: &dyn Outputs) -> Vec<usize> {
        let mut found = vec![false; self.slots.len()];
        let mut stack: Vec<Shared<Node>> = Vec::new();
        outputs.visit(&mut |t| match t.grad_fn() {
            Some(node) => stack.push(node),
            None => self.mark_found(t, &mut found),
        });
        let mut seen: HashSet<usize> = HashSet::new();
        while let Some(node) = stack.pop() {
            if !seen.insert(Shared::as_ptr(&node) as usize) {
                continue;
            }
            if let Some(leaf) = node.variable() {
                self.mark_found(leaf, &mut found);
            }
            stack.extend(node.next_functions().into_iter().flatten().map(|n| n.0));
        }
        (0..found.len()).filter(|i| !found[*i]).collect()
    }

    fn mark_found(&self, t: &Tensor, found: &mut [bool]) {
        for &i in self.at.get(&key(t)).into_iter().flatten() {
            if self.slots[i].tensor.is_same(t) {
                found[i] = true;
            }
        }
    }

    /// A gradient is added up: called by the hook of parameter `i`.
    pub(super) fn arrived(&self, i: usize) -> Result<()> {
        let _quiet = no_grad_guard();
        let mut s = self.state.lock();
        let name = &self.slots[i].name;
        match &s.phase {
            Phase::Local => {
                s.used[i] = true;
                return Ok(());
            }
            Phase::Fresh | Phase::Done if !self.syncs() => {
                s.used[i] = true;
                return Ok(());
            }
            Phase::Fresh => {
                return Err(TorshError::invalid(
                    OP,
                    format!("a gradient of {name} came without a forward pass of the wrapped model"),
                )
                .with_hint("call forward of the DistributedDataParallel model, not of its module(); what only adds up gradients belongs into no_sync()"));
            }
            Phase::Done => {
                return Err(TorshError::invalid(
                    OP,
                    format!("a second backward pass without a forward pass: a gradient of {name} came after the step's gradients were averaged"),
                )
                .with_hint("add the losses and call backward once, or run all but the last within no_sync()"));
            }
            Phase::Failed(why) => {
                return Err(TorshError::invalid(
                    OP,
                    format!("the step failed before: {why}"),
                ));
            }
            Phase::Expecting | Phase::Backward => {}
        }
        let done = self.add(&mut s, i);
        self.keep_failure(&mut s, done)
    }

    fn keep_failure(&self, s: &mut State, done: Result<()>) -> Result<()> {
        if let Err(e) = &done {
            s.phase = Phase::Failed(e.to_string());
            s.pending.clear();
            s.usage = None;
        }
        done
    }

    fn add(&self, s: &mut State, i: usize) -> Result<()> {
        if matches!(s.phase, Phase::Expecting) {
            s.phase = Phase::Backward;
            self.begin(s)?;
        }
        if s.ready[i] {
            let name = &self.slots[i].name;
            return Err(match s.unused.contains(&i) {
                true => TorshError::invalid(
                    OP,
                    format!("a gradient of {name} came, of which the graph showed no use"),
                )
                .with_hint("let run() return all outputs that take part in the loss; a graph that changes is not static_graph(true)"),
                false => TorshError::invalid(
                    OP,
                    format!("a gradient of {name} came twice in one step"),
                )
                .with_hint("add the losses of one forward pass and call backward once"),
            });
        }
        s.used[i] = true;
        if s.rebuild == Rebuild::Waiting {
            s.order.push(i);
        }
        self.mark(s, i)?;
        self.send(s)
    }

    /// The first gradient of a step: what gets none is ready.
    fn begin(&self, s: &mut State) -> Result<()> {
        for i in s.unused.clone() {
            self.mark(s, i)?;
        }
        Ok(())
    }

    /// A gradient is there, or known to be none.
    fn mark(&self, s: &mut State, i: usize) -> Result<()> {
        s.ready[i] = true;
        s.left -= 1;
        match self.alone(s) || s.coo.is_none() {
            true => Ok(()),
            false => self.fill(s, i),
        }
    }

    /// Puts a gradient into its bucket.
    pub(super) fn fill(&self, s: &mut State, i: usize) -> Result<()> {
        let Some((b, at)) = s.place[i] else {
            return Ok(());
        };
        s.buckets[b].left -= 1;
        let view = s.buckets[b].view(at)?;
        let tensor = &self.slots[i].tensor;
        match tensor.grad() {
            Some(g) if g.is_sparse() && self.tells_usage(s) => {
                s.late.push(i);
                view.zero_()?;
            }
            Some(g) if g.shares_storage(&view) && g.storage_offset() == view.storage_offset() => {}
            Some(g) => {
                let g = match g.layout().is_strided() {
                    true => g.detach(),
                    false => self.whole(i, &g)?,
                };
                view.copy_(&g)?;
                if self.options.gradient_as_bucket_view && s.used[i] {
                    tensor.set_grad(Some(view))?;
                }
            }
            // Adds nothing to what other ranks send.
            None => {
                view.zero_()?;
            }
        }
        Ok(())
    }

    /// Sends the buckets that are full, in order; after the last gradient, waits for all.
    fn send(&self, s: &mut State) -> Result<()> {
        if !self.alone(s) {
            if s.coo.is_none() {
                if s.left > 0 {
                    return Ok(());
                }
                self.learn(s, true)?;
            }
            while s.next < s.buckets.len() && s.buckets[s.next].left == 0 {
                self.launch(s)?;
            }
        }
        match s.left {
            0 => self.finish(s),
            _ => Ok(()),
        }
    }

    /// By how many ranks sums are divided, where it is not by all.
    pub(super) fn active(&self, s: &State) -> Option<usize> {
        let join = s.join.as_ref()?;
        let some = join.active.len() < self.group.size();
        (some && !join.options.divide_by_initial_world_size).then_some(join.active.len())
    }

    /// Sends the next bucket.
    fn launch(&self, s: &mut State) -> Result<()> {
        let index = s.next;
        s.next += 1;
        let buffer = s.buckets[index].flat()?;
        let active = self.active(s);
        let bucket = GradBucket {
            index,
            is_last: index + 1 == s.buckets.len(),
            buffer: buffer.clone(),
            places: s.buckets[index].places.clone(),
            parameters: s.buckets[index].parameters.clone(),
            group: self.group.clone(),
        };
        let step = match (&s.hook, self.options.mixed_precision.reduce_dtype) {
            (Some(hook), None) => hook.start(&bucket)?,
            (Some(hook), Some(dtype)) => {
                CompressHook::of(Whole(hook.clone()), dtype).start(&bucket)?
            }
            (None, Some(dtype)) if dtype != buffer.dtype() => {
                CompressHook::of(AllReduceHook, dtype).start(&bucket)?
            }
            (None, _) => match active {
                // The sum by the ranks that still train, rather than the average scaled.
                Some(active) => {
                    let work = self.group.all_reduce_async(&buffer, ReduceOp::Sum)?;
                    let step =
                        CommStep::wait(work).then(move || buffer.div_(active as f64).map(drop));
                    s.pending.push((index, step));
                    return Ok(());
                }
                None => AllReduceHook.start(&bucket)?,
            },
        };
        let step = match active {
            Some(active) => {
                let scale = self.group.size() as f64 / active as f64;
                step.then(move || buffer.mul_(scale).map(drop))
            }
            None => step,
        };
        s.pending.push((index, step));
        Ok(())
    }

    /// Waits for all buckets, collects COO gradients, and gives unused parameters the other ranks' gradients.
    fn finish(&self, s: &mut State) -> Result<()> {
        if !self.alone(s) {
            self.average(s)?;
        }
        if self.options.static_graph {
            s.usage_known = true;
        }
        s.used.fill(false);
        s.phase = Phase::Done;
        self.end_first(s);
        Ok(())
    }

    /// Gives each parameter that a rank used the average of its gradients.
    fn average(&self, s: &mut State) -> Result<()> {
        if self.tells_usage(s) {
            let mut used: Vec<i32> = s.used.iter().map(|u| i32::from(*u)).collect();
            s.late.iter().for_each(|&i| used[i] = LATE);
            self.tell_usage(s, &used)?;
        }
        self.drive(s)?;
        let used = self.usage(s)?;
        let collected = self.collect_coo(s, used.as_deref(), true)?;
        for (i, slot) in self.slots.iter().enumerate() {
            let somewhere = used.as_ref().map_or(s.used[i], |u| u[i] > 0);
            let (Some((b, at)), true) = (s.place[i], somewhere) else {
                continue;
            };
            if collected.iter().any(|(other, _)| *other == i) {
                continue;
            }
            let (tensor, view) = (&slot.tensor, s.buckets[b].view(at)?);
            match tensor.grad() {
                _ if self.options.gradient_as_bucket_view => {
                    if !s.used[i] {
                        tensor.set_grad(Some(view))?;
                    }
                }
                Some(g) if g.layout().is_strided() => {
                    g.detach().copy_(&view)?;
                }
                _ => tensor.set_grad(Some(view.copy()?))?,
            }
        }
        self.keep_coo(s, collected)
    }

    /// After the first step the order is known, unless each step has its own.
    fn end_first(&self, s: &mut State) {
        if s.rebuild == Rebuild::Waiting {
            let fixed = self.options.static_graph || !self.options.find_unused_parameters;
            s.rebuild = if fixed { Rebuild::Due } else { Rebuild::Done };
        }
    }

    /// Lets the buckets take their steps in turn, until all are done.
    fn drive(&self, s: &mut State) -> Result<()> {
        let mut pending = std::mem::take(&mut s.pending);
        while !pending.is_empty() {
            let mut rest = Vec::with_capacity(pending.len());
            for (b, step) in pending {
                if let CommStep::Next(f) = step {
                    rest.push((b, f()?));
                }
            }
            pending = rest;
        }
        Ok(())
    }

    /// Sends which parameters this rank used.
    fn tell_usage(&self, s: &mut State, used: &[i32]) -> Result<()> {
        let device = self
            .slots
            .first()
            .map_or(Device::Cpu, |p| p.tensor.device());
        let device = if device == Device::Meta {
            device
        } else {
            Device::Cpu
        };
        let t = Tensor::from_data(used, [used.len()])?.to_device(device)?;
        let work = match self.group.size() {
            1 => None,
            _ => Some(self.group.all_reduce_async(&t, ReduceOp::Max)?),
        };
        s.usage = Some((t, work));
        Ok(())
    }

    /// How far any rank used the parameters, where the ranks told one another.
    fn usage(&self, s: &mut State) -> Result<Option<Vec<i32>>> {
        let Some((t, work)) = s.usage.take() else {
            return Ok(None);
        };
        if let Some(work) = work {
            work.wait()?;
        }
        if !has_data(&t) {
            return Ok(None);
        }
        t.to_vec::<i32>().map(Some)
    }

    /// A step of the others on a rank that has no more inputs: sends zeros.
    pub(super) fn shadow(&self, s: &mut State) -> Result<()> {
        let _quiet = no_grad_guard();
        self.reset(s);
        if s.coo.is_none() {
            self.learn(s, false)?;
        }
        while s.next < s.buckets.len() {
            let next = s.next;
            s.buckets[next].flat()?.zero_()?;
            self.launch(s)?;
        }
        if self.tells_usage(s) {
            self.tell_usage(s, &vec![0; self.slots.len()])?;
        }
        self.drive(s)?;
        let used = self.usage(s)?;
        let collected = self.collect_coo(s, used.as_deref(), false)?;
        self.keep_coo(s, collected.into_iter().map(|(i, _)| (i, None)).collect())?;
        if self.options.static_graph {
            s.usage_known = true;
        }
        self.end_first(s);
        Ok(())
    }
}

/// A hook behind a pointer.
struct Whole(Arc<dyn CommHook>);

impl CommHook for Whole {
    fn name(&self) -> &str {
        self.0.name()
    }

    #[torsh_tensor::names_caller]
    fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
        self.0.start(bucket)
    }
}
