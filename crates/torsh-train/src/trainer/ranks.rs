//! What a trainer does together with those of other processes.

use torsh_core::random::{LocalGenerator, default_generator};
use torsh_nn::Module;
use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

use super::losses::Loss;
use super::run::Run;
use super::source::Batches;
use super::{Stop, Strategy, Trainer};
use crate::checkpoint::{Rng, Stateful};

/// Well spread bits of a number (SplitMix64).
fn spread(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a checkpoint holds of each rank.
pub(super) fn of_ranks(values: Vec<Value>) -> Value {
    Value::from([("ranks", Value::List(values))])
}

/// A rank's own of what a checkpoint holds of each; what a single process saved is everybody's.
pub(super) fn own_of(saved: &Value, rank: usize) -> Option<&Value> {
    match saved.get("ranks").and_then(|r| r.as_list()) {
        Ok(ranks) => ranks.get(rank),
        Err(_) => Some(saved),
    }
}

/// The checksum of the order of a loader that gives parts of an order, where it has one.
fn order_of(state: &Value) -> Option<i64> {
    state.get("epoch.ranks").ok()?;
    let sum = state.get("epoch.checksum").ok()?.as_tensor().ok()?;
    sum.item::<i64>().ok()
}

impl<M: Module, B> Trainer<M, B> {
    pub(super) fn strategy(&self) -> Option<&dyn Strategy<M>> {
        self.strategy.as_deref()
    }

    /// This process's part of the data, where there are several.
    pub(super) fn share(&self) -> Option<(usize, usize)> {
        self.strategy().map(|s| s.data_share())
    }

    /// This process among all that train.
    pub(super) fn rank(&self) -> usize {
        self.strategy().map_or(0, |s| s.rank())
    }

    /// How many processes read different data.
    pub(super) fn data_ranks(&self) -> usize {
        self.strategy().map_or(1, |s| s.data_share().1)
    }

    /// Training begins, or goes on.
    pub(super) fn start_ranks(&mut self) -> Result<()> {
        let Some(strategy) = self.strategy.clone() else {
            return Ok(());
        };
        strategy.start(&self.model, &*self.optimizer)?;
        if self.state.order_seed.is_none() {
            // Loaders that draw from the default generator draw alike on all ranks.
            let own = Value::from(default_generator().initial_seed() as i64);
            let all = strategy.gather_all(&own)?;
            let first = all.first().unwrap_or(&own).as_int()?;
            self.state.order_seed = Some(first as u64);
        }
        Ok(())
    }

    /// The batches of the next epoch, or what is left of one.
    pub(super) fn open<'a>(&self, run: &Run<'a, B>) -> Result<Batches<'a, B>> {
        let Some(strategy) = self.strategy() else {
            return Ok(run.train.batches());
        };
        let epoch = self.state.epoch as u64;
        run.train.loader.set_epoch(epoch);
        let seed = self.state.order_seed.unwrap_or(0).wrapping_add(epoch);
        let drawn = LocalGenerator::new(spread(seed));
        let batches = drawn.scope(|| run.train.batches());
        let own = Value::from([
            ("batches", run.train.num_batches().into()),
            ("order", order_of(&run.train.save_state()?).into()),
        ]);
        let all = strategy.gather_all(&own)?;
        if let Some(other) = all.iter().position(|v| *v != all[0]) {
            return Err(differing(&all[0], &all[other], other));
        }
        Ok(batches)
    }

    /// Whether any rank says yes; the own answer where there is one process.
    pub(super) fn any(&self, answers: &mut [bool]) -> Result<()> {
        match self.strategy() {
            Some(s) => s.any(answers),
            None => Ok(()),
        }
    }

    /// The end of the run for all ranks, where one of them has a reason.
    pub(super) fn agree(&self, stop: Option<Stop>) -> Result<Option<Stop>> {
        let interrupted = stop == Some(Stop::Interrupted);
        let mut said = [interrupted, stop.is_some()];
        self.any(&mut said)?;
        Ok(match (said, stop) {
            ([true, _], _) => Some(Stop::Interrupted),
            ([_, true], None) => Some(Stop::Callback("another rank ended the run".into())),
            (_, stop) => stop,
        })
    }

    /// Makes the losses of this rank's batches those of all ranks' batches.
    pub(super) fn over_ranks(&self, losses: &mut [Loss<f64>]) -> Result<()> {
        let Some(strategy) = self.strategy().filter(|s| s.data_share().1 > 1) else {
            return Ok(());
        };
        if losses.is_empty() {
            return Ok(());
        }
        let of = |l: &Loss<f64>| [l.value * l.items, l.items];
        let mut sums: Vec<f64> = losses.iter().flat_map(of).collect();
        strategy.sum(&mut sums)?;
        for (loss, sum) in losses.iter_mut().zip(sums.chunks_exact(2)) {
            (loss.value, loss.items) = (sum[0] / sum[1], sum[1]);
        }
        Ok(())
    }

    /// Gives each metric the batches of all ranks.
    pub(super) fn merge_metrics(&mut self) -> Result<()> {
        let Some(strategy) = self.strategy.clone() else {
            return Ok(());
        };
        if strategy.data_share().1 == 1 || self.metrics.is_empty() {
            return Ok(());
        }
        let all = strategy.gather(&self.metric_states()?)?;
        for m in &mut self.metrics {
            m.reset();
            for states in &all {
                m.merge(states.get(m.name())?)?;
            }
        }
        Ok(())
    }

    /// The states of the metrics, of all ranks where these read different data.
    pub(super) fn metrics_of_ranks(&self) -> Result<Value> {
        let own = self.metric_states()?;
        match self.strategy().filter(|s| s.data_share().1 > 1) {
            Some(s) => Ok(of_ranks(s.gather(&own)?)),
            None => Ok(own),
        }
    }

    /// Takes over what [`Trainer::metrics_of_ranks`] gave, also with another number of ranks.
    pub(super) fn set_metrics_of_ranks(&mut self, saved: &Value) -> Result<()> {
        let (rank, ranks) = self.share().unwrap_or((0, 1));
        let all = match saved.get("ranks").and_then(|r| r.as_list()) {
            Ok(all) => all,
            Err(_) => std::slice::from_ref(saved),
        };
        let own = match all.len() == ranks {
            true => all.get(rank..=rank).unwrap_or(&[]),
            // The sums are what counts: one rank takes all of them.
            false if rank == 0 => all,
            false => &[],
        };
        for m in &mut self.metrics {
            m.reset();
            for states in own {
                m.merge(states.get(m.name())?)?;
            }
        }
        Ok(())
    }

    /// The states of the random numbers and of the loader, of all ranks.
    pub(super) fn states_of_ranks(&self, loader: Value) -> Result<(Value, Value)> {
        let rng = Rng.save_state()?;
        // It may be that of a checkpoint, which holds all ranks'.
        let loader = own_of(&loader, self.rank()).cloned().unwrap_or(loader);
        match self.strategy() {
            None => Ok((rng, loader)),
            Some(s) => Ok((
                of_ranks(s.gather_all(&rng)?),
                of_ranks(s.gather_all(&loader)?),
            )),
        }
    }
}

/// The error for loaders that differ from rank to rank.
#[cold]
fn differing(first: &Value, other: &Value, rank: usize) -> TorshError {
    let batches = |v: &Value| match v.get("batches") {
        Ok(Value::Int(n)) => format!("{n} batches"),
        _ => "an unknown number of batches".to_string(),
    };
    let e = if first.get("batches").ok() != other.get("batches").ok() {
        TorshError::invalid(
            "Trainer",
            format!(
                "an epoch has {} on rank 0 and {} on rank {rank}",
                batches(first),
                batches(other)
            ),
        )
    } else {
        TorshError::invalid(
            "Trainer",
            format!("rank 0 and rank {rank} read the data in different orders"),
        )
    };
    e.with_hint("make the same loader, of the same data and seed, on all ranks")
}
