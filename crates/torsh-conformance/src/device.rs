//! ToRSh on a device other than the CPU.

use torsh_tensor::Device;
use torsh_tensor::devices::{definitions_used, fallbacks};

use crate::executor::{Call, Executor, ModuleCall, ModuleOutcome, Outcome};
use crate::layouts::Memory;
use crate::modules;
use crate::parts::{Operand, Parts};
use crate::tensors::Dtype;
use crate::torsh::{Torsh, call_on, dtype, text};

/// Calls ToRSh on a device: operands are moved there, laid out there, and results and gradients read
/// back, which must be on the device. A call that must be refused may be refused by the next wait.
///
/// Errors that a device reports later go to whoever waits first, so calls run one after the other.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice(Device);

impl OnDevice {
    /// The device of that name, as `cuda:0`; `mock` is the one of `torsh-backend-mock`.
    ///
    /// # Errors
    /// Where there is no such device in this program.
    pub fn new(name: &str) -> Result<OnDevice, String> {
        if name == torsh_backend_mock::NAME {
            return torsh_backend_mock::register().map(OnDevice).map_err(text);
        }
        if name.starts_with(torsh_backend_mock::NAME) {
            torsh_backend_mock::register().map_err(text)?;
        }
        let device: Device = name.parse().map_err(text)?;
        torsh_backend::backend(device).map_err(text)?;
        Ok(OnDevice(device))
    }
}

impl Executor for OnDevice {
    fn has(&self, op: &str) -> bool {
        Torsh.has(op)
    }

    fn lacks(&self, wanted: Dtype) -> Option<String> {
        let there = torsh_backend::backend(self.0)
            .ok()?
            .supports(dtype(wanted).ok()?);
        (!there).then(|| format!("{} has no {wanted}", self.0))
    }

    fn only_calls(&self) -> Option<String> {
        let why =
            "made for the CPU: printing names the device, and the others make their own tensors";
        (!self.0.is_host()).then(|| why.to_string())
    }

    fn notes(&self) -> Vec<String> {
        let told = |what: &str, all: Vec<(&str, u64)>| {
            let calls: u64 = all.iter().map(|(_, n)| n).sum();
            format!("{what}: {} operators in {calls} calls", all.len())
        };
        vec![
            format!("on {}", self.0),
            told("computed by their definitions", definitions_used()),
            told("computed on the CPU instead", fallbacks()),
        ]
    }

    fn call(&self, call: &Call) -> Result<Outcome, String> {
        call_on(self.0, call)
    }

    fn exact(&self, call: &Call) -> Result<Outcome, String> {
        Torsh.call(call)
    }

    fn module(&self, call: &ModuleCall) -> Option<Result<ModuleOutcome, String>> {
        modules::call(call, self.0)
    }

    fn print(&self, value: &Memory, doubled: bool) -> Result<String, String> {
        Torsh.print(value, doubled)
    }

    fn sparse(&self, call: &Call<Operand<Memory>>) -> Result<Outcome<Operand>, String> {
        call_on(self.0, call)
    }

    fn print_sparse(&self, value: &Parts<Memory>, doubled: bool) -> Result<String, String> {
        Torsh.print_sparse(value, doubled)
    }
}
