//! A device for tests that behaves like a GPU in host memory.
//!
//! Mistakes that have no effect on the CPU fail on this device:
//!
//! * **Addresses are opaque.** They are not canonical, so the host faults if it reads or writes through
//!   one.
//! * **Work is delayed** until a flush. Each queue has its own thread, which executes the work in the
//!   order in which it was given.
//! * **Errors are deferred.** The next call that waits reports the error of a kernel, with the op and
//!   its caller.
//! * **It supports less than the CPU**: no float64, no complex numbers, and only two thirds of the kernels
//!   ([`MISSING`]), some of them not in every dtype ([`MISSING_IN`]). The definitions of their records
//!   compute the others.
//! * **Failures can be injected** ([`Mock::inject`]): no memory, failed copies, a lost device.
//!
//! Its kernels are the CPU's, run on the memory behind the addresses.

mod memory;
mod missing;
mod queue;

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use torsh_core::alloc::MemoryStats;
use torsh_core::attrs::Field;
use torsh_core::backend::{Backend, Event, Freed, HostBytes, HostBytesMut, Place, QueueId, Ticket};
use torsh_core::{
    DType, Device, DeviceBlock, DeviceProperties, Kernel, KernelArgs, KernelFn, Result, Storage,
    TorshError,
};

pub use missing::{MISSING, MISSING_IN};

use memory::Memory;
use queue::{Call, Command, Operand, Queue};

/// The name of the device's kind: `Device::Custom(0)` is `mock:0`.
pub const NAME: &str = "mock";

/// The crate whose kernels run on the memory behind the addresses.
const CPU_KERNELS: &str = "torsh-backend-cpu";

/// How many mock devices there are.
pub const DEVICES: usize = 2;

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// The next allocations, as many, get no memory.
    OutOfMemory(usize),
    /// As many allocations get memory, and the one after them gets none.
    OutOfMemoryAfter(usize),
    /// The next copies to or from the device, as many, fail.
    FailingCopies(usize),
    /// The device has no kernel for a key.
    NoKernel(Kernel),
    /// The device has no kernel for a key in a dtype to compute in.
    NoKernelIn(Kernel, DType),
    /// The device is gone: every later call says so, until [`Mock::restore`].
    Lost,
}

/// A mock device.
pub struct Mock {
    index: usize,
    memory: Arc<RwLock<Memory>>,
    queues: RwLock<Vec<Arc<Queue>>>,
    lost: Arc<AtomicBool>,
    /// How many allocations get memory before `no_memory` of them get none.
    memory_left: AtomicUsize,
    no_memory: AtomicUsize,
    no_copies: AtomicUsize,
    no_kernels: RwLock<Vec<(Kernel, Option<DType>)>>,
    waits: Arc<AtomicUsize>,
}

thread_local! {
    static CURRENT: Cell<[QueueId; DEVICES]> = const { Cell::new([QueueId(0); DEVICES]) };
}

static MOCKS: Mutex<Option<[&'static Mock; DEVICES]>> = Mutex::new(None);

/// Registers the mock devices as `Device::Custom(0)` and following, once, and returns the first.
///
/// # Errors
/// Where custom devices are something else in this program.
pub fn register() -> Result<Device> {
    let mut mocks = MOCKS.lock();
    if mocks.is_none() {
        let all: [&'static Mock; DEVICES] =
            std::array::from_fn(|i| -> &'static Mock { Box::leak(Box::new(Mock::new(i))) });
        for (i, m) in all.into_iter().enumerate() {
            torsh_backend::register(NAME, i, m)?;
        }
        *mocks = Some(all);
    }
    Ok(Device::Custom(0))
}

/// A mock device, to inject failures and to look at; `None` before [`register`].
pub fn mock(index: usize) -> Option<&'static Mock> {
    MOCKS.lock().and_then(|all| all.get(index).copied())
}

/// Counts a number of failures down; whether there was one left.
fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
        .is_ok()
}

impl Mock {
    fn new(index: usize) -> Mock {
        let memory = Arc::new(RwLock::new(Memory::new(index)));
        let lost = Arc::new(AtomicBool::new(false));
        let waits = Arc::new(AtomicUsize::new(0));
        let first = Arc::new(Queue::new(
            Device::Custom(index),
            0,
            memory.clone(),
            lost.clone(),
            waits.clone(),
        ));
        Mock {
            index,
            memory,
            queues: RwLock::new(vec![first]),
            lost,
            memory_left: AtomicUsize::new(0),
            no_memory: AtomicUsize::new(0),
            no_copies: AtomicUsize::new(0),
            no_kernels: RwLock::new(Vec::new()),
            waits,
        }
    }

    /// Lets something fail.
    pub fn inject(&self, failure: Injection) {
        let memory = |left, none| {
            self.memory_left.store(left, Ordering::Release);
            self.no_memory.store(none, Ordering::Release);
        };
        match failure {
            Injection::OutOfMemory(n) => memory(0, n),
            Injection::OutOfMemoryAfter(n) => memory(n, 1),
            Injection::FailingCopies(n) => self.no_copies.store(n, Ordering::Release),
            Injection::NoKernel(key) => self.no_kernels.write().push((key, None)),
            Injection::NoKernelIn(key, dtype) => {
                self.no_kernels.write().push((key, Some(dtype)));
            }
            Injection::Lost => self.lost.store(true, Ordering::Release),
        }
    }

    /// Whether allocations or copies are still to fail.
    pub fn is_armed(&self) -> bool {
        self.no_memory.load(Ordering::Acquire) + self.no_copies.load(Ordering::Acquire) > 0
    }

    /// Ends all injected failures. Work that was given meanwhile is not done.
    pub fn restore(&self) {
        self.memory_left.store(0, Ordering::Release);
        self.no_memory.store(0, Ordering::Release);
        self.no_copies.store(0, Ordering::Release);
        self.no_kernels.write().clear();
        // A lost device passes over what it was given before it is there again.
        let queues = self.queues.read().clone();
        queues.iter().for_each(Queue::drain);
        self.lost.store(false, Ordering::Release);
        queues.iter().for_each(|q| q.clear_errors());
    }

    /// How often the host waited for the device so far: copies to the host, synchronizations, events.
    pub fn waits(&self) -> usize {
        self.waits.load(Ordering::Acquire)
    }

    /// How many pieces of work are recorded but not handed over yet.
    pub fn held_back(&self) -> usize {
        self.queues.read().iter().map(|q| q.held_back()).sum()
    }

    /// An error where the next allocation is to fail.
    fn has_memory(&self, bytes: usize) -> Result<()> {
        self.alive()?;
        let fails = self.no_memory.load(Ordering::Acquire) > 0
            && !take_one(&self.memory_left)
            && take_one(&self.no_memory);
        match fails {
            true => Err(TorshError::out_of_memory(self.device(), bytes)),
            false => Ok(()),
        }
    }

    fn alive(&self) -> Result<()> {
        match self.lost.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(queue::lost(self.device())),
        }
    }

    fn copies(&self) -> Result<()> {
        self.alive()?;
        match take_one(&self.no_copies) {
            false => Ok(()),
            true => Err(TorshError::failed(
                "",
                format!("a copy to or from {} failed", self.device()),
            )
            .with_hint("try again; its memory is as it was before")),
        }
    }

    fn current(&self) -> Result<Arc<Queue>> {
        self.alive()?;
        let id = CURRENT.get()[self.index];
        match self.queues.read().get(id.0 as usize) {
            Some(q) => Ok(q.clone()),
            None => Err(TorshError::invalid("", format!("there is no queue {id:?}"))),
        }
    }
}

/// The kernel of every key: records the call.
fn record(args: &KernelArgs<'_>) -> Result<()> {
    let Device::Custom(index) = args.device() else {
        return Err(TorshError::device(
            "",
            format!("a kernel of {NAME} was called on {}", args.device()),
        ));
    };
    let Some(mock) = mock(index) else {
        return Err(absent(index));
    };
    let queue = mock.current()?;
    let Some(f) = torsh_backend_cpu::kernel(args.kernel()) else {
        return Err(args.unsupported());
    };
    let inputs = args.inputs().iter().enumerate();
    queue.push(Command::Kernel(Box::new(Call {
        f,
        device: args.device(),
        kernel: args.kernel(),
        compute: args.compute(),
        outputs: args.outputs().iter().map(Operand::of).collect(),
        inputs: inputs
            .map(|(i, v)| match args.is_number(i) {
                true => Operand::number(v),
                false => Operand::of(v),
            })
            .collect(),
        attrs: args.attributes().save(),
        one_layout: args.one_layout(),
        site: args.site(),
    })));
    // A generator may be seeded or read right after: its draws are not held back.
    let fields = args.attributes().fields();
    if fields.iter().any(|(_, f)| matches!(f, Field::Generator(_))) {
        queue.wait();
    }
    Ok(())
}

// SAFETY: addresses are of blocks that `Memory` gives to one owner, and the block's number comes back
// through `free`, which a queue does after the work that used it; `release` and `restore` are work of
// the queue too, and leave the block its number; each address is looked up, and its
// reach compared with its block, before the memory behind it is touched; one thread does a queue's
// commands in order.
unsafe impl Backend for Mock {
    fn name(&self) -> &'static str {
        NAME
    }

    fn device(&self) -> Device {
        Device::Custom(self.index)
    }

    fn properties(&self) -> DeviceProperties {
        DeviceProperties {
            device: self.device(),
            name: "mock device in host memory".to_string(),
            total_memory: memory::TOTAL as u64,
            compute_units: 1,
            capabilities: ["float16", "bfloat16"].map(String::from).into(),
        }
    }

    fn supports(&self, dtype: DType) -> bool {
        !matches!(dtype, DType::F64 | DType::C64 | DType::C128)
    }

    fn allocate(&self, bytes: usize) -> Result<Storage> {
        self.has_memory(bytes)?;
        let (id, ptr) = self.memory.write().allocate(bytes)?;
        // SAFETY: the address is that of a new block of the device's memory, which lives until
        // `free` gets its number.
        let block = unsafe { DeviceBlock::new(mock_of(self.index)?, ptr, bytes, id) };
        Ok(Storage::on_device(block))
    }

    fn free(&self, block: Freed<'_>) {
        // Through the queue, so that work that is held back finds it.
        let queues = self.queues.read();
        let Some(own) = queues.first() else { return };
        let uses = block.uses();
        let used = uses.reads.iter().chain(&uses.write);
        let mut after = Vec::new();
        for t in used.filter(|t| t.queue.0 != 0) {
            if let Some(other) = queues.get(t.queue.0 as usize) {
                other.flush();
                after.push((other.clone(), t.number));
            }
        }
        own.push(Command::Free(block.token(), after));
    }

    fn release(&self, block: &DeviceBlock) -> Result<()> {
        self.current()?.push(Command::Release(block.token()));
        Ok(())
    }

    fn restore(&self, block: &DeviceBlock) -> Result<()> {
        self.has_memory(block.bytes())?;
        if !self.memory.read().has_room(block.bytes()) {
            return Err(TorshError::out_of_memory(self.device(), block.bytes()));
        }
        self.current()?.push(Command::Restore(block.token()));
        Ok(())
    }

    fn upload(&self, src: HostBytes<'_>, dst: Place<'_>) -> Result<()> {
        self.copies()?;
        let mut bytes = vec![0u8; dst.bytes().min(src.bytes())];
        // SAFETY: the source has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(src.ptr(), bytes.as_mut_ptr(), bytes.len()) };
        self.current()?
            .push(Command::Upload(bytes, dst.ptr() as usize));
        Ok(())
    }

    fn download(&self, src: Place<'_>, dst: HostBytesMut<'_>) -> Result<()> {
        self.copies()?;
        let bytes = self
            .current()?
            .download(src.ptr() as usize, src.bytes().min(dst.bytes()))?;
        // SAFETY: the target has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), dst.ptr(), bytes.len()) };
        Ok(())
    }

    fn copy(&self, src: Place<'_>, dst: Place<'_>) -> Result<()> {
        self.copies()?;
        let peer = match src.device() {
            Device::Custom(i) => mock(i),
            _ => None,
        };
        let Some(peer) = peer else {
            return Err(TorshError::device(
                "",
                format!(
                    "{NAME} copies from its own devices, not from {}",
                    src.device()
                ),
            ));
        };
        let (source, queue) = (peer.current()?, self.current()?);
        let copy = Command::Copy {
            memory: peer.memory.clone(),
            from: src.ptr() as usize,
            to: dst.ptr() as usize,
            bytes: dst.bytes().min(src.bytes()),
        };
        if Arc::ptr_eq(&source, &queue) {
            queue.push(copy);
            return Ok(());
        }
        // Each queue waits for the other's work, which must have been handed over.
        source.flush();
        queue.push(Command::WaitFor(source.clone(), source.given()));
        let done = queue.push(copy);
        queue.flush();
        source.push(Command::WaitFor(queue, done));
        Ok(())
    }

    fn fill(&self, dst: Place<'_>, byte: u8) -> Result<()> {
        self.current()?
            .push(Command::Fill(dst.ptr() as usize, dst.bytes(), byte));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.current()?.flush();
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.alive()?;
        self.waits.fetch_add(1, Ordering::AcqRel);
        let queues = self.queues.read().clone();
        queues.iter().for_each(|q| q.wait());
        self.alive()?;
        queues
            .iter()
            .find_map(|q| q.take_error())
            .map_or(Ok(()), Err)
    }

    fn queue(&self) -> QueueId {
        CURRENT.get()[self.index]
    }

    fn set_queue(&self, queue: QueueId) -> Result<()> {
        if self.queues.read().get(queue.0 as usize).is_none() {
            return Err(TorshError::invalid(
                "set_queue",
                format!("{} has no queue {}", self.device(), queue.0),
            ));
        }
        let mut all = CURRENT.get();
        all[self.index] = queue;
        CURRENT.set(all);
        Ok(())
    }

    fn new_queue(&self, _priority: i32) -> Result<QueueId> {
        self.alive()?;
        let mut queues = self.queues.write();
        let id = queues.len() as u32;
        let (memory, lost) = (self.memory.clone(), self.lost.clone());
        let (device, waits) = (self.device(), self.waits.clone());
        queues.push(Arc::new(Queue::new(device, id, memory, lost, waits)));
        Ok(QueueId(id))
    }

    fn ticket(&self) -> Ticket {
        let queue = self.queue();
        let number = match self.current() {
            Ok(q) => q.given(),
            Err(_) => 0,
        };
        Ticket { queue, number }
    }

    fn order_after(&self, ticket: Ticket) -> Result<()> {
        let current = self.current()?;
        let other = self.queues.read().get(ticket.queue.0 as usize).cloned();
        if let Some(other) = other.filter(|o| !Arc::ptr_eq(o, &current)) {
            other.flush();
            current.push(Command::WaitFor(other, ticket.number));
        }
        Ok(())
    }

    fn record_event(&self) -> Result<Box<dyn Event>> {
        Ok(self.current()?.event())
    }

    fn memory_stats(&self) -> MemoryStats {
        self.memory.read().stats()
    }

    fn empty_cache(&self) {}

    fn kernel(&self, kernel: Kernel, compute: DType) -> Option<KernelFn> {
        let injected = |(k, dtype): &(Kernel, Option<DType>)| {
            *k == kernel && dtype.is_none_or(|d| d == compute)
        };
        // Kernels of other crates are called with the memory of the host alone.
        let of_another_crate =
            matches!(kernel, Kernel::Extension(key) if key.package() != CPU_KERNELS);
        let lacks = of_another_crate
            || MISSING.contains(&kernel)
            || MISSING_IN.contains(&(kernel, compute))
            || self.no_kernels.read().iter().any(injected);
        (!lacks && torsh_backend_cpu::kernel(kernel).is_some()).then_some(record as KernelFn)
    }
}

fn mock_of(index: usize) -> Result<&'static dyn Backend> {
    match mock(index) {
        Some(m) => Ok(m),
        None => Err(absent(index)),
    }
}

fn absent(index: usize) -> TorshError {
    TorshError::unavailable("", format!("{NAME}:{index} is not registered"))
}

/// An address as a pointer that no host memory has.
fn address(at: usize) -> Option<NonNull<u8>> {
    NonNull::new(std::ptr::without_provenance_mut(at))
}
