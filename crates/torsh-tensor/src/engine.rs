//! Reverse-mode differentiation: walks the recorded graph from the results to the leaves.
//!
//! Nodes are numbered in order of creation, and a node's edges lead only to nodes created before it.
//! So the pending node with the highest number has already received all its gradients. The engine
//! keeps pending nodes in one ordered map (`Queue`), and the one with the highest number beside it.
//! It needs neither a dependency count nor recursion.
//!
//! Leaves have the number 0 and come last. Only a leaf with hooks that follow its gradient (`run_after`)
//! comes as soon as it has received all of it, so that such a hook may send the gradient while the pass
//! goes on: the edges that lead to such leaves are counted (`count_edges`).

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use torsh_core::attrs::NONE;

use torsh_core::{Attributes, Result, Shared, TorshError, alloc};

use crate::Tensor;
use crate::mode;
use crate::node::{Edge, Grads, Kind, Node, SavedSet};
use crate::observe::{self, Work};
use crate::ops::shape::{self, Part};

mod apply;
mod parts;

use apply::apply;
use parts::Parts;

/// A node, which the roots keep alive, with the gradients it has received.
struct Pending<'a> {
    node: &'a Shared<Node>,
    grads: Grads,
}

/// Unique: the number, then the address (all leaves have the number 0).
type Key = (u64, usize);

fn key(node: &Shared<Node>) -> Key {
    (node.seq, Shared::as_ptr(node) as usize)
}

/// The pending nodes.
#[derive(Default)]
struct Queue<'a> {
    /// The node with the highest key, outside of the map: in a chain of ops it is the only one, and
    /// the map stays empty.
    next: Option<(Key, Pending<'a>)>,
    rest: BTreeMap<Key, Pending<'a>>,
    /// Gradients of which parts are not written yet, so they are not in `rest` or `next`.
    parts: Vec<(&'a Edge, Parts)>,
    /// How many gradients the counted leaves still wait for, by the addresses of their nodes.
    counted: HashMap<usize, usize>,
    /// Counted leaves that have received all of them.
    ready: VecDeque<Pending<'a>>,
}

impl<'a> Queue<'a> {
    /// Notes that a counted leaf received one of its gradients, or a part of one.
    fn arrived(&mut self, node: &'a Shared<Node>) -> Result<()> {
        let address = Shared::as_ptr(node) as usize;
        let Some(left) = self.counted.get_mut(&address) else {
            return Ok(());
        };
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        self.counted.remove(&address);
        self.complete(|e| Shared::ptr_eq(&e.node, node))?;
        let k = key(node);
        let pending = match &self.next {
            Some((highest, _)) if *highest == k => {
                let pending = self.next.take();
                self.next = self.rest.pop_last();
                pending.map(|(_, p)| p)
            }
            _ => self.rest.remove(&k),
        };
        self.ready.extend(pending);
        Ok(())
    }

    fn pop(&mut self) -> Result<Option<Pending<'a>>> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(Some(ready));
        }
        if !self.parts.is_empty()
            && let Some((_, p)) = &self.next
        {
            let node = p.node;
            self.complete(|e| Shared::ptr_eq(&e.node, node))?;
        }
        let Some((_, p)) = self.next.take() else {
            return Ok(None);
        };
        if !self.rest.is_empty() {
            self.next = self.rest.pop_last();
        }
        Ok(Some(p))
    }

    /// The gradient that an edge's node has received through the edge so far.
    fn received(&self, e: &Edge) -> Option<&Tensor> {
        let k = key(&e.node);
        let p = match &self.next {
            Some((highest, p)) if *highest == k => p,
            _ => self.rest.get(&k)?,
        };
        p.grads.get(e.output_nr as usize)?.as_ref()
    }

    /// The entry of `node`, created if there is none.
    fn entry(&mut self, node: &'a Shared<Node>) -> &mut Pending<'a> {
        let k = key(node);
        let new = || {
            let mut grads = Grads::new();
            match node.outputs.len() {
                1 => grads.push(None),
                n => grads.resize(n, None),
            }
            Pending { node, grads }
        };
        match &mut self.next {
            Some((highest, _)) if *highest > k => {
                return self.rest.entry(k).or_insert_with(new);
            }
            Some((highest, _)) if *highest < k => {
                if let Some((k, p)) = self.next.replace((k, new())) {
                    self.rest.insert(k, p);
                }
            }
            Some(_) => {}
            None => self.next = Some((k, new())),
        }
        match &mut self.next {
            Some((_, p)) => p,
            None => unreachable!("set above"),
        }
    }
}

/// The options of a backward run.
pub(crate) struct Run<'a> {
    pub(crate) retain_graph: bool,
    pub(crate) create_graph: bool,
    /// The edges at which to stop and whose gradients to return; `None` adds to the leaves' `.grad`
    /// instead.
    pub(crate) inputs: Option<&'a [Edge]>,
}

/// Propagates the gradients of `roots` through the graph. Returns a gradient for each requested
/// input.
pub(crate) fn run(roots: Vec<(Edge, Tensor)>, run: &Run<'_>) -> Result<Vec<Option<Tensor>>> {
    let (roots, grads): (Vec<Edge>, Vec<Tensor>) = roots.into_iter().unzip();
    // Formulas are ops: they are recorded exactly when their result must be differentiable again.
    let guard = if run.create_graph {
        mode::enable_grad_guard()
    } else {
        mode::no_grad_guard()
    };
    // Backward computes in the dtypes that forward recorded.
    let _plain = mode::guard(0, mode::AUTOCAST | mode::CHECK_FORWARD);
    let mut found: Vec<Option<Tensor>> = vec![None; run.inputs.map_or(0, <[Edge]>::len)];
    let needed = run.inputs.map(|inputs| needed_nodes(&roots, inputs));
    let mut queue = Queue::default();
    if run.inputs.is_none() && ANY_AFTER.load(Ordering::Relaxed) {
        queue.counted = count_edges(&roots);
    }
    for (edge, g) in roots.iter().zip(grads) {
        push(&mut queue, &needed, edge, Some(g), run.create_graph)?;
    }
    let observed = guard.before() & mode::OBSERVE != 0;
    while let Some(Pending { node, grads }) = queue.pop()? {
        tell(observed, Work::Node(node), || {
            step(node, grads, run, &needed, &mut found, &mut queue, observed)
        })?;
    }
    Ok(found)
}

/// Runs a part of the backward pass, and notifies the thread's observers if there are any.
#[inline]
fn tell<T>(observed: bool, work: Work<'_>, f: impl FnOnce() -> Result<T>) -> Result<T> {
    if !observed {
        return f();
    }
    observe::scope(work, &[], NONE, None, &[], f)
}

/// Processes a node that has received all its gradients.
#[inline]
fn step<'a>(
    node: &'a Shared<Node>,
    mut grads: Grads,
    run: &Run<'_>,
    needed: &Option<HashSet<usize>>,
    found: &mut [Option<Tensor>],
    queue: &mut Queue<'a>,
    observed: bool,
) -> Result<()> {
    run_hooks(node, &mut grads)?;
    if let Some(inputs) = run.inputs {
        for (slot, e) in found.iter_mut().zip(inputs) {
            if Shared::ptr_eq(&e.node, node) {
                *slot = grads.get(e.output_nr as usize).cloned().flatten();
            }
        }
    }
    if let Kind::Accumulate(leaf) = &node.kind {
        if run.inputs.is_none()
            && let Some(g) = grads.into_iter().next().flatten()
        {
            tell(observed, Work::Formula(node), || {
                accumulate(leaf, g, run.create_graph)
            })?;
            post_hooks(node, &mut Grads::new())?;
            run_after(leaf)?;
        }
        return Ok(());
    }
    let goes_on = match needed {
        None => true,
        some => node
            .inputs
            .iter()
            .any(|i| i.edge.as_ref().is_some_and(|e| is_needed(some, e))),
    };
    if !goes_on {
        return Ok(());
    }
    if let Kind::Op { record, attrs } = &node.kind
        && shape::is_part(record)
        && !(run.create_graph || observed || mode::is_anomaly_enabled())
        && add_to_part(node, attrs.get(), &grads, needed, queue)?
    {
        return Ok(());
    }
    let mut results = Grads::new();
    run_node(node, &mut grads, run, needed, observed, &mut results)?;
    for (input, g) in node.inputs.iter().zip(&mut results) {
        if let Some(e) = &input.edge {
            push(queue, needed, e, g.take(), run.create_graph)?;
        }
    }
    Ok(())
}

/// Writes the gradient of a part into the gradient of the whole tensor, or adds it to a gradient
/// that has no other owner. Returns whether the part is done.
#[inline(never)]
fn add_to_part<'a>(
    node: &'a Node,
    attrs: &dyn Attributes,
    grads: &Grads,
    needed: &Option<HashSet<usize>>,
    queue: &mut Queue<'a>,
) -> Result<bool> {
    if node.checkpoint.is_some() || node.hooks.get().is_some() {
        return Ok(false);
    }
    let ([input], [Some(g)]) = (&node.inputs[..], &grads[..]) else {
        return Ok(false);
    };
    let (Some(e), spec) = (&input.edge, node.input_spec(0)) else {
        return Ok(false);
    };
    if !is_needed(needed, e) {
        return Ok(false);
    }
    let part = Part::new(attrs, g)?;
    let done = if queue.received(e).is_none() && queue.write(e, spec, &part)? {
        true
    } else {
        match queue.received(e) {
            Some(have) if have.owns_buffer() && have.shape() == spec.0 => match part.of(have)? {
                Some(there) => there.add_(&part.g).map(|_| true)?,
                None => false,
            },
            _ => false,
        }
    };
    if done && !queue.counted.is_empty() {
        queue.arrived(&e.node)?;
    }
    Ok(done)
}

/// Whether the node of an edge needs a gradient.
#[inline]
fn is_needed(needed: &Option<HashSet<usize>>, edge: &Edge) -> bool {
    match needed {
        None => true,
        Some(set) => set.contains(&(Shared::as_ptr(&edge.node) as usize)),
    }
}

/// Adds a gradient to those that an edge's node has received.
fn push<'a>(
    queue: &mut Queue<'a>,
    needed: &Option<HashSet<usize>>,
    edge: &'a Edge,
    g: Option<Tensor>,
    create_graph: bool,
) -> Result<()> {
    if !is_needed(needed, edge) {
        return Ok(());
    }
    if !queue.parts.is_empty() {
        queue.complete(|e| e.is(edge))?;
    }
    let nr = edge.output_nr as usize;
    let p = queue.entry(&edge.node);
    if let Some(g) = g {
        let slot = &mut p.grads[nr];
        *slot = Some(match slot.take() {
            None => g,
            Some(have) => add(have, g, create_graph)?,
        });
    }
    match queue.counted.is_empty() {
        true => Ok(()),
        false => queue.arrived(&edge.node),
    }
}

/// The sum of two gradients, in the first one's buffer if it has no other owner.
fn add(have: Tensor, g: Tensor, create_graph: bool) -> Result<Tensor> {
    if !create_graph && have.owns_buffer() && have.dtype() == g.dtype() && have.shape() == g.shape()
    {
        return have.add_(&g);
    }
    have.add(&g)
}

/// Whether any leaf ever had a hook that follows its gradient.
static ANY_AFTER: AtomicBool = AtomicBool::new(false);

/// Notes that a leaf has a hook that follows its gradient.
pub(crate) fn note_after() {
    ANY_AFTER.store(true, Ordering::Relaxed);
}

/// How many edges lead to each leaf that has hooks that follow its gradient, by the addresses of the leaves' nodes.
#[cold]
fn count_edges(roots: &[Edge]) -> HashMap<usize, usize> {
    let mut counted: HashMap<usize, usize> = HashMap::new();
    let mut seen: HashSet<usize> = HashSet::new();
    let mut stack: Vec<&Shared<Node>> = Vec::new();
    let mut visit = |e: &'_ Edge| {
        if let Kind::Accumulate(leaf) = &e.node.kind {
            let has_hooks = leaf
                .meta()
                .is_some_and(|m| !m.state.lock().after.is_empty());
            if has_hooks {
                *counted.entry(Shared::as_ptr(&e.node) as usize).or_default() += 1;
            }
            return false;
        }
        seen.insert(Shared::as_ptr(&e.node) as usize)
    };
    stack.extend(roots.iter().filter(|e| visit(e)).map(|e| &e.node));
    while let Some(node) = stack.pop() {
        for e in node.inputs.iter().filter_map(|i| i.edge.as_ref()) {
            if visit(e) {
                stack.push(&e.node);
            }
        }
    }
    counted
}

/// The nodes on a path from the roots to the inputs, including the inputs.
fn needed_nodes(roots: &[Edge], inputs: &[Edge]) -> HashSet<usize> {
    let mut seen: HashSet<usize> = HashSet::new();
    let mut all: Vec<Shared<Node>> = Vec::new();
    let mut stack: Vec<Shared<Node>> = roots.iter().map(|e| e.node.clone()).collect();
    while let Some(n) = stack.pop() {
        if !seen.insert(Shared::as_ptr(&n) as usize) {
            continue;
        }
        for i in &n.inputs {
            if let Some(e) = &i.edge {
                stack.push(e.node.clone());
            }
        }
        all.push(n);
    }
    all.sort_by_key(|n| n.seq);
    let mut needed: HashSet<usize> = inputs
        .iter()
        .map(|e| Shared::as_ptr(&e.node) as usize)
        .collect();
    for n in &all {
        if n.inputs.iter().any(|i| {
            i.edge
                .as_ref()
                .is_some_and(|e| needed.contains(&(Shared::as_ptr(&e.node) as usize)))
        }) {
            needed.insert(Shared::as_ptr(n) as usize);
        }
    }
    needed
}

fn run_hooks(node: &Shared<Node>, grads: &mut Grads) -> Result<()> {
    if let Kind::Accumulate(leaf) = &node.kind {
        let hooks = leaf
            .meta()
            .map(|m| m.state.lock().hooks.clone())
            .unwrap_or_default();
        for h in hooks {
            if let Some(g) = &grads[0]
                && let Some(new) = (h.f)(g)?
            {
                grads[0] = Some(checked_hook(g, new)?);
            }
        }
    }
    let (tensor, pre, retain) = {
        let Some(h) = node.hooks.get() else {
            return Ok(());
        };
        let h = h.lock();
        (h.tensor.clone(), h.pre.clone(), h.retain.clone())
    };
    for (nr, h) in tensor {
        if let Some(g) = grads[nr as usize].clone()
            && let Some(new) = (h.f)(&g)?
        {
            grads[nr as usize] = Some(checked_hook(&g, new)?);
        }
    }
    for (nr, t) in retain {
        if let (Some(inner), Some(g)) = (t.upgrade(), &grads[nr as usize]) {
            Tensor(inner).meta_or_new().state.lock().grad = Some(g.clone());
        }
    }
    for (_, f) in pre {
        f(grads)?;
    }
    Ok(())
}

fn checked_hook(old: &Tensor, new: Tensor) -> Result<Tensor> {
    if old.shape() != new.shape() || old.dtype() != new.dtype() {
        return Err(TorshError::autograd(
            "backward",
            format!(
                "a hook turned a gradient {} into {}",
                old.describe(),
                new.describe()
            ),
        )
        .with_hint("a hook must keep shape and dtype"));
    }
    Ok(new)
}

/// Runs a node's formula, which puts the gradients of the operands into `results`, empty before.
fn run_node(
    node: &Shared<Node>,
    grads: &mut Grads,
    run: &Run<'_>,
    needed: &Option<HashSet<usize>>,
    observed: bool,
    results: &mut Grads,
) -> Result<()> {
    if grads.iter().all(Option::is_none) {
        results.resize(node.inputs.len(), None);
        return Ok(());
    }
    let mut wanted = 0u64;
    for (i, input) in node.inputs.iter().enumerate() {
        if let Some(e) = &input.edge
            && is_needed(needed, e)
        {
            wanted |= 1 << i.min(63);
        }
    }
    let saved = take_saved(node, run.retain_graph)?;
    let result = tell(observed, Work::Formula(node), || {
        apply(node, &saved, grads, wanted, results)
    });
    result.map_err(|e| locate(e, node))?;
    if mode::is_anomaly_enabled() {
        check_nan(node, results)?;
    }
    post_hooks(node, results)
}

fn post_hooks(node: &Node, results: &mut Grads) -> Result<()> {
    let Some(h) = node.hooks.get() else {
        return Ok(());
    };
    let post = h.lock().post.clone();
    for (_, f) in post {
        f(results)?;
    }
    Ok(())
}

/// Calls a leaf's hooks that follow its gradient.
fn run_after(leaf: &Tensor) -> Result<()> {
    let hooks = match leaf.meta() {
        Some(m) => {
            let state = m.state.lock();
            if state.after.is_empty() {
                return Ok(());
            }
            state.after.clone()
        }
        None => return Ok(()),
    };
    hooks.iter().try_for_each(|h| (h.f)(leaf).map(|_| ()))
}

#[cold]
fn again() -> TorshError {
    TorshError::autograd(
        "backward",
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)",
    )
    .with_hint("compute the result anew for each pass (what was computed before a loop belongs to its first pass: detach() it), or pass retain_graph = true to the first backward: backward_with(None, true, false)")
}

fn take_saved(node: &Node, retain: bool) -> Result<SavedSet> {
    let mut s = node.saved.lock();
    if let Some((c, index)) = &node.checkpoint {
        let set = s.is_some().then(|| c.saved(*index)).ok_or_else(again)??;
        if !retain {
            *s = None;
            c.free(*index);
        }
        return Ok(set);
    }
    // If nothing was saved, there is nothing to free, and a second pass is possible. (`CopySlices`
    // is excluded: the values of its inner node belong to it.)
    let again_fine =
        s.as_ref().is_some_and(SavedSet::is_empty) && !matches!(node.kind, Kind::CopySlices { .. });
    if !retain && !again_fine {
        return s.take().ok_or_else(again);
    }
    // Several threads may run backward through a retained graph at once. So the values are cloned,
    // which only increments reference counts.
    s.as_ref().map(SavedSet::share).ok_or_else(again)
}

#[cold]
fn locate(e: TorshError, node: &Node) -> TorshError {
    match (mode::is_anomaly_enabled(), node.site) {
        (true, Some(at)) => {
            let name = node.name();
            let e = e.renamed(&name);
            e.with_hint(format!("the forward call was at {at}"))
        }
        _ => e,
    }
}

#[cold]
fn check_nan(node: &Node, results: &Grads) -> Result<()> {
    for (i, g) in results.iter().enumerate() {
        if let Some(g) = g
            && g.dtype().is_differentiable()
            && mode::no_grad(|| has_nan(g))?
        {
            let at = node
                .site
                .map_or("an unknown place".to_string(), ToString::to_string);
            return Err(TorshError::autograd(
                "backward",
                format!(
                    "Function '{}' returned nan values in its {i}th output",
                    node.name()
                ),
            )
            .with_hint(format!("the forward call was at {at}")));
        }
    }
    Ok(())
}

/// Whether an element is nan; of a sparse gradient, a stored one.
fn has_nan(g: &Tensor) -> Result<bool> {
    let g = g.stored();
    Ok(g.ne(&g)?.sum()?.item::<i64>()? > 0)
}

/// Refuses to lay out a gradient of all elements of a sparse leaf that has no room in memory.
fn room_for(leaf: &Tensor, g: &Tensor) -> Result<()> {
    let whole = !leaf.is_strided() && g.is_strided() && g.device().is_host();
    if !whole || alloc::check(g.numel(), g.dtype().size()).is_ok() {
        return Ok(());
    }
    Err(TorshError::failed(
        "backward",
        format!(
            "the gradient of {} ({}) is strided, and does not fit the memory",
            leaf.describe(),
            leaf.layout()
        ),
    )
    .with_hint("sparse::sum, sparse::mm and other functions of sparse:: give a gradient of its own pattern"))
}

/// Adds a gradient to a leaf's `.grad`.
fn accumulate(leaf: &Tensor, g: Tensor, create_graph: bool) -> Result<()> {
    let m = leaf.meta_or_new();
    let mut s = m.state.lock();
    match &s.grad {
        None => {
            // The leaf takes over a buffer without other owners. A shared buffer is copied, so that
            // a write to one `.grad` is never visible in another.
            let laid_out = g.stride() == leaf.stride() || !leaf.is_strided();
            let own = if create_graph || (g.owns_buffer() && laid_out) {
                g
            } else {
                room_for(leaf, &g)?;
                g.detach().copy_like(leaf)?
            };
            s.grad = Some(own);
        }
        Some(have) => {
            if create_graph {
                // Recording the sum may read the leaf's own history (a hook may return the leaf),
                // so the lock is not held. The sum counts if no other thread changed the gradient
                // meanwhile.
                let have = have.clone();
                drop(s);
                let sum = have.add(&g)?;
                let mut s = m.state.lock();
                if s.grad.as_ref().is_some_and(|now| now.is_same(&have)) {
                    s.grad = Some(sum);
                    return Ok(());
                }
                drop(s);
                return accumulate(leaf, g, create_graph);
            } else {
                let _quiet = mode::no_grad_guard();
                if have.is_strided() || !g.is_strided() {
                    have.add_(&g)?;
                } else {
                    s.grad = Some(have.add(&g)?);
                }
            }
        }
    }
    Ok(())
}
