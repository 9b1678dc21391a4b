//! Queues of work, each with its own thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use torsh_core::backend::{CallSite, Event, QueueId, Ticket};
use torsh_core::{
    DType, Device, Kernel, KernelArgs, KernelFn, Result, SavedAttributes, TorshError, View,
};

use crate::memory::Memory;

/// As many pieces of work are held back at most.
const HELD: usize = 256;

/// How often a waiting thread looks whether the device was lost.
const LOOK: Duration = Duration::from_millis(20);

/// What a queue does, in order.
pub enum Command {
    Kernel(Box<Call>),
    Upload(Vec<u8>, usize),
    Download(usize, usize, Arc<Slot>),
    /// From memory of this device or of a peer.
    Copy {
        memory: Arc<RwLock<Memory>>,
        from: usize,
        to: usize,
        bytes: usize,
    },
    Fill(usize, usize, u8),
    /// The memory of a block, whose address stays.
    Release(u64),
    Restore(u64),
    /// A block, once its last uses on other queues are done.
    Free(u64, Vec<(Arc<Queue>, u64)>),
    /// What follows depends on another queue's work.
    WaitFor(Arc<Queue>, u64),
    Mark(Arc<Mutex<Option<Instant>>>),
}

/// Where bytes arrive from the device.
pub type Slot = Mutex<Option<Result<Vec<u8>>>>;

/// An operand of a call that is done later.
pub enum Operand {
    Absent,
    At {
        address: usize,
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<isize>,
    },
    Number {
        bytes: [u64; 2],
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<isize>,
    },
}

impl Operand {
    /// An operand in the device's memory.
    pub fn of(v: &View<'_>) -> Operand {
        match v.is_present() {
            false => Operand::Absent,
            true => Operand::At {
                address: v.ptr() as usize,
                dtype: v.dtype(),
                shape: v.shape().to_vec(),
                strides: v.strides().to_vec(),
            },
        }
    }

    /// A number of the caller, which is read now.
    pub fn number(v: &View<'_>) -> Operand {
        let mut bytes = [0u64; 2];
        // SAFETY: a number is one element of the dtype in host memory, of 16 bytes at most.
        unsafe {
            std::ptr::copy_nonoverlapping(
                v.ptr().cast_const(),
                bytes.as_mut_ptr().cast(),
                v.dtype().size(),
            );
        }
        Operand::Number {
            bytes,
            dtype: v.dtype(),
            shape: v.shape().to_vec(),
            strides: v.strides().to_vec(),
        }
    }

    /// The operand in host memory.
    fn view<'a>(&'a self, memory: &RwLock<Memory>) -> Result<View<'a>> {
        let (ptr, dtype, shape, strides) = match self {
            Operand::Absent => return Ok(View::ABSENT),
            Operand::Number {
                bytes,
                dtype,
                shape,
                strides,
            } => (bytes.as_ptr().cast_mut().cast(), dtype, shape, strides),
            Operand::At {
                address,
                dtype,
                shape,
                strides,
            } => {
                // SAFETY: of a view that names no memory only its reach is asked.
                let reach = unsafe { View::new(std::ptr::null_mut(), *dtype, shape, strides) };
                let ptr = match reach.reach() {
                    Some((low, high)) => memory.write().host(*address, low, high)?,
                    // No element, no memory: the address may lie past its block.
                    None => std::ptr::without_provenance_mut(64),
                };
                (ptr, dtype, shape, strides)
            }
        };
        // SAFETY: the block that the address is in reaches as far (checked), and is freed only by a
        // later command; one thread does the commands in order, and a queue that uses the block of
        // another waits for it.
        Ok(unsafe { View::new(ptr, *dtype, shape, strides) })
    }
}

fn views<'a>(all: &'a [Operand], memory: &RwLock<Memory>) -> Result<Vec<View<'a>>> {
    all.iter().map(|o| o.view(memory)).collect()
}

/// A call of a kernel that is done later.
pub struct Call {
    pub f: KernelFn,
    pub device: Device,
    pub kernel: Kernel,
    pub compute: DType,
    pub outputs: Vec<Operand>,
    pub inputs: Vec<Operand>,
    pub attrs: SavedAttributes,
    pub one_layout: bool,
    pub site: CallSite,
}

impl Call {
    fn run(&self, memory: &RwLock<Memory>) -> Result<()> {
        let outputs = views(&self.outputs, memory)?;
        let inputs = views(&self.inputs, memory)?;
        let numbers = self
            .inputs
            .iter()
            .enumerate()
            .fold(0, |bits, (i, o)| match o {
                Operand::Number { .. } => bits | 1 << i,
                _ => bits,
            });
        // SAFETY: what the dispatcher promised of the call, with the memory behind its addresses,
        // which the CPU's kernels can read; the numbers are those that it said are numbers.
        let args = unsafe {
            KernelArgs::new(
                self.kernel,
                self.compute,
                &outputs,
                &inputs,
                self.attrs.get(),
            )
            .on(self.device, self.site)
            .with_numbers(numbers)
            .of_one_layout(self.one_layout)
        };
        (self.f)(&args).map_err(|e| args.explain(e))
    }
}

struct State {
    /// Recorded, not handed over.
    held: Vec<Command>,
    /// Handed over, not done.
    handed: VecDeque<Command>,
    /// How many commands were given.
    given: u64,
}

/// An error until a wait of any queue that knows it reports it.
type Unreported = Arc<Mutex<Option<TorshError>>>;

/// A queue and its thread, which lives as long as the process.
pub struct Queue {
    device: Device,
    id: u32,
    state: Mutex<State>,
    work: Condvar,
    done: AtomicU64,
    /// Errors that no wait has reported yet: the first of this queue, and those of queues whose work
    /// this one waited for. They are shared, so that each is reported once.
    errors: Mutex<Vec<Unreported>>,
    memory: Arc<RwLock<Memory>>,
    lost: Arc<AtomicBool>,
    /// How often the host waited for the device.
    waits: Arc<AtomicUsize>,
    started: AtomicBool,
}

/// The error of a device that is gone.
pub fn lost(device: Device) -> TorshError {
    TorshError::lost("", format!("{device} was lost, and what was on it is gone"))
        .with_hint("keep checkpoints, and start again from the last one")
}

impl Queue {
    pub fn new(
        device: Device,
        id: u32,
        memory: Arc<RwLock<Memory>>,
        lost: Arc<AtomicBool>,
        waits: Arc<AtomicUsize>,
    ) -> Queue {
        Queue {
            device,
            id,
            state: Mutex::new(State {
                held: Vec::new(),
                handed: VecDeque::new(),
                given: 0,
            }),
            work: Condvar::new(),
            done: AtomicU64::new(0),
            errors: Mutex::new(Vec::new()),
            memory,
            lost,
            waits,
            started: AtomicBool::new(false),
        }
    }

    pub fn given(&self) -> u64 {
        self.state.lock().given
    }

    pub fn held_back(&self) -> usize {
        self.state.lock().held.len()
    }

    /// The first error that no wait has reported yet.
    pub fn take_error(&self) -> Option<TorshError> {
        let mut errors = self.errors.lock();
        let first = errors.iter().find_map(|e| e.lock().take());
        errors.retain(|e| e.lock().is_some());
        first
    }

    /// Forgets all errors.
    pub fn clear_errors(&self) {
        let errors = std::mem::take(&mut *self.errors.lock());
        errors.iter().for_each(|e| *e.lock() = None);
    }

    fn fail(&self, e: TorshError) {
        let mut errors = self.errors.lock();
        errors.retain(|e| e.lock().is_some());
        // The first one says most: what comes after it may only follow from it.
        if errors.is_empty() {
            errors.push(Arc::new(Mutex::new(Some(e))));
        }
    }

    /// What depends on another queue's work reports its errors, too.
    fn take_over(&self, other: &Queue) {
        let theirs = other.errors.lock().clone();
        let mut errors = self.errors.lock();
        for e in theirs {
            // Queues that wait for each other again and again know an error once.
            if e.lock().is_some() && !errors.iter().any(|own| Arc::ptr_eq(own, &e)) {
                errors.push(e);
            }
        }
    }

    /// Records a command; its number.
    pub fn push(self: &Arc<Self>, command: Command) -> u64 {
        let mut s = self.state.lock();
        s.held.push(command);
        s.given += 1;
        let (full, number) = (s.held.len() >= HELD, s.given);
        drop(s);
        if full {
            self.flush();
        }
        number
    }

    /// Hands over what is recorded.
    pub fn flush(self: &Arc<Self>) {
        let mut s = self.state.lock();
        let held = std::mem::take(&mut s.held);
        s.handed.extend(held);
        drop(s);
        if !self.started.swap(true, Ordering::AcqRel) {
            let own = self.clone();
            // Without its thread the device hangs, which a test sees; there is no better answer.
            let _ = std::thread::Builder::new()
                .name(format!("mock queue {}", self.id))
                .spawn(move || own.work());
        }
        self.work.notify_all();
    }

    /// Waits until all work given so far is done, or the device is lost.
    pub fn wait(self: &Arc<Self>) {
        // Counted before the flush: what other threads give later is not waited for, and may be held
        // back.
        let upto = self.given();
        self.flush();
        self.reached(upto);
    }

    /// Waits until all work given so far is done or, on a lost device, passed over.
    pub fn drain(self: &Arc<Self>) {
        let upto = self.given();
        self.flush();
        let mut s = self.state.lock();
        while self.done.load(Ordering::Acquire) < upto {
            self.work.wait_for(&mut s, LOOK);
        }
    }

    /// Waits until a number of commands is done, or the device is lost.
    fn reached(&self, number: u64) {
        let mut s = self.state.lock();
        while self.done.load(Ordering::Acquire) < number && !self.lost.load(Ordering::Acquire) {
            self.work.wait_for(&mut s, LOOK);
        }
    }

    /// Bytes of the device, after all work before; an error of that work instead.
    pub fn download(self: &Arc<Self>, from: usize, bytes: usize) -> Result<Vec<u8>> {
        let slot = Arc::new(Slot::new(None));
        self.push(Command::Download(from, bytes, slot.clone()));
        self.waits.fetch_add(1, Ordering::AcqRel);
        self.wait();
        if let Some(e) = self.take_error() {
            return Err(e);
        }
        let arrived = slot.lock().take();
        arrived.unwrap_or_else(|| Err(lost(self.device)))
    }

    pub fn event(self: &Arc<Self>) -> Box<dyn Event> {
        let reached = Arc::new(Mutex::new(None));
        self.push(Command::Mark(reached.clone()));
        Box::new(Mark {
            queue: self.clone(),
            number: self.given(),
            reached,
        })
    }

    /// Does the work, for ever.
    fn work(self: Arc<Self>) {
        loop {
            let command = {
                let mut s = self.state.lock();
                loop {
                    match s.handed.pop_front() {
                        Some(c) => break c,
                        None => self.work.wait(&mut s),
                    }
                }
            };
            let free = matches!(command, Command::Free(..));
            // A lost device does nothing but give back its memory.
            if (free || !self.lost.load(Ordering::Acquire))
                && let Err(e) = self.run(command)
            {
                self.fail(e);
            }
            let _state = self.state.lock();
            self.done.fetch_add(1, Ordering::AcqRel);
            self.work.notify_all();
        }
    }

    fn run(&self, command: Command) -> Result<()> {
        let host = |at: usize, bytes: usize| self.memory.write().host(at, 0, bytes as isize);
        match command {
            Command::Kernel(call) => {
                return call.run(&self.memory);
            }
            Command::Upload(bytes, to) => {
                let to = host(to, bytes.len())?;
                // SAFETY: as many bytes are in the block (checked).
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            }
            Command::Download(from, n, slot) => {
                let mut bytes = vec![0u8; n];
                let from = host(from, n)?;
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), n) };
                *slot.lock() = Some(Ok(bytes));
            }
            Command::Copy {
                memory,
                from,
                to,
                bytes,
            } => {
                let from = memory.write().host(from, 0, bytes as isize)?;
                let to = host(to, bytes)?;
                // SAFETY: as above; a peer's queue waits until the copy is done.
                unsafe { std::ptr::copy(from, to, bytes) };
            }
            Command::Fill(to, n, byte) => {
                let to = host(to, n)?;
                // SAFETY: as above.
                unsafe { to.write_bytes(byte, n) };
            }
            Command::Release(id) => self.memory.write().release(id),
            Command::Restore(id) => self.memory.write().restore(id),
            Command::Free(id, after) => {
                after.iter().for_each(|(q, number)| q.reached(*number));
                self.memory.write().free(id);
            }
            Command::WaitFor(other, number) => {
                other.reached(number);
                self.take_over(&other);
            }
            Command::Mark(reached) => *reached.lock() = Some(Instant::now()),
        }
        Ok(())
    }
}

/// A point in a queue.
struct Mark {
    queue: Arc<Queue>,
    number: u64,
    reached: Arc<Mutex<Option<Instant>>>,
}

impl Event for Mark {
    fn wait(&self) -> Result<()> {
        self.queue.waits.fetch_add(1, Ordering::AcqRel);
        self.queue.flush();
        self.queue.reached(self.number);
        match self.queue.lost.load(Ordering::Acquire) {
            true => Err(lost(self.queue.device)),
            false => self.queue.take_error().map_or(Ok(()), Err),
        }
    }

    fn is_done(&self) -> bool {
        self.reached.lock().is_some()
    }

    fn time(&self) -> Option<f64> {
        static START: Mutex<Option<Instant>> = Mutex::new(None);
        let at = (*self.reached.lock())?;
        let start = *START.lock().get_or_insert(at);
        Some(match at.checked_duration_since(start) {
            Some(after) => after.as_secs_f64(),
            None => -start.duration_since(at).as_secs_f64(),
        })
    }

    fn ticket(&self) -> Ticket {
        Ticket {
            queue: QueueId(self.id()),
            number: self.number,
        }
    }
}

impl Mark {
    fn id(&self) -> u32 {
        self.queue.id
    }
}
