//! Executors that answer from a golden file instead of computing.

use std::collections::HashMap;

use torsh_conformance::case::{Expect, OpFile, Value};
use torsh_conformance::executor::{Call, Executor, Outcome};
use torsh_conformance::layouts::Memory;
use torsh_conformance::tensors::TensorFile;

/// Knows the answer to every case of one file, and lets a test spoil it.
pub struct Oracle<F> {
    pub op: String,
    answers: HashMap<String, Result<Outcome, String>>,
    pub spoil: F,
}

/// What a call looks like, whatever its layout; the same call comes with several cotangents.
fn key(
    args: &[Value<Memory>],
    kwargs: &[(String, Value<Memory>)],
    cotangents: &[(usize, Memory)],
) -> String {
    let plain = |v: &Value<Memory>| {
        let plain = v
            .try_map(&mut |m| Ok::<_, ()>((m.to_data(), m.requires_grad)))
            .unwrap();
        format!("{plain:?}")
    };
    let args: Vec<_> = args.iter().map(plain).collect();
    let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k, plain(v))).collect();
    let cotangents: Vec<_> = cotangents.iter().map(|(i, m)| (i, m.to_data())).collect();
    format!("{args:?} {kwargs:?} {cotangents:?}")
}

impl<F> Oracle<F> {
    pub fn new(file: &OpFile, tensors: &TensorFile, spoil: F) -> Oracle<F> {
        let mut answers = HashMap::new();
        for case in file.cases.iter().chain(&file.errors) {
            let mut load = |r: &torsh_conformance::case::TensorRef| {
                let data = tensors.get(r)?;
                let layout = torsh_conformance::layouts::Layout::Contiguous;
                Ok::<_, String>(Memory::arrange(&data, layout, r.requires_grad))
            };
            let args: Vec<_> = case
                .args
                .iter()
                .map(|v| v.try_map(&mut load).unwrap())
                .collect();
            let kwargs: Vec<_> = case
                .kwargs
                .iter()
                .map(|(k, v)| (k.clone(), v.try_map(&mut load).unwrap()))
                .collect();
            let answer = match &case.expect {
                Expect::Error(text) => Err(format!("{}: {text}", case.op)),
                Expect::Outputs(outputs, gradient) => {
                    let get = |r| tensors.get(r).unwrap();
                    let grads = gradient.as_ref().map(|g| {
                        Ok(g.grads
                            .iter()
                            .map(|g| g.as_ref().map(get))
                            .collect::<Vec<_>>())
                    });
                    Ok(Outcome {
                        outputs: outputs.iter().map(get).collect(),
                        grads,
                    })
                }
            };
            let cotangents: Vec<_> = match &case.expect {
                Expect::Outputs(_, Some(g)) => g
                    .cotangents
                    .iter()
                    .map(|(i, r)| (*i, load(r).unwrap()))
                    .collect(),
                _ => Vec::new(),
            };
            answers.insert(key(&args, &kwargs, &cotangents), answer);
        }
        Oracle {
            op: file.op.clone(),
            answers,
            spoil,
        }
    }
}

impl<F> Executor for Oracle<F>
where
    F: Fn(&Call, &mut Result<Outcome, String>) + Sync,
{
    fn has(&self, op: &str) -> bool {
        op == self.op
    }

    fn call(&self, call: &Call) -> Result<Outcome, String> {
        let cotangents = call.cotangents.as_deref().unwrap_or_default();
        let key = key(&call.args, &call.kwargs, cotangents);
        // The same case in float64, which some dtypes ask for, has no answer here.
        let Some(answer) = self.answers.get(&key) else {
            return Err("no such case".to_string());
        };
        let mut answer = answer.clone();
        (self.spoil)(call, &mut answer);
        answer
    }

    fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
        Err("an oracle prints nothing".to_string())
    }
}
