//! Times of ops on devices, from events before and after each op, and the memory of devices.

use torsh_backend::backend;
use torsh_core::alloc::MemoryStats;
use torsh_core::backend::Event;
use torsh_tensor::call::Arg;
use torsh_tensor::devices::devices;
use torsh_tensor::observe::{Call, Work};
use torsh_tensor::record::Rule;
use torsh_tensor::{Device, Result};

/// When a device worked for an event, on the clock of the profile.
///
/// It is measured by two marks in the device's stream, ahead of the op's work and after it, so it
/// holds what the device waits for between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpan {
    /// The device.
    pub device: Device,
    /// The number of the stream on the device; 0 is its default stream.
    pub stream: u32,
    /// When it began, in microseconds since the profile did.
    pub start_us: f64,
    /// When it ended.
    pub end_us: f64,
}

impl DeviceSpan {
    /// How long it took, in microseconds.
    pub fn time(&self) -> f64 {
        self.end_us - self.start_us
    }
}

/// How an event finds the device that works for it.
#[derive(Clone, Copy)]
pub(crate) enum Timed {
    /// None does: it is a range, or a view, whose ops have their own times.
    No,
    /// That of the memory which is made in it: it has no operand on a device.
    WhenMade,
    /// This one.
    On(Device),
}

/// A device whose work is not done when a call returns.
pub(crate) fn is_timed(device: Device) -> bool {
    device.has_data() && !device.is_host()
}

/// How the event of a call finds its device.
pub(crate) fn of(call: &Call<'_>) -> Timed {
    let (Work::Op(record) | Work::InPlace(record)) = call.work else {
        return Timed::No;
    };
    if matches!(record.rule(), Rule::View(_) | Rule::ViewAs(_)) && call.targets.is_empty() {
        return Timed::No;
    }
    let operands = call.args.iter().filter_map(|a| match a {
        Arg::T(t) => Some(*t),
        Arg::N(_) | Arg::Absent => None,
    });
    let mut all = call.targets.iter().chain(operands).map(|t| t.device());
    match all.find(|d| is_timed(*d)) {
        Some(device) => Timed::On(device),
        None => Timed::WhenMade,
    }
}

/// A point in a device's stream.
pub(crate) struct Mark {
    pub(crate) device: Device,
    stream: u32,
    event: Box<dyn Event>,
}

impl Mark {
    /// The end of this thread's current stream; `None` where the device cannot tell, as a lost one.
    pub(crate) fn here(device: Device) -> Option<Mark> {
        let backend = backend(device).ok()?;
        let stream = backend.queue().0;
        let event = backend.record_event().ok()?;
        Some(Mark {
            device,
            stream,
            event,
        })
    }

    /// Waits until it is reached, and tells when that was, in microseconds of the device's clock.
    ///
    /// # Errors
    /// What the device's work failed with.
    pub(crate) fn reached(&self) -> Result<Option<f64>> {
        self.event.wait()?;
        Ok(self.time())
    }

    fn time(&self) -> Option<f64> {
        Some(self.event.time()? * 1e6)
    }
}

/// The marks around the work of an event.
pub(crate) struct Pair {
    pub(crate) event: usize,
    pub(crate) start: Mark,
    pub(crate) end: Mark,
}

impl Pair {
    /// When the work was done, where the device's clock is `offset_us` behind the profile's.
    pub(crate) fn span(&self, offset_us: f64) -> Option<DeviceSpan> {
        Some(DeviceSpan {
            device: self.start.device,
            stream: self.start.stream,
            start_us: self.start.time()? + offset_us,
            end_us: self.end.time()? + offset_us,
        })
    }
}

/// The memory of each device beside the CPU that this program has.
pub(crate) fn memory() -> Vec<(Device, MemoryStats)> {
    let others = devices().into_iter().filter(|d| is_timed(*d));
    others
        .filter_map(|d| Some((d, backend(d).ok()?.memory_stats())))
        .collect()
}

/// The bytes in use on all devices, the CPU included.
pub(crate) fn allocated_bytes() -> usize {
    let others = memory()
        .iter()
        .map(|(_, s)| s.allocated_bytes)
        .sum::<usize>();
    torsh_core::alloc::stats().allocated_bytes + others
}

/// Waits until all devices have done what they were given, so that a clock that is read next counts
/// that work. Errors of the work are left to the program's own next wait.
pub(crate) fn wait() {
    for device in devices() {
        // A lost device has nothing left to wait for; the program's next call says so.
        let _ = torsh_tensor::devices::wait_idle(device);
    }
}

/// The share of a time in which some device worked for events, from 0 to 1; `None` where none did.
pub(crate) fn busy<'a>(spans: impl Iterator<Item = &'a DeviceSpan>, us: f64) -> Option<f64> {
    let mut times: Vec<(f64, f64)> = spans.map(|s| (s.start_us, s.end_us)).collect();
    if times.is_empty() || us <= 0.0 {
        return None;
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut until) = (0.0, f64::NEG_INFINITY);
    for (start, end) in times {
        sum += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    Some((sum / us).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_count_once() {
        let span = |start_us, end_us| DeviceSpan {
            device: Device::Cuda(0),
            stream: 0,
            start_us,
            end_us,
        };
        let spans = [
            span(10.0, 30.0),
            span(0.0, 20.0),
            span(50.0, 60.0),
            span(12.0, 13.0),
        ];
        assert_eq!(busy(spans.iter(), 80.0), Some(0.5));
        assert_eq!(busy([].iter(), 80.0), None);
    }
}
