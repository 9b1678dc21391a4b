//! What the processor and the system say about themselves.

use super::{Level, Machine};

/// The processor at hand.
pub(super) fn detect() -> Machine {
    let cores = crate::os::cores();
    let caches = caches();
    let (level, bf16_dot) = instructions();
    let (family, amd, intel) = maker();
    // AMD's family 19h is Zen 3, which has no AVX-512, and Zen 4, which executes it in halves.
    let zen4 = amd && family == 0x19 && level == Level::Avx512;
    Machine {
        name: name(),
        level,
        half_rate_512: zen4,
        bf16_dot,
        bf16_tiles: bf16_dot && tiles(),
        cores,
        l1: caches.l1,
        l2: caches.l2,
        l3: caches.l3,
        l3_sharing: caches.l3_sharing.clamp(1, cores),
        few_fill_buffers: intel,
        prefetches_rows: zen4,
        prefetch_into_l2: zen4,
        streams_rows: zen4,
        streaming_stores: cfg!(target_arch = "x86_64"),
        alternates_direction: intel,
    }
}

#[derive(Default)]
struct Caches {
    l1: usize,
    l2: usize,
    l3: usize,
    l3_sharing: usize,
}

impl Caches {
    /// Takes a cache that holds data, of a level.
    fn put(&mut self, level: u32, bytes: usize, sharing: usize) {
        match level {
            1 => self.l1 = bytes,
            2 => self.l2 = bytes,
            3 => (self.l3, self.l3_sharing) = (bytes, sharing),
            _ => {}
        }
    }
}

/// The caches, from `cpuid` (leaf 4, on AMD 8000001Dh), else from Linux.
#[cfg(target_arch = "x86_64")]
fn caches() -> Caches {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let mut all = Caches::default();
    for leaf in [4, 0x8000_001d] {
        if __cpuid(leaf & 0x8000_0000).eax < leaf {
            continue;
        }
        for nth in 0..8 {
            let cache = __cpuid_count(leaf, nth);
            let kind = cache.eax & 31;
            if kind == 0 {
                break;
            }
            // Kind 2 is a cache of instructions.
            if kind != 2 {
                let field =
                    |shift: u32, bits: u32| (cache.ebx >> shift & ((1 << bits) - 1)) as usize + 1;
                let bytes = field(0, 12) * field(12, 10) * field(22, 10) * (cache.ecx as usize + 1);
                all.put(
                    cache.eax >> 5 & 7,
                    bytes,
                    (cache.eax >> 14 & 0xfff) as usize + 1,
                );
            }
        }
        if all.l2 > 0 {
            break;
        }
    }
    all
}

/// The caches of the fast cores of Apple's processors. A group of cores shares its second level: a core's part of that
/// counts as its own, and all of it as the shared cache, as there is no third level that only the cores use.
#[cfg(any(all(target_os = "macos", not(target_arch = "x86_64")), test))]
fn of_group(l1: usize, shared: usize, sharing: usize) -> Caches {
    let mut all = Caches::default();
    let sharing = sharing.max(1);
    all.put(1, l1, 1);
    all.put(2, shared / sharing, 1);
    all.put(3, shared, sharing);
    all
}

/// The caches, as macOS says.
#[cfg(all(target_os = "macos", not(target_arch = "x86_64")))]
fn caches() -> Caches {
    use crate::os::macos::number;
    let of = |name| number(name).map_or(0, |n| n as usize);
    of_group(
        of(c"hw.perflevel0.l1dcachesize"),
        of(c"hw.perflevel0.l2cachesize"),
        of(c"hw.perflevel0.cpusperl2"),
    )
}

/// The caches, from Linux where it says.
#[cfg(not(any(target_arch = "x86_64", target_os = "macos")))]
fn caches() -> Caches {
    let mut all = Caches::default();
    for nth in 0..8 {
        let of = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{nth}/{what}");
            std::fs::read_to_string(path).unwrap_or_default()
        };
        if of("type").trim() == "Instruction" {
            continue;
        }
        let size = of("size");
        let bytes = match size.trim().strip_suffix('K') {
            Some(n) => n.parse::<usize>().unwrap_or(0) << 10,
            None => {
                size.trim()
                    .strip_suffix('M')
                    .map_or(0, |n| n.parse().unwrap_or(0))
                    << 20
            }
        };
        let list = of("shared_cpu_list");
        let count = |part: &str| match part.trim().split_once('-') {
            Some((a, b)) => match (a.parse::<usize>(), b.parse::<usize>()) {
                (Ok(a), Ok(b)) => b.saturating_sub(a) + 1,
                _ => 0,
            },
            None => usize::from(!part.trim().is_empty()),
        };
        if let Ok(level) = of("level").trim().parse() {
            all.put(level, bytes, list.split(',').map(count).sum());
        }
    }
    all
}

/// The level, and whether there is AVX512-BF16. The features are those of the CPU backend's
/// `multiversion!`.
#[cfg(target_arch = "x86_64")]
fn instructions() -> (Level, bool) {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi1") && has!("bmi2");
    let avx512 = has!("avx512f")
        && has!("avx512dq")
        && has!("avx512vl")
        && has!("avx512bw")
        && has!("avx512cd");
    match (avx2, avx512) {
        (true, true) => (Level::Avx512, has!("avx512bf16")),
        (true, false) => (Level::Avx2, false),
        _ => (Level::Base, false),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn instructions() -> (Level, bool) {
    match cfg!(target_arch = "aarch64") {
        true => (Level::Neon, false),
        false => (Level::Base, false),
    }
}

/// The family, and whether the maker is AMD or Intel.
fn maker() -> (u32, bool, bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        let v = __cpuid(0);
        let all = [v.ebx, v.edx, v.ecx].map(u32::to_le_bytes);
        let signature = __cpuid(1).eax;
        let family = (signature >> 8 & 15) + (signature >> 20 & 255);
        let is = |name: &[u8]| all.as_flattened() == name;
        (family, is(b"AuthenticAMD"), is(b"GenuineIntel"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    (0, false, false)
}

/// The processor's name.
fn name() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        if __cpuid(0x8000_0000).eax >= 0x8000_0004 {
            let all = [0x8000_0002, 0x8000_0003, 0x8000_0004].map(|leaf| {
                let v = __cpuid(leaf);
                [v.eax, v.ebx, v.ecx, v.edx].map(u32::to_le_bytes)
            });
            let text = String::from_utf8_lossy(all.as_flattened().as_flattened());
            return text.trim_end_matches('\0').trim().to_string();
        }
    }
    #[cfg(target_os = "macos")]
    if let Some(name) = crate::os::macos::text(c"machdep.cpu.brand_string") {
        return name;
    }
    std::env::consts::ARCH.to_string()
}

/// Whether there is AMX-BF16 and Linux lets this process use it, which is asked for here, once for
/// all threads: the tiles' state is large, so the system wants to be asked (ARCH_REQ_XCOMP_PERM of
/// component 18).
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let (max, features) = (__cpuid(0).eax, __cpuid_count(7, 0).edx);
    // Bits 22 and 24: AMX-BF16 and AMX-TILE.
    if max < 7 || features >> 22 & 1 == 0 || features >> 24 & 1 == 0 {
        return false;
    }
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: i64 = 0x1023;
    let result: i64;
    // SAFETY: a system call without pointers, which changes nothing but this permission.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST,
            in("rsi") 18i64,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result == 0
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn tiles() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_second_level_is_divided() {
        // Of an M1.
        let caches = of_group(128 << 10, 12 << 20, 4);
        assert_eq!((caches.l1, caches.l2), (128 << 10, 3 << 20));
        assert_eq!((caches.l3, caches.l3_sharing), (12 << 20, 4));
        // A system that does not say.
        let none = of_group(0, 0, 0);
        assert_eq!((none.l2, none.l3, none.l3_sharing), (0, 0, 1));
    }
}
