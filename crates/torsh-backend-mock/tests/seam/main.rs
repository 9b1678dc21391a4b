//! The seam between tensors and devices, seen through a device that is not the CPU: from the boundary
//! of kernels up to training, loading and files. One program, so that it is linked once.

use parking_lot::{Mutex, MutexGuard};
use torsh_backend_mock::Mock;
use torsh_core::Device;
use torsh_tensor::{Result, Tensor};

mod boundary;
mod device;
mod faults;
mod files;
mod gradients;
mod loaders;
mod operators;
mod profile;
mod scaler;
mod streams;
mod train;

/// The device and its mock, for one test at a time: a deferred error goes to whoever waits first, which
/// may be another thread, and waits are counted.
fn alone() -> (Device, &'static Mock, MutexGuard<'static, ()>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock();
    let device = torsh_backend_mock::register().expect("the only custom devices");
    let mock = torsh_backend_mock::mock(0).expect("it was registered");
    (device, mock, alone)
}

/// How often the host waits for the device in a function.
fn waits<T>(mock: &Mock, f: impl FnOnce() -> Result<T>) -> Result<(usize, T)> {
    let before = mock.waits();
    let value = f()?;
    Ok((mock.waits() - before, value))
}

/// Asserts that numbers are equal up to a few units in the last place of `float32`.
#[track_caller]
fn assert_near(got: &[f64], wanted: &[f64]) {
    assert_eq!(got.len(), wanted.len());
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        let most = 8.0 * f64::from(f32::EPSILON) * w.abs().max(1e-3);
        assert!((g - w).abs() <= most, "{i}: {g}, wanted {w}");
    }
}

fn numbers<T: AsRef<Tensor>>(tensors: &[T]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for t in tensors {
        all.extend(t.as_ref().detach().to_vec::<f64>()?);
    }
    Ok(all)
}

/// A file that is removed at the end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("torsh-above-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
