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
///
/// ```
/// use torsh_core::Generator;
///
/// let generator = Generator::new(0);
/// let same_stream = generator.clone();
/// assert_eq!((generator.random(), same_stream.random()), (2357136044, 2546248239));
/// ```
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
    /// Returns a generator of the CPU seeded with `seed`.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// assert_eq!(Generator::new(5489).random(), 3499211612); // As every MT19937.
    /// ```
    pub fn new(seed: u64) -> Self {
        Generator::on(Device::Cpu, seed)
    }

    /// Returns a generator of a device seeded with `seed` (`torch.Generator(device=..)`).
    ///
    /// ```
    /// use torsh_core::{Device, Generator};
    /// assert_eq!(Generator::on(Device::Cuda(0), 7).device(), Device::Cuda(0));
    /// ```
    pub fn on(device: Device, seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(seed))),
            device,
        }
    }

    /// Returns the device whose ops draw from it.
    ///
    /// ```
    /// use torsh_core::{Device, Generator};
    /// assert_eq!(Generator::new(0).device(), Device::Cpu);
    /// ```
    pub fn device(&self) -> Device {
        self.device
    }

    /// Restarts the stream from `seed` and forgets the cached normal samples.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// let generator = Generator::new(1);
    /// generator.manual_seed(0);
    /// assert_eq!((generator.random(), generator.initial_seed()), (2357136044, 0));
    /// ```
    pub fn manual_seed(&self, seed: u64) {
        *self.state.lock() = State::new(seed);
    }

    /// Returns the seed that the stream was last started from.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// assert_eq!(Generator::new(42).initial_seed(), 42);
    /// ```
    pub fn initial_seed(&self) -> u64 {
        self.state.lock().engine.seed()
    }

    /// Restarts the stream from a nondeterministic seed and returns it.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// let generator = Generator::new(0);
    /// let seed = generator.seed();
    /// assert_eq!(generator.initial_seed(), seed);
    /// assert_eq!(generator.random(), Generator::new(seed).random());
    /// ```
    pub fn seed(&self) -> u64 {
        let seed = nondeterministic_seed();
        self.manual_seed(seed);
        seed
    }

    /// Returns a new generator in the same state, with a stream of its own.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// let generator = Generator::new(0);
    /// let copy = generator.clone_state();
    /// assert_eq!((generator.random(), copy.random()), (2357136044, 2357136044));
    /// ```
    pub fn clone_state(&self) -> Self {
        Self {
            state: Arc::new(Mutex::new(self.state.lock().clone())),
            device: self.device,
        }
    }

    /// Whether both handles draw from the same stream.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// let generator = Generator::new(0);
    /// assert!(generator.same_stream(&generator.clone()) && !generator.same_stream(&generator.clone_state()));
    /// ```
    pub fn same_stream(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Draws the next 32 bits of the stream.
    ///
    /// ```
    /// use torsh_core::Generator;
    /// assert_eq!(Generator::new(0).random(), 2357136044);
    /// ```
    pub fn random(&self) -> u32 {
        self.state.lock().engine.next_u32()
    }

    /// Draws the next 64 bits of the stream (two words, the high one first).
    ///
    /// ```
    /// use torsh_core::Generator;
    /// assert_eq!(Generator::new(0).random64(), 2357136044 << 32 | 2546248239);
    /// ```
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

    /// Returns the double half of a Box-Muller pair that is kept for the next call, if one is.
    ///
    /// ```
    /// use torsh_core::random::{Generator, fill_normal};
    /// let generator = Generator::new(0);
    /// fill_normal(&generator, &mut [0f64; 1], 0.0, 1.0); // 1.5410, the first half of a pair.
    /// let second = generator.next_normal_cached_f64().expect("the other half");
    /// assert!((second + 0.293429).abs() < 1e-6);
    /// ```
    pub fn next_normal_cached_f64(&self) -> Option<f64> {
        self.state.lock().next_normal_f64
    }

    /// Keeps or drops the double half of a Box-Muller pair.
    ///
    /// ```
    /// use torsh_core::random::{Generator, fill_normal};
    /// let (generator, mut out) = (Generator::new(0), [0f64; 1]);
    /// generator.set_next_normal_cached_f64(Some(0.5));
    /// fill_normal(&generator, &mut out, 0.0, 1.0);
    /// assert_eq!(out, [0.5]);
    /// ```
    pub fn set_next_normal_cached_f64(&self, sample: Option<f64>) {
        self.state.lock().next_normal_f64 = sample;
    }

    /// Returns the state as [`STATE_BYTES`] bytes, the very bytes of `torch.get_rng_state()`.
    ///
    /// ```
    /// use torsh_core::random::{Generator, STATE_BYTES};
    /// let generator = Generator::new(0);
    /// let state = generator.get_state();
    /// let drawn = generator.random();
    /// assert_eq!(state.len(), STATE_BYTES);
    /// generator.set_state(&state)?;
    /// assert_eq!(generator.random(), drawn);
    /// # Ok::<(), String>(())
    /// ```
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
    /// ```
    /// use torsh_core::Generator;
    /// let (a, b) = (Generator::new(3), Generator::new(4));
    /// b.set_state(&a.get_state())?;
    /// assert_eq!(a.random(), b.random());
    /// assert!(b.set_state(&[0; 4]).unwrap_err().contains("RNG state size to be 4"));
    /// # Ok::<(), String>(())
    /// ```
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

/// Returns the generator that operators draw from when they are given none: the process-wide one, which
/// starts from a nondeterministic seed, or the thread's within [`LocalGenerator::scope`].
///
/// ```
/// use torsh_core::random::{Generator, default_generator, manual_seed};
/// manual_seed(0);
/// assert_eq!(default_generator().random(), Generator::new(0).random());
/// ```
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

/// Returns the generator that operators of a device draw from when they are given none: each device has one,
/// in whose place the thread's own stands within [`LocalGenerator::scope`].
///
/// ```
/// use torsh_core::Device;
/// use torsh_core::random::{default_generator_of, manual_seed};
/// manual_seed(7);
/// let of_device = default_generator_of(Device::Custom(0));
/// assert_eq!((of_device.device(), of_device.initial_seed()), (Device::Custom(0), 7));
/// ```
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

/// Returns the default generators that devices beside the CPU have so far: those of devices that drew numbers,
/// or that were asked for by [`default_generator_of`].
///
/// ```
/// use torsh_core::Device;
/// use torsh_core::random::{default_generator_of, device_generators};
/// assert!(device_generators().is_empty());
/// default_generator_of(Device::Custom(0));
/// assert_eq!(device_generators()[0].device(), Device::Custom(0));
/// ```
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
    /// Returns a generator seeded with `seed`, which is nobody's default until [`scope`](LocalGenerator::scope) or
    /// [`enter`](LocalGenerator::enter).
    ///
    /// ```
    /// use torsh_core::random::LocalGenerator;
    /// assert_eq!(LocalGenerator::new(7).generator().initial_seed(), 7);
    /// ```
    pub fn new(seed: u64) -> LocalGenerator {
        let spare = SPARE.lock().pop();
        let generator = spare.unwrap_or_else(|| Box::leak(Box::new(Generator::new(seed))));
        generator.manual_seed(seed);
        LocalGenerator(generator)
    }

    /// Returns the generator.
    ///
    /// ```
    /// use torsh_core::random::{Generator, LocalGenerator};
    /// let own = LocalGenerator::new(7);
    /// assert_eq!(own.generator().random(), Generator::new(7).random());
    /// ```
    pub fn generator(&self) -> &Generator {
        self.0
    }

    /// Runs `f` with this as the thread's default generator.
    ///
    /// ```
    /// use torsh_core::random::{LocalGenerator, default_generator, initial_seed};
    /// let own = LocalGenerator::new(7);
    /// assert_eq!(own.scope(initial_seed), 7);
    /// assert!(!default_generator().same_stream(own.generator())); // The former default is back.
    /// ```
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
///
/// ```
/// use torsh_core::random::{LocalGenerator, initial_seed};
/// let outer = LocalGenerator::new(1).enter();
/// {
///     let _inner = LocalGenerator::new(2).enter();
///     assert_eq!(initial_seed(), 2);
/// }
/// assert_eq!(initial_seed(), 1);
/// # drop(outer);
/// ```
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
///
/// ```
/// use torsh_core::random::{default_generator, manual_seed};
/// manual_seed(0);
/// assert_eq!(default_generator().random(), 2357136044);
/// ```
pub fn manual_seed(seed: u64) {
    default_generator().manual_seed(seed);
    if LOCAL.get().is_none() {
        let mut all = OF_DEVICES.lock();
        all.seed = Some(seed);
        all.made.iter().for_each(|g| g.manual_seed(seed));
    }
}

/// Returns the seed of the default generator.
///
/// ```
/// use torsh_core::random::{initial_seed, manual_seed};
/// manual_seed(42);
/// assert_eq!(initial_seed(), 42);
/// ```
pub fn initial_seed() -> u64 {
    default_generator().initial_seed()
}

/// Seeds the default generators of all devices with one nondeterministic seed, as [`manual_seed`] does
/// with one of yours, and returns it (`torch.seed`).
///
/// ```
/// use torsh_core::random::{initial_seed, seed};
/// let new = seed();
/// assert_eq!(initial_seed(), new);
/// ```
pub fn seed() -> u64 {
    let seed = nondeterministic_seed();
    manual_seed(seed);
    seed
}
