//! Groups of ranks.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError};

use crate::comm::{Call, Command, Lane, Node, Operation};
use crate::engine::Comm;
use crate::failure::{self, Entry, Ticket};
use crate::reduce::ReduceMode;
use crate::work::{State as WorkState, Work};

/// The deadline of operations if nobody sets one.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Ranks that call collectives together (`torch.distributed.ProcessGroup`). Clones are the same group.
///
/// [`world`](crate::world) is the group of all ranks, [`spawn`](crate::spawn) gives one of threads, and
/// [`ProcessGroup::new_group`] one of some of the ranks. Ranks count from 0 within each group. All ranks of a group call
/// its collectives in the same order, from one thread at a time.
///
/// ```
/// use torsh_distributed::{ReduceOp, spawn};
/// use torsh_tensor::tensor;
///
/// let sums = spawn(3, |g| g.all_reduce_(&tensor![g.rank() as f64], ReduceOp::Sum))?;
/// assert!(sums.iter().all(|t| *t == tensor![3.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ProcessGroup(Arc<GroupHandle>);

struct GroupHandle {
    owner: Arc<Owner>,
    state: Arc<GroupState>,
}

/// Ends the communication thread with the last group.
struct Owner(Arc<Node>);

impl Drop for Owner {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.0.finish(Duration::from_secs(5));
    }
}

/// What a group's handles and the communication thread share.
pub(crate) struct GroupState {
    pub(crate) comm: Comm,
    /// World ranks.
    pub(crate) ranks: Vec<usize>,
    /// This rank's place among them.
    pub(crate) rank: usize,
    pub(crate) name: Arc<str>,
    pub(crate) debug: bool,
    problem: OnceLock<Arc<TorshError>>,
    timeout: AtomicU64,
    by_engine: AtomicBool,
    order: Mutex<Counts>,
    stats: Mutex<CommStats>,
}

/// How many operations were called.
#[derive(Default)]
struct Counts {
    collectives: u64,
    messages: u64,
}

/// What this rank did on a group.
///
/// A byte counts once for each rank that it goes to or comes from, whatever way the engine takes; what ranks tell each
/// other about operations does not count.
///
/// ```
/// use torsh_distributed::{ReduceOp, spawn};
/// use torsh_tensor::tensor;
///
/// let stats = spawn(2, |g| {
///     g.all_reduce_(&tensor![1.0, 2.0], ReduceOp::Sum)?;
///     g.barrier()?;
///     Ok(g.stats())
/// })?;
/// assert_eq!((stats[0].operations, stats[0].bytes_sent), (2, 8)); // A barrier sends no bytes of anybody.
/// assert_eq!(stats[0].kinds.keys().collect::<Vec<_>>(), ["all_reduce", "barrier"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommStats {
    /// All operations that have ended.
    pub operations: u64,
    /// Bytes sent to other ranks.
    pub bytes_sent: u64,
    /// Bytes received from other ranks.
    pub bytes_received: u64,
    /// By kind, as `all_reduce`.
    pub kinds: BTreeMap<String, KindStats>,
}

/// What this rank did on a group by one kind of operation.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_tensor::tensor;
///
/// let stats = spawn(2, |g| g.broadcast_(&tensor![1.0, 2.0], 0).map(|_| g.stats()))?;
/// let received = stats[1].kinds["broadcast"];
/// assert_eq!((received.operations, received.bytes_sent, received.bytes_received), (1, 0, 8));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Operations that have ended.
    pub operations: u64,
    /// Bytes sent to other ranks.
    pub bytes_sent: u64,
    /// Bytes received from other ranks.
    pub bytes_received: u64,
}

/// Whether an environment variable switches something on.
fn switched_on(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0")
}

/// The deadline that the environment sets.
fn timeout_of_environment() -> Option<Duration> {
    let seconds: f64 = std::env::var("TORSH_DISTRIBUTED_TIMEOUT")
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The deadline of operations unless something else is said.
pub(crate) fn default_timeout() -> Duration {
    timeout_of_environment().unwrap_or(TIMEOUT)
}

impl GroupState {
    fn new(comm: Comm, ranks: Vec<usize>, rank: usize, name: Arc<str>) -> GroupState {
        let timeout = default_timeout();
        GroupState {
            comm,
            ranks,
            rank,
            name,
            debug: switched_on("TORSH_DISTRIBUTED_DEBUG"),
            problem: OnceLock::new(),
            timeout: AtomicU64::new(millis(timeout)),
            by_engine: AtomicBool::new(false),
            order: Mutex::default(),
            stats: Mutex::default(),
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::Relaxed))
    }

    /// What has happened to the group, if it has failed: the error of calls from then on.
    pub(crate) fn problem(&self) -> Option<Arc<TorshError>> {
        let reason = self.problem.get()?;
        Some(Arc::new(failure::failed_before("", &self.name, reason)))
    }

    pub(crate) fn set_problem(&self, reason: Arc<TorshError>) {
        let _ = self.problem.set(reason);
    }

    pub(crate) fn count(&self, kind: &'static str, sent: u64, received: u64) {
        let mut stats = self.stats.lock();
        stats.operations += 1;
        stats.bytes_sent += sent;
        stats.bytes_received += received;
        if !stats.kinds.contains_key(kind) {
            stats.kinds.insert(kind.into(), KindStats::default());
        }
        if let Some(k) = stats.kinds.get_mut(kind) {
            k.operations += 1;
            k.bytes_sent += sent;
            k.bytes_received += received;
        }
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Which operations an operation waits for.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Collective,
    /// To a rank, with a tag.
    Send(usize, u32),
    /// From a rank, with a tag.
    Receive(usize, u32),
}

impl fmt::Debug for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.state();
        write!(
            f,
            "ProcessGroup({}, rank {} of {}, {})",
            s.name,
            s.rank,
            s.ranks.len(),
            self.engine()
        )
    }
}

impl PartialEq for ProcessGroup {
    /// Whether two handles are of the same group.
    fn eq(&self, other: &ProcessGroup) -> bool {
        Arc::ptr_eq(&self.0.state, &other.0.state)
    }
}

impl ProcessGroup {
    /// The group of all ranks of a new communication thread.
    pub(crate) fn of_world(node: Arc<Node>) -> ProcessGroup {
        let (rank, n) = (node.rank, node.world_size);
        let state = GroupState::new(Comm::WORLD, (0..n).collect(), rank, "world".into());
        ProcessGroup(Arc::new(GroupHandle {
            owner: Arc::new(Owner(node)),
            state: Arc::new(state),
        }))
    }

    pub(crate) fn state(&self) -> &Arc<GroupState> {
        &self.0.state
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.0.owner.0
    }

    /// Returns this rank within the group.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// assert_eq!(spawn(3, |g| Ok((g.rank(), g.size())))?, [(0, 3), (1, 3), (2, 3)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.0.state.rank
    }

    /// Returns how many ranks the group has.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// assert_eq!(spawn(2, |g| Ok(g.size()))?, [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn size(&self) -> usize {
        self.0.state.ranks.len()
    }

    /// Returns the group's ranks, as they count in the world.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// let members = spawn(3, |g| Ok(g.new_group(&[2, 0])?.map(|pair| pair.ranks().to_vec())))?;
    /// assert_eq!(members, [Some(vec![2, 0]), None, Some(vec![2, 0])]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn ranks(&self) -> &[usize] {
        &self.0.state.ranks
    }

    /// Returns the group's name: `world`, or the name of the group that it was made of with a number. The same on all
    /// ranks.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// let names = spawn(2, |g| Ok((g.name(), g.new_group(&[1])?.map(|one| one.name()))))?;
    /// assert_eq!(names[1], ("world".to_string(), Some("world/1".to_string())));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn name(&self) -> String {
        self.0.state.name.to_string()
    }

    /// Returns what carries the bytes: `mpi-abi`, `mpi`, `threads` or `fake`.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// assert_eq!(spawn(1, |g| Ok(g.engine()))?, ["threads"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn engine(&self) -> &'static str {
        self.node().engine
    }

    /// Returns what carries the bytes, with its version, for messages.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// assert_eq!(spawn(2, |g| Ok(g.engine_description()))?[0], "2 threads of one process");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn engine_description(&self) -> String {
        self.node().describe.clone()
    }

    /// The deadline of the group's operations: 10 minutes unless `TORSH_DISTRIBUTED_TIMEOUT` (in seconds) says otherwise.
    pub fn timeout(&self) -> Duration {
        self.0.state.timeout()
    }

    /// Sets the deadline of operations that are called from now on. At its end an operation is an error that says which
    /// ranks did not come and where they are, and the group cannot be used any more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use torsh_distributed::spawn;
    /// let deadlines = spawn(1, |g| {
    ///     g.set_timeout(Duration::from_secs(30));
    ///     Ok(g.timeout())
    /// })?;
    /// assert_eq!(deadlines, [Duration::from_secs(30)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_timeout(&self, timeout: Duration) {
        self.0
            .state
            .timeout
            .store(millis(timeout), Ordering::Relaxed);
    }

    /// Who makes the group's reductions.
    pub fn reduce_mode(&self) -> ReduceMode {
        match self.0.state.by_engine.load(Ordering::Relaxed) {
            true => ReduceMode::Engine,
            false => ReduceMode::Ordered,
        }
    }

    /// Sets who makes the group's reductions from now on. All ranks must set the same.
    ///
    /// ```
    /// use torsh_distributed::{ReduceMode, ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let sums = spawn(2, |g| {
    ///     assert_eq!(g.reduce_mode(), ReduceMode::Ordered);
    ///     g.set_reduce_mode(ReduceMode::Engine);
    ///     g.all_reduce_(&tensor![1.0], ReduceOp::Sum)
    /// })?;
    /// assert_eq!(sums[0], tensor![2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_reduce_mode(&self, mode: ReduceMode) {
        self.0
            .state
            .by_engine
            .store(mode == ReduceMode::Engine, Ordering::Relaxed);
    }

    /// What this rank did on the group.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let stats = spawn(2, |g| {
    ///     g.broadcast_(&tensor![1.0, 2.0], 0)?;
    ///     Ok(g.stats())
    /// })?;
    /// assert_eq!((stats[0].bytes_sent, stats[1].bytes_received), (8, 8));
    /// assert_eq!(stats[0].kinds["broadcast"].operations, 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn stats(&self) -> CommStats {
        self.0.state.stats.lock().clone()
    }

    /// Begins the figures of [`ProcessGroup::stats`] anew.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// let operations = spawn(2, |g| {
    ///     g.barrier()?;
    ///     g.reset_stats();
    ///     g.barrier()?;
    ///     g.barrier()?;
    ///     Ok(g.stats().operations)
    /// })?;
    /// assert_eq!(operations, [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn reset_stats(&self) {
        *self.0.state.stats.lock() = CommStats::default();
    }

    /// Returns the last 2,000 operations of this rank on all groups: see [`flight_record`](crate::flight_record()).
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// let kinds = spawn(2, |g| {
    ///     g.barrier()?;
    ///     Ok(g.flight_record().into_iter().map(|entry| entry.kind).collect::<Vec<_>>())
    /// })?;
    /// assert_eq!(kinds[0], ["barrier"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn flight_record(&self) -> Vec<Entry> {
        self.node().record.entries()
    }

    /// Ends the job on all ranks: other processes end, other threads' operations are errors.
    pub fn abort(&self, reason: &str) {
        eprintln!(
            "torsh-distributed: rank {} aborts the job: {reason}",
            self.node().rank
        );
        // If the thread has ended, nobody waits for this rank any more.
        let _ = self.node().push(Command::Abort(1));
    }

    /// Takes the place of this rank's next collective where it cannot call that: the others, which wait for it, get an error
    /// with the reason, and so does this rank. The group has failed then.
    #[track_caller]
    pub(crate) fn give_up(&self, kind: &'static str, why: String) -> TorshError {
        let text = |seq| format!("gives up #{seq}: {why}");
        let told = self.submit(
            kind,
            Order::Collective,
            Location::caller(),
            text,
            |call| async move {
                let all = call.exchange(crate::comm::Payload::Nothing, false).await;
                all.map(drop)
            },
        );
        match told.and_then(|work| work.wait()) {
            Err(e) => e,
            // All others gave up as well, for the same reason.
            Ok(()) => TorshError::failed(kind, why),
        }
    }

    /// Queues an operation. `text` says what all ranks must agree on, from the operation's number.
    pub(crate) fn submit<F, S>(
        &self,
        kind: &'static str,
        order: Order,
        caller: &'static Location<'static>,
        text: impl FnOnce(u64) -> String,
        steps: F,
    ) -> Result<Work>
    where
        F: FnOnce(Call) -> S + Send + 'static,
        S: Future<Output = Result<()>> + 'static,
    {
        let state = self.state();
        if let Some(reason) = state.problem.get() {
            let e = failure::failed_before(kind, &state.name, reason);
            return Err(e.at(caller));
        }
        let deadline = Instant::now() + state.timeout();
        let mut order_of = state.order.lock();
        let (collective, count, lane) = match order {
            Order::Collective => (
                true,
                &mut order_of.collectives,
                Lane::Collective(state.comm),
            ),
            Order::Send(to, tag) => {
                let lane = Lane::Send(state.comm, to, tag);
                (false, &mut order_of.messages, lane)
            }
            Order::Receive(from, tag) => {
                let lane = Lane::Receive(state.comm, from, tag);
                (false, &mut order_of.messages, lane)
            }
        };
        *count += 1;
        let seq = *count;
        let ticket = Ticket::new(kind, seq, collective, text(seq), state.name.clone(), caller);
        let ticket = Arc::new(ticket);
        let work = WorkState::new(Some(ticket.clone()));
        self.node().record.push(ticket.clone());
        failure::announce(self.node(), &ticket);
        // Pushed under the lock, so that the queue has the operations in the order of their numbers.
        self.node()
            .push(Command::Run(Operation {
                ticket,
                group: state.clone(),
                work: work.clone(),
                lane,
                deadline,
                steps: Box::new(move |call| Box::pin(steps(call))),
            }))
            .map_err(|e| e.renamed(kind).at(caller))?;
        drop(order_of);
        Ok(Work::of(&work))
    }

    /// Refuses a rank that the group does not have.
    pub(crate) fn check_rank(&self, op: &'static str, what: &str, rank: usize) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        Err(TorshError::index(
            op,
            format!(
                "{what} is rank {rank}, and group {} has the ranks 0 to {}",
                self.state().name,
                self.size() - 1
            ),
        )
        .with_hint("ranks count from 0 within the group"))
    }

    /// A group of some of this group's ranks, in this order (`torch.distributed.new_group`). All ranks of this group call
    /// it, with the same ranks; those outside get `None`. Timeout and mode are this group's.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let sums = spawn(3, |g| match g.new_group(&[2, 0])? {
    ///     Some(pair) => {
    ///         let t = tensor![pair.rank() as i64 + 1];
    ///         pair.all_reduce_(&t, ReduceOp::Sum)?.item::<i64>()
    ///     }
    ///     None => Ok(0),
    /// })?;
    /// assert_eq!(sums, [3, 0, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A rank that is not there or there twice; no ranks; different ranks given by different ranks.
    #[torsh_tensor::names_caller]
    pub fn new_group(&self, ranks: &[usize]) -> Result<Option<ProcessGroup>> {
        const OP: &str = "new_group";
        let caller = Location::caller();
        if ranks.is_empty() {
            return Err(TorshError::invalid(OP, "a group needs a rank"));
        }
        for (i, &r) in ranks.iter().enumerate() {
            self.check_rank(OP, "a member", r)?;
            if ranks[..i].contains(&r) {
                let twice = format!("rank {r} is there twice: {ranks:?}");
                return Err(TorshError::invalid(OP, twice));
            }
        }
        let world: Vec<usize> = ranks.iter().map(|&r| self.ranks()[r]).collect();
        let place = ranks.iter().position(|&r| r == self.rank());
        let made: Arc<OnceLock<Comm>> = Arc::default();
        let number: Arc<OnceLock<u64>> = Arc::default();
        let (told, set) = (made.clone(), number.clone());
        let members = place.map(|_| world.clone());
        let text = |seq: u64| {
            let _ = set.set(seq);
            format!("new_group({ranks:?}) #{seq}")
        };
        let key = number.clone();
        let parent = crate::comm::hash(&self.state().name) as u32;
        self.submit(
            OP,
            Order::Collective,
            caller,
            text,
            move |call| async move {
                call.exchange(crate::comm::Payload::Nothing, false).await?;
                if let Some(members) = members {
                    // Groups that are made at one time are told apart by parent and number.
                    let number = key.get().copied().unwrap_or(0) as u32;
                    let key = (number.wrapping_mul(61) ^ parent) & 0x7fff;
                    let _ = told.set(call.new_comm(&members, key).await?);
                }
                Ok(())
            },
        )?
        .wait()?;
        let (Some(rank), Some(&comm)) = (place, made.get()) else {
            return Ok(None);
        };
        let seq = number.get().copied().unwrap_or(0);
        let name = format!("{}/{seq}", self.state().name);
        let state = GroupState::new(comm, world, rank, name.into());
        let group = ProcessGroup(Arc::new(GroupHandle {
            owner: self.0.owner.clone(),
            state: Arc::new(state),
        }));
        group.set_timeout(self.timeout());
        group.set_reduce_mode(self.reduce_mode());
        Ok(Some(group))
    }
}
