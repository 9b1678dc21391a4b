//! What must not run beside other tests: what models keep, because blocks count whole and the process-wide cache may hold
//! larger ones that other tests gave back, and algorithms that are forced for the whole process.

use std::sync::Mutex;

use torsh_backend_cpu::operations::{Force, choices};
use torsh_core::alloc::thread_stats;
use torsh_core::random::LocalGenerator;
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::{Device, Result, Tensor, no_grad, rand, tensor};
use torsh_vision::feature_extraction::create_feature_extractor;
use torsh_vision::models::{DenseNet, ModelOptions, get_model};
use torsh_vision::ops::roi_align;

static ALONE: Mutex<()> = Mutex::new(());

/// A training step's result, gradients, and the bytes that its graph keeps.
fn step(model: &DenseNet, x: &Tensor) -> (Tensor, Vec<Tensor>, u64) {
    let kept = || {
        thread_stats()
            .allocated_bytes
            .wrapping_sub(thread_stats().freed_bytes)
    };
    let before = kept();
    let y = model.forward(x).unwrap();
    let bytes = kept().wrapping_sub(before);
    y.square().unwrap().sum().unwrap().backward().unwrap();
    let parameters = model.parameters();
    let gradients = parameters.iter().map(|p| p.grad().unwrap()).collect();
    (y.detach(), gradients, bytes)
}

#[test]
fn a_memory_efficient_densenet_computes_the_same_and_keeps_less() {
    let _alone = ALONE.lock();
    let builder = || {
        DenseNet::builder()
            .growth_rate(8)
            .block_config([16, 1, 1, 1])
            .num_init_features(16)
            .num_classes(5)
    };
    let plain = builder().build().unwrap();
    let efficient = builder()
        .memory_efficient(true)
        .weights(plain.state_dict())
        .build()
        .unwrap();
    let x = LocalGenerator::new(3).scope(|| rand(&[2, 3, 64, 64]));
    let (y, gradients, bytes) = step(&plain, &x);
    let (y_efficient, gradients_efficient, bytes_efficient) = step(&efficient, &x);
    assert_eq!(y, y_efficient);
    assert_eq!(gradients, gradients_efficient);
    assert!(2 * bytes_efficient < bytes, "{bytes_efficient} of {bytes}");

    // What runs again moves its running statistics again, as in PyTorch; from a mean of 0 twice the tenth of the batch's.
    let (state, again) = (plain.state_dict(), efficient.state_dict());
    let layer = "features.denseblock1.denselayer2";
    let of = |state: &StateDict, name: &str| state[&*format!("{layer}.{name}")].clone();
    let mean = of(&state, "norm1.running_mean").mul(1.9).unwrap();
    assert!(of(&again, "norm1.running_mean").allclose(&mean).unwrap());
    let count = of(&again, "norm1.num_batches_tracked");
    assert_eq!(count.item::<i64>().unwrap(), 2);
    for name in ["norm2.running_mean", "norm2.num_batches_tracked"] {
        assert_eq!(of(&again, name), of(&state, name), "{name}");
    }

    // Without gradients nothing is kept or run again, and results do not depend on the mode.
    plain.eval();
    efficient.eval();
    efficient.load_state_dict(&state).unwrap();
    let pair = no_grad(|| Ok((plain.forward(&x)?, efficient.forward(&x)?)));
    let (y, y_efficient) = pair.unwrap();
    assert_eq!(y, y_efficient);
    // A hook sees the layer's whole input.
    let extractor = create_feature_extractor(&efficient, [layer]).unwrap();
    let found = extractor.forward(&x).unwrap();
    assert_eq!(found[0].1.dims(), [2, 8, 16, 16]);
    let by_name = ModelOptions::default()
        .device(Device::Meta)
        .option("memory_efficient", true);
    assert!(get_model("densenet121", by_name).is_ok());
}

/// The choices for the examples of this crate's operations. Where one changes, the file's diff shows it;
/// `TORSH_WRITE_CHOICES=1` writes it anew.
#[test]
fn the_choices_of_the_examples() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/choices.txt");
    let text = choices("vision.roi-align").unwrap();
    if std::env::var_os("TORSH_WRITE_CHOICES").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
}

#[test]
fn regions_are_summed_alike_by_every_algorithm() -> Result<()> {
    let _alone = ALONE.lock();
    let x = LocalGenerator::new(7).scope(|| rand(&[1, 3, 40, 40]));
    let boxes = tensor![[0.0, 3.0, 4.0, 13.0, 20.0], [0.0, 10.5, 2.0, 17.0, 38.5]];
    let expected = roi_align(&x, &boxes, 4)?;
    for algorithm in ["short-vectors", "long-vectors", "lines"] {
        let force = Force::new("vision.roi-align", algorithm).unwrap();
        let found = roi_align(&x, &boxes, 4)?;
        assert!(force.taken() > 0, "{algorithm}");
        assert!(found.allclose(&expected)?, "{algorithm}");
    }
    Ok(())
}
