//! The section of sparse tensors: right answers pass every shipped case, and each way of being wrong fails.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;

use torsh_conformance::case::{Case, Expect, OpFile, TensorRef, Value};
use torsh_conformance::executor::{Call, Executor, Outcome};
use torsh_conformance::layouts::Memory;
use torsh_conformance::parts::{Kind, Operand, Parts};
use torsh_conformance::section;
use torsh_conformance::source::Source;
use torsh_conformance::sparse::{self, Arrangement, Options, Report};
use torsh_conformance::tensors::{Dtype, Element, TensorData, TensorFile};

type Answer = Result<Outcome<Operand>, String>;

/// Knows the answer to every case of the archive, whatever its arrangement, and lets a test spoil it.
struct Oracle<F> {
    answers: HashMap<String, (Answer, Vec<bool>)>,
    prints: HashMap<String, String>,
    spoil: F,
}

fn plain(operand: &Operand<Memory>) -> Operand {
    let data = operand.try_map(|m| Ok::<_, Infallible>(m.to_data()));
    match data {
        Ok(data) => data,
        Err(never) => match never {},
    }
}

/// What a tensor looks like, whatever its arrangement.
fn looks(operand: &Operand) -> String {
    match operand {
        Operand::Strided(data) => format!("{data:?}"),
        Operand::Sparse(parts) if parts.kind == Kind::Coo => {
            format!("{:?} {:?}", parts.shape, parts.summed().unwrap())
        }
        Operand::Sparse(parts) => {
            let indices = parts.indices.iter().flat_map(TensorData::elements);
            let indices: Vec<_> = indices.collect();
            let (kind, values) = (parts.kind, &parts.values);
            format!("{kind:?} {:?} {indices:?} {values:?}", parts.shape)
        }
    }
}

/// What a call looks like, whatever its arrangement and its cotangents.
fn key(
    op: &str,
    dense: bool,
    args: &[Value<Operand>],
    kwargs: &[(String, Value<Operand>)],
) -> String {
    let one = |v: &Value<Operand>| format!("{:?}", v.try_map(&mut |o| Ok::<_, ()>(looks(o))));
    let args: Vec<_> = args.iter().map(one).collect();
    let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k, one(v))).collect();
    format!("{op} {dense} {args:?} {kwargs:?}")
}

impl<F> Oracle<F> {
    fn new(source: &Source, spoil: F) -> Oracle<F> {
        let mut oracle = Oracle {
            answers: HashMap::new(),
            prints: HashMap::new(),
            spoil,
        };
        for stem in source.list("sparse").unwrap() {
            let read = |end: &str| source.read(&format!("sparse/{stem}.{end}")).unwrap();
            let json = read("json").unwrap();
            let tensors = TensorFile::parse(&read("safetensors").unwrap()).unwrap();
            if stem == "printing" {
                oracle.learn_prints(&json, &tensors);
                continue;
            }
            let file = OpFile::<Operand<TensorRef>>::parse_as(&json).unwrap();
            for case in file.cases.iter().chain(&file.errors) {
                oracle.learn(case, &tensors);
            }
        }
        oracle
    }

    fn learn_prints(&mut self, json: &[u8], tensors: &TensorFile) {
        let all: Vec<serde_json::Value> = serde_json::from_slice(json).unwrap();
        for print in all {
            let reference: Operand<TensorRef> =
                torsh_conformance::case::Reference::read(&print["value"]).unwrap();
            let data = reference.try_map(|part| tensors.get(part)).unwrap();
            let key = format!("{} {}", looks(&data), print.get("expression").is_some());
            let text = print["printed"].as_str().unwrap();
            self.prints.insert(key, text.to_string());
        }
    }

    fn learn(&mut self, case: &Case<Operand<TensorRef>>, tensors: &TensorFile) {
        let get = |r: &Operand<TensorRef>| r.try_map(|part| tensors.get(part)).unwrap();
        let load = |v: &Value<Operand<TensorRef>>| {
            v.try_map(&mut |r| Ok::<_, Infallible>(get(r)))
                .unwrap_or_else(|never| match never {})
        };
        let args: Vec<_> = case.args.iter().map(load).collect();
        let kwargs = case.kwargs.iter().map(|(k, v)| (k.clone(), load(v)));
        let kwargs: Vec<_> = kwargs.collect();
        let answer = match &case.expect {
            Expect::Error(text) => Err(format!("{}: {text}", case.op)),
            Expect::Outputs(outputs, gradient) => Ok(Outcome {
                outputs: outputs.iter().map(get).collect(),
                grads: gradient
                    .as_ref()
                    .map(|g| Ok(g.grads.iter().map(|g| g.as_ref().map(get)).collect())),
            }),
        };
        let named = case.kwargs.iter().map(|(_, v)| v);
        let operands = case.args.iter().chain(named).flat_map(Value::tensors);
        let leaves = operands.map(|r| r.requires_grad()).collect();
        self.answers
            .insert(key(&case.op, case.dense, &args, &kwargs), (answer, leaves));
    }
}

fn requires_grad(operand: &Operand<Memory>) -> bool {
    match operand {
        Operand::Strided(memory) => memory.requires_grad,
        Operand::Sparse(parts) => parts.requires_grad,
    }
}

impl<F: Fn(&Call<Operand<Memory>>, &mut Answer) + Sync> Executor for Oracle<F> {
    fn has(&self, _: &str) -> bool {
        true
    }

    fn call(&self, _: &Call) -> Result<Outcome, String> {
        Err("strided calls are not asked for".to_string())
    }

    fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
        Err("strided tensors are not printed".to_string())
    }

    fn sparse(&self, call: &Call<Operand<Memory>>) -> Answer {
        let load = |v: &Value<Operand<Memory>>| {
            v.try_map(&mut |m| Ok::<_, Infallible>(plain(m)))
                .unwrap_or_else(|never| match never {})
        };
        let args: Vec<_> = call.args.iter().map(load).collect();
        let kwargs = call.kwargs.iter().map(|(k, v)| (k.clone(), load(v)));
        let kwargs: Vec<_> = kwargs.collect();
        // What the dense operation defines is converted before it is compared.
        let dense = call.after.iter().any(Option::is_some);
        let known = self.answers.get(&key(&call.op, dense, &args, &kwargs));
        // A call in float64.
        let (answer, leaves) = known.ok_or("not known")?;
        let named = call.kwargs.iter().map(|(_, v)| v);
        let operands = call.args.iter().chain(named).flat_map(Value::tensors);
        let now: Vec<_> = operands.map(requires_grad).collect();
        let mut answer = answer.clone();
        if let Ok(outcome) = &mut answer {
            let kept = leaves.iter().zip(now).filter(|(leaf, _)| **leaf);
            let mut kept = kept.map(|(_, now)| now);
            if let Some(Ok(grads)) = &mut outcome.grads {
                grads.retain(|_| kept.next().unwrap_or(false));
            }
        }
        (self.spoil)(call, &mut answer);
        answer
    }

    fn print_sparse(&self, value: &Parts<Memory>, doubled: bool) -> Result<String, String> {
        let data = plain(&Operand::Sparse(Box::new(value.clone())));
        let known = self.prints.get(&format!("{} {doubled}", looks(&data)));
        known.cloned().ok_or("not known".to_string())
    }
}

fn source() -> Source {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/sparse.zip");
    Source::open(&path).unwrap()
}

/// Runs shipped files against their right answers, spoilt.
fn spoilt(only: &[&str], spoil: impl Fn(&Call<Operand<Memory>>, &mut Answer) + Sync) -> Report {
    let source = source();
    let oracle = Oracle::new(&source, spoil);
    let options = Options {
        cases: section::Options {
            only: only.iter().map(|s| s.to_string()).collect(),
            ..section::Options::default()
        },
        device: None,
    };
    sparse::run(&source, &oracle, &options).unwrap()
}

/// Spoils results, and gradients where asked, of float32 calls.
fn on_results(
    gradients: bool,
    f: impl Fn(&mut Operand) + Sync,
) -> impl Fn(&Call<Operand<Memory>>, &mut Answer) + Sync {
    move |_, answer| {
        let Ok(outcome) = answer else { return };
        match (gradients, &mut outcome.grads) {
            (true, Some(Ok(grads))) => grads.iter_mut().flatten().for_each(&f),
            (true, _) => {}
            (false, _) => outcome.outputs.iter_mut().for_each(&f),
        }
    }
}

/// At least one case fails, and all failures say this.
fn fails(report: &Report, part: &str) {
    assert!(report.failed() > 0, "must fail: {part}");
    for failure in report.files.values().flat_map(|f| &f.failures) {
        assert!(failure.contains(part), "{part}: {failure}");
    }
}

/// Changes the first element that there is.
fn nudge(t: &mut TensorData) {
    let mut elements: Vec<_> = t.elements().collect();
    let Some(first) = elements.first_mut() else {
        return;
    };
    *first = match *first {
        Element::Float(x) => Element::Float(x + 0.1 + 0.1 * x.abs()),
        Element::Int(i) => Element::Int(i + 1),
        Element::Bool(b) => Element::Bool(!b),
        Element::Complex(re, im) => Element::Complex(re, im + 0.5),
    };
    *t = TensorData::from_elements(t.dtype, &t.shape, &elements);
}

fn values(operand: &mut Operand) -> &mut TensorData {
    match operand {
        Operand::Strided(data) => data,
        Operand::Sparse(parts) => &mut parts.values,
    }
}

#[test]
fn right_answers_pass_every_shipped_case() {
    let report = spoilt(&[], |_, _| {});
    // PyTorch's own words do not always satisfy what is asked of an error's text.
    let failures = report.files.values().flat_map(|f| &f.failures);
    let failures: Vec<_> = failures.filter(|f| !f.contains("the error says")).collect();
    assert_eq!(failures, Vec::<&String>::new());
    let counts = [
        report.cases,
        report.gradients,
        report.refused,
        report.prints,
    ];
    let skipped = report.skipped.len();
    assert_eq!(
        counts.iter().sum::<usize>() + skipped,
        1755 + 1020 + 45 + 17,
        "{counts:?}"
    );
    assert_eq!(report.arrangements[0], report.cases + report.prints);
    for (arrangement, n) in Arrangement::ALL.into_iter().zip(report.arrangements) {
        assert!(n > 300, "{arrangement} {n}");
    }
}

#[test]
fn a_changed_value_fails() {
    let of = |name, gradients| spoilt(&[name], on_results(gradients, |o| nudge(values(o))));
    for name in [
        "add",
        "mul",
        "sparse.mm",
        "to_dense",
        "transpose",
        "to_sparse_csr",
    ] {
        fails(&of(name, false), "output ");
    }
    for name in [
        "add",
        "mm",
        "sparse.mm",
        "to_dense",
        "nn.functional.embedding",
    ] {
        fails(&of(name, true), "gradient ");
    }
}

#[test]
fn another_layout_fails() {
    let dense = |o: &mut Operand| {
        if let Operand::Sparse(parts) = o {
            *o = Operand::Strided(parts.dense().unwrap());
        }
    };
    fails(
        &spoilt(&["sparse.softmax"], on_results(false, dense)),
        "layout: expected",
    );
    // Of the dense operations, gradients may be strided.
    let report = spoilt(&["mul"], on_results(true, dense));
    fails(&report, "layout: expected");
    assert!(report.passed() > 0);
}

#[test]
fn other_indices_and_flags_fail() {
    let sparse = |f: fn(&mut Parts)| {
        on_results(false, move |o: &mut Operand| {
            if let Operand::Sparse(parts) = o {
                f(parts);
            }
        })
    };
    let flag = sparse(|p| p.coalesced = !p.coalesced || p.kind != Kind::Coo);
    fails(&spoilt(&["to_sparse_coo"], flag), "coalesced");
    let order = sparse(|p| {
        if p.kind.by_rows() {
            p.indices[1] = TensorData::from_elements(
                Dtype::Int64,
                &p.indices[1].shape,
                &vec![Element::Int(0); p.indices[1].numel()],
            );
        }
    });
    fails(&spoilt(&["to_sparse_csr"], order), "plain indices");
    let dtype = sparse(|p| {
        let elements: Vec<_> = p.values.elements().collect();
        p.dtype = Dtype::Float64;
        p.values = TensorData::from_elements(Dtype::Float64, &p.values.shape, &elements);
    });
    let report = spoilt(&["asin"], dtype);
    fails(&report, "dtype: expected");
    let fewer = sparse(|p| {
        let n = p.values.shape.first().copied().unwrap_or(0);
        if p.kind == Kind::Coo && p.values.shape.len() == 1 && n > 0 && p.coalesced {
            let rows = p.indices[0].shape[0];
            let index = (0..rows).flat_map(|d| (1..n).map(move |e| d * n + e));
            let index: Vec<_> = index.map(|at| p.indices[0].get(at)).collect();
            let elements: Vec<_> = p.values.elements().skip(1).collect();
            p.indices[0] = TensorData::from_elements(Dtype::Int64, &[rows, n - 1], &index);
            p.values = TensorData::from_elements(p.values.dtype, &[n - 1], &elements);
        }
    });
    fails(&spoilt(&["sin"], fewer), "stored elements: expected");
}

#[test]
fn a_missing_gradient_fails() {
    let none = |_: &Call<Operand<Memory>>, answer: &mut Answer| {
        if let Ok(Outcome {
            grads: Some(Ok(grads)),
            ..
        }) = answer
        {
            grads.iter_mut().for_each(|g| *g = None);
        }
    };
    fails(&spoilt(&["mul"], none), "expected one, got none");
}

#[test]
fn a_result_of_a_refused_call_fails() {
    let result = |_: &Call<Operand<Memory>>, answer: &mut Answer| {
        if answer.is_err() {
            *answer = Ok(Outcome {
                outputs: Vec::new(),
                grads: None,
            });
        }
    };
    let report = spoilt(&["add"], result);
    fails(&report, "must be refused");
    assert_eq!(report.failed(), report.refused);
}

#[test]
fn cases_are_shared_out() {
    let source = source();
    let oracle = Oracle::new(&source, |_: &Call<Operand<Memory>>, _: &mut Answer| {});
    let part = |share| {
        let options = Options {
            cases: section::Options {
                share: Some(share),
                ..section::Options::default()
            },
            device: None,
        };
        let report = sparse::run(&source, &oracle, &options).unwrap();
        (report.cases, report.refused, report.prints)
    };
    let parts: Vec<_> = (0..3).map(|i| part((i, 3))).collect();
    let sum = |f: fn(&(usize, usize, usize)) -> usize| parts.iter().map(f).sum::<usize>();
    let skipped = sparse::DEFECTS.len();
    assert_eq!(
        sum(|p| p.0) + sum(|p| p.1) + sum(|p| p.2) + skipped,
        1755 + 45 + 17
    );
    assert!(parts.iter().all(|p| p.0 > 500));
}
