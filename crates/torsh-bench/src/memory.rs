//! The memory of training: the peak, and the bytes in use after a few steps and after many, which must
//! be equal.

use std::io;
use std::process::Command;

use torsh_core::alloc;
use torsh_tensor::Result;

use crate::inputs::Layout;
use crate::spec::Spec;

/// What a workload needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The most bytes in blocks of tensors at once.
    pub peak: usize,
    /// Numbers of steps, and the bytes in blocks of tensors after as many.
    pub held: Vec<(usize, usize)>,
    /// The most bytes that this process had in memory at once, with its program and all that it
    /// did before; `None` where the system does not tell.
    pub rss: Option<usize>,
}

impl Memory {
    /// A JSON line.
    pub fn line(&self, name: &str) -> String {
        let held: Vec<_> = self
            .held
            .iter()
            .map(|(n, b)| format!("\"{n}\": {b}"))
            .collect();
        let rss = self.rss.map_or("null".into(), |b| b.to_string());
        format!(
            "{{\"name\": \"{name}\", \"peak_bytes\": {}, \"held_bytes\": {{{}}}, \"rss_bytes\": {rss}}}",
            self.peak,
            held.join(", ")
        )
    }
}

/// Makes a workload, steps to each of the ascending numbers in `after`, and reads the bytes there,
/// less what was in use before.
///
/// # Errors
/// Of the workload.
pub fn measure(spec: &Spec, after: &[usize]) -> Result<Memory> {
    alloc::empty_cache();
    let before = alloc::stats().allocated_bytes;
    alloc::reset_peak_stats();
    let mut call = spec.make(Layout::Contiguous)?.call;
    let (mut done, mut held) = (0, Vec::new());
    for &n in after {
        while done < n {
            drop(call()?);
            done += 1;
        }
        let now = alloc::stats().allocated_bytes;
        held.push((n, now.saturating_sub(before)));
    }
    let peak = alloc::stats().peak_allocated_bytes.saturating_sub(before);
    Ok(Memory {
        peak,
        held,
        rss: peak_rss(),
    })
}

/// The most memory this process had at once.
pub fn peak_rss() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Runs this program anew with `--memory-of NAME`, so that the process's memory is that of one
/// workload; its line.
///
/// # Errors
/// Where it cannot be started or fails.
pub fn in_a_process(name: &str, steps: usize, threads: usize) -> io::Result<String> {
    let (steps, threads) = (steps.to_string(), threads.to_string());
    let out = Command::new(std::env::current_exe()?)
        .args([
            "--memory-of",
            name,
            "--steps",
            &steps,
            "--threads",
            &threads,
        ])
        .output()?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr).trim().to_string();
        return Err(io::Error::other(format!("{name}: {why}")));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Model;
    use crate::spec::Rule;

    /// Parameters, gradients and Adam's two averages stay, and nothing else grows.
    #[test]
    fn training_holds_what_it_must_and_no_more() -> Result<()> {
        let _alone = crate::ALLOCATES.write();
        let (sizes, tanh) = (vec![64, 96, 8], false);
        let model = Model::Mlp { sizes, tanh };
        let spec = Spec::Train {
            model,
            batch: 16,
            rule: Rule::Adam,
        };
        let m = measure(&spec, &[3, 50])?;
        let [(3, early), (50, late)] = m.held[..] else {
            panic!("{m:?}");
        };
        let parameters = 4 * (64 * 96 + 96 + 96 * 8 + 8);
        assert!(early >= 4 * parameters, "{m:?}");
        assert!(early < 8 * parameters && m.peak >= early, "{m:?}");
        // Other tests of this process allocate meanwhile; a leak of one gradient a step would show.
        assert!(late.abs_diff(early) < 47 * parameters / 8, "{m:?}");
        let line = m.line("x");
        let v: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(v["held_bytes"]["50"], late);
        Ok(())
    }
}
