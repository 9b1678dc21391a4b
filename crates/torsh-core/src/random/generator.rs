//! The shared handle to an engine, its state as bytes, and the process-wide default.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::Device;

use super::engine::{Mt19937, N};

/// The seed of a `Generator::default()`, as of PyTorch's `torch.Generator()`.
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// Length of a generator's state in bytes, the one of `torch.get_rng_state()`.
pub const STATE_BYTES: usize = 5056;

// Offsets in the state: seed u64, left i32, seeded i32, next u64, 624 words as u64, three f64 of
// which the second is the cached normal sample, its flag i32 (padded to 8), the cached f32 normal
// sample, its flag u8 (padded to 4).
const LEFT: usize = 8;
const SEEDED: usize = 12;
const NEXT: usize = 16;
const WORDS: usize = 24;
const NORMAL_F64: usize = WORDS + 8 * N + 8;
const NORMAL_F64_VALID: usize = WORDS + 8 * N + 24;
const NORMAL_F32: usize = NORMAL_F64_VALID + 8;
const NORMAL_F32_VALID: usize = NORMAL_F32 + 4;

/// What a generator holds behind its lock.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) engine: Mt19937,
    pub(super) next_normal_f32: Option<f32>,
    pub(super) next_normal_f64: Option<f64>,
}

impl State {
    fn new(seed: u64) -> Self {
        Self {
            engine: Mt19937::new(seed),
            next_normal_f32: None,
            next_normal_f64: None,
        }
    }
}

/// A handle to a random number generator: a clone draws from the same stream. It belongs to a
/// device, whose ops draw from it.
#[derive(Clone, Debug)]
pub struct Generator {
    state: Arc<Mutex<State>>,
    device: Device,
}

impl Default for Generator {
    fn default() -> Self {
        Self::new(DEFAULT_SEED)
    }
}

impl Generator {
    /// A generator of the CPU seeded with `seed`.
    pub fn new(seed: u64) -> Self {
        Generator::on(Device::Cpu, seed)
    }

    /// A generator of a device seeded with `seed` (`torch.Generator(device=..)`).
    pub fn on(device: Device, seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(seed))),
            device,
        }
    }

    /// The device whose ops draw from it.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Restarts the stream from `seed` and forgets the cached normal samples.
    pub fn manual_seed(&self, seed: u64) {
        *self.state.lock() = State::new(seed);
    }

    /// The seed the stream was last started from.
    pub fn initial_seed(&self) -> u64 {
        self.state.lock().engine.seed()
    }

    /// Restarts the stream from a nondeterministic seed and returns it.
    pub fn seed(&self) -> u64 {
        let seed = nondeterministic_seed();
        self.manual_seed(seed);
        seed
    }

    /// A new generator in the same state, with a stream of its own.
    pub fn clone_state(&self) -> Self {
        Self {
            state: Arc::new(Mutex::new(self.state.lock().clone())),
            device: self.device,
        }
    }

    /// Whether both handles draw from the same stream.
    pub fn same_stream(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// The next 32 bits of the stream.
    pub fn random(&self) -> u32 {
        self.state.lock().engine.next_u32()
    }

    /// The next 64 bits of the stream (two words, the high one first).
    pub fn random64(&self) -> u64 {
        self.state.lock().engine.next_u64()
    }

    /// The float half of a Box-Muller pair kept for the next call, if one is.
    pub fn next_normal_cached_f32(&self) -> Option<f32> {
        self.state.lock().next_normal_f32
    }

    /// Keeps or drops the float half of a Box-Muller pair.
    pub fn set_next_normal_cached_f32(&self, sample: Option<f32>) {
        self.state.lock().next_normal_f32 = sample;
    }

    /// The double half of a Box-Muller pair kept for the next call, if one is.
    pub fn next_normal_cached_f64(&self) -> Option<f64> {
        self.state.lock().next_normal_f64
    }

    /// Keeps or drops the double half of a Box-Muller pair.
    pub fn set_next_normal_cached_f64(&self, sample: Option<f64>) {
        self.state.lock().next_normal_f64 = sample;
    }

    /// The state as [`STATE_BYTES`] bytes, the very bytes of `torch.get_rng_state()`.
    pub fn get_state(&self) -> Vec<u8> {
        let state = self.state.lock();
        let (seed, left, next, words) = state.engine.parts();
        let mut bytes = vec![0u8; STATE_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &seed.to_le_bytes());
        put(LEFT, &left.to_le_bytes());
        put(SEEDED, &1u32.to_le_bytes());
        put(NEXT, &u64::from(next).to_le_bytes());
        for (i, &word) in words.iter().enumerate() {
            put(WORDS + 8 * i, &u64::from(word).to_le_bytes());
        }
        if let Some(sample) = state.next_normal_f64 {
            put(NORMAL_F64, &sample.to_le_bytes());
            put(NORMAL_F64_VALID, &1u32.to_le_bytes());
        }
        if let Some(sample) = state.next_normal_f32 {
            put(NORMAL_F32, &sample.to_le_bytes());
            put(NORMAL_F32_VALID, &[1]);
        }
        bytes
    }

    /// Restores a state from the bytes of [`Generator::get_state`] or `torch.get_rng_state()`.
    ///
    /// # Errors
    /// Where the length is not [`STATE_BYTES`] or the engine's counters are out of range; the
    /// generator is then as it was.
    pub fn set_state(&self, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() != STATE_BYTES {
            return Err(format!(
                "Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG \
                 state size to be {}",
                bytes.len()
            ));
        }
        let mut words = [0u32; N];
        for (i, word) in words.iter_mut().enumerate() {
            // A word is stored in 64 bits for the sake of older checkpoints.
            *word = u32::from_le_bytes(array(bytes, WORDS + 8 * i));
        }
        let left = u32::from_le_bytes(array(bytes, LEFT));
        let next = u64::from_le_bytes(array(bytes, NEXT)) as u32;
        let seeded = u32::from_le_bytes(array(bytes, SEEDED)) != 0;
        let engine = Mt19937::from_parts(u64::from_le_bytes(array(bytes, 0)), left, next, words)
            .filter(|_| seeded)
            .ok_or_else(|| "Invalid mt19937 state".to_string())?;
        let next_normal_f64 = (u32::from_le_bytes(array(bytes, NORMAL_F64_VALID)) != 0)
            .then(|| f64::from_le_bytes(array(bytes, NORMAL_F64)));
        let next_normal_f32 =
            (bytes[NORMAL_F32_VALID] != 0).then(|| f32::from_le_bytes(array(bytes, NORMAL_F32)));
        *self.state.lock() = State {
            engine,
            next_normal_f32,
            next_normal_f64,
        };
        Ok(())
    }

    /// Runs `f` on the state under the lock.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock())
    }
}

/// `SIZE` bytes of `bytes` from `at`; the caller has checked the length.
fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    std::array::from_fn(|i| bytes[at + i])
}

/// 53 unpredictable bits, so that the seed is exact as a Python float too.
fn nondeterministic_seed() -> u64 {
    // RandomState is keyed by the operating system; the time keeps calls on one thread apart.
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_nanos());
    RandomState::new().hash_one(nanos) & ((1 << 53) - 1)
}

thread_local! {
    static LOCAL: Cell<Option<&'static Generator>> = const { Cell::new(None) };
}

/// The generator that operators draw from when they are given none: the process-wide one, which
/// starts from a nondeterministic seed, or the thread's within [`LocalGenerator::scope`].
pub fn default_generator() -> &'static Generator {
    static DEFAULT: OnceLock<Generator> = OnceLock::new();
    LOCAL
        .get()
        .unwrap_or_else(|| DEFAULT.get_or_init(|| Generator::new(nondeterministic_seed())))
}

/// The default generators of devices beside the CPU, and the seed that new ones start from.
struct OfDevices {
    made: Vec<&'static Generator>,
    seed: Option<u64>,
}

static OF_DEVICES: Mutex<OfDevices> = Mutex::new(OfDevices {
    made: Vec::new(),
    seed: None,
});

/// The generator that operators of a device draw from when they are given none: each device has one,
/// in whose place the thread's own stands within [`LocalGenerator::scope`].
pub fn default_generator_of(device: Device) -> &'static Generator {
    if device.is_host() || LOCAL.get().is_some() {
        return default_generator();
    }
    let mut all = OF_DEVICES.lock();
    if let Some(g) = all.made.iter().find(|g| g.device == device) {
        return g;
    }
    let seed = all.seed.unwrap_or_else(nondeterministic_seed);
    let g: &'static Generator = Box::leak(Box::new(Generator::on(device, seed)));
    all.made.push(g);
    g
}

/// The default generators that devices beside the CPU have so far: those of devices that drew numbers,
/// or that were asked for by [`default_generator_of`].
pub fn device_generators() -> Vec<&'static Generator> {
    OF_DEVICES.lock().made.clone()
}

/// A generator that can stand in for the default one on a thread, as the workers of a data loader
/// have their own.
///
/// ```
/// use torsh_core::random::{Generator, LocalGenerator, default_generator};
///
/// let own = LocalGenerator::new(7);
/// let drawn = own.scope(|| default_generator().random());
/// assert_eq!(drawn, Generator::new(7).random());
/// ```
#[derive(Debug)]
pub struct LocalGenerator(&'static Generator);

/// Generators whose last user is gone. They live for ever, so that a reference to the default
/// generator does; there are as many as were ever in use at a time.
static SPARE: Mutex<Vec<&'static Generator>> = Mutex::new(Vec::new());

impl LocalGenerator {
    /// A generator seeded with `seed`.
    pub fn new(seed: u64) -> LocalGenerator {
        let spare = SPARE.lock().pop();
        let generator = spare.unwrap_or_else(|| Box::leak(Box::new(Generator::new(seed))));
        generator.manual_seed(seed);
        LocalGenerator(generator)
    }

    /// The generator.
    pub fn generator(&self) -> &Generator {
        self.0
    }

    /// Runs `f` with this as the thread's default generator.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore::after(self.0);
        f()
    }

    /// Makes this the thread's default generator until the result is dropped.
    ///
    /// ```
    /// use torsh_core::random::{Generator, LocalGenerator, default_generator};
    ///
    /// let own = LocalGenerator::new(7).enter();
    /// assert_eq!(default_generator().random(), Generator::new(7).random());
    /// drop(own);
    /// ```
    #[must_use = "the generator is the thread's own as long as this value lives"]
    pub fn enter(self) -> EnteredGenerator {
        EnteredGenerator {
            _restore: Restore::after(self.0),
            _own: self,
        }
    }
}

/// A [`LocalGenerator`] that is the default generator of this thread; see [`LocalGenerator::enter`].
#[derive(Debug)]
pub struct EnteredGenerator {
    // Dropped first: a generator is given away only when no thread has it as its default.
    _restore: Restore,
    _own: LocalGenerator,
}

/// Gives the thread its former default generator back. It stays on its thread.
#[derive(Debug)]
struct Restore(Option<&'static Generator>, PhantomData<*const ()>);

impl Restore {
    fn after(own: &'static Generator) -> Restore {
        Restore(LOCAL.replace(Some(own)), PhantomData)
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        LOCAL.set(self.0);
    }
}

impl Drop for LocalGenerator {
    fn drop(&mut self) {
        SPARE.lock().push(self.0);
    }
}

/// Seeds the default generators of all devices; within [`LocalGenerator::scope`] that of the thread.
pub fn manual_seed(seed: u64) {
    default_generator().manual_seed(seed);
    if LOCAL.get().is_none() {
        let mut all = OF_DEVICES.lock();
        all.seed = Some(seed);
        all.made.iter().for_each(|g| g.manual_seed(seed));
    }
}

/// The seed of the default generator.
pub fn initial_seed() -> u64 {
    default_generator().initial_seed()
}

/// Seeds the default generators of all devices with one nondeterministic seed, as [`manual_seed`] does
/// with one of yours, and returns it (`torch.seed`).
pub fn seed() -> u64 {
    let seed = nondeterministic_seed();
    manual_seed(seed);
    seed
}
