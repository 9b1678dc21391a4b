//! Every optimizer against PyTorch's values, and what they share: state, groups, layouts, errors.

use torsh_optim::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, LBFGS, Muon, NAdam, Optimizer,
    ParamGroup, RAdam, RMSprop, Rprop, SGD, StateValue,
};
use torsh_tensor::{DType, Result, Tensor};

/// Three steps of PyTorch's optimizer in float64, the bias without a gradient in the second.
struct Run {
    name: &'static str,
    config: Vec<(&'static str, StateValue)>,
    /// The weight and the bias afterwards.
    want: &'static [f64],
    /// The names in the weight's state.
    keys: &'static str,
}

const WEIGHT: [f64; 6] = [1.0, -2.0, 3.0, 0.5, -0.25, 0.75];
const WEIGHT_GRADS: [[f64; 6]; 3] = [
    [0.5, -1.0, 0.25, 2.0, -0.125, 0.75],
    [0.25, 1.5, -0.5, 1.0, 0.5, -0.75],
    [-1.0, 0.5, 0.75, -0.25, 1.25, 0.125],
];
const BIAS: f64 = 0.3;
const BIAS_GRADS: [Option<f64>; 3] = [Some(1.0), None, Some(-0.5)];

#[rustfmt::skip]
fn runs() -> Vec<Run> {
    vec![
        Run {
            name: "SGD",
            config: vec![("lr", StateValue::Float(0.1)), ("momentum", StateValue::Float(0.9)), ("dampening", StateValue::Float(0.2)), ("weight_decay", StateValue::Float(0.05))],
            want: &[0.8822811199999999, -1.9479222399999998, 2.87329536, -0.18317224, -0.38589028000000003, 0.63285524, 0.14635599999999999],
            keys: "momentum_buffer",
        },
        Run {
            name: "SGD",
            config: vec![("lr", StateValue::Float(0.1)), ("momentum", StateValue::Float(0.9)), ("nesterov", StateValue::Bool(true)), ("maximize", StateValue::Bool(true))],
            want: &[1.0497, -1.8424, 3.092975, 1.4113, 0.08001250000000001, 0.828425, 0.476],
            keys: "momentum_buffer",
        },
        Run {
            name: "Adam",
            config: vec![("lr", StateValue::Float(0.1)), ("amsgrad", StateValue::Bool(true)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.8120982607786772, -1.9279303396344687, 2.7946530104905616, 0.24074904910024025, -0.27548343966908506, 0.6318391239187015, 0.17071635049646],
            keys: "exp_avg exp_avg_sq max_exp_avg_sq step",
        },
        Run {
            name: "Adam",
            config: vec![("lr", StateValue::Float(0.1)), ("decoupled_weight_decay", StateValue::Bool(true)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.8006389224608368, -1.9026439197164433, 2.8148071447863585, 0.23034718393701997, -0.27549702654509195, 0.631482927569985, 0.16839629736090314],
            keys: "exp_avg exp_avg_sq step",
        },
        Run {
            name: "AdamW",
            config: vec![("lr", StateValue::Float(0.1)), ("betas", StateValue::Floats(vec![0.8, 0.9])), ("maximize", StateValue::Bool(true))],
            want: &[1.160677829680107, -2.022916761215522, 3.086921940970272, 0.75126809710551, -0.21055389911529548, 0.8367935460330547, 0.4207231182895427],
            keys: "exp_avg exp_avg_sq step",
        },
        Run {
            name: "NAdam",
            config: vec![("lr", StateValue::Float(0.1)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.9219927749765564, -1.9871225421765926, 2.8258173016992725, 0.34286634720831743, -0.34853633677374096, 0.6856644925869271, 0.23284087277446278],
            keys: "exp_avg exp_avg_sq mu_product step",
        },
        Run {
            name: "NAdam",
            config: vec![("lr", StateValue::Float(0.1)), ("momentum_decay", StateValue::Float(0.01)), ("decoupled_weight_decay", StateValue::Bool(true)), ("weight_decay", StateValue::Float(0.1)), ("maximize", StateValue::Bool(true))],
            want: &[1.0316896795561816, -1.929009415203855, 3.0130331710809677, 0.6371389343000393, -0.14087342379497292, 0.7752281345711437, 0.3575230808594777],
            keys: "exp_avg exp_avg_sq mu_product step",
        },
        Run {
            name: "RAdam",
            config: vec![("lr", StateValue::Float(0.1)), ("betas", StateValue::Floats(vec![0.9, 0.3])), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.897719168770635, -1.9113831812002329, 2.8816625558360847, 0.05694222179063897, -0.30950699164886386, 0.6553497281025441, 0.1734894736842105],
            keys: "exp_avg exp_avg_sq step",
        },
        Run {
            name: "RAdam",
            config: vec![("lr", StateValue::Float(0.1)), ("betas", StateValue::Floats(vec![0.4, 0.5])), ("eps", StateValue::Float(0.001)), ("decoupled_weight_decay", StateValue::Bool(true)), ("weight_decay", StateValue::Float(0.1)), ("maximize", StateValue::Bool(true))],
            want: &[0.9985613260073261, -1.9005658754578756, 2.944934298534798, 0.8385834194139195, -0.13133790476190477, 0.7658846804029302, 0.3858871428571429],
            keys: "exp_avg exp_avg_sq step",
        },
        Run {
            name: "Adamax",
            config: vec![("lr", StateValue::Float(0.1)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.8277850372968149, -1.9237921518023684, 2.826674745332208, 0.2829467913620063, -0.23432279603132045, 0.6355099398453585, 0.17713605394989868],
            keys: "exp_avg exp_inf step",
        },
        Run {
            name: "Adamax",
            config: vec![("lr", StateValue::Float(0.1)), ("betas", StateValue::Floats(vec![0.4, 0.5])), ("maximize", StateValue::Bool(true))],
            want: &[1.1760073193901102, -1.967277167161986, 3.093284489754986, 0.7888278364395606, -0.21238094625333395, 0.7977411471045991, 0.385714285],
            keys: "exp_avg exp_inf step",
        },
        Run {
            name: "Adagrad",
            config: vec![("lr", StateValue::Float(0.1)), ("lr_decay", StateValue::Float(0.1)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.9217152354965107, -1.981059258645704, 2.859852769842967, 0.36659893009371247, -0.31384658986841596, 0.6931039951763647, 0.23840033178656553],
            keys: "step sum",
        },
        Run {
            name: "Adagrad",
            config: vec![("lr", StateValue::Float(0.1)), ("initial_accumulator_value", StateValue::Float(0.5)), ("maximize", StateValue::Bool(true))],
            want: &[1.011191901455177, -1.979189991167208, 3.0418235286137483, 0.6263210686234516, -0.1283417164102841, 0.7736848476957247, 0.3438532107880404],
            keys: "step sum",
        },
        Run {
            name: "Adadelta",
            config: vec![("lr", StateValue::Float(0.5)), ("rho", StateValue::Float(0.8)), ("eps", StateValue::Float(0.001)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.9839303913536641, -2.0151140966520504, 2.9375552927098614, 0.44570107603543574, -0.3238045329691886, 0.7358642826899471, 0.2875051869233325],
            keys: "acc_delta square_avg step",
        },
        Run {
            name: "Adadelta",
            config: vec![("maximize", StateValue::Bool(true))],
            want: &[1.0009405858321063, -1.9977402689797776, 3.0039905842408383, 0.5046581521797576, -0.24307339794563418, 0.7506048423625442, 0.30107713198690494],
            keys: "acc_delta square_avg step",
        },
        Run {
            name: "RMSprop",
            config: vec![("lr", StateValue::Float(0.1)), ("alpha", StateValue::Float(0.9)), ("centered", StateValue::Bool(true)), ("momentum", StateValue::Float(0.8))],
            want: &[0.17868424473823166, -1.7621511954636349, 2.4443655895990988, -0.5635481070083567, -0.32502433958748045, 0.30973614895887963, -0.15152151668004699],
            keys: "grad_avg momentum_buffer square_avg step",
        },
        Run {
            name: "RMSprop",
            config: vec![("lr", StateValue::Float(0.1)), ("weight_decay", StateValue::Float(0.1)), ("maximize", StateValue::Bool(true))],
            want: &[1.17478808827303, -1.7452004675119805, 1.6837428260627694, 1.696858727858107, 0.6343469748934137, 0.9679770263458448, 0.7533899323319798],
            keys: "square_avg step",
        },
        Run {
            name: "Rprop",
            config: vec![("lr", StateValue::Float(0.1))],
            want: &[0.78, -1.95, 2.85, 0.28, -0.2, 0.6, 0.19999999999999998],
            keys: "prev step step_size",
        },
        Run {
            name: "Rprop",
            config: vec![("lr", StateValue::Float(0.1)), ("etas", StateValue::Floats(vec![0.4, 1.5])), ("step_sizes", StateValue::Floats(vec![0.05, 0.12])), ("maximize", StateValue::Bool(true))],
            want: &[1.2200000000000002, -2.0500000000000003, 3.15, 0.72, -0.3, 0.9, 0.4],
            keys: "prev step step_size",
        },
        Run {
            name: "ASGD",
            config: vec![("lr", StateValue::Float(0.1)), ("lambd", StateValue::Float(0.01)), ("t0", StateValue::Float(1.0)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.9936219461034311, -2.0351235701452888, 2.852229963717281, 0.21419886105504984, -0.4038462339872339, 0.7138178405731455, 0.24450045165282408],
            keys: "ax eta mu step",
        },
        Run {
            name: "ASGD",
            config: vec![("lr", StateValue::Float(0.1)), ("alpha", StateValue::Float(0.5)), ("maximize", StateValue::Bool(true))],
            want: &[0.9749696236735461, -1.8999407473832424, 3.049909502902831, 0.7749797547927998, -0.0874942452532293, 0.7624770001251712, 0.34999325038935625],
            keys: "ax eta mu step",
        },
        Run {
            name: "Adafactor",
            config: vec![("lr", StateValue::Float(0.1)), ("weight_decay", StateValue::Float(0.1))],
            want: &[0.8145774511869707, -2.0263725454445867, 2.833810312192228, 0.29147722771791496, -0.67486115140133, 0.6814931498624056, 0.282024336373916],
            keys: "col_var row_var step",
        },
        Run {
            name: "Adafactor",
            config: vec![("lr", StateValue::Float(0.1)), ("d", StateValue::Float(2.0)), ("beta2_decay", StateValue::Float(-0.5)), ("eps", StateValue::Floats(vec![0.01, 0.01])), ("maximize", StateValue::Bool(true))],
            want: &[1.210975640563015, -1.8652211781708505, 3.051823776033242, 0.7340073744901248, 0.2023827338973442, 0.7800197340443974, 0.3059238204422125],
            keys: "col_var row_var step",
        },
        Run {
            name: "Muon",
            config: vec![("lr", StateValue::Float(0.1))],
            want: &[0.8403725622591783, -2.005895631630217, 2.8589437531299375, 0.2516316054322611, -0.4123651382547261, 0.6985786709726379],
            keys: "momentum_buffer",
        },
        Run {
            name: "Muon",
            config: vec![("lr", StateValue::Float(0.1)), ("nesterov", StateValue::Bool(false)), ("weight_decay", StateValue::Float(0.0)), ("adjust_lr_fn", "match_rms_adamw".into())],
            want: &[0.960081641544311, -2.0081189881604793, 2.9864006948311976, 0.42151644778203523, -0.2796681359030841, 0.7414919769901647],
            keys: "momentum_buffer",
        },
    ]
}

fn build(name: &str, groups: Vec<ParamGroup>) -> Result<Box<dyn Optimizer>> {
    Ok(match name {
        "SGD" => Box::new(SGD::builder(groups).build()?),
        "Adam" => Box::new(Adam::builder(groups).build()?),
        "AdamW" => Box::new(AdamW::builder(groups).build()?),
        "NAdam" => Box::new(NAdam::builder(groups).build()?),
        "RAdam" => Box::new(RAdam::builder(groups).build()?),
        "Adamax" => Box::new(Adamax::builder(groups).build()?),
        "Adagrad" => Box::new(Adagrad::builder(groups).build()?),
        "Adadelta" => Box::new(Adadelta::builder(groups).build()?),
        "RMSprop" => Box::new(RMSprop::builder(groups).build()?),
        "Rprop" => Box::new(Rprop::builder(groups).build()?),
        "ASGD" => Box::new(ASGD::builder(groups).build()?),
        "Adafactor" => Box::new(Adafactor::builder(groups).build()?),
        "Muon" => Box::new(Muon::builder(groups).build()?),
        other => panic!("{other}"),
    })
}

fn group<'a>(run: &Run, params: impl IntoIterator<Item = &'a Tensor>) -> ParamGroup {
    let group = ParamGroup::new(params);
    run.config
        .iter()
        .fold(group, |g, (k, v)| g.set(k, v.clone()))
}

/// How the weight lies in memory.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    RowMajor,
    Transposed,
    Strided,
}

fn weight(layout: Layout) -> Result<Tensor> {
    let w = Tensor::from_data(&WEIGHT, [3, 2])?;
    let w = match layout {
        Layout::RowMajor => w,
        Layout::Transposed => w.t()?.contiguous()?.t()?,
        Layout::Strided => Tensor::cat(&[&w, &w.full_like(f64::NAN)?], 1)?.narrow(1, 0, 2)?,
    };
    Ok(w.detach().requires_grad_(true))
}

/// Makes the three steps; `between` may swap the optimizer after the first.
fn follow(
    run: &Run,
    layout: Layout,
    groups: usize,
    between: impl Fn(Box<dyn Optimizer>, &[Tensor]) -> Result<Box<dyn Optimizer>>,
) -> Result<Vec<f64>> {
    let mut params = vec![weight(layout)?];
    if run.name != "Muon" {
        params.push(Tensor::from_data(&[BIAS], [1])?.requires_grad_(true));
    }
    let parts = match groups {
        1 => vec![group(run, &params)],
        _ => params.iter().map(|p| group(run, [p])).collect(),
    };
    let mut optimizer = build(run.name, parts)?;
    for step in 0..3 {
        if step == 1 {
            optimizer = between(optimizer, &params)?;
        }
        optimizer.zero_grad();
        params[0].set_grad(Some(Tensor::from_data(&WEIGHT_GRADS[step], [3, 2])?))?;
        if let (Some(p), Some(g)) = (params.get(1), BIAS_GRADS[step]) {
            p.set_grad(Some(Tensor::from_data(&[g], [1])?))?;
        }
        optimizer.step()?;
    }
    let state = optimizer.state_dict();
    let keys: Vec<&str> = state.state[&0].keys().map(String::as_str).collect();
    let mut want: Vec<&str> = run.keys.split(' ').collect();
    want.sort_unstable();
    assert_eq!(keys, want, "{}", run.name);
    params
        .iter()
        .map(|p| p.to_vec::<f64>())
        .collect::<Result<Vec<_>>>()
        .map(|v| v.concat())
}

fn compare(run: &Run, got: &[f64]) {
    assert_eq!(got.len(), run.want.len());
    for (a, b) in got.iter().zip(run.want) {
        let near = (a - b).abs() <= 1e-12 * b.abs().max(1.0);
        assert!(
            near,
            "{} {:?}: {got:?} for {:?}",
            run.name, run.config, run.want
        );
    }
}

#[test]
fn steps_are_pytorchs() -> Result<()> {
    for run in runs() {
        compare(&run, &follow(&run, Layout::RowMajor, 1, |o, _| Ok(o))?);
    }
    Ok(())
}

#[test]
fn steps_do_not_depend_on_groups_or_memory_order() -> Result<()> {
    for run in runs() {
        compare(&run, &follow(&run, Layout::RowMajor, 2, |o, _| Ok(o))?);
        compare(&run, &follow(&run, Layout::Transposed, 1, |o, _| Ok(o))?);
        compare(&run, &follow(&run, Layout::Strided, 1, |o, _| Ok(o))?);
    }
    Ok(())
}

#[test]
fn a_loaded_state_goes_on_as_before() -> Result<()> {
    for run in runs() {
        let got = follow(&run, Layout::RowMajor, 1, |o, params| {
            let fresh = build(run.name, vec![ParamGroup::new(params).lr(9.0)])?;
            fresh.load_state_dict(&o.state_dict())?;
            // The state was copied: the old optimizer no longer matters.
            drop(o);
            Ok(fresh)
        })?;
        compare(&run, &got);
    }
    Ok(())
}

#[test]
fn complex_parameters_are_pairs_of_real_ones() -> Result<()> {
    let complex = |v: [f64; 4]| Tensor::from_data(&v, [2, 2])?.view_as_complex()?.copy();
    let grads = [[0.5, -1.0, 2.0, 0.5], [1.0, 0.25, -0.75, 1.0]];
    let f = StateValue::Float;
    let runs = [
        (
            "NAdam",
            vec![],
            [
                0.7980600888408499,
                2.086407351172151,
                -0.5748425292343519,
                0.048060088840849995,
            ],
        ),
        (
            "RAdam",
            vec![("betas", StateValue::from((0.5, 0.3)))],
            [
                0.8666666666666666,
                2.1166666666666667,
                -0.7166666666666667,
                0.11666666666666667,
            ],
        ),
        (
            "Adamax",
            vec![],
            [
                0.8236842132894736,
                2.1342447697444284,
                -0.6276592375472578,
                0.07368421328947364,
            ],
        ),
        (
            "Adagrad",
            vec![("initial_accumulator_value", f(0.1))],
            [
                0.8294182779664544,
                2.0721593141296104,
                -0.5640391963131278,
                0.07941827796645443,
            ],
        ),
        (
            "Adadelta",
            vec![("eps", f(1e-2))],
            [
                0.9373044368489467,
                2.019553990255651,
                -0.5150882058466233,
                0.1873044368489467,
            ],
        ),
        (
            "RMSprop",
            vec![("momentum", f(0.5)), ("centered", true.into())],
            [
                -1.4110090215881406,
                3.2632350928588028,
                -1.654292478164409,
                -2.1610090215881406,
            ],
        ),
        ("Rprop", vec![], [0.78, 2.1, -0.6, 0.03]),
        (
            "ASGD",
            vec![("t0", f(0.0))],
            [
                0.8499812504446705,
                2.0749591896021466,
                -0.624988566346592,
                0.09999625031345649,
            ],
        ),
    ];
    for (name, config, want) in runs {
        let p = complex([1.0, 2.0, -0.5, 0.25])?.requires_grad_(true);
        let group = ParamGroup::new([&p]).lr(0.1);
        let group = config.into_iter().fold(group, |g, (k, v)| g.set(k, v));
        let optimizer = build(name, vec![group])?;
        for g in grads {
            p.set_grad(Some(complex(g)?))?;
            optimizer.step()?;
        }
        let got = p.detach().view_as_real()?.to_vec::<f64>()?;
        for (a, b) in got.iter().zip(want) {
            assert!((a - b).abs() < 1e-12, "{name}: {got:?} for {want:?}");
        }
    }
    let p = complex([1.0, 2.0, -0.5, 0.25])?.requires_grad_(true);
    let optimizer = Adafactor::builder([&p]).build()?;
    p.set_grad(Some(complex(grads[0])?))?;
    let e = optimizer.step().expect_err("complex").to_string();
    assert!(e.contains("Adafactor") && e.contains("complex"), "{e}");
    Ok(())
}

#[test]
fn every_optimizer_steps_in_half_precision() -> Result<()> {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for run in runs() {
            if run.name == "Adafactor" || run.name == "Adadelta" || run.name == "RMSprop" {
                continue; // their first steps depend on how much the squares are rounded
            }
            let p = weight(Layout::RowMajor)?
                .detach()
                .to_dtype(dtype)?
                .requires_grad_(true);
            let q = weight(Layout::RowMajor)?;
            let (a, b) = (
                build(run.name, vec![group(&run, [&p])])?,
                build(run.name, vec![group(&run, [&q])])?,
            );
            let grad = Tensor::from_data(&WEIGHT_GRADS[0], [3, 2])?;
            p.set_grad(Some(grad.to_dtype(dtype)?))?;
            q.set_grad(Some(grad))?;
            a.step()?;
            b.step()?;
            assert_eq!(p.dtype(), dtype);
            for (x, y) in p.to_vec::<f64>()?.iter().zip(q.to_vec::<f64>()?) {
                assert!((x - y).abs() < 0.05, "{} {dtype}: {x} for {y}", run.name);
            }
        }
    }
    Ok(())
}

#[test]
fn many_parameters_step_as_each_alone() -> Result<()> {
    for name in [
        "SGD",
        "Adam",
        "NAdam",
        "RAdam",
        "Adamax",
        "Adagrad",
        "Adadelta",
        "RMSprop",
        "Rprop",
        "ASGD",
        "Adafactor",
        "Muon",
    ] {
        let make = || -> Result<Vec<Tensor>> {
            let one = |i: usize| {
                let dtype = if i.is_multiple_of(3) {
                    DType::F64
                } else {
                    DType::F32
                };
                let shape = [(i * 977) % 3001, 1 + i % 2];
                let t = torsh_tensor::randn(&shape)
                    .to_dtype(dtype)?
                    .requires_grad_(true);
                t.set_grad(Some(t.detach().mul(0.5)?))?;
                Ok(t)
            };
            // A generator of its own: other tests draw at the same time.
            let own = torsh_core::random::LocalGenerator::new(3);
            own.scope(|| (0..40).map(one).collect())
        };
        let (together, alone) = (make()?, make()?);
        let all = build(
            name,
            vec![
                ParamGroup::new(&together[..20]).lr(0.1),
                ParamGroup::new(&together[20..]).lr(0.2),
            ],
        )?;
        let each: Vec<_> = alone
            .iter()
            .enumerate()
            .map(|(i, p)| {
                build(
                    name,
                    vec![ParamGroup::new([p]).lr(if i < 20 { 0.1 } else { 0.2 })],
                )
            })
            .collect::<Result<_>>()?;
        for _ in 0..2 {
            let versions: Vec<u64> = together.iter().map(Tensor::version).collect();
            all.step()?;
            assert!(together.iter().zip(versions).all(|(p, v)| p.version() > v));
            each.iter().try_for_each(|o| o.step())?;
        }
        for (a, b) in together.iter().zip(&alone) {
            assert!(a.detach() == b.detach(), "{name}");
        }
    }
    Ok(())
}

#[test]
fn parameters_that_share_memory_step_one_after_the_other() -> Result<()> {
    let memory = Tensor::from_data(&[1.0f32, 2.0, 3.0], [3])?;
    let a = memory.narrow(0, 0, 2)?.detach().requires_grad_(true);
    let b = memory.narrow(0, 1, 2)?.detach().requires_grad_(true);
    for p in [&a, &b] {
        p.set_grad(Some(Tensor::from_data(&[1.0f32, 1.0], [2])?))?;
    }
    SGD::new([&a, &b], 0.5)?.step()?;
    assert_eq!(memory.to_vec::<f32>()?, [0.5, 1.0, 2.5]);
    // A parameter's gradient may be another parameter: it is read after that one was written.
    let (p, q) = (
        Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true),
        Tensor::from_data(&[4.0f32], [1])?.requires_grad_(true),
    );
    p.set_grad(Some(Tensor::from_data(&[2.0f32], [1])?))?;
    q.set_grad(Some(p.detach()))?;
    SGD::new([&p, &q], 1.0)?.step()?;
    assert_eq!((p.item::<f32>()?, q.item::<f32>()?), (-1.0, 5.0));
    Ok(())
}

#[test]
fn nothing_is_written_where_a_gradient_does_not_fit() -> Result<()> {
    let (a, b) = (
        Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true),
        Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true),
    );
    let optimizer = Adam::new([&a, &b], 0.1)?;
    for p in [&a, &b] {
        p.set_grad(Some(Tensor::from_data(&[1.0f32], [1])?))?;
    }
    optimizer.step()?;
    let mut state = optimizer.state_dict();
    let wide = StateValue::Tensor(Tensor::from_data(&[1.0f32, 2.0], [2])?);
    state
        .state
        .entry(1)
        .or_default()
        .insert("exp_avg".into(), wide);
    let e = optimizer
        .load_state_dict(&state)
        .expect_err("a shape")
        .to_string();
    assert!(e.contains("exp_avg") && e.contains("float32[2]"), "{e}");
    assert_eq!(optimizer.state_dict().state[&1]["step"].as_f64(), Some(1.0));
    Ok(())
}

/// The square of the distance to (3, -1), the second coordinate weighing ten times as much.
fn bowl(x: &Tensor) -> Result<Tensor> {
    let d = x.sub(&Tensor::from_data(&[3.0, -1.0], [2])?)?.square()?;
    d.mul(&Tensor::from_data(&[1.0, 10.0], [2])?)?.sum()
}

#[test]
fn lbfgs_finds_the_minimum_and_goes_on_from_its_state() -> Result<()> {
    for search in [None, Some("strong_wolfe")] {
        let run = |resume: bool| -> Result<(Vec<f64>, Tensor)> {
            let x = Tensor::from_data(&[0.0, 0.0], [2])?.requires_grad_(true);
            let make = |lr: f64| {
                let b = LBFGS::builder([&x]).lr(lr).max_iter(3).history_size(4);
                match search {
                    Some(s) => b.line_search_fn(s).build(),
                    None => b.build(),
                }
            };
            let mut optimizer = make(0.5)?;
            let mut losses = Vec::new();
            for i in 0..6 {
                if i == 2 && resume {
                    let fresh = make(9.0)?;
                    fresh.load_state_dict(&optimizer.state_dict())?;
                    optimizer = fresh;
                }
                let loss = optimizer.step_closure(|| {
                    optimizer.zero_grad();
                    let loss = bowl(&x)?;
                    loss.backward()?;
                    Ok(loss)
                })?;
                losses.push(loss.item::<f64>()?);
            }
            Ok((losses, x.detach()))
        };
        let (losses, x) = run(false)?;
        let want = [
            19.0,
            7.680335698881137,
            3.725925248494719,
            0.7105437323655147,
            0.04017616376923756,
            0.002448021368090369,
        ];
        for (a, b) in losses.iter().zip(want) {
            assert!((a - b).abs() < 1e-12, "{losses:?}");
        }
        let (resumed, y) = run(true)?;
        assert_eq!(losses, resumed);
        assert!(x == y);
    }
    Ok(())
}

#[test]
fn the_line_search_is_pytorchs() -> Result<()> {
    let x = Tensor::from_data(&[-1.2, 1.0], [2])?.requires_grad_(true);
    let optimizer = LBFGS::builder([&x])
        .line_search_fn("strong_wolfe")
        .build()?;
    // Rosenbrock's function, whose minimum is at (1, 1).
    for want in [
        24.199999999999996,
        0.4234823024380289,
        4.221457511263308e-10,
    ] {
        let loss = optimizer.step_closure(|| {
            optimizer.zero_grad();
            let (a, b) = (x.select(0, 0)?, x.select(0, 1)?);
            let loss = a
                .rsub(1.0)?
                .square()?
                .add(b.sub(a.square()?)?.square()?.mul(100.0)?)?;
            loss.backward()?;
            Ok(loss)
        })?;
        let loss = loss.item::<f64>()?;
        assert!(
            (loss - want).abs() < 1e-12 * want.max(1.0),
            "{loss} for {want}"
        );
    }
    assert!(x.to_vec::<f64>()?.iter().all(|v| (v - 1.0).abs() < 1e-4));
    let state = optimizer.state_dict();
    assert!(state.state[&0]["func_evals"].as_i64() > state.state[&0]["n_iter"].as_i64());
    Ok(())
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let w = || {
        Ok::<_, torsh_tensor::TorshError>(Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true))
    };
    let p = w()?;
    let g = |name: &str, v: StateValue| vec![ParamGroup::new([&p]).set(name, v)];
    let f = StateValue::Float;
    for (name, setting, value, part) in [
        (
            "NAdam",
            "momentum_decay",
            f(-1.0),
            "Invalid momentum_decay value: -1",
        ),
        (
            "RAdam",
            "betas",
            (0.9, 1.0).into(),
            "Invalid beta parameter at index 1: 1",
        ),
        ("Adamax", "eps", f(-1.0), "Invalid epsilon value: -1"),
        ("Adagrad", "lr_decay", f(-1.0), "Invalid lr_decay value: -1"),
        ("Adadelta", "rho", f(1.5), "Invalid rho value: 1.5"),
        ("RMSprop", "alpha", f(-0.5), "Invalid alpha value: -0.5"),
        (
            "Rprop",
            "etas",
            (1.5, 1.2).into(),
            "Invalid eta values: 1.5, 1.2",
        ),
        (
            "ASGD",
            "weight_decay",
            f(-1.0),
            "Invalid weight_decay value: -1",
        ),
        (
            "Adafactor",
            "d",
            f(0.5),
            "Clipping threshold d should be >= 1 but is: 0.5",
        ),
        (
            "Adafactor",
            "beta2_decay",
            f(0.5),
            "beta2_decay should be <= 0 but is: 0.5",
        ),
        (
            "Muon",
            "adjust_lr_fn",
            "none".into(),
            "function none is not supported",
        ),
        ("SGD", "rho", f(0.5), "there is no setting rho"),
    ] {
        let e = build(name, g(setting, value))
            .map(|_| ())
            .expect_err("must fail")
            .to_string();
        assert!(e.contains(name) && e.contains(part), "{e}");
    }
    let e = Muon::new([&p], 0.1)
        .map(|_| ())
        .expect_err("a vector")
        .to_string();
    assert!(e.contains("2D") && e.contains("AdamW"), "{e}");
    let lbfgs = LBFGS::new([&p], 1.0)?;
    let e = lbfgs.step().expect_err("no closure").to_string();
    assert!(e.contains("step_closure"), "{e}");
    let e = lbfgs
        .add_param_group(ParamGroup::new([&w()?]))
        .expect_err("a group")
        .to_string();
    assert!(e.contains("parameter groups"), "{e}");
    let e = LBFGS::builder([&p])
        .line_search_fn("armijo")
        .build()
        .map(|_| ())
        .expect_err("a search");
    assert!(
        e.to_string().contains("only 'strong_wolfe' is supported"),
        "{e}"
    );
    Ok(())
}

#[test]
fn adagrad_has_a_state_from_the_start() -> Result<()> {
    let p = Tensor::from_data(&[1.0f32, 2.0], [2])?.requires_grad_(true);
    let optimizer = Adagrad::builder([&p])
        .initial_accumulator_value(0.25)
        .build()?;
    let state = optimizer.state_dict();
    assert_eq!(state.state[&0]["step"].as_f64(), Some(0.0));
    let sum = state.state[&0]["sum"]
        .as_tensor()
        .expect("a tensor")
        .to_vec::<f32>()?;
    assert_eq!(sum, [0.25, 0.25]);
    optimizer.step()?; // no gradient: nothing changes
    assert_eq!(p.to_vec::<f32>()?, [1.0, 2.0]);
    Ok(())
}

fn id_of(optimizer: impl Optimizer) -> usize {
    optimizer.id()
}

#[test]
fn handles_are_of_one_optimizer() -> Result<()> {
    let p = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    let (a, b) = (SGD::new([&p], 0.1)?, SGD::new([&p], 0.1)?);
    let handle = a.handle();
    assert!(handle.id() == a.id() && id_of(&a) == a.id() && a.id() != b.id());
    handle.set_lr(0.5);
    assert_eq!((a.get_lr(), b.get_lr()), (0.5, 0.1));
    a.set_extra(0, "initial_lr", 0.25.into())?;
    assert_eq!(
        handle.get_option(0, "initial_lr").and_then(|v| v.as_f64()),
        Some(0.25)
    );
    let fresh = SGD::new([&p], 0.1)?;
    fresh.load_state_dict(&a.state_dict())?;
    assert_eq!(
        fresh.get_option(0, "initial_lr").and_then(|v| v.as_f64()),
        Some(0.25)
    );
    assert!(a.set_extra(1, "initial_lr", 0.25.into()).is_err());
    Ok(())
}
