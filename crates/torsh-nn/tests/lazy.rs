//! Layers that learn the size of their input, against the plain layers.

use torsh_core::random::{LocalGenerator, default_generator};
use torsh_nn::*;
use torsh_tensor::{DType, Result, Tensor, ones, randn};

/// Draws as the plain layer would have drawn, and computes as it does.
fn same<L: Module, P: Module>(
    lazy: Result<L>,
    plain: impl FnOnce() -> Result<P>,
    shape: &[usize],
) -> Result<()> {
    let own = LocalGenerator::new(7);
    own.scope(|| {
        let x = randn(shape);
        let before = default_generator().get_state();
        let lazy = lazy?;
        assert!(lazy.parameters().iter().all(|p| p.is_uninitialized()));
        assert!(lazy.repr().starts_with("Lazy"), "{}", lazy.repr());
        assert_eq!(lazy.num_parameters(), 0);
        let y = lazy.forward(&x)?;
        let after = default_generator().get_state();
        default_generator().set_state(&before).expect("a state");
        let plain = plain()?;
        assert_eq!(plain.forward(&x)?, y, "{}", plain.repr());
        assert_eq!(default_generator().get_state(), after);
        assert_eq!(lazy.repr(), plain.repr());
        let (a, b) = (lazy.state_dict(), plain.state_dict());
        assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
        for (name, t) in a.iter() {
            assert_eq!(*t, b[name], "{name}");
        }
        assert!(lazy.parameters().iter().all(|p| p.requires_grad()));
        Ok(())
    })
}

#[test]
fn they_become_the_plain_layers() -> Result<()> {
    same(
        LazyLinear::new(3),
        || Linear::builder(5, 3).build(),
        &[2, 5],
    )?;
    let lazy = LazyLinear::builder(3).bias(false).dtype(DType::F32).build();
    same(lazy, || Linear::builder(4, 3).bias(false).build(), &[4])?;
    same(
        LazyConv1d::new(4, 3, 1, 0),
        || Conv1d::new(2, 4, 3, 1, 0),
        &[1, 2, 6],
    )?;
    same(
        LazyConv2d::new(4, 3, 2, 1),
        || Conv2d::new(2, 4, 3, 2, 1),
        &[2, 6, 6],
    )?;
    let lazy = LazyConv2d::builder(4, (1, 2))
        .groups(2)
        .padding(Padding::Same)
        .build();
    let plain = || {
        Conv2d::builder(6, 4, (1, 2))
            .groups(2)
            .padding(Padding::Same)
            .build()
    };
    same(lazy, plain, &[2, 6, 4, 4])?;
    same(
        LazyConv3d::new(4, 2, 1, 0),
        || Conv3d::new(3, 4, 2, 1, 0),
        &[3, 3, 3, 3],
    )?;
    let plain = || ConvTranspose1d::new(2, 4, 3, 1, 0);
    same(LazyConvTranspose1d::new(4, 3, 1, 0), plain, &[1, 2, 6])?;
    let lazy = LazyConvTranspose2d::builder(4, 3)
        .stride(2)
        .groups(2)
        .build();
    let plain = || {
        ConvTranspose2d::builder(6, 4, 3)
            .stride(2)
            .groups(2)
            .build()
    };
    same(lazy, plain, &[2, 6, 4, 4])?;
    let plain = || ConvTranspose3d::new(3, 4, 2, 1, 0);
    same(LazyConvTranspose3d::new(4, 2, 1, 0), plain, &[3, 3, 3, 3])?;
    same(LazyBatchNorm1d::new(), || BatchNorm1d::new(3), &[4, 3])?;
    let lazy = LazyBatchNorm2d::builder()
        .affine(false)
        .momentum(None)
        .build();
    let plain = || BatchNorm2d::builder(3).affine(false).momentum(None).build();
    same(lazy, plain, &[4, 3, 2, 2])?;
    same(
        LazyBatchNorm3d::new(),
        || BatchNorm3d::new(3),
        &[4, 3, 2, 2, 1],
    )?;
    let lazy = LazyInstanceNorm1d::builder().affine(true).build();
    same(
        lazy,
        || InstanceNorm1d::builder(3).affine(true).build(),
        &[3, 5],
    )?;
    let lazy = LazyInstanceNorm2d::builder()
        .affine(true)
        .track_running_stats(true)
        .build();
    let plain = || {
        InstanceNorm2d::builder(3)
            .affine(true)
            .track_running_stats(true)
            .build()
    };
    same(lazy, plain, &[2, 3, 5, 2])?;
    let lazy = LazyInstanceNorm3d::builder().affine(true).build();
    same(
        lazy,
        || InstanceNorm3d::builder(3).affine(true).build(),
        &[2, 3, 5, 2, 2],
    )?;
    // Without tensors there is nothing to learn from the input.
    let norm = LazyInstanceNorm2d::new()?;
    assert!(!norm.has_uninitialized_params());
    assert_eq!(
        norm.forward(&ones(&[2, 3, 2, 2]))?,
        Tensor::zeros_like(&ones(&[2, 3, 2, 2]))?
    );
    Ok(())
}

#[derive(Module)]
struct Net {
    conv: LazyConv2d,
    norm: LazyBatchNorm2d,
    fc: LazyLinear,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.norm.forward(&self.conv.forward(x)?)?.flatten(1)?;
        self.fc.forward(&x)
    }
}

fn net() -> Result<Net> {
    Ok(Net {
        conv: LazyConv2d::new(4, 3, 1, 1)?,
        norm: LazyBatchNorm2d::new()?,
        fc: LazyLinear::new(2)?,
    })
}

#[test]
fn a_state_dict_initialises() -> Result<()> {
    let x = ones(&[2, 3, 4, 4]);
    let trained = net()?;
    assert_eq!(
        trained.state_dict().keys().collect::<Vec<_>>(),
        ["norm.num_batches_tracked"]
    );
    trained.forward(&x)?;
    trained.eval();
    let state = trained.state_dict();
    assert_eq!(state["fc.weight"].dims(), [2, 64]);

    let loaded = net()?;
    loaded.eval();
    loaded.load_state_dict(&state)?;
    assert!(loaded.parameters().iter().all(|p| !p.is_uninitialized()));
    let own = LocalGenerator::new(1);
    own.scope(|| -> Result<()> {
        let before = default_generator().get_state();
        assert_eq!(loaded.forward(&x)?, trained.forward(&x)?);
        // Nothing was drawn for what was loaded.
        assert_eq!(default_generator().get_state(), before);
        Ok(())
    })?;
    assert_eq!(loaded.repr(), trained.repr());
    // The loaded tensors are copies.
    loaded
        .fc
        .layer()
        .expect("initialised")
        .weight
        .detach()
        .fill_(0.0)?;
    assert_ne!(loaded.state_dict()["fc.weight"], state["fc.weight"]);

    let other = net()?;
    other.load_state_dict(&state)?;
    let e = other
        .forward(&ones(&[2, 5, 4, 4]))
        .expect_err("5 channels")
        .to_string();
    assert!(e.contains("weight was loaded as [4, 3, 3, 3]"), "{e}");
    let e = net()?
        .load_state_dict(&StateDict::new())
        .expect_err("empty");
    assert!(
        e.to_string().contains("missing: conv.weight, conv.bias"),
        "{e}"
    );
    Ok(())
}

#[test]
fn what_was_set_before_holds() -> Result<()> {
    let mut layer = LazyLinear::new(3)?;
    layer.requires_grad_(false);
    layer.to_dtype(DType::F64)?;
    let handles = layer.parameters();
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = calls.clone();
    layer.register_forward_hook(move |_, _, _| {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(None)
    })?;
    layer.eval();
    let y = layer.forward(&ones(&[2, 5]).to_dtype(DType::F64)?)?;
    assert_eq!((y.dtype(), y.requires_grad()), (DType::F64, false));
    assert!(!layer.is_training() && calls.load(std::sync::atomic::Ordering::SeqCst) == 1);
    // The handles of before are the parameters.
    assert_eq!(handles[0].dims(), [3, 5]);
    assert!(handles[0].is_same(&layer.parameters()[0]));
    Ok(())
}

#[test]
fn several_threads_initialise_once() -> Result<()> {
    let net = net()?;
    let x = ones(&[1, 3, 4, 4]);
    net.eval();
    let all: Vec<Tensor> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4).map(|_| s.spawn(|| net.forward(&x))).collect();
        let joined = threads.into_iter().map(|t| t.join().expect("no panic"));
        joined.collect::<Result<_>>()
    })?;
    assert!(all.iter().all(|y| *y == all[0]));
    Ok(())
}

#[test]
fn wrong_input_and_arguments_are_errors() -> Result<()> {
    let refused = |m: &dyn Module, shape: &[usize], expected: &str| {
        let e = m.forward(&ones(shape)).expect_err("refused").to_string();
        assert!(e.contains(expected), "{e}");
        assert!(m.parameters().iter().all(|p| p.is_uninitialized()));
    };
    refused(&LazyLinear::new(2)?, &[], "no dimensions");
    refused(
        &LazyConv2d::new(2, 3, 1, 0)?,
        &[4, 4],
        "expected 3D (unbatched) or 4D (batched)",
    );
    refused(&LazyBatchNorm1d::new()?, &[4], "at least 2 dimensions");
    refused(
        &LazyConv1d::builder(4, 1).groups(2).build()?,
        &[3, 4],
        "divisible by groups",
    );
    assert!(LazyConv2d::new(2, 0, 1, 0).is_err());
    assert!(LazyConv1d::builder(3, 1).groups(2).build().is_err());
    let p = Parameter::new(ones(&[2]));
    assert!(p.materialize(&ones(&[2])).is_err() && !p.is_uninitialized());

    let mut net = net()?;
    let e = net.functional_call(&StateDict::new(), &ones(&[1, 3, 4, 4]));
    assert!(
        e.expect_err("lazy")
            .to_string()
            .contains("conv.weight is not initialised")
    );
    net.forward(&ones(&[1, 3, 4, 4])).map(|_| ())
}
