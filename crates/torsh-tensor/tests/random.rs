//! Random numbers against what PyTorch 2.15 draws after `manual_seed(0)`.

use torsh_core::Generator;
use torsh_core::random::{EnteredGenerator, LocalGenerator, manual_seed};
use torsh_tensor::{DType, Device, MultinomialOptions, Result, Tensor, Value, ops};

/// The test's own default generator, from seed 0.
fn seeded() -> EnteredGenerator {
    LocalGenerator::new(0).enter()
}

fn empty(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::empty(shape, dtype, Device::Cpu).expect("memory")
}

fn close(t: &Tensor, want: &[f64]) {
    let got = t.to_vec::<f64>().expect("numbers");
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!(
            (g - w).abs() <= 1e-6 * w.abs().max(1.0),
            "{got:?} instead of {want:?}"
        );
    }
}

#[test]
fn uniform_and_normal() -> Result<()> {
    let _one = seeded();
    let x = Tensor::rand(&[2, 3], DType::F32, Device::Cpu)?;
    let want = [
        0.49625658988952637,
        0.7682217955589294,
        0.08847743272781372,
        0.13203048706054688,
    ];
    assert_eq!(x.to_vec::<f64>()?[..4], want);
    manual_seed(0);
    close(
        &Tensor::randn(&[5], DType::F32, Device::Cpu)?,
        &[
            1.5409960746765137,
            -0.293428897857666,
            -2.1787893772125244,
            0.5684312582015991,
            -1.0845223665237427,
        ],
    );
    let x = Tensor::randn(&[17], DType::F32, Device::Cpu)?.to_vec::<f64>()?;
    assert!((x[0] + 0.08853142708539963).abs() < 1e-6 && (x[2] + 0.14347384870052338).abs() < 1e-6);
    manual_seed(0);
    let x = Tensor::randn(&[2], DType::C64, Device::Cpu)?.view_as_real()?;
    close(
        &x,
        &[
            1.0896488428115845,
            -0.20748557150363922,
            -1.5406367778778076,
            0.40194159746170044,
        ],
    );
    Ok(())
}

#[test]
fn a_generator_of_its_own_draws_the_same() -> Result<()> {
    let g = Generator::new(0);
    let x = Tensor::rand_with(&[2], DType::F32, Device::Cpu, &g)?;
    assert_eq!(
        x.to_vec::<f64>()?,
        [0.49625658988952637, 0.7682217955589294]
    );
    let x = ops::call(
        "rand",
        &[vec![1i64].into()],
        &[("generator", Value::Generator(Generator::new(0)))],
    )?;
    assert_eq!(x.tensors()[0].item::<f64>()?, 0.49625658988952637);
    Ok(())
}

#[test]
fn draws_go_by_memory() -> Result<()> {
    let _one = seeded();
    let x = empty(&[3, 2], DType::F32);
    x.t()?.uniform_(0.0, 1.0)?;
    assert_eq!(
        x.to_vec::<f64>()?[..2],
        [0.49625658988952637, 0.7682217955589294]
    );
    manual_seed(0);
    let x = Tensor::zeros(&[5, 8], DType::F32, Device::Cpu)?;
    x.slice_step(1, None, None, 2)?.normal_(0.0, 1.0)?;
    close(
        &x.select(1, 0)?,
        &[
            1.5409960746765137,
            -1.0845223665237427,
            -0.7192575931549072,
            -0.8566746115684509,
            -0.5663174986839294,
        ],
    );
    assert_eq!(x.select(1, 1)?.to_vec::<f64>()?, [0.0; 5]);
    manual_seed(0);
    let x = Tensor::ones(&[3, 2], DType::F32, Device::Cpu)?.t()?;
    assert_eq!(
        x.dropout(0.5, true)?.to_vec::<f64>()?,
        [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    );
    Ok(())
}

#[test]
fn whole_numbers() -> Result<()> {
    let _one = seeded();
    let x = Tensor::randint(3, 17, &[5], DType::U8, Device::Cpu)?;
    assert_eq!(x.to_vec::<i64>()?, [7, 6, 10, 5, 4]);
    manual_seed(0);
    assert_eq!(
        empty(&[3], DType::I8).random_()?.to_vec::<i64>()?,
        [44, 47, 117]
    );
    assert_eq!(
        empty(&[3], DType::F32).random_()?.to_vec::<f64>()?,
        [2214888.0, 5157545.0, 10637856.0]
    );
    manual_seed(0);
    assert_eq!(
        Tensor::randperm(6, DType::I64, Device::Cpu)?.to_vec::<i64>()?,
        [2, 5, 3, 0, 1, 4]
    );
    assert!(Tensor::randint(5, 5, &[2], DType::I64, Device::Cpu).is_err());
    assert!(Tensor::randint(0, 300, &[2], DType::U8, Device::Cpu).is_err());
    assert!(Tensor::randperm(-1, DType::I64, Device::Cpu).is_err());
    Ok(())
}

#[test]
fn bernoulli_and_dropout() -> Result<()> {
    let _one = seeded();
    let p = Tensor::full(&[8], 0.3, DType::F32, Device::Cpu)?;
    assert_eq!(p.bernoulli()?.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0, 0, 0]);
    assert_eq!(
        empty(&[8], DType::F32).bernoulli_(0.3)?.to_vec::<i64>()?,
        [0, 0, 1, 0, 0, 1, 0, 1]
    );
    manual_seed(0);
    let x = Tensor::ones(&[8], DType::F32, Device::Cpu)?.requires_grad_(true);
    let y = x.dropout(0.4, true)?;
    let s = 1.0 / 0.6;
    close(&y, &[0.0, 0.0, s, 0.0, 0.0, 0.0, s, s]);
    y.sum()?.backward()?;
    close(
        &x.grad().expect("a gradient"),
        &[0.0, 0.0, s, 0.0, 0.0, 0.0, s, s],
    );
    assert!(x.dropout(0.4, false)?.is_same(&x) && x.dropout(0.0, true)?.is_same(&x));
    assert_eq!(x.dropout(1.0, true)?.to_vec::<f64>()?, [0.0; 8]);
    assert!(x.dropout(1.5, true).is_err());
    assert!(p.neg()?.bernoulli().is_err());
    Ok(())
}

#[test]
fn the_other_distributions() -> Result<()> {
    let _one = seeded();
    let weights = Tensor::arange(1, 5, 1, DType::F32, Device::Cpu)?;
    assert_eq!(
        weights
            .multinomial_with(6, MultinomialOptions::new().replacement(true))?
            .to_vec::<i64>()?,
        [3, 3, 2, 3, 3, 3]
    );
    assert_eq!(weights.multinomial(3)?.to_vec::<i64>()?, [3, 0, 1]);
    let rows = Tensor::arange(1, 7, 1, DType::F32, Device::Cpu)?.view(&[2, 3])?;
    assert_eq!(rows.multinomial(1)?.to_vec::<i64>()?, [1, 2]);
    assert!(
        weights.multinomial(5).is_err()
            && weights
                .neg()?
                .multinomial_with(2, MultinomialOptions::new().replacement(true))
                .is_err()
    );
    manual_seed(0);
    let mean = Tensor::arange(0, 4, 1, DType::F32, Device::Cpu)?;
    close(
        &mean.normal(0.5)?,
        &[
            0.7704980373382568,
            0.853285551071167,
            0.9106053113937378,
            3.2842156887054443,
        ],
    );
    let std = Tensor::arange(1, 4, 1, DType::F32, Device::Cpu)?;
    let x = ops::call("normal", &[Value::Float(1.0), std.into()], &[])?;
    close(
        &x.tensors()[0],
        &[-0.08452236652374268, -1.7971909046173096, 2.21004056930542],
    );
    manual_seed(0);
    assert_eq!(
        empty(&[4], DType::F32).geometric_(0.3)?.to_vec::<i64>()?,
        [1, 1, 3, 1]
    );
    assert_eq!(
        empty(&[3], DType::I64).geometric_(0.3)?.to_vec::<i64>()?,
        [2, 1, 5]
    );
    manual_seed(0);
    close(
        &empty(&[3], DType::F32).exponential_(2.0)?,
        &[1.754163146018982, 0.6151923537254333, 0.3075220584869385],
    );
    close(
        &empty(&[2], DType::F32).cauchy_(0.0, 1.0)?,
        &[3.9330732822418213, 0.48998892307281494],
    );
    close(
        &empty(&[2], DType::F32).log_normal_(1.0, 2.0)?,
        &[3.74627685546875, 0.8082350492477417],
    );
    Ok(())
}

#[test]
fn a_fill_ends_the_history() -> Result<()> {
    let _one = seeded();
    let leaf = Tensor::ones(&[3], DType::F32, Device::Cpu)?.requires_grad_(true);
    assert!(
        leaf.uniform_(0.0, 1.0).is_err(),
        "a leaf that requires a gradient"
    );
    let y = leaf.mul(2.0)?;
    y.normal_(0.0, 1.0)?;
    y.sum()?.backward()?;
    assert_eq!(leaf.grad().expect("a gradient").to_vec::<f64>()?, [0.0; 3]);
    Ok(())
}
