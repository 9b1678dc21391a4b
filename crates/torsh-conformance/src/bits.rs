//! The bits of all results, for comparison between systems and processors.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::executor::{Call, Executor, ModuleCall, ModuleOutcome, Outcome};
use crate::layouts::Memory;
use crate::tensors::{Dtype, TensorData};
use crate::training::optim::{Stepped, Steps};
use crate::training::random::Draw;
use crate::training::runs::{Run, Trained};
use crate::training::schedule::{Rates, Schedule};

/// Calls another executor and notes what came of it: of each name and dtype how many tensors, and a sum of their bytes.
pub struct Recorder<'a> {
    executor: &'a dyn Executor,
    sums: Mutex<BTreeMap<(String, &'static str), (usize, u64)>>,
}

impl<'a> Recorder<'a> {
    /// Of the calls of this executor.
    pub fn new(executor: &'a dyn Executor) -> Recorder<'a> {
        Recorder {
            executor,
            sums: Mutex::default(),
        }
    }

    /// A line for each name and dtype: `name dtype count sum`.
    pub fn text(&self) -> String {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = sums
            .iter()
            .map(|((name, dtype), (count, sum))| format!("{name} {dtype} {count} {sum:016x}\n"));
        lines.collect()
    }

    /// Sums do not depend on the order of calls.
    fn note(&self, name: &str, dtype: &'static str, bytes: &[u8]) {
        // FNV-1a.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, sum) = sums.entry((name.to_string(), dtype)).or_default();
        *count += 1;
        *sum = sum.wrapping_add(hash);
    }

    fn tensors<'t>(&self, name: &str, tensors: impl IntoIterator<Item = &'t TensorData>) {
        for t in tensors {
            self.note(name, t.dtype.name(), &t.bytes);
        }
    }
}

impl Executor for Recorder<'_> {
    fn has(&self, op: &str) -> bool {
        self.executor.has(op)
    }

    fn lacks(&self, dtype: Dtype) -> Option<String> {
        self.executor.lacks(dtype)
    }

    fn only_calls(&self) -> Option<String> {
        self.executor.only_calls()
    }

    fn notes(&self) -> Vec<String> {
        self.executor.notes()
    }

    fn call(&self, call: &Call) -> Result<Outcome, String> {
        let outcome = self.executor.call(call)?;
        self.tensors(&call.op, &outcome.outputs);
        if let Some(Ok(grads)) = &outcome.grads {
            self.tensors(&call.op, grads.iter().flatten());
        }
        Ok(outcome)
    }

    fn exact(&self, call: &Call) -> Result<Outcome, String> {
        self.executor.exact(call)
    }

    fn module(&self, call: &ModuleCall) -> Option<Result<ModuleOutcome, String>> {
        let outcome = self.executor.module(call)?;
        if let Ok(o) = &outcome {
            self.tensors(&call.module, &o.outputs);
            self.tensors(&call.module, o.grads.iter().flatten());
            let of_parameters = o.param_grads.iter().filter_map(|(_, t)| t.as_ref());
            self.tensors(&call.module, of_parameters);
            self.tensors(&call.module, o.state.iter().map(|(_, t)| t));
        }
        Some(outcome)
    }

    fn draw(&self, draw: &Draw) -> Option<Result<TensorData, String>> {
        let drawn = self.executor.draw(draw)?;
        if let Ok(t) = &drawn {
            self.tensors(&format!("draw.{}", draw.op), [t]);
        }
        Some(drawn)
    }

    fn optimize(&self, steps: &Steps) -> Option<Result<Stepped, String>> {
        let stepped = self.executor.optimize(steps)?;
        if let Ok(s) = &stepped {
            let name = format!("optim.{}", steps.optimizer);
            self.tensors(&name, s.params.iter().flatten());
        }
        Some(stepped)
    }

    fn schedule(&self, schedule: &Schedule) -> Option<Result<Rates, String>> {
        let rates = self.executor.schedule(schedule)?;
        let name = format!("lr_scheduler.{}", schedule.scheduler);
        self.note(&name, "float64", format!("{rates:?}").as_bytes());
        Some(rates)
    }

    fn train(&self, run: &Run) -> Option<Result<Trained, String>> {
        let trained = self.executor.train(run)?;
        let name = format!("training.{}.{}", run.model, run.optimizer);
        self.note(&name, "all", format!("{trained:?}").as_bytes());
        Some(trained)
    }

    fn print(&self, value: &Memory, doubled: bool) -> Result<String, String> {
        self.executor.print(value, doubled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::Element;
    use crate::torsh::Torsh;

    #[test]
    fn sums_tell_bits_apart_but_not_orders() {
        let tensor = |x: f64| TensorData::from_elements(Dtype::Float64, &[1], &[Element::Float(x)]);
        let text = |values: &[f64]| {
            let recorder = Recorder::new(&Torsh);
            recorder.tensors(
                "add",
                &values.iter().map(|&x| tensor(x)).collect::<Vec<_>>(),
            );
            recorder.text()
        };
        assert!(text(&[1.0, 2.0]).starts_with("add float64 2 "));
        assert_eq!(text(&[1.0, 2.0]), text(&[2.0, 1.0]));
        assert_ne!(text(&[1.0, 2.0]), text(&[1.0, 2f64.next_up()]));
    }
}
