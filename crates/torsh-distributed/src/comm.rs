//! The communication thread: it owns the engine, starts operations in their order and drives them.
//!
//! An operation is a future that awaits requests of the engine. The thread polls all that are under way; nothing else
//! wakes them. Callers queue operations and get a [`Work`](crate::Work).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use torsh_tensor::{DType, Result, Shared, Storage, TorshError};

use crate::engine::{Comm, Engine, EngineOp, Request};
use crate::failure::{Record, Ticket};
use crate::group::GroupState;
use crate::work::State as WorkState;

mod exit;
mod memory;
mod post;
mod thread;

pub(crate) use exit::{install as install_exit, timer_slack};
pub(crate) use memory::Memory;
use memory::{Holds, Pool};
pub(crate) use post::{CONTROL, Message, PIECE, Payload, SMALL, hash};
use thread::Thread;

/// What an operation's code becomes on the communication thread.
pub(crate) type Steps = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Operations of one lane start in their order. Those of different lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Collective(Comm),
    Send(Comm, usize, u32),
    Receive(Comm, usize, u32),
}

/// An operation that a caller has queued.
pub(crate) struct Operation {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) work: Arc<WorkState>,
    pub(crate) lane: Lane,
    pub(crate) deadline: Instant,
    pub(crate) steps: Box<dyn FnOnce(Call) -> Steps + Send>,
}

/// What callers tell the thread.
pub(crate) enum Command {
    Run(Operation),
    /// Ends the job on all ranks.
    Abort(i32),
    /// Says good-bye to the other ranks, waits so long for theirs, and ends the thread.
    Finish(Duration),
}

/// The way to the communication thread.
pub(crate) struct Node {
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) engine: &'static str,
    pub(crate) describe: String,
    pub(crate) record: Record,
    commands: Mutex<VecDeque<Command>>,
    /// How many commands wait, to be read without the lock.
    waiting: AtomicUsize,
    asleep: AtomicBool,
    wake: Condvar,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
}

impl Node {
    /// Starts a communication thread with the engine that `make` gives, on that thread.
    pub(crate) fn start<E: Engine + 'static>(
        make: impl FnOnce() -> Result<E> + Send + 'static,
    ) -> Result<Arc<Node>> {
        Node::start_within(Duration::MAX, make)
    }

    /// [`Node::start`] of an engine that waits for the other ranks: an error if they do not come in time. The thread
    /// waits on then, and ends the job if they come.
    pub(crate) fn start_within<E: Engine + 'static>(
        patience: Duration,
        make: impl FnOnce() -> Result<E> + Send + 'static,
    ) -> Result<Arc<Node>> {
        let (tell, told) = std::sync::mpsc::channel::<Result<Arc<Node>>>();
        let body = move || -> Result<()> {
            timer_slack();
            let mut engine = match make() {
                Ok(engine) => engine,
                Err(e) => {
                    let _ = tell.send(Err(e));
                    return Ok(());
                }
            };
            let node = Arc::new(Node {
                rank: engine.rank(),
                world_size: engine.world_size(),
                engine: engine.name(),
                describe: engine.describe(),
                record: Record::default(),
                commands: Mutex::new(VecDeque::new()),
                waiting: AtomicUsize::new(0),
                asleep: AtomicBool::new(false),
                wake: Condvar::new(),
                closed: AtomicBool::new(false),
                thread: Mutex::new(None),
            });
            if tell.send(Ok(node.clone())).is_err() {
                engine.abort(1);
                return Ok(());
            }
            drop(tell);
            Thread::new(node, Box::new(engine)).run()
        };
        let thread = std::thread::Builder::new()
            .name("torsh-comm".into())
            .spawn(body)?;
        match told.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => Err(TorshError::invalid(
                "init_distributed",
                format!("not all ranks had started MPI after {patience:?}"),
            )
            .with_hint("every program that mpiexec starts must call init_distributed; TORSH_DISTRIBUTED_TIMEOUT sets the deadline in seconds")),
            Ok(Ok(node)) => {
                *node.thread.lock() = Some(thread);
                Ok(node)
            }
            Ok(Err(e)) => {
                let _ = thread.join();
                Err(e)
            }
            Err(_) => Err(TorshError::Other(
                "the communication thread ended before it began".into(),
            )),
        }
    }

    /// Whether collectives only count the traffic.
    pub(crate) fn is_fake(&self) -> bool {
        self.engine == "fake"
    }

    /// Queues commands in the order of the calls.
    pub(crate) fn push(&self, command: Command) -> Result<()> {
        let mut commands = self.commands.lock();
        if self.closed.load(Ordering::Acquire) {
            drop(commands);
            return Err(TorshError::invalid("", "the process group was destroyed")
                .with_hint("call init_distributed again"));
        }
        commands.push_back(command);
        self.waiting.store(commands.len(), Ordering::Release);
        if self.asleep.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Tells the thread to end and waits until it has. Once only; later calls find it gone.
    pub(crate) fn finish(&self, patience: Duration) -> Result<()> {
        let Some(thread) = self.thread.lock().take() else {
            return Ok(());
        };
        // It may be closed already, after an abort.
        let _ = self.push(Command::Finish(patience));
        if thread.thread().id() == std::thread::current().id() {
            return Ok(()); // The last handle was dropped on the thread itself, which ends by and by.
        }
        match thread.join() {
            Ok(r) => r,
            Err(_) => Err(TorshError::Other(
                "the communication thread panicked".into(),
            )),
        }
    }

    fn pop(&self) -> Option<Command> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut commands = self.commands.lock();
        let command = commands.pop_front();
        self.waiting.store(commands.len(), Ordering::Release);
        command
    }

    /// No command is taken from now on.
    fn close(&self) -> VecDeque<Command> {
        let mut commands = self.commands.lock();
        self.closed.store(true, Ordering::Release);
        self.waiting.store(0, Ordering::Release);
        std::mem::take(&mut *commands)
    }

    /// Sleeps until a command comes, or for a time.
    fn sleep(&self, time: Duration) {
        let mut commands = self.commands.lock();
        if commands.is_empty() {
            self.asleep.store(true, Ordering::Release);
            self.wake.wait_for(&mut commands, time);
            self.asleep.store(false, Ordering::Release);
        }
    }
}

/// What operations share on the communication thread.
pub(crate) struct Cx {
    engine: RefCell<Box<dyn Engine>>,
    pub(crate) node: Arc<Node>,
    pool: Rc<Pool>,
    holds: Holds,
    /// Requests that nobody awaits any more. Their memory stays until they are done.
    orphans: RefCell<Vec<(Request, Vec<Memory>)>>,
    /// Counts what has happened.
    progress: Cell<u64>,
    /// Whether an operation runs, or waits to run, as the only one.
    alone: Cell<bool>,
    /// How many operations wait for that.
    to_be_alone: Cell<usize>,
    active: Cell<usize>,
}

impl Cx {
    fn moved(&self) {
        self.progress.set(self.progress.get() + 1);
    }

    /// Starts something on the engine. `memory` stays until it is done.
    fn start(
        self: &Rc<Self>,
        memory: Vec<Memory>,
        f: impl FnOnce(&mut dyn Engine) -> Result<Request>,
    ) -> Result<Flight> {
        let request = f(self.engine.borrow_mut().as_mut())?;
        Ok(Flight {
            cx: self.clone(),
            request,
            memory,
            over: false,
        })
    }

    pub(crate) fn scratch(&self, bytes: usize) -> Memory {
        match self.node.is_fake() {
            true => Memory::nothing(bytes),
            false => self.pool.get(bytes),
        }
    }

    /// Sends a message of the crate's own to a rank of the world.
    pub(crate) fn tell(self: &Rc<Self>, to: usize, tag: u32, bytes: &[u8]) -> Result<()> {
        let memory = self.scratch(bytes.len());
        memory.write(0, bytes);
        let part = memory.part();
        // SAFETY: the flight keeps the memory until the request is done, and nobody writes to it.
        let sent = self.start(vec![memory], |e| unsafe {
            e.send(Comm::WORLD, part, to, tag)
        })?;
        drop(sent); // It goes on among the orphans.
        Ok(())
    }

    /// Receives a message of the crate's own from any rank.
    pub(crate) fn listen(self: &Rc<Self>, bytes: usize, tag: u32) -> Result<(Flight, Memory)> {
        let memory = self.scratch(bytes);
        // The end of a shorter message is seen by its zero.
        memory.write(0, &vec![0; bytes]);
        let part = memory.part();
        // SAFETY: the flight keeps the memory until the request is done, and it is only read then.
        let flight = self.start(vec![memory.clone()], |e| unsafe {
            e.receive(Comm::WORLD, part, None, tag)
        })?;
        Ok((flight, memory))
    }
}

/// A request under way, with its memory. Dropped before it is done, it goes on without anybody waiting for it.
pub(crate) struct Flight {
    cx: Rc<Cx>,
    request: Request,
    memory: Vec<Memory>,
    over: bool,
}

impl Flight {
    /// Whether it is done.
    pub(crate) fn poll(&mut self) -> Result<bool> {
        if self.over {
            return Ok(true);
        }
        let polled = self.cx.engine.borrow_mut().poll(self.request);
        if !matches!(polled, Ok(false)) {
            self.over = true;
            self.memory.clear();
            self.cx.moved();
        }
        polled
    }

    /// Waits until it is done.
    pub(crate) async fn done(mut self) -> Result<()> {
        poll_fn(|_| match self.poll() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        })
        .await
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.over {
            let memory = std::mem::take(&mut self.memory);
            self.cx.orphans.borrow_mut().push((self.request, memory));
        }
    }
}

/// Waits until all are done.
pub(crate) async fn all_done(flights: Vec<Flight>) -> Result<()> {
    for flight in flights {
        flight.done().await?;
    }
    Ok(())
}

/// Gives the thread back until it comes round again.
pub(crate) async fn next_round() {
    let mut first = true;
    poll_fn(|_| match std::mem::take(&mut first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

/// One operation on the communication thread: what its code works with.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) cx: Rc<Cx>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) ticket: Arc<Ticket>,
    passed: Rc<Cell<bool>>,
    sent: Rc<Cell<u64>>,
    received: Rc<Cell<u64>>,
}

impl Call {
    pub(crate) fn size(&self) -> usize {
        self.group.ranks.len()
    }

    pub(crate) fn rank(&self) -> usize {
        self.group.rank
    }

    /// The next operation of the lane may start: this one starts no collective of the engine any more.
    pub(crate) fn pass(&self) {
        self.passed.set(true);
    }

    /// Counts bytes that go to other ranks or come from them.
    pub(crate) fn count(&self, sent: usize, received: usize) {
        self.sent.set(self.sent.get() + sent as u64);
        self.received.set(self.received.get() + received as u64);
    }

    pub(crate) fn scratch(&self, bytes: usize) -> Memory {
        self.cx.scratch(bytes)
    }

    /// Holds storages (`true` for writing), all or none at a time.
    pub(crate) async fn hold(
        &self,
        storages: &[(&Shared<Storage>, bool)],
    ) -> Result<Vec<Rc<torsh_core::HeldStorage>>> {
        loop {
            if let Some(held) = self.cx.holds.try_all(storages)? {
                self.cx.moved();
                return Ok(held);
            }
            next_round().await;
        }
    }

    /// A communicator of some ranks of the world, of which this is one. The engine may wait for the others meanwhile, so
    /// nothing else is under way then: another rank could wait for that.
    pub(crate) async fn new_comm(&self, ranks: &[usize], key: u32) -> Result<Comm> {
        let _alone = Alone::new(&self.cx);
        while self.cx.active.get() > self.cx.to_be_alone.get() {
            next_round().await;
        }
        self.cx.engine.borrow_mut().new_comm(ranks, key)
    }

    /// Whether the engine makes a reduction.
    pub(crate) fn engine_reduces(&self, dtype: DType, op: EngineOp) -> bool {
        self.cx.engine.borrow().reduces(dtype, op)
    }
}

/// While one lives, no operation starts.
struct Alone(Rc<Cx>);

impl Alone {
    fn new(cx: &Rc<Cx>) -> Alone {
        cx.to_be_alone.set(cx.to_be_alone.get() + 1);
        cx.alone.set(true);
        Alone(cx.clone())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let left = self.0.to_be_alone.get() - 1;
        self.0.to_be_alone.set(left);
        self.0.alone.set(left > 0);
    }
}
