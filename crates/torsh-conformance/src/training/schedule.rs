//! Learning rates of schedulers.

use serde::Deserialize;

use super::{Checked, Config, count, load};
use crate::executor::Executor;
use crate::panics;
use crate::report::{Group, Report};
use crate::runner::Options;
use crate::source::Source;

/// A scheduler of an optimizer with momentum 0.9.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// PyTorch's name of the class.
    pub scheduler: String,
    /// Its settings.
    pub config: Config,
    /// The optimizer's learning rate.
    pub base_lr: f64,
    /// What each step is told, for `ReduceLROnPlateau`.
    pub metric: Option<Vec<f64>>,
    /// How many steps.
    pub steps: usize,
}

/// Learning rate and momentum at the start and after each step.
pub type Rates = Vec<(f64, f64)>;

#[derive(Deserialize)]
struct Row {
    scheduler: String,
    base_lr: f64,
    config: Config,
    lrs: Vec<f64>,
    momentum: Option<Vec<f64>>,
    metric: Option<Vec<f64>>,
}

pub(super) fn run(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let (rows, _) = load::<Row>(source, "lr_scheduler")?;
    for row in &rows {
        let name = format!("lr_scheduler.{}", row.scheduler);
        if options.wants("lr_scheduler", &name) {
            let case = format!("{:?}", row.config);
            count(
                report,
                Group::Schedulers,
                &name,
                &case,
                check(row, executor),
            );
        }
    }
    Ok(())
}

fn check(row: &Row, executor: &dyn Executor) -> Checked {
    let schedule = Schedule {
        scheduler: row.scheduler.clone(),
        config: row.config.clone(),
        base_lr: row.base_lr,
        metric: row.metric.clone(),
        steps: row.lrs.len().saturating_sub(1),
    };
    let got = match panics::catch(|| executor.schedule(&schedule)) {
        Ok(got) => got?,
        Err(e) => Err(e),
    };
    Some(got.and_then(|got| {
        if got.len() != row.lrs.len() {
            return Err(format!("{} rates, expected {}", got.len(), row.lrs.len()));
        }
        for (i, (lr, momentum)) in got.iter().enumerate() {
            close("learning rate", i, *lr, row.lrs[i])?;
            if let Some(want) = &row.momentum {
                let want = want.get(i).ok_or("too few momenta")?;
                close("momentum", i, *momentum, *want)?;
            }
        }
        Ok(())
    }))
}

fn close(what: &str, step: usize, got: f64, want: f64) -> Result<(), String> {
    if (got - want).abs() <= 1e-12 * want.abs().max(1e-3) {
        return Ok(());
    }
    Err(format!(
        "{what} after {step} steps: expected {want}, got {got}"
    ))
}
