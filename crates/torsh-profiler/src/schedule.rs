//! Which steps of a training loop are recorded.

use torsh_tensor::{Result, TorshError};

/// What a profiler does in a step (`torch.profiler.ProfilerAction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProfilerAction {
    /// Nothing.
    None,
    /// Watches, so that the next steps run as they will, and forgets what it saw.
    Warmup,
    /// Records.
    Record,
    /// Records, and hands the profile over after the step.
    RecordAndSave,
}

/// A cycle of steps, made by [`schedule`].
///
/// ```
/// use torsh_profiler::{ProfilerAction::*, schedule};
/// let s = schedule(1, 1, 2, 1)?.skip_first(1);
/// let actions: Vec<_> = (0..6).map(|step| s.action(step)).collect();
/// assert_eq!(actions, [None, None, Warmup, Record, RecordAndSave, None]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    wait: usize,
    warmup: usize,
    active: usize,
    repeat: usize,
    skip_first: usize,
    skip_first_wait: bool,
}

/// A cycle of `wait` steps that are left out, `warmup` steps whose profile is thrown away and
/// `active` steps that are recorded, run `repeat` times; 0 repeats it to the end
/// (`torch.profiler.schedule`).
///
/// # Errors
/// `InvalidArgument` where no step is active.
#[torsh_tensor::names_caller]
pub fn schedule(wait: usize, warmup: usize, active: usize, repeat: usize) -> Result<Schedule> {
    if active == 0 {
        return Err(TorshError::invalid(
            "schedule",
            format!("active must be at least 1, got wait={wait}, warmup={warmup}, active=0"),
        ));
    }
    Ok(Schedule {
        wait,
        warmup,
        active,
        repeat,
        skip_first: 0,
        skip_first_wait: false,
    })
}

impl Schedule {
    /// Leaves out this many steps ahead of the first cycle.
    #[must_use]
    pub fn skip_first(mut self, steps: usize) -> Schedule {
        self.skip_first = steps;
        self
    }

    /// Whether the first cycle starts without its `wait` steps.
    #[must_use]
    pub fn skip_first_wait(mut self, skip: bool) -> Schedule {
        self.skip_first_wait = skip;
        self
    }

    /// What to do in a step, counted from 0.
    pub fn action(&self, step: usize) -> ProfilerAction {
        let Some(mut step) = step.checked_sub(self.skip_first) else {
            return ProfilerAction::None;
        };
        if self.skip_first_wait {
            step += self.wait;
        }
        let cycle = self.wait + self.warmup + self.active;
        if self.repeat > 0 && step / cycle >= self.repeat {
            return ProfilerAction::None;
        }
        match step % cycle {
            n if n < self.wait => ProfilerAction::None,
            n if n < self.wait + self.warmup => ProfilerAction::Warmup,
            n if n < cycle - 1 => ProfilerAction::Record,
            _ => ProfilerAction::RecordAndSave,
        }
    }
}
