//! Ranks as threads of one process: messages are copies from the sender's memory to the receiver's.
//!
//! Each rank has a mailbox. A sender leaves a message there, which points to its memory; the receiver finds the receive
//! that waits for it and copies. Collectives are made of such messages, with numbers of their own instead of tags.

mod fold;
mod mailbox;
mod requests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use torsh_core::{DType, Result, TorshError};

use super::members::{self, Members};
use super::{Comm, Engine, EngineOp, Part, Request};
use mailbox::{Key, Mailbox, Message, Tag};
use requests::{Copying, Operation, Queue, Reduction, Wanted};

/// What the ranks of one process share. Clones are the same ranks.
#[derive(Clone)]
pub struct Threads(Arc<Shared>);

struct Shared {
    mailboxes: Vec<Mailbox>,
    /// Which ranks have left: their engines are dropped.
    left: Vec<AtomicBool>,
    left_count: AtomicUsize,
    /// Who aborted, and the code.
    aborted: OnceLock<(usize, i32)>,
    /// How many ranks have said good-bye.
    finished: Mutex<usize>,
    finishing: Condvar,
    new_comms: Mutex<NewComms>,
}

/// Communicators that some of their members have made, and others not yet.
#[derive(Default)]
struct NewComms {
    last: u64,
    waiting: Vec<NewComm>,
}

struct NewComm {
    ranks: Vec<usize>,
    key: u32,
    context: u64,
    made_by: Vec<usize>,
}

impl Threads {
    /// `n` ranks.
    pub fn new(n: usize) -> Threads {
        Threads(Arc::new(Shared {
            mailboxes: (0..n).map(|_| Mailbox::default()).collect(),
            left: (0..n).map(|_| AtomicBool::new(false)).collect(),
            left_count: AtomicUsize::new(0),
            aborted: OnceLock::new(),
            finished: Mutex::new(0),
            finishing: Condvar::new(),
            new_comms: Mutex::default(),
        }))
    }
}

impl Shared {
    fn has_left(&self, rank: usize) -> bool {
        self.left[rank].load(Ordering::Acquire)
    }

    fn abort(&self, rank: usize, code: i32) {
        self.aborted.get_or_init(|| (rank, code));
        let _held = self.finished.lock();
        self.finishing.notify_all();
    }
}

/// What a communicator is to this engine.
struct Own {
    context: u64,
    /// How many collectives were begun; all ranks count alike.
    collectives: u64,
}

/// The engine `threads`: one rank's side.
pub struct ThreadsEngine {
    shared: Arc<Shared>,
    rank: usize,
    comms: Members<Own>,
    /// Messages and receives that wait for one another.
    queues: HashMap<Key, Queue>,
    copies: VecDeque<Copying>,
    operations: HashMap<u64, Operation>,
    next: u64,
    /// Kept for its memory: messages taken from the mailbox.
    incoming: Vec<Arc<Message>>,
    finished: bool,
}

impl ThreadsEngine {
    /// Rank `rank` of `threads`. Each rank is made once.
    pub fn new(threads: &Threads, rank: usize) -> ThreadsEngine {
        let world = Own {
            context: 0,
            collectives: 0,
        };
        ThreadsEngine {
            comms: Members::new(threads.0.mailboxes.len(), rank, world),
            shared: threads.0.clone(),
            rank,
            queues: HashMap::new(),
            copies: VecDeque::new(),
            operations: HashMap::new(),
            next: 0,
            incoming: Vec::new(),
            finished: false,
        }
    }

    /// A new operation, which has nothing to wait for yet.
    fn begin(&mut self, name: &'static str, comm: Comm) -> u64 {
        self.next += 1;
        self.operations
            .insert(self.next, Operation::new(name, comm));
        self.next
    }

    /// The key of the communicator's next collective.
    fn collective(&mut self, op: &'static str, comm: Comm) -> Result<Key> {
        let own = &mut self.comms.get_mut(op, comm)?.own;
        own.collectives += 1;
        Ok(Key {
            context: own.context,
            tag: Tag::Collective(own.collectives),
        })
    }

    /// Sends a part to rank `to` of the communicator as a piece of an operation.
    ///
    /// # Safety
    /// As for [`Engine::send`].
    unsafe fn post_send(
        &mut self,
        id: u64,
        comm: Comm,
        key: Key,
        part: Part,
        to: usize,
    ) -> Result<()> {
        let c = self.comms.get("send", comm)?;
        let to = c.ranks[to];
        // SAFETY: the caller's promise: the operation ends when the message is done, or takes it back.
        let message = Arc::new(unsafe { Message::new(key, c.rank, part.ptr, part.bytes) });
        if !message.is_done()
            && let Some(o) = self.operations.get_mut(&id)
        {
            o.sends.push((to, message.clone()));
        }
        self.shared.mailboxes[to].put(message);
        Ok(())
    }

    /// Receives a part as a piece of an operation. `exact` says that a shorter message is an error too.
    fn post_receive(&mut self, id: u64, key: Key, part: Part, from: Option<usize>, exact: bool) {
        if let Some(o) = self.operations.get_mut(&id) {
            o.receives += 1;
        }
        let wanted = Wanted::new(id, part, from, exact);
        match self.queues.entry(key).or_default().want(wanted) {
            Some((message, wanted)) => self.matched(message, wanted),
            None => return,
        }
        self.tidy(key);
    }

    /// A message has found its receive.
    fn matched(&mut self, message: Arc<Message>, wanted: Wanted) {
        if let Some(problem) = wanted.refuses(&message) {
            message.finish();
            if let Some(o) = self.operations.get_mut(&wanted.operation) {
                o.fail(problem);
            }
            return;
        }
        self.copies.push_back(Copying {
            message,
            wanted,
            at: 0,
        });
    }

    /// Forgets a queue in which nothing waits.
    fn tidy(&mut self, key: Key) {
        if self.queues.get(&key).is_some_and(Queue::is_empty) {
            self.queues.remove(&key);
        }
    }

    /// Takes new messages and copies some of the bytes that can be copied.
    fn progress(&mut self) {
        let mut incoming = std::mem::take(&mut self.incoming);
        self.shared.mailboxes[self.rank].take(&mut incoming);
        for message in incoming.drain(..) {
            let key = message.key;
            if let Some((message, wanted)) = self.queues.entry(key).or_default().arrive(message) {
                self.matched(message, wanted);
                self.tidy(key);
            }
        }
        self.incoming = incoming;
        let mut budget = requests::BYTES_PER_POLL;
        while budget > 0
            && let Some(mut copying) = self.copies.pop_front()
        {
            match copying.advance(&mut budget) {
                Ok(false) => self.copies.push_front(copying),
                Ok(true) => {
                    copying.message.finish();
                    if let Some(o) = self.operations.get_mut(&copying.wanted.operation) {
                        o.receives -= 1;
                    }
                }
                Err(problem) => {
                    if let Some(o) = self.operations.get_mut(&copying.wanted.operation) {
                        o.fail(problem);
                    }
                }
            }
        }
    }

    /// Takes back all that an operation has under way: afterwards nobody uses its memory.
    fn end(&mut self, id: u64) {
        let Some(operation) = self.operations.remove(&id) else {
            return;
        };
        for (_, message) in &operation.sends {
            message.take_back();
        }
        if operation.receives > 0 {
            self.copies.retain(|c| {
                let keep = c.wanted.operation != id;
                if !keep {
                    c.message.finish();
                }
                keep
            });
            self.queues.retain(|_, q| {
                q.forget(id);
                !q.is_empty()
            });
        }
    }

    /// A rank that an operation waits for and that has left, of those in `left`.
    fn waits_for_one_that_left(&self, id: u64, left: &[usize]) -> Option<usize> {
        let operation = self.operations.get(&id)?;
        let sent = operation
            .sends
            .iter()
            .find(|(to, m)| !m.is_done() && left.contains(to));
        if let Some((to, _)) = sent {
            return Some(*to);
        }
        let c = self.comms.get("poll", operation.comm).ok()?;
        let wanted = self.queues.values().flat_map(|q| q.wanted_by(id));
        for from in wanted {
            match from {
                Some(r) if left.contains(&c.ranks[r]) => return Some(c.ranks[r]),
                // The next message of any rank never comes when all others have left.
                None if c.size() > 1
                    && c.ranks.iter().all(|r| *r == self.rank || left.contains(r)) =>
                {
                    return c.ranks.iter().copied().find(|r| *r != self.rank);
                }
                _ => {}
            }
        }
        None
    }

    fn left(&self) -> Vec<usize> {
        if self.shared.left_count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        (0..self.shared.left.len())
            .filter(|r| self.shared.has_left(*r))
            .collect()
    }

    /// The second half of a reduction: sums this rank's piece, and sends the sum to all.
    fn reduce_and_send(&mut self, id: u64, reduction: Reduction) -> Result<()> {
        let Reduction {
            part,
            pieces,
            inputs,
            dtype,
            op,
            key,
        } = reduction;
        let comm = match self.operations.get(&id) {
            Some(o) => o.comm,
            None => return Ok(()),
        };
        let (own, n) = {
            let c = self.comms.get("all_reduce", comm)?;
            (c.rank, c.size())
        };
        let mut inputs = inputs.into_iter();
        let Some(mut sum) = inputs.next() else {
            return Ok(());
        };
        for x in inputs {
            fold::fold(dtype, op, &mut sum, &x);
        }
        let piece = |r: usize| part.piece(&pieces[r]);
        let result = piece(own);
        // SAFETY: the caller of `all_reduce` promised the memory; this rank's piece is read by nobody else now: its first
        // messages are done, and the second ones are made below.
        unsafe { std::ptr::copy_nonoverlapping(sum.as_ptr(), result.ptr, sum.len()) };
        for r in (0..n).filter(|r| *r != own) {
            self.post_receive(id, key, piece(r), Some(r), true);
        }
        for r in (0..n).filter(|r| *r != own) {
            // SAFETY: the caller of `all_reduce` promised the memory until the operation is done.
            unsafe { self.post_send(id, comm, key, result, r)? };
        }
        Ok(())
    }

    #[cold]
    fn aborted(&self) -> Option<TorshError> {
        self.shared.aborted.get().map(|(rank, code)| {
            TorshError::failed(
                "poll",
                format!("rank {rank} aborted the job with code {code}"),
            )
            .with_hint("Its own error says why.")
        })
    }
}

// SAFETY: an operation's memory is in messages, which are done or taken back before `poll` says that it ended, and in
// receives and copies of this engine, which `end` drops. Receives write at most the bytes of their parts.
unsafe impl Engine for ThreadsEngine {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn describe(&self) -> String {
        format!("{} threads of one process", self.world_size())
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.shared.mailboxes.len()
    }

    fn new_comm(&mut self, ranks: &[usize], key: u32) -> Result<Comm> {
        let place = members::place_of(ranks, self.rank, self.world_size())?;
        let mut new = self.shared.new_comms.lock();
        let found = new
            .waiting
            .iter()
            .position(|c| c.key == key && c.ranks == ranks && !c.made_by.contains(&self.rank));
        let index = found.unwrap_or_else(|| {
            new.last += 1;
            let context = new.last;
            new.waiting.push(NewComm {
                ranks: ranks.to_vec(),
                key,
                context,
                made_by: Vec::new(),
            });
            new.waiting.len() - 1
        });
        new.waiting[index].made_by.push(self.rank);
        let context = new.waiting[index].context;
        if new.waiting[index].made_by.len() == ranks.len() {
            new.waiting.remove(index);
        }
        drop(new);
        let own = Own {
            context,
            collectives: 0,
        };
        Ok(self.comms.add(ranks, place, own))
    }

    fn free_comm(&mut self, comm: Comm) -> Result<()> {
        self.comms.remove("free_comm", comm).map(|_| ())
    }

    unsafe fn send(&mut self, comm: Comm, part: Part, to: usize, tag: u32) -> Result<Request> {
        let c = self.comms.send(comm, part, to)?;
        let key = Key {
            context: c.own.context,
            tag: Tag::Message(tag),
        };
        let id = self.begin("send", comm);
        // SAFETY: the caller's promise.
        unsafe { self.post_send(id, comm, key, part, to)? };
        Ok(Request(id))
    }

    unsafe fn receive(
        &mut self,
        comm: Comm,
        part: Part,
        from: Option<usize>,
        tag: u32,
    ) -> Result<Request> {
        let c = self.comms.receive(comm, part, from)?;
        let key = Key {
            context: c.own.context,
            tag: Tag::Message(tag),
        };
        let id = self.begin("receive", comm);
        self.post_receive(id, key, part, from, false);
        Ok(Request(id))
    }

    unsafe fn broadcast(&mut self, comm: Comm, part: Part, root: usize) -> Result<Request> {
        const OP: &str = "broadcast";
        let c = self.comms.broadcast(comm, part, root)?;
        let (own, n) = (c.rank, c.size());
        let key = self.collective(OP, comm)?;
        let id = self.begin(OP, comm);
        if own != root {
            self.post_receive(id, key, part, Some(root), true);
            return Ok(Request(id));
        }
        for r in (0..n).filter(|r| *r != root) {
            // SAFETY: the caller's promise.
            unsafe { self.post_send(id, comm, key, part, r)? };
        }
        Ok(Request(id))
    }

    unsafe fn all_to_all(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: &[Part],
    ) -> Result<Request> {
        const OP: &str = "all_to_all";
        let c = self.comms.all_to_all(comm, send, receive)?;
        let (own, n) = (c.rank, c.size());
        let key = self.collective(OP, comm)?;
        let id = self.begin(OP, comm);
        for i in 1..n {
            let r = (own + i) % n;
            // SAFETY: the caller's promise.
            unsafe { self.post_send(id, comm, key, send[r], r)? };
        }
        for i in 1..n {
            let r = (own + n - i) % n;
            self.post_receive(id, key, receive[r], Some(r), true);
        }
        // SAFETY: the caller's promise for its parts.
        unsafe { members::copy_own(send[own], receive[own]) };
        Ok(Request(id))
    }

    unsafe fn all_gather(&mut self, comm: Comm, send: Part, receive: &[Part]) -> Result<Request> {
        const OP: &str = "all_gather";
        let c = self.comms.all_gather(comm, send, receive)?;
        let (own, n) = (c.rank, c.size());
        let key = self.collective(OP, comm)?;
        let id = self.begin(OP, comm);
        for i in 1..n {
            // SAFETY: the caller's promise.
            unsafe { self.post_send(id, comm, key, send, (own + i) % n)? };
        }
        for i in 1..n {
            let r = (own + n - i) % n;
            self.post_receive(id, key, receive[r], Some(r), true);
        }
        // SAFETY: the caller's promise for its parts.
        unsafe { members::copy_own(send, receive[own]) };
        Ok(Request(id))
    }

    unsafe fn gather(
        &mut self,
        comm: Comm,
        send: Part,
        receive: &[Part],
        root: usize,
    ) -> Result<Request> {
        const OP: &str = "gather";
        let c = self.comms.gather(comm, send, receive, root)?;
        let (own, n) = (c.rank, c.size());
        let key = self.collective(OP, comm)?;
        let id = self.begin(OP, comm);
        if own != root {
            // SAFETY: the caller's promise.
            unsafe { self.post_send(id, comm, key, send, root)? };
            return Ok(Request(id));
        }
        for r in (0..n).filter(|r| *r != root) {
            self.post_receive(id, key, receive[r], Some(r), true);
        }
        // SAFETY: the caller's promise for its parts.
        unsafe { members::copy_own(send, receive[root]) };
        Ok(Request(id))
    }

    unsafe fn scatter(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: Part,
        root: usize,
    ) -> Result<Request> {
        const OP: &str = "scatter";
        let c = self.comms.scatter(comm, send, receive, root)?;
        let (own, n) = (c.rank, c.size());
        let key = self.collective(OP, comm)?;
        let id = self.begin(OP, comm);
        if own != root {
            self.post_receive(id, key, receive, Some(root), true);
            return Ok(Request(id));
        }
        for r in (0..n).filter(|r| *r != root) {
            // SAFETY: the caller's promise.
            unsafe { self.post_send(id, comm, key, send[r], r)? };
        }
        // SAFETY: the caller's promise for its parts.
        unsafe { members::copy_own(send[root], receive) };
        Ok(Request(id))
    }

    fn reduces(&self, dtype: DType, _op: EngineOp) -> bool {
        members::reduced(dtype)
    }

    unsafe fn all_reduce(
        &mut self,
        comm: Comm,
        part: Part,
        dtype: DType,
        op: EngineOp,
    ) -> Result<Request> {
        const OP: &str = "all_reduce";
        let c = self.comms.all_reduce(comm, part, dtype)?;
        let (own, n) = (c.rank, c.size());
        let first = self.collective(OP, comm)?;
        let second = self.collective(OP, comm)?;
        let id = self.begin(OP, comm);
        if n == 1 {
            return Ok(Request(id));
        }
        // Each rank sums one piece of all ranks' parts, and sends it to all.
        // SAFETY: the caller's promise; the pieces are within the part.
        let mut reduction = unsafe { Reduction::new(part, n, own, dtype, op, second) };
        let inputs: Vec<Part> = reduction.inputs.iter_mut().map(requests::part_of).collect();
        for r in (0..n).filter(|r| *r != own) {
            self.post_receive(id, first, inputs[r], Some(r), true);
        }
        for r in (0..n).filter(|r| *r != own) {
            let piece = reduction.part.piece(&reduction.pieces[r]);
            // SAFETY: the caller's promise. The piece is written only by the message with its sum, which its rank sends
            // when it has received this one.
            unsafe { self.post_send(id, comm, first, piece, r)? };
        }
        if let Some(o) = self.operations.get_mut(&id) {
            o.then = Some(reduction);
        }
        Ok(Request(id))
    }

    fn poll(&mut self, request: Request) -> Result<bool> {
        let id = request.0;
        if let Some(problem) = self.aborted() {
            self.end(id);
            return Err(problem);
        }
        if !self.operations.contains_key(&id) {
            return Err(members::no_request());
        }
        // Before the messages: what a rank sent before it left is in the mailbox then.
        let left = self.left();
        loop {
            self.progress();
            let Some(operation) = self.operations.get_mut(&id) else {
                return Err(members::no_request());
            };
            if let Some(problem) = operation.take_problem() {
                self.end(id);
                return Err(problem);
            }
            if operation.is_done() {
                let Some(reduction) = operation.then.take() else {
                    self.operations.remove(&id);
                    return Ok(true);
                };
                if let Err(problem) = self.reduce_and_send(id, reduction) {
                    self.end(id);
                    return Err(problem);
                }
                continue;
            }
            break;
        }
        if !left.is_empty()
            && let Some(rank) = self.waits_for_one_that_left(id, &left)
        {
            let op = self.operations.get(&id).map_or("poll", |o| o.name);
            self.end(id);
            return Err(TorshError::failed(
                op,
                format!("rank {rank} has left, and rank {} waits for it", self.rank),
            )
            .with_hint("It ended before this operation: its own error, or a rank that skipped a call, says why."));
        }
        Ok(false)
    }

    fn abort(&mut self, code: i32) {
        self.shared.abort(self.rank, code);
    }

    fn finish(&mut self) -> Result<()> {
        let under_way: Vec<u64> = self.operations.keys().copied().collect();
        under_way.into_iter().for_each(|id| self.end(id));
        let n = self.world_size();
        let mut finished = self.shared.finished.lock();
        if !self.finished {
            self.finished = true;
            *finished += 1;
            self.shared.finishing.notify_all();
        }
        loop {
            if let Some(problem) = self.aborted() {
                return Err(problem);
            }
            if *finished >= n {
                return Ok(());
            }
            self.shared.finishing.wait(&mut finished);
        }
    }
}

impl Drop for ThreadsEngine {
    fn drop(&mut self) {
        let under_way: Vec<u64> = self.operations.keys().copied().collect();
        under_way.into_iter().for_each(|id| self.end(id));
        let mut finished = self.shared.finished.lock();
        self.shared.left[self.rank].store(true, Ordering::Release);
        self.shared.left_count.fetch_add(1, Ordering::Release);
        if !self.finished {
            self.finished = true;
            *finished += 1;
        }
        self.shared.finishing.notify_all();
    }
}
