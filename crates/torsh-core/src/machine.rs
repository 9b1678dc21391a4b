//! The processor, as kernels see it.
//!
//! [`machine`] describes the processor at hand: its vector instructions, caches, and how it treats
//! memory. A kernel that chooses between algorithms or block sizes asks for a property of it, never
//! for a processor's name. The description can be replaced, so that the choices for another processor
//! can be seen and tested here:
//!
//! * `TORSH_SIMD=avx512`, `avx2`, `neon` or `scalar` limits the vector instructions (`avx512` is AVX-512
//!   without AMX; what the processor lacks stays off).
//! * `TORSH_MACHINE=NAME` takes one of the [described](Machine::described) processors, or the file of
//!   that name, which has a line `property = value` for each property that differs from the
//!   processor at hand. Instructions that the processor at hand lacks stay off.
//!
//! ```
//! use torsh_core::machine::{Level, Machine, machine};
//! assert!(machine().level <= Machine::detect().level);
//! let zen4 = Machine::described("zen4").unwrap();
//! assert_eq!((zen4.level, zen4.l2, zen4.half_rate_512), (Level::Avx512, 1 << 20, true));
//! ```

mod cpuid;
mod multiversion;

use std::fmt;
use std::sync::OnceLock;

#[cfg(test)]
pub(crate) use multiversion::forced;
pub use multiversion::{Avx2, Avx512, Base, InstructionSet, Neon, level};

/// A set of vector instructions that loops are compiled for, in ascending order.
///
/// ```
/// use torsh_core::machine::Level;
/// assert!(Level::Base < Level::Avx2 && Level::Avx2 < Level::Avx512);
/// assert_eq!(Level::Avx512.to_string(), "avx512");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Plain loops over what the target guarantees: SSE2 on x86-64, NEON on aarch64.
    Base = 1,
    /// NEON's own instructions, on every aarch64 processor: 128-bit registers.
    Neon = 2,
    /// AVX2 with FMA and F16C: 256-bit registers.
    Avx2 = 3,
    /// AVX-512 F/DQ/VL/BW/CD: 512-bit registers.
    Avx512 = 4,
}

impl Level {
    /// The levels of the target's processors, ascending.
    #[cfg(target_arch = "x86_64")]
    pub const ALL: [Level; 3] = [Level::Base, Level::Avx2, Level::Avx512];
    /// The levels of the target's processors, ascending.
    #[cfg(target_arch = "aarch64")]
    pub const ALL: [Level; 2] = [Level::Base, Level::Neon];
    /// The levels of the target's processors, ascending.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub const ALL: [Level; 1] = [Level::Base];

    /// Whether this machine (and `TORSH_SIMD`) allows the level.
    ///
    /// ```
    /// use torsh_core::machine::Level;
    /// assert!(Level::Base.is_available());
    /// assert!(!(Level::Neon.is_available() && Level::Avx2.is_available())); // They are of different processors.
    /// ```
    pub fn is_available(self) -> bool {
        self <= machine().level && Level::ALL.contains(&self)
    }

    /// Returns the bytes of the widest vector register.
    ///
    /// ```
    /// use torsh_core::machine::Level;
    /// assert_eq!([Level::Neon, Level::Avx2, Level::Avx512].map(Level::vector_bytes), [16, 32, 64]);
    /// ```
    pub const fn vector_bytes(self) -> usize {
        match self {
            Level::Base | Level::Neon => 16,
            Level::Avx2 => 32,
            Level::Avx512 => 64,
        }
    }

    fn named(name: &str) -> Option<Level> {
        Some(match name {
            "scalar" | "base" => Level::Base,
            "neon" => Level::Neon,
            "avx2" => Level::Avx2,
            "avx512" => Level::Avx512,
            _ => return None,
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Base => "base",
            Level::Neon => "neon",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
    }
}

/// The properties of a processor that decide between algorithms and block sizes.
///
/// ```
/// use torsh_core::machine::Machine;
/// let zen3 = Machine::described("zen3").expect("a name of `Machine::DESCRIBED`");
/// assert_eq!((zen3.l1, zen3.bf16_dot), (32 << 10, false));
/// assert!(zen3.to_string().starts_with("name = zen3\nlevel = avx2\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name, for messages only.
    pub name: String,
    /// The widest vector instructions.
    pub level: Level,
    /// Whether a 512-bit instruction is executed as two of 256 bits. A 512-bit load or store is then
    /// two, so loops that compute little are as fast with 256-bit registers, or faster.
    pub half_rate_512: bool,
    /// AVX512-BF16: an instruction that adds the products of pairs of bfloat16 to float32 sums.
    pub bf16_dot: bool,
    /// AMX-BF16: a unit that multiplies tiles of bfloat16 and adds in float32.
    pub bf16_tiles: bool,
    /// Logical processors.
    pub cores: usize,
    /// Bytes of a core's L1 data cache; 0 where the system does not say.
    pub l1: usize,
    /// Bytes of a core's L2 cache; 0 where the system does not say.
    pub l2: usize,
    /// Bytes of one L3 cache; 0 where there is none or the system does not say.
    pub l3: usize,
    /// Logical processors that share one L3 cache.
    pub l3_sharing: usize,
    /// Whether a core has few line-fill buffers (16, shared by reads, prefetches and stores past the
    /// caches). Asking for many lines to write, or storing past the caches while reading, then keeps
    /// reads waiting.
    pub few_fill_buffers: bool,
    /// Whether the hardware prefetcher follows rows across pages as long as they come from the shared
    /// cache. Software prefetches of such rows then only cost.
    pub prefetches_rows: bool,
    /// Whether prefetches from memory are best made into L2, because L1 tracks fewer outstanding lines.
    pub prefetch_into_l2: bool,
    /// Whether normalised rows larger than the caches are best stored past them (non-temporal stores).
    /// Elsewhere a prefetch for writing is as good.
    pub streams_rows: bool,
    /// Whether there are stores that bypass the caches (non-temporal stores) and kernels that use them: on
    /// x86-64.
    pub streaming_stores: bool,
    /// Whether calls on data larger than L2 gain from going through memory in alternating directions,
    /// because what the call before read last is still cached. The hardware prefetcher must follow
    /// descending addresses for that.
    pub alternates_direction: bool,
}

/// Returns the description in use: see the [module](self). It is made once.
///
/// ```
/// use torsh_core::machine::{Level, machine};
/// assert!(machine().level >= Level::Base && machine().cores > 0);
/// ```
#[inline]
pub fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    match MACHINE.get() {
        Some(machine) => machine,
        None => first(&MACHINE),
    }
}

#[cold]
fn first(of: &'static OnceLock<Machine>) -> &'static Machine {
    of.get_or_init(|| {
        let found = Machine::detect();
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (simd, described) = (variable("TORSH_SIMD"), variable("TORSH_MACHINE"));
        match Machine::replaced(&found, simd.as_deref(), described.as_deref()) {
            Ok(machine) => machine,
            Err(message) => {
                eprintln!("torsh: {message}; the processor's own description is used");
                found
            }
        }
    })
}

impl Machine {
    /// The processor at hand, whatever the environment says.
    pub fn detect() -> Machine {
        match cfg!(miri) {
            // Miri executes no `cpuid`.
            true => Machine::plain("miri"),
            false => cpuid::detect(),
        }
    }

    /// A processor of no special properties.
    fn plain(name: &str) -> Machine {
        Machine {
            name: name.into(),
            level: Level::Base,
            half_rate_512: false,
            bf16_dot: false,
            bf16_tiles: false,
            cores: 16,
            l1: 32 << 10,
            l2: 512 << 10,
            l3: 32 << 20,
            l3_sharing: 16,
            few_fill_buffers: false,
            prefetches_rows: false,
            prefetch_into_l2: false,
            streams_rows: false,
            streaming_stores: true,
            alternates_direction: false,
        }
    }

    /// Returns one of five described processors, for tests and for looking at their choices: `zen3`, `zen4`,
    /// `zen5` (AMD EPYC), `amx` (Intel Xeon, fourth generation) and `neon` (Arm Neoverse V2).
    ///
    /// ```
    /// use torsh_core::machine::{Level, Machine};
    /// let amx = Machine::described("amx").expect("a known name");
    /// assert_eq!((amx.level, amx.l2, amx.bf16_tiles), (Level::Avx512, 2 << 20, true));
    /// assert!(Machine::described("abacus").is_none());
    /// ```
    pub fn described(name: &str) -> Option<Machine> {
        let plain = Machine::plain(name);
        Some(match name {
            "zen3" => Machine {
                level: Level::Avx2,
                ..plain
            },
            "zen4" => Machine {
                level: Level::Avx512,
                half_rate_512: true,
                bf16_dot: true,
                l2: 1 << 20,
                prefetches_rows: true,
                prefetch_into_l2: true,
                streams_rows: true,
                ..plain
            },
            "zen5" => Machine {
                level: Level::Avx512,
                bf16_dot: true,
                l1: 48 << 10,
                l2: 1 << 20,
                ..plain
            },
            "amx" => Machine {
                level: Level::Avx512,
                bf16_dot: true,
                bf16_tiles: true,
                l1: 48 << 10,
                l2: 2 << 20,
                l3: 105 << 20,
                l3_sharing: 112,
                few_fill_buffers: true,
                alternates_direction: true,
                ..plain
            },
            "neon" => Machine {
                level: Level::Neon,
                l1: 64 << 10,
                l2: 2 << 20,
                l3: 114 << 20,
                l3_sharing: 72,
                streaming_stores: false,
                ..plain
            },
            _ => return None,
        })
    }

    /// The names that [`described`](Machine::described) knows.
    pub const DESCRIBED: [&'static str; 5] = ["zen3", "zen4", "zen5", "amx", "neon"];

    /// The description that the values of `TORSH_SIMD` and `TORSH_MACHINE` make of `found`.
    fn replaced(
        found: &Machine,
        simd: Option<&str>,
        described: Option<&str>,
    ) -> Result<Machine, String> {
        let mut machine = match described {
            None => found.clone(),
            Some(name) => match Machine::described(name) {
                Some(machine) => machine,
                None => {
                    let text = std::fs::read_to_string(name).map_err(|e| {
                        let known = Machine::DESCRIBED.join(", ");
                        format!("TORSH_MACHINE={name}: neither one of {known} nor a file: {e}")
                    })?;
                    let mut machine = found.clone();
                    machine
                        .read(&text)
                        .map_err(|e| format!("TORSH_MACHINE={name}: {e}"))?;
                    machine
                }
            },
        };
        if let Some(simd) = simd {
            let level = Level::named(simd).ok_or_else(|| {
                format!("TORSH_SIMD={simd}: none of avx512, avx2, neon and scalar")
            })?;
            machine.level = machine.level.min(level);
            machine.bf16_tiles = false;
        }
        machine.level = machine.level.min(found.level);
        if machine.level == Level::Neon && found.level != Level::Neon {
            machine.level = Level::Base;
        }
        let wide = machine.level == Level::Avx512;
        machine.half_rate_512 &= wide;
        machine.bf16_dot &= found.bf16_dot && wide;
        machine.bf16_tiles &= found.bf16_tiles && wide;
        machine.streaming_stores &= found.streaming_stores;
        Ok(machine)
    }

    /// Takes the properties of a file: a line `property = value` each, as [`Display`](fmt::Display)
    /// writes them; what follows a `#` is a comment.
    fn read(&mut self, text: &str) -> Result<(), String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (nth, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()))
                .ok_or_else(|| format!("line {}: no `=` in `{line}`", nth + 1))?;
            self.set(key, value)
                .map_err(|e| format!("line {}: {key} = {value}: {e}", nth + 1))?;
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let flag = || {
            value
                .parse()
                .map_err(|_| "neither true nor false".to_string())
        };
        let number = || value.parse().map_err(|e| format!("not a number: {e}"));
        match key {
            "name" => self.name = value.into(),
            "level" => {
                self.level =
                    Level::named(value).ok_or("none of avx512, avx2, neon and base".to_string())?;
            }
            "half_rate_512" => self.half_rate_512 = flag()?,
            "bf16_dot" => self.bf16_dot = flag()?,
            "bf16_tiles" => self.bf16_tiles = flag()?,
            "cores" => self.cores = number()?,
            "l1" => self.l1 = number()?,
            "l2" => self.l2 = number()?,
            "l3" => self.l3 = number()?,
            "l3_sharing" => self.l3_sharing = number()?,
            "few_fill_buffers" => self.few_fill_buffers = flag()?,
            "prefetches_rows" => self.prefetches_rows = flag()?,
            "prefetch_into_l2" => self.prefetch_into_l2 = flag()?,
            "streams_rows" => self.streams_rows = flag()?,
            "streaming_stores" => self.streaming_stores = flag()?,
            "alternates_direction" => self.alternates_direction = flag()?,
            _ => return Err("no such property".into()),
        }
        Ok(())
    }

    /// Returns the level for loops that compute little with what they read: [`Machine::level`], or AVX2 where
    /// 512-bit instructions are executed in halves.
    ///
    /// ```
    /// use torsh_core::machine::{Level, Machine};
    /// let light = |name| Machine::described(name).expect("a known name").light_level();
    /// assert_eq!((light("zen4"), light("zen5")), (Level::Avx2, Level::Avx512));
    /// ```
    pub fn light_level(&self) -> Level {
        match self.level {
            Level::Avx512 if self.half_rate_512 => Level::Avx2,
            level => level,
        }
    }
}

/// A line `property = value` each, which `TORSH_MACHINE` reads.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = self;
        writeln!(f, "name = {}", m.name)?;
        writeln!(f, "level = {}", m.level)?;
        writeln!(f, "half_rate_512 = {}", m.half_rate_512)?;
        writeln!(f, "bf16_dot = {}", m.bf16_dot)?;
        writeln!(f, "bf16_tiles = {}", m.bf16_tiles)?;
        writeln!(f, "cores = {}", m.cores)?;
        writeln!(f, "l1 = {}", m.l1)?;
        writeln!(f, "l2 = {}", m.l2)?;
        writeln!(f, "l3 = {}", m.l3)?;
        writeln!(f, "l3_sharing = {}", m.l3_sharing)?;
        writeln!(f, "few_fill_buffers = {}", m.few_fill_buffers)?;
        writeln!(f, "prefetches_rows = {}", m.prefetches_rows)?;
        writeln!(f, "prefetch_into_l2 = {}", m.prefetch_into_l2)?;
        writeln!(f, "streams_rows = {}", m.streams_rows)?;
        writeln!(f, "streaming_stores = {}", m.streaming_stores)?;
        writeln!(f, "alternates_direction = {}", m.alternates_direction)
    }
}

#[cfg(test)]
mod tests;
