//! What calls are given beside their tensors: every op's is shown by name, and made again of what is
//! shown.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use torsh_core::attrs::{AmpUpdateScale, Field, display};
use torsh_core::{Attributes, SavedAttributes, Shape};
use torsh_tensor::call::Arg;
use torsh_tensor::observe::{Call, Observer, Work, watch};
use torsh_tensor::ops::{self, optim, records};
use torsh_tensor::record::{OpRecord, Rule, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{
    BatchNormOptions, Conv2dOptions, DType, Device, NormActivation, Param, Result, Signature,
    Tensor, Value, attrs, backward, no_grad, tensor,
};

/// The attributes of the first calls of each op, and calls of internal ops that are not what the schemas say.
#[derive(Default)]
struct Seen(
    RefCell<BTreeMap<&'static str, Vec<SavedAttributes>>>,
    RefCell<Vec<String>>,
);

impl Observer for Seen {
    fn begin(&self, call: &Call<'_>) {
        if let Work::Op(r) | Work::InPlace(r) = call.work {
            if let Some(wrong) = against_schema(r, call) {
                self.1.borrow_mut().push(format!("{}: {wrong}", r.name));
            }
            let mut all = self.0.borrow_mut();
            let of = all.entry(r.name).or_default();
            if of.len() < 8 {
                of.push(call.attrs.save());
            }
        }
    }
}

/// What a call of an internal op has that its schema does not say: the operands in order, and behind the star the fields of
/// the attributes.
fn against_schema(record: &OpRecord, call: &Call<'_>) -> Option<String> {
    if !record.is_internal() {
        return None;
    }
    let signature = Signature::parse(record.schema).expect("schemas are tested to be readable");
    let (others, operands): (Vec<&Param>, Vec<&Param>) =
        signature.params.iter().partition(|p| p.keyword);
    // Steps of optimizers take any number of tensors.
    if operands.iter().any(|p| p.list.is_some()) {
        return None;
    }
    // What a call writes into comes first, and is among its arguments where it is read as an operand.
    let is_operand = |t: &Tensor| matches!(call.args.first(), Some(Arg::T(x)) if x.is_same(t));
    let written = match call.targets {
        [first, ..] if is_operand(first) => 0,
        targets => targets.len(),
    };
    let given = written + call.args.len();
    let absent = |i: usize| match i.checked_sub(written) {
        Some(i) => matches!(call.args.get(i), None | Some(Arg::Absent)),
        None => false,
    };
    let missing = operands
        .iter()
        .enumerate()
        .find(|(i, p)| absent(*i) && !p.optional);
    if let Some((_, p)) = missing {
        return Some(format!("no {} of {}", p.name, record.schema));
    }
    if given > operands.len() {
        return Some(format!("{given} operands of {}", record.schema));
    }
    let named: Vec<&str> = others.iter().map(|p| p.name).collect();
    let fields = call.attrs.fields();
    let found: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    (named != found).then(|| format!("attributes {found:?} of {}", record.schema))
}

/// Runs every record's samples, forwards and backwards.
fn run_all() -> Result<()> {
    let mut s = Sampler::new(7, DType::F64);
    for record in records() {
        let calls = match record.samples {
            Samples::Calls(f) => f(&mut s)?,
            _ => continue,
        };
        for sample in calls {
            let leaf = |v: &Value| match v {
                Value::Tensor(t) if t.dtype() == DType::F64 => {
                    Value::Tensor(t.detach().requires_grad_(true))
                }
                v => v.clone(),
            };
            let args: Vec<Value> = sample.args.iter().map(leaf).collect();
            let kwargs: Vec<(&str, Value)> =
                sample.kwargs.iter().map(|(n, v)| (*n, leaf(v))).collect();
            // Ops that write refuse leaves.
            let Ok(results) = ops::call(record.base_name(), &args, &kwargs) else {
                continue;
            };
            let results = results.tensors();
            let results: Vec<Tensor> = results.into_iter().filter(|t| t.requires_grad()).collect();
            let seeds = results.iter().map(|t| t.detach().ones_like().map(Some));
            backward(&results, &seeds.collect::<Result<Vec<_>>>()?, false, false)?;
        }
    }
    // What has no samples: fills, draws, steps of optimizers.
    let x = Tensor::zeros([3], DType::F64, Device::Cpu)?;
    x.fill_(2.0)?
        .uniform_(0.0, 1.0)?
        .normal_(0.0, 1.0)?
        .exponential_(1.0)?;
    x.cauchy_(0.0, 1.0)?
        .log_normal_(0.0, 1.0)?
        .geometric_(0.5)?
        .bernoulli_(0.5)?;
    let (g, state) = (x.copy()?, x.zeros_like()?);
    let target = optim::Target::new(&x, &g);
    let sgd = |first| optim::SgdStep {
        target,
        momentum_buffer: Some(&state),
        lr: 0.1,
        momentum: 0.9,
        rest: 1.0,
        nesterov: false,
        first,
    };
    optim::step(&[sgd(true)])?;
    optim::step(&[sgd(false)])?;
    every_step(target)?;
    let last = g.narrow(0, 1, 1)?;
    let of_last = optim::SgdStep {
        target: optim::Target::new(&x, &last),
        momentum_buffer: None,
        ..sgd(false)
    };
    assert!(optim::step_rows(&of_last, &tensor![2])?);
    let half = Tensor::scalar(0.5, DType::F32, Device::Cpu)?;
    let found = optim::unscale(&[g.copy()?], &half)?;
    let tracker = Tensor::scalar(0, DType::I32, Device::Cpu)?;
    let how = AmpUpdateScale {
        growth_factor: 2.0,
        backoff_factor: 0.5,
        growth_interval: 2,
    };
    optim::update_scale(&half, &tracker, &found[0], &how)?;
    no_grad(blocks)
}

macro_rules! steps {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal $kernel:ident ( $($state:ident $(if $has:ident)?),* )
        [$($number:ident)*] [$($flag:ident)*]
        $(at $step:ident [$($derived:ident)*] $derive:block)?
        |$p:ident, $g:ident| $body:block
    )*) => {
        /// A step of each optimizer.
        fn every_step(target: optim::Target<'_>) -> Result<()> {
            $({
                $(let $state = target.param.zeros_like()?;)*
                optim::step(&[optim::$kernel {
                    target,
                    $($state: (&$state).into(),)*
                    $($number: 0.5,)*
                    $($flag: false,)*
                }])?;
            })*
            Ok(())
        }
    };
}
torsh_core::for_each_step! { steps }

/// Convolutional blocks in evaluation mode, each of which is one op.
fn blocks() -> Result<()> {
    let x = Tensor::ones([1, 2, 3, 3], DType::F32, Device::Cpu)?;
    let (weight, one) = (x.narrow(2, 0, 1)?.narrow(3, 0, 1)?, tensor![1.0]);
    let each = tensor![1.0, 2.0];
    let options = BatchNormOptions::new().weight(&each).bias(&each);
    let relu = [0.0, f64::INFINITY];
    x.batch_norm_activation(&each, &each, options, &x, relu)?;
    x.batch_norm_activation(&each, &each, BatchNormOptions::new(), None, relu)?;
    let then = NormActivation {
        running_mean: &one,
        running_var: &one,
        options: BatchNormOptions::new(),
        residual: None,
        clamp: relu,
    };
    x.conv_batch_norm_activation(&weight, None, Conv2dOptions::new(), then)?;
    Ok(())
}

#[test]
fn calls_are_what_schemas_say_and_attributes_are_made_again() -> Result<()> {
    let seen = Rc::new(Seen::default());
    let guard = watch(seen.clone());
    run_all()?;
    drop(guard);
    let mut wrong = seen.1.take();
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let seen = seen.0.borrow();
    let internal = records().filter(|r| r.is_internal() && seen.contains_key(r.name));
    assert!(internal.count() > 60, "internal ops were not called");
    for op in [
        "_amp_update_scale_",
        "_batch_norm_activation",
        "_convolution_batch_norm",
    ] {
        assert!(seen.contains_key(op), "{op} was not called");
    }
    let (mut structs, mut with) = (std::collections::BTreeSet::new(), 0);
    for (op, calls) in seen.iter() {
        for kept in calls {
            let given = kept.get();
            let again = attrs::read(given.name(), &given.fields())
                .unwrap_or_else(|e| panic!("{op}: {} ({}): {e}", given.name(), display(given)));
            assert_eq!(format!("{again:?}"), format!("{kept:?}"), "{op}");
            let (shown, before) = (display(again.get()).to_string(), display(given).to_string());
            assert_eq!(shown, before, "{op}");
            if !given.is_none() {
                structs.insert(given.name());
                with += 1;
                assert!(
                    shown.contains('=') || given.fields().is_empty(),
                    "{op}: {shown}"
                );
            }
        }
    }
    // Nearly every structural record is among them.
    let structural = records().filter(|r| matches!(r.rule(), Rule::Kernel(_) | Rule::View(_)));
    let missed: Vec<&str> = structural
        .map(|r| r.name)
        .filter(|n| !seen.contains_key(n))
        .collect();
    assert!(missed.len() < 40, "not run: {missed:?}");
    assert!(
        structs.len() > 70 && with > 200,
        "{with} of {} structs: {structs:?}",
        structs.len()
    );
    Ok(())
}

#[test]
fn nodes_tell_their_call() -> Result<()> {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad_(true);
    let y = x.transpose(0, 1)?.sum_dim(1, true)?;
    let node = y.grad_fn().expect("it is recorded");
    assert_eq!(node.record().map(|r| r.name), Some("sum"));
    let shown = "<SumBackward0 of sum(dims=[1], keepdim=true, dtype=None)>";
    assert_eq!(format!("{node:#?}"), shown);
    assert_eq!(format!("{node:?}"), "<SumBackward0>");
    let (before, _) = node.next_functions().remove(0).expect("an edge");
    assert_eq!(
        format!("{before:#?}"),
        "<TransposeBackward0 of transpose(dim0=0, dim1=1)>"
    );
    let (leaf, _) = before.next_functions().remove(0).expect("an edge");
    assert_eq!(format!("{leaf:#?}"), "<AccumulateGrad>");
    assert!(leaf.record().is_none() && leaf.attributes().is_none());
    Ok(())
}

#[test]
fn views_are_read_by_name() {
    let view = attrs::View {
        size: Shape::new(&[2, 3, 4, 5, 6, 7]),
    };
    let kept = view.save();
    assert_eq!(display(kept.get()).to_string(), "size=[2, 3, 4, 5, 6, 7]");
    let again = attrs::read("View", &kept.get().fields()).expect("its fields");
    let again = again.get().downcast::<attrs::View>().expect("the struct");
    assert_eq!(again.size, view.size);
    // A list of any integers, as a file may have it.
    let order = [("dims", Field::Ints(&[2, 0, 1]))];
    let order = attrs::read("Permute", &order).expect("its fields");
    let order = order
        .get()
        .downcast::<attrs::Permute>()
        .expect("the struct");
    assert_eq!(order.dims[..], [2, 0, 1]);
    let negative = [("dims", Field::Ints(&[2, 0, -1]))];
    let e = attrs::read("Permute", &negative).expect_err("not counted from the end");
    let e = e.to_string();
    assert!(e.contains("Permute.dims cannot be [2, 0, -1]"), "{e}");
}
