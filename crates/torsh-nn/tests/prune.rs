//! torch.nn.utils.prune: masks, gradients and files as PyTorch 2.15 gives them.

use std::path::Path;

use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::utils::Reparametrized;
use torsh_nn::utils::prune::{
    self, Amount, GlobalPruneOptions, PruneOptions, PruningMethod, custom_from_mask, identity,
    is_pruned, l1_unstructured, ln_structured, random_structured, random_unstructured,
};
use torsh_nn::{
    Conv1d, Conv2d, LazyLinear, Linear, Module, ModuleExt, Sequential, StateDict, Tanh,
};
use torsh_tensor::{DType, Device, Result, SumOptions, Tensor, no_grad, tensor};

/// The elements of a mask as digits.
fn digits(mask: &Tensor) -> String {
    let values = mask.to_vec::<f64>().unwrap();
    let digit = |v: &f64| match *v {
        0.0 => '0',
        1.0 => '1',
        other => panic!("{other} in a mask"),
    };
    values.iter().map(digit).collect()
}

fn mask(module: &dyn Module, name: &str) -> String {
    digits(&module.state_dict()[format!("{name}_mask").as_str()])
}

/// Which channels of a dimension are not pruned as a whole.
fn channels(module: &dyn Module, name: &str, dim: i64) -> String {
    let mask = module.state_dict()[format!("{name}_mask").as_str()].clone();
    let n = mask.ndim() as i64;
    let rest: Vec<i64> = (0..n).filter(|&d| d != dim.rem_euclid(n)).collect();
    let sums = mask.sum_with(SumOptions::new().dim(rest)).unwrap();
    digits(&sums.gt(0).unwrap())
}

fn names(module: &dyn Module) -> Vec<String> {
    module.state_dict().keys().map(String::from).collect()
}

#[track_caller]
fn close(t: &Tensor, expected: &[f64]) {
    let ours = t.to_vec::<f64>().unwrap();
    assert_eq!(ours.len(), expected.len());
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() <= 2e-6 * b.abs().max(1.0), "{a} is not {b}");
    }
}

/// A Linear without bias whose weight is one row.
fn row(values: &[f32]) -> Result<Linear> {
    let layer = Linear::builder(values.len(), 1).bias(false).build()?;
    let values = Tensor::from_vec(values.to_vec(), [1, values.len()])?;
    no_grad(|| layer.weight.copy_(&values))?;
    Ok(layer)
}

#[test]
fn random_masks_are_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(3);
        let layer = random_unstructured(Linear::new(4, 3), "weight", 0.5)?;
        assert_eq!(mask(&layer, "weight"), "010000101111");
        random_unstructured(&layer, "weight", 2)?;
        assert_eq!(mask(&layer, "weight"), "000000101101");
        random_structured(&layer, "weight", 0.5, 1)?;
        assert_eq!(mask(&layer, "weight"), "000000100001");
        let layer = random_unstructured(layer, "bias", 0.5)?;
        assert_eq!(mask(&layer, "bias"), "100");

        manual_seed(5);
        let layer = random_structured(Conv2d::new(4, 5, 3, 1, 0)?, "weight", 2, 0)?;
        assert_eq!(channels(&layer, "weight", 0), "01110");
        random_structured(&layer, "weight", 0.5, -3)?;
        assert_eq!(channels(&layer, "weight", 1), "0011");
        assert_eq!(channels(&layer, "weight", 0), "01110");
        random_structured(&layer, "weight", 0.5, 0)?;
        assert_eq!(channels(&layer, "weight", 0), "00010");
        random_unstructured(&layer, "weight", 0.3)?;
        let expected = format!("{:0<126}{:0<54}", "", "111111101000101111");
        assert_eq!(mask(&layer, "weight"), expected);

        // Many values, told by the sums of the places that are left and of their squares.
        manual_seed(11);
        let layer = random_unstructured(Linear::new(100, 40), "weight", 0.37)?;
        let mask = mask(&layer, "weight");
        let left: Vec<u64> = (0u64..)
            .zip(mask.chars())
            .filter(|c| c.1 == '1')
            .map(|c| c.0)
            .collect();
        let squares: u64 = left.iter().map(|i| i * i).sum();
        assert_eq!(
            (left.len(), left.iter().sum::<u64>(), squares),
            (2520, 5102992, 13691593630)
        );
        Ok(())
    })
}

#[test]
fn random_masks_of_other_dtypes_are_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        let expected = [
            (DType::F64, "100100111101101011010011"),
            (DType::BF16, "010011001111011001110110"),
            (DType::F16, "010011001111011001110110"),
        ];
        for (dtype, expected) in expected {
            manual_seed(7);
            let layer = Linear::builder(6, 4).dtype(dtype).build()?;
            let layer = random_unstructured(layer, "weight", 0.4)?;
            assert_eq!(mask(&layer, "weight"), expected, "{dtype}");
            assert_eq!(layer.state_dict()["weight_mask"].dtype(), dtype);
            assert_eq!(layer.weight()?.dtype(), dtype);
        }
        Ok(())
    })
}

#[test]
fn channels_of_the_least_norms_are_pytorchs() -> Result<()> {
    // n, the dimension, the channels that are left of 34 %, and of one more.
    let expected = [
        (1.0, 0, "110110", "110100"),
        (1.0, 1, "0111", "0110"),
        (1.0, -1, "101", "001"),
        (2.0, 0, "111100", "110100"),
        (2.0, 1, "0111", "0110"),
        (2.0, -1, "101", "001"),
        (3.5, 0, "111100", "110100"),
        (f64::INFINITY, 0, "110101", "100101"),
        (f64::INFINITY, 1, "1110", "1100"),
        (f64::INFINITY, -1, "101", "100"),
        (f64::NEG_INFINITY, 0, "111100", "011100"),
        (f64::NEG_INFINITY, 1, "0111", "0101"),
        (f64::NEG_INFINITY, -1, "011", "010"),
        (0.5, 0, "110110", "110100"),
    ];
    LocalGenerator::new(0).scope(|| {
        for (n, dim, first, second) in expected {
            manual_seed(13);
            let layer = ln_structured(
                Conv2d::builder(4, 6, (2, 3)).build()?,
                "weight",
                0.34,
                n,
                dim,
            )?;
            assert_eq!(channels(&layer, "weight", dim), first, "{n} {dim}");
            ln_structured(&layer, "weight", 1, n, dim)?;
            assert_eq!(channels(&layer, "weight", dim), second, "{n} {dim}");
        }
        manual_seed(13);
        let layer = ln_structured(
            Conv2d::builder(4, 6, (2, 3)).build()?,
            "weight",
            0.34,
            "fro",
            0,
        )?;
        assert_eq!(channels(&layer, "weight", 0), "111100");

        // All channels, and then a part of none.
        let layer = ln_structured(Linear::new(3, 2), "weight", 2, 2, 0)?;
        ln_structured(&layer, "weight", 0.5, 2, 0)?;
        assert_eq!(mask(&layer, "weight"), "000000");
        Ok(())
    })
}

#[test]
fn methods_in_turn_prune_what_is_left() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(19);
        let layer = l1_unstructured(Linear::new(6, 5), "weight", 0.5)?;
        assert_eq!(mask(&layer, "weight"), "111011011110110101000000001010");
        ln_structured(&layer, "weight", 0.4, 2, 0)?;
        assert_eq!(mask(&layer, "weight"), "111011000000110101000000000000");
        l1_unstructured(&layer, "weight", 0.5)?;
        assert_eq!(mask(&layer, "weight"), "100000000000110101000000000000");
        ln_structured(&layer, "weight", 2, 1, -1)?;
        assert_eq!(mask(&layer, "weight"), "100000000000100001000000000000");

        let layer = l1_unstructured(layer, "bias", 0.5)?;
        assert_eq!(mask(&layer, "bias"), "01110");
        // The weight's mask is reached through both.
        let other = Tensor::ones([5, 6], DType::F32, Device::Cpu)?;
        no_grad(|| other.select(1, 1)?.fill_(0))?;
        custom_from_mask(&layer, "weight", &other)?;
        assert_eq!(mask(&layer, "weight"), "100000000000100001000000000000");
        assert_eq!(
            names(&layer),
            ["weight_orig", "bias_orig", "weight_mask", "bias_mask"]
        );

        let x = tensor![[1.0, -2.0, 3.0, 0.5, -1.0, 2.0]];
        let y = layer.forward(&x)?;
        let expected = [
            0.3826127350330353,
            0.36638569831848145,
            -0.8335540294647217,
            0.39343878626823425,
            0.0,
        ];
        close(&y, &expected);
        y.square()?.sum()?.backward()?;
        let (weight, bias) = (
            layer.get_parameter("weight_orig")?,
            layer.get_parameter("bias_orig")?,
        );
        let mut expected = [0.0; 30];
        expected[0] = 0.7652254700660706;
        expected[12] = -1.6671080589294434;
        expected[17] = -3.3342161178588867;
        close(&weight.grad().unwrap(), &expected);
        let expected = [
            0.0,
            0.7327713966369629,
            -1.6671080589294434,
            0.7868775725364685,
            0.0,
        ];
        close(&bias.grad().unwrap(), &expected);

        // A step of SGD.
        for p in [&weight, &bias] {
            no_grad(|| p.sub_(&p.grad().unwrap().mul(0.1)?))?;
        }
        let expected = [
            0.30609017610549927,
            0.2931085526943207,
            0.16671079397201538,
            0.3147510290145874,
            0.0,
        ];
        close(&layer.forward(&x)?, &expected);
        Ok(())
    })
}

#[test]
fn halves_and_equal_values() -> Result<()> {
    for (values, left) in [
        (vec![1.0, 2.0, 3.0, 4.0, 5.0], "00111"),
        (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "0000111"),
        (vec![1.0, 2.0, 3.0], "001"),
        (vec![1.0], "1"),
    ] {
        let layer = l1_unstructured(row(&values)?, "weight", 0.5)?;
        assert_eq!(mask(&layer, "weight"), left);
    }
    // Which of equal values go is not specified, here or in PyTorch.
    let values = [
        1.0, -1.0, 2.0, 1.0, 2.0, 2.0, -1.0, 1.0, 3.0, 1.0, -2.0, 1.0,
    ];
    for (count, ones, twos) in [(1, 6, 4), (3, 4, 4), (7, 0, 4), (8, 0, 3), (11, 0, 0)] {
        let layer = l1_unstructured(row(&values)?, "weight", count)?;
        let left = layer.weight()?.abs()?.to_vec::<f32>()?;
        let of = |value: f32| left.iter().filter(|&&v| v == value).count();
        assert_eq!((of(1.0), of(2.0), of(3.0)), (ones, twos, 1), "{count}");
    }
    Ok(())
}

#[test]
fn global_masks_are_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(23);
        let a = identity(identity(Linear::new(4, 3), "weight")?, "bias")?;
        let b = identity(Linear::new(3, 2), "weight")?;
        let c = identity(Conv2d::new(2, 2, 2, 1, 0)?, "weight")?;
        let all: [(&dyn Module, &str); 4] =
            [(&a, "weight"), (&b, "weight"), (&c, "weight"), (&a, "bias")];
        let masks = || all.map(|(module, name)| mask(module, name));
        prune::global_unstructured(&all, PruningMethod::L1Unstructured, 0.4)?;
        assert_eq!(
            masks(),
            ["010011110111", "111011", "1011110000001011", "100"]
        );
        prune::global_unstructured(&all, PruningMethod::L1Unstructured, 5)?;
        assert_eq!(
            masks(),
            ["010011010101", "110010", "1011110000001010", "100"]
        );
        prune::global_unstructured(&all, PruningMethod::RandomUnstructured, 0.5)?;
        assert_eq!(
            masks(),
            ["010010010001", "010010", "1010000000000000", "100"]
        );

        let a = prune::remove(prune::remove(a, "bias")?, "weight")?;
        let expected = [
            0.0,
            -0.21113741397857666,
            0.0,
            0.0,
            0.4576982259750366,
            0.0,
            0.0,
            0.42054635286331177,
            0.0,
            0.0,
            0.0,
            -0.3972419500350952,
        ];
        close(&a.weight, &expected);
        Ok(())
    })
}

/// data/make_pruned.py writes the file and prints these numbers.
#[test]
fn a_checkpoint_of_pytorch_loads() -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pruned.pt");
    let last = identity(identity(Linear::new(3, 2), "weight")?, "bias")?;
    let net = Sequential::new()
        .add(identity(Linear::new(4, 3), "weight")?)
        .add(Tanh::new())
        .add(last);
    let expected = [
        "0.bias",
        "0.weight_orig",
        "0.weight_mask",
        "2.weight_orig",
        "2.bias_orig",
        "2.weight_mask",
        "2.bias_mask",
    ];
    assert_eq!(names(&net), expected);
    let state = StateDict::load(&file)?;
    assert_eq!(state.keys().collect::<Vec<_>>(), expected);
    net.load_state_dict(&state)?;
    assert_eq!(mask(&net, "0.weight"), "001100010010");
    assert_eq!(mask(&net, "2.weight"), "101101");
    assert_eq!(mask(&net, "2.bias"), "10");
    let y = net.forward(&tensor![[1.0, -2.0, 3.0, 0.5]])?;
    close(&y, &[0.25875306129455566, 0.2529480755329132]);
    // A layer that is not pruned lacks the names.
    let plain = Sequential::new()
        .add(Linear::new(4, 3))
        .add(Tanh::new())
        .add(Linear::new(3, 2));
    assert!(plain.load_state_dict(&state).is_err());
    Ok(())
}

#[test]
fn blocks_go_as_a_whole() -> Result<()> {
    let layer = Linear::builder(6, 4).bias(false).build()?;
    let weight = tensor![
        [1.0, -1.0, 5.0, 0.01, 0.5, 0.5],
        [1.0, 1.0, 0.02, 0.3, 0.5, -0.5],
        [0.0, 0.0, -2.0, -2.0, 3.0, 0.0],
        [0.0, 0.1, 2.0, 2.0, 0.0, 0.0]
    ];
    no_grad(|| layer.weight.copy_(&weight))?;
    // The sums are 4, 5.33, 2 and 0.1, 8, 3.
    let layer = prune::block_l1(layer, "weight", 0.5, [2, 2])?;
    assert_eq!(mask(&layer, "weight"), "111100111100001100001100");
    // Two of the values that are left, then one of the three blocks of which something is left.
    l1_unstructured(&layer, "weight", 2)?;
    assert_eq!(mask(&layer, "weight"), "111000110100001100001100");
    prune::block_l1(&layer, "weight", 1.0 / 3.0, [2, 2])?;
    assert_eq!(mask(&layer, "weight"), "001000000100001100001100");

    // Blocks that are no squares: the sums are 9.02 and 2.31 above, 4.1 and 7 below.
    let layer = Linear::builder(6, 4).bias(false).build()?;
    no_grad(|| layer.weight.copy_(&weight))?;
    let layer = prune::block_l1(layer, "weight", 2, [2, 3])?;
    assert_eq!(mask(&layer, "weight"), "111000111000000111000111");
    Ok(())
}

#[test]
fn removing_leaves_the_parameter_that_was_trained() -> Result<()> {
    let layer = row(&[1.0, -4.0, 2.0, 3.0])?;
    let weight = layer.weight.clone();
    let layer = l1_unstructured(layer, "weight", 2)?;
    assert!(layer.get_parameter("weight_orig")?.is_same(&weight));
    assert_eq!(*weight, tensor![[1.0, -4.0, 2.0, 3.0]]);
    layer.eval();
    let layer = prune::remove(layer, "weight")?;
    assert!(layer.weight.is_same(&weight) && weight.is_current() && weight.requires_grad());
    assert_eq!(*weight, tensor![[0.0, -4.0, 0.0, 3.0]]);
    assert!(!layer.is_training() && !is_pruned(&layer));

    // One that is not trained stays so.
    weight.set_requires_grad(false)?;
    let layer = prune::remove(l1_unstructured(layer, "weight", 0)?, "weight")?;
    assert!(!layer.weight.requires_grad());
    Ok(())
}

#[test]
fn a_pruned_layer_is_a_layer() -> Result<()> {
    let mut layer = l1_unstructured(row(&[1.0, -4.0, 2.0, 3.0])?, "weight", 0.5)?;
    assert_eq!(
        layer.repr(),
        "Linear(in_features=4, out_features=1, bias=False)"
    );
    assert!(is_pruned(&layer) && is_pruned(&layer as &dyn Module));
    layer.to_dtype(DType::F64)?;
    assert_eq!(layer.state_dict()["weight_mask"].dtype(), DType::F64);
    let x = Tensor::ones([1, 4], DType::F64, Device::Cpu)?;
    assert_eq!(layer.forward(&x)?.to_vec::<f64>()?, [-1.0]);
    l1_unstructured(&layer, "weight", 1)?;
    assert_eq!(layer.forward(&x)?.to_vec::<f64>()?, [-4.0]);
    // What was pruned has no gradient, whatever the input is.
    layer.forward(&x)?.sum()?.backward()?;
    let weight = layer.get_parameter("weight_orig")?;
    assert_eq!(
        weight.grad().unwrap().to_vec::<f64>()?,
        [0.0, 1.0, 0.0, 0.0]
    );

    // A boxed layer, as models hold them.
    let boxed: Box<dyn Module> = Box::new(row(&[3.0, 1.0])?);
    let pruned: Reparametrized<Box<dyn Module>> = l1_unstructured(boxed, "weight", 1)?;
    assert_eq!(pruned.weight()?, tensor![[3.0, 0.0]]);
    Ok(())
}

#[test]
fn scores_decide_in_the_place_of_values() -> Result<()> {
    let scores = tensor![[3.0, 1.0, 2.0]];
    let options = PruneOptions::new().importance_scores(&scores);
    let layer = row(&[1.0, 2.0, 3.0])?;
    let layer = prune::l1_unstructured_with(layer, "weight", 1, options.clone())?;
    assert_eq!(mask(&layer, "weight"), "101");
    prune::l1_unstructured_with(&layer, "weight", 1, options.clone())?;
    assert_eq!(mask(&layer, "weight"), "100");
    assert_eq!(layer.weight()?, tensor![[1.0, 0.0, 0.0]]);

    let other = identity(row(&[1.0, 2.0])?, "weight")?;
    let all: [(&dyn Module, &str); 2] = [(&layer, "weight"), (&other, "weight")];
    let scores = vec![scores.clone(), tensor![[0.5, 4.0]]];
    let options = GlobalPruneOptions::new().importance_scores(scores);
    prune::global_unstructured_with(&all, PruningMethod::L1Unstructured, 1, options)?;
    assert_eq!(
        (mask(&layer, "weight"), mask(&other, "weight")),
        ("100".into(), "01".into())
    );
    Ok(())
}

/// What the message and its hint say.
#[track_caller]
fn refused<T>(result: Result<T>, words: &[&str]) {
    let text = match result {
        Ok(_) => panic!("nothing was refused; expected {words:?}"),
        Err(e) => e.to_string(),
    };
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn wrong_calls_are_errors() -> Result<()> {
    let new = || Linear::new(2, 3);
    refused(
        l1_unstructured(new(), "weight", 7),
        &["l1_unstructured", "amount=7", "6 values"],
    );
    refused(l1_unstructured(new(), "weight", -1), &["amount=-1"]);
    for amount in [1.5, -0.1, f64::NAN, f64::INFINITY] {
        refused(
            random_unstructured(new(), "weight", amount),
            &["random_unstructured", "fraction"],
        );
    }
    refused(
        l1_unstructured(new(), "weight", usize::MAX),
        &["more than the 6"],
    );
    refused(l1_unstructured(new(), "wait", 1), &["no parameter `wait`"]);
    refused(
        ln_structured(new(), "bias", 1, 2, 0),
        &["ln_structured", "2 dimensions"],
    );
    refused(ln_structured(new(), "weight", 1, 2, 2), &["dimension 2"]);
    refused(ln_structured(new(), "weight", 1, 2, -3), &["dimension -3"]);
    refused(ln_structured(new(), "weight", 1, "three", 0), &["three"]);
    refused(
        ln_structured(new(), "weight", 1, f64::NAN, 0),
        &["ln_structured"],
    );
    refused(
        ln_structured(new(), "weight", 1, "nuc", 0),
        &["nuclear norm"],
    );
    refused(random_structured(new(), "weight", 4, 0), &["3 channels"]);
    refused(
        prune::block_l1(new(), "weight", 1, [2, 2]),
        &["block_l1", "2 x 2"],
    );
    refused(prune::block_l1(new(), "weight", 1, [0, 1]), &["0 x 1"]);
    refused(prune::block_l1(new(), "bias", 1, [1, 1]), &["matrix"]);
    refused(
        prune::block_l1(Conv1d::new(2, 2, 1, 1, 0)?, "weight", 1, [1, 1]),
        &["matrix"],
    );
    refused(
        custom_from_mask(new(), "weight", &tensor![1.0]),
        &["custom_from_mask", "shape"],
    );
    refused(
        identity(LazyLinear::builder(3).build()?, "weight"),
        &["identity", "not initialised"],
    );
    refused(
        identity(Sequential::new().add(new()), "0.weight"),
        &["layers below it"],
    );
    let options = PruneOptions::new().importance_scores(&tensor![1.0]);
    refused(
        prune::l1_unstructured_with(new(), "weight", 1, options),
        &["importance_scores"],
    );

    // By reference, and twice.
    let layer = identity(new(), "weight")?;
    refused(
        l1_unstructured(&layer, "bias", 1),
        &["no pruned parameter `bias`", "identity"],
    );
    refused(
        l1_unstructured(&new() as &dyn Module, "weight", 1),
        &["no pruned parameter"],
    );
    refused(l1_unstructured(&layer, "weight", 9), &["amount=9"]);
    assert_eq!(mask(&layer, "weight"), "111111");
    refused(identity(layer, "weight"), &["pruned already", "reference"]);
    let layer = identity(identity(new(), "weight")?, "bias")?;
    refused(
        prune::remove(layer, "weight"),
        &["remove", "`weight`", "`bias`"],
    );
    let norm = torsh_nn::utils::weight_norm(new(), "weight", 0)?;
    assert!(!is_pruned(&norm));
    refused(prune::remove(norm, "weight"), &["a weight norm"]);
    let layer = identity(new(), "weight")?;
    refused(
        torsh_nn::utils::remove_weight_norm(layer),
        &["a pruned parameter"],
    );

    // Several at once.
    let (a, b) = (identity(new(), "weight")?, identity(new(), "weight")?);
    let l1: fn(Amount) -> PruningMethod = PruningMethod::L1Unstructured;
    refused(prune::global_unstructured(&[], l1, 1), &["0 parameters"]);
    refused(
        prune::global_unstructured(&[(&a, "weight"), (&b, "bias")], l1, 1),
        &["`bias`"],
    );
    refused(
        prune::global_unstructured(&[(&a, "weight"), (&a, "weight")], l1, 1),
        &["twice"],
    );
    refused(
        prune::global_unstructured(&[(&a, "weight"), (&b, "weight")], l1, 13),
        &["12 values"],
    );
    let channels = |amount| PruningMethod::RandomStructured { amount, dim: 0 };
    refused(
        prune::global_unstructured(&[(&a, "weight")], channels, 1),
        &["single values"],
    );
    let options = GlobalPruneOptions::new().importance_scores(vec![tensor![1.0]; 3]);
    refused(
        prune::global_unstructured_with(&[(&a, "weight")], l1, 1, options),
        &["3 tensors"],
    );
    assert_eq!(mask(&a, "weight") + &mask(&b, "weight"), "1".repeat(12));

    let meta = Tensor::empty([2, 2], DType::F32, Device::Meta)?;
    refused(
        PruningMethod::L1Unstructured(1.into()).compute_mask(&meta, None),
        &["compute_mask"],
    );
    Ok(())
}
