//! What a report of a fault should say of the program and its machine.

use std::fmt;

use torsh_core::Device;
use torsh_core::machine::{Level, Machine, machine};

/// Whether a feature of this crate is on, for each of them.
macro_rules! features {
    ($($name:literal),* $(,)?) => {
        [$(($name, cfg!(feature = $name))),*]
    };
}

/// The features that add something, each with whether this build has it.
const FEATURES: [(&str, bool); 19] = features!(
    "nn",
    "optim",
    "data",
    "functional",
    "special",
    "sparse",
    "train",
    "profiler",
    "debug",
    "linalg",
    "vision",
    "text",
    "hub",
    "distributed",
    "parquet",
    "plots",
    "bmp",
    "gif",
    "webp",
);

/// A device that this program can use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device.
    pub device: Device,
    /// Its maker's name for it.
    pub name: String,
    /// Its memory in bytes; 0 where the system does not say.
    pub memory: u64,
}

/// What [`info`] finds. [`Display`](fmt::Display) prints it on one screen, a line for each field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// The version of ToRSh.
    pub version: &'static str,
    /// Whether ToRSh was compiled with optimization and without checks of overflow (`release` or `debug`).
    pub profile: &'static str,
    /// The features of the crate `torsh` that this program was built with.
    pub features: Vec<&'static str>,
    /// The operating system with its version.
    pub system: String,
    /// The kind of processor and of system that the program was compiled for, such as `x86_64-linux-gnu`.
    pub target: String,
    /// The processor as kernels see it, after `TORSH_SIMD` and `TORSH_MACHINE`.
    pub processor: Machine,
    /// The vector instructions that the processor has, whatever the environment says.
    pub level: Level,
    /// How many threads an operation uses at most.
    pub threads: usize,
    /// The devices, the CPU first.
    pub devices: Vec<DeviceInfo>,
    /// Where the memory of tensors on the CPU comes from.
    pub allocator: &'static str,
    /// The MPI that `distributed` would use, or why there is none.
    pub mpi: String,
    /// The variables of the environment whose names begin with `TORSH_`, by name.
    pub variables: Vec<(String, String)>,
}

/// What a report of a fault should say of the program and its machine (`torch.utils.collect_env`).
///
/// With the feature `distributed` it looks for an MPI, which loads the library, but does not start MPI.
/// `torsh --version --verbose` prints the same of the command `torsh`.
///
/// ```
/// let info = torsh::info();
/// assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
/// assert_eq!(info.devices[0].device, torsh::Device::Cpu);
/// assert_eq!(info.threads, torsh::get_num_threads());
/// println!("{info}");
/// ```
pub fn info() -> Info {
    let device = |device: Device| {
        let found = torsh_backend::properties(device).ok()?;
        Some(DeviceInfo {
            device,
            name: found.name,
            memory: found.total_memory,
        })
    };
    let mut variables: Vec<_> = std::env::vars_os()
        .map(|(name, value)| {
            let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
            (text(name), text(value))
        })
        .filter(|(name, _)| name.starts_with("TORSH_"))
        .collect();
    variables.sort();
    let found = FEATURES.iter().filter(|(_, on)| *on);
    Info {
        version: env!("CARGO_PKG_VERSION"),
        profile: match cfg!(debug_assertions) {
            true => "debug",
            false => "release",
        },
        features: found.map(|(name, _)| *name).collect(),
        system: system(),
        target: target(),
        processor: machine().clone(),
        level: Machine::detect().level,
        threads: crate::get_num_threads(),
        devices: torsh_backend::devices()
            .into_iter()
            .filter_map(device)
            .collect(),
        allocator: "the system's, with a cache of freed blocks",
        mpi: mpi(),
        variables,
    }
}

/// Processor, system and C library that the program was compiled for.
fn target() -> String {
    let library = match (
        cfg!(target_env = "gnu"),
        cfg!(target_env = "musl"),
        cfg!(target_env = "msvc"),
    ) {
        (true, ..) => "-gnu",
        (_, true, _) => "-musl",
        (.., true) => "-msvc",
        _ => "",
    };
    format!(
        "{}-{}{library}",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

/// The operating system with its version, as the system itself says it.
fn system() -> String {
    let said = match std::env::consts::OS {
        "linux" => {
            let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
            let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            format!("{}, Linux {}", pretty_name(&release), kernel.trim())
        }
        "macos" => format!("macOS {}", output("sw_vers", &["-productVersion"])),
        "windows" => output("cmd", &["/C", "ver"]),
        _ => String::new(),
    };
    match said.trim() {
        "" => std::env::consts::OS.to_string(),
        said => said.to_string(),
    }
}

/// The name of a distribution in the text of its `os-release`.
fn pretty_name(release: &str) -> &str {
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("an unknown distribution", |n| n.trim_matches('"'))
}

/// What a program of the system prints; nothing where it fails.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output();
    output.map_or(String::new(), |o| {
        String::from_utf8_lossy(&o.stdout).trim().to_string()
    })
}

#[cfg(feature = "distributed")]
fn mpi() -> String {
    torsh_distributed::mpi_library().unwrap_or_else(|e| format!("none: {e}"))
}

#[cfg(not(feature = "distributed"))]
fn mpi() -> String {
    "not looked for: this program was built without the feature `distributed`".to_string()
}

/// A number of bytes in the largest unit that leaves at least 1.
fn bytes(n: u64) -> String {
    match n {
        0 => "unknown".to_string(),
        _ if n >= 1 << 30 => format!("{:.1} GiB", n as f64 / f64::from(1 << 30)),
        _ if n >= 1 << 20 => format!("{} MiB", n >> 20),
        _ => format!("{} KiB", n >> 10),
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.processor;
        writeln!(f, "torsh      {} ({})", self.version, self.profile)?;
        writeln!(f, "features   {}", self.features.join(", "))?;
        writeln!(f, "system     {}", self.system)?;
        writeln!(f, "target     {}", self.target)?;
        writeln!(f, "processor  {}", p.name)?;
        let mut levels = vec![p.level.to_string()];
        levels.extend(p.bf16_dot.then(|| "bf16_dot".to_string()));
        levels.extend(p.bf16_tiles.then(|| "bf16_tiles".to_string()));
        if p.level != self.level {
            levels.push(format!("limited from {}", self.level));
        }
        writeln!(f, "vectors    {}", levels.join(", "))?;
        let caches = [p.l1, p.l2, p.l3].map(|n| bytes(n as u64));
        writeln!(f, "cores      {}, caches {}", p.cores, caches.join(" + "))?;
        writeln!(f, "threads    {}", self.threads)?;
        for d in &self.devices {
            writeln!(
                f,
                "device     {}: {}, memory {}",
                d.device,
                d.name,
                bytes(d.memory)
            )?;
        }
        writeln!(f, "allocator  {}", self.allocator)?;
        write!(f, "mpi        {}", self.mpi)?;
        for (name, value) in &self.variables {
            write!(f, "\nvariable   {name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_named_as_it_names_itself() {
        let release = "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
        assert_eq!(pretty_name(release), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(pretty_name("PRETTY_NAME=Void\n"), "Void");
        assert_eq!(pretty_name(""), "an unknown distribution");
    }

    #[test]
    fn bytes_are_in_the_largest_unit() {
        let all = [0, 48 << 10, 2 << 20, 105 << 20, 24 << 30].map(bytes);
        assert_eq!(all, ["unknown", "48 KiB", "2 MiB", "105 MiB", "24.0 GiB"]);
    }

    #[test]
    fn a_limited_processor_says_what_it_is_limited_from() {
        let mut found = info();
        found.level = Level::Avx512;
        found.processor.level = Level::Avx2;
        found.processor.bf16_dot = false;
        found.processor.bf16_tiles = false;
        found.variables = vec![("TORSH_SIMD".into(), "avx2".into())];
        let text = found.to_string();
        assert!(
            text.contains("vectors    avx2, limited from avx512\n"),
            "{text}"
        );
        assert!(text.ends_with("variable   TORSH_SIMD=avx2"), "{text}");
        assert!(text.lines().count() < 25, "{text}");
    }
}
