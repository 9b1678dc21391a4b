//! Calls of operators: `ops/ops.json`, operator cases in which the generator may be seeded before the call.

use serde_json::Value as Json;
use torsh_core::Device;

use super::{Options, Report};
use crate::case::{Case, Expect, Ordered, gradient, tensor_ref, value};
use crate::executor::{Call, Executor, Outcome};
use crate::layouts::Memory;
use crate::report::{Group, OpReport};
use crate::runner::{run_case, written};
use crate::source::Source;
use crate::tensors::TensorFile;
use crate::tiers::Tier;
use crate::torsh::{Torsh, call_on, drawing};

#[derive(serde::Deserialize)]
struct RawFile {
    cases: Vec<RawCase>,
}

#[derive(serde::Deserialize)]
struct RawCase {
    op: String,
    args: Vec<Json>,
    kwargs: Ordered,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    expect: Vec<Json>,
    #[serde(default)]
    cotangents: Vec<Json>,
    #[serde(default)]
    grads: Option<Vec<Json>>,
    #[serde(default)]
    error: Option<String>,
}

impl RawCase {
    fn read(self) -> Result<(Case, Option<u64>), String> {
        let expect = match self.error {
            Some(message) => Expect::Error(message),
            None => {
                let outputs = self
                    .expect
                    .iter()
                    .map(tensor_ref)
                    .collect::<Result<_, _>>()?;
                // The cotangents are those of the outputs in their order.
                let numbered = self.cotangents.iter().enumerate().map(|(i, json)| {
                    let mut json = json.clone();
                    if json["output"].is_null() {
                        json["output"] = i.into();
                    }
                    json
                });
                let cotangents: Vec<Json> = numbered.collect();
                let grads = self.grads.as_deref();
                let grads = grads.map(|g| gradient(&cotangents, g)).transpose()?;
                Expect::Outputs(outputs, grads)
            }
        };
        let args: Vec<_> = self.args.iter().map(value).collect::<Result<_, _>>()?;
        let tensors = args.iter().flat_map(|v| v.tensors());
        let dtype = tensors.into_iter().next().map_or("", |t| t.dtype.name());
        let kwargs = self.kwargs.0.iter();
        let kwargs = kwargs.map(|(name, v)| Ok((name.clone(), value(v)?)));
        let case = Case {
            dtype: dtype.to_string(),
            sample: 0,
            kwargs: kwargs.collect::<Result<_, String>>()?,
            args,
            expect,
            after: Vec::new(),
            eigenvalues: false,
            dense: false,
            op: format!("torchvision::{}", self.op),
        };
        Ok((case, self.seed))
    }
}

/// Calls after the generator was seeded.
struct Seeded(Option<u64>);

impl Executor for Seeded {
    fn has(&self, op: &str) -> bool {
        Torsh.has(op)
    }

    fn call(&self, call: &Call) -> Result<Outcome, String> {
        let _guard = self.0.map(|seed| {
            let guard = drawing();
            torsh_core::random::manual_seed(seed);
            guard
        });
        call_on(Device::Cpu, call)
    }

    fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
        Err("nothing is printed here".to_string())
    }
}

/// Runs the cases.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    let read = |name: &str| super::read(source, &format!("ops/{name}"));
    let file: RawFile =
        serde_json::from_slice(&read("ops.json")?).map_err(|e| format!("ops.json: {e}"))?;
    let tensors = TensorFile::parse(&read("ops.safetensors")?)?;
    let mut report = Report::default();
    let mut calls = OpReport::new("ops", "torchvision", Group::Tier(Tier::Full));
    for (i, raw) in file.cases.into_iter().enumerate() {
        if !options.takes(i, &raw.op) {
            continue;
        }
        let (case, seed) = raw.read().map_err(|e| format!("case {i}: {e}"))?;
        let result = run_case(&case, &tensors, &Seeded(seed), &mut calls);
        report.add(format!("case {i} {}", written(&case)), result.map(drop));
    }
    Ok(report)
}
