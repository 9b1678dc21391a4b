//! Feed-forward layers without golden cases, against values PyTorch computed.

use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::*;
use torsh_tensor::{DType, Result, Tensor, TorshError, no_grad};

/// Numbers from -1.5 to 1.5 that repeat after seven.
fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i * 5 % 7) as f32 - 3.0) / 2.0).collect();
    Tensor::from_vec(values, shape).unwrap()
}

/// The layer with ramps as parameters.
fn filled<M: Module>(layer: M) -> Result<M> {
    for p in layer.parameters() {
        no_grad(|| p.copy_(&ramp(p.dims())))?;
    }
    Ok(layer)
}

#[track_caller]
fn assert_close(ours: &Tensor, shape: &[usize], theirs: &[f64]) {
    assert_eq!(ours.dims(), shape);
    let ours = ours.to_vec::<f64>().unwrap();
    assert_eq!(ours.len(), theirs.len(), "{ours:?}");
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            (a - b).abs() <= 2e-6 * b.abs().max(1.0),
            "[{i}]: {a} is not {b}\n{ours:?}"
        );
    }
}

#[test]
fn starting_weights_are_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(5);
        let conv = Conv1d::builder(2, 3, 2).build()?;
        let weight = [
            0.3302519, -0.3738891, 0.4074697, 0.319927, 0.4201034, -0.3833548, -0.3356085,
            0.2379194, -0.4667354, 0.4941847, 0.1064286, 0.06457126,
        ];
        assert_close(&conv.weight, &[3, 2, 2], &weight);
        let bias = conv.bias.as_deref().unwrap();
        assert_close(bias, &[3], &[-0.4275878, 0.159339, 0.2150058]);
        let conv = ConvTranspose2d::builder(2, 4, (1, 2)).groups(2).build()?;
        let weight = [
            0.07932758, 0.4809269, 0.1501586, -0.4433661, 0.4201117, 0.1697648, -0.2385269,
            -0.4592848,
        ];
        assert_close(&conv.weight, &[2, 2, 1, 2], &weight);
        let bias = conv.bias.as_deref().unwrap();
        assert_close(bias, &[4], &[0.2850358, 0.4751613, -0.4096557, 0.02732533]);
        let conv = Conv3d::builder(1, 2, (1, 2, 1)).build()?;
        let weight = [0.2536904, -0.3339232, -0.1547202, -0.4721563];
        assert_close(&conv.weight, &[2, 1, 1, 2, 1], &weight);
        let bias = conv.bias.as_deref().unwrap();
        assert_close(bias, &[2], &[-0.3342975, -0.644646]);
        let bag = EmbeddingBag::builder(3, 2).padding_idx(1).build()?;
        let rows = [2.01446, -1.326946, 0.0, 0.0, 1.379047, -1.431863];
        assert_close(&bag.weight, &[3, 2], &rows);
        Ok(())
    })
}

#[test]
fn dropouts_draw_as_pytorch() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        let dropped = |layer: &dyn Module, shape: &[usize], theirs: &[f64]| -> Result<()> {
            manual_seed(3);
            let x = Tensor::ones(shape, DType::F32, torsh_tensor::Device::Cpu)?;
            x.set_requires_grad(true)?;
            let y = layer.forward(&x)?;
            assert_close(&y, shape, theirs);
            // What stays is scaled, in the gradient too; what drops gets none.
            y.sum()?.backward()?;
            let scale = theirs.iter().fold(0.0, |a: f64, &b| a.max(b));
            let grad = x.grad().unwrap().to_vec::<f64>()?;
            for (g, v) in grad.iter().zip(theirs) {
                assert_eq!(*g != 0.0, *v == scale, "{grad:?}");
            }
            Ok(())
        };
        let (z, t) = (0.0, 2.0);
        let (s, r) = (1.6666667, 1.4285714);
        dropped(&Dropout::new(0.4)?, &[6], &[s, s, z, s, z, z])?;
        let theirs = [t, t, t, t, z, z, t, t, z, z, z, z];
        dropped(&Dropout1d::new(0.5)?, &[1, 6, 2], &theirs)?;
        dropped(&Dropout1d::new(0.5)?, &[6, 1], &[t, t, z, t, z, z])?;
        let theirs = [r, r, r, r, z, z, r, r, z, z, r, r];
        dropped(&Dropout2d::new(0.3)?, &[2, 3, 1, 2], &theirs)?;
        let theirs = [t, t, t, t, z, z, t, t];
        dropped(&Dropout3d::new(0.5)?, &[4, 1, 1, 2], &theirs)?;
        let (a, b) = (1.470377, -0.910642);
        dropped(&AlphaDropout::new(0.4)?, &[6], &[a, a, b, a, b, b])?;
        let theirs = [a, a, a, a, b, b, a, a];
        dropped(&FeatureAlphaDropout::new(0.4)?, &[1, 4, 2], &theirs)?;

        manual_seed(3);
        let x = Tensor::from_vec(vec![1f32; 6], 6)?;
        let y = AlphaDropout::new(0.4)?.inplace(true).forward(&x)?;
        assert!(y.is_same(&x));
        assert_close(&x, &[6], &[a, a, b, a, b, b]);
        assert!(Dropout2d::new(1.5).is_err());
        let refused = Dropout1d::new(0.5)?.forward(&ramp(&[6])).unwrap_err();
        assert!(refused.to_string().contains("dropout1d"), "{refused}");
        Ok(())
    })
}

#[test]
fn fractional_pooling_draws_as_pytorch() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        let images = FractionalMaxPool2d::builder(2)
            .output_ratio([0.5, 0.6])
            .build()?;
        let volumes = FractionalMaxPool3d::new((1, 2, 2), (2, 2, 3))?;
        let second: [(DType, [i64; 12]); 2] = [
            (DType::F32, [1, 2, 4, 5, 15, 16, 18, 19, 29, 30, 32, 33]),
            (DType::F64, [1, 1, 4, 5, 15, 15, 18, 19, 29, 29, 32, 33]),
        ];
        for (dtype, second) in second {
            manual_seed(11);
            let x = ramp(&[1, 2, 6, 7]).to_dtype(dtype)?;
            let (values, indices) = images.forward_with_indices(&x)?;
            assert_eq!(values.dims(), [1, 2, 3, 4]);
            let first = [1, 1, 4, 5, 15, 15, 18, 19, 29, 29, 32, 33];
            assert_eq!(indices.to_vec::<i64>()?, [first, second].concat());
            let picked = x.flatten(2)?.gather(-1, &indices.flatten(2)?)?;
            assert_eq!(values.flatten(2)?, picked);
            manual_seed(12);
            let (values, indices) =
                volumes.forward_with_indices(&ramp(&[1, 4, 5, 6]).to_dtype(dtype)?)?;
            let theirs = [1.0, 1.0, 1.5, 1.5, 0.5, 1.0, 0.5, 1.0, 1.5, 1.5, 1.5, 1.0];
            assert_close(&values, &[1, 2, 2, 3], &theirs);
            let theirs = [1, 8, 4, 18, 26, 22, 96, 92, 95, 109, 116, 113];
            assert_eq!(indices.to_vec::<i64>()?, theirs);
        }
        manual_seed(13);
        let (_, indices) =
            FractionalMaxPool2d::new(2, 4)?.forward_with_indices(&ramp(&[1, 8, 9]))?;
        let theirs = [1, 11, 4, 8, 18, 29, 32, 25, 46, 39, 50, 53, 64, 57, 67, 71];
        assert_eq!(indices.to_vec::<i64>()?, theirs);
        assert!(FractionalMaxPool2d::builder(2).build().is_err());
        assert!(
            FractionalMaxPool2d::builder(2)
                .output_ratio([0.5, 1.0])
                .build()
                .is_err()
        );
        assert!(
            FractionalMaxPool2d::new(3, 5)?
                .forward(&ramp(&[1, 6, 7]))
                .is_err()
        );
        Ok(())
    })
}

#[test]
fn unpooling_undoes_pooling() -> Result<()> {
    let pool = MaxPool2d::builder((2, 3))
        .stride((2, 1))
        .padding((1, 1))
        .build()?;
    let unpool = MaxUnpool2d::builder((2, 3))
        .stride((2, 1))
        .padding((1, 1))
        .build()?;
    let x = ramp(&[1, 2, 4, 4]);
    let (y, indices) = pool.forward_with_indices(&x)?;
    let theirs = [
        1, 1, 1, 2, 4, 4, 11, 11, 12, 12, 15, 15, 0, 2, 2, 2, 9, 9, 9, 6, 13, 13, 13, 14,
    ];
    assert_eq!(indices.to_vec::<i64>()?, theirs);
    let back = unpool.forward_to_size(&y, &indices, x.shape())?;
    let theirs = [
        0.0, 1.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.5, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0,
        1.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0,
    ];
    assert_close(&back, &[1, 2, 4, 4], &theirs);
    let refused = unpool.forward_to_size(&y, &indices, [9, 4]).unwrap_err();
    assert!(refused.to_string().contains("output_size"), "{refused}");
    let refused = Module::forward(&unpool, &y).unwrap_err();
    assert!(refused.to_string().contains("forward_with"), "{refused}");
    Ok(())
}

#[test]
fn convolutions_pad_in_every_mode() -> Result<()> {
    let images = [
        (
            PaddingMode::Reflect,
            [
                0.5, -3.5, -0.25, -4.25, -3.75, 1.75, 1.5, -2.5, 0.75, -5.0, -4.5, 1.0, 1.25, 0.75,
                -4.75, -3.5, 0.5, -2.75, 2.0, 1.5, -4.0, -4.5, -0.5, -3.75,
            ],
            [-4.5, 2.75, -4.5, -1.5, 1.5],
        ),
        (
            PaddingMode::Replicate,
            [
                -2.25, -1.0, 4.75, -4.5, -4.5, -2.0, 0.75, 0.25, 0.75, -5.0, -5.0, -2.5, -1.25,
                -1.75, -4.75, -3.5, 1.75, 0.75, -1.0, -1.5, -4.5, -3.25, 5.5, -0.75,
            ],
            [-0.75, 2.75, -4.5, -4.0, 0.0],
        ),
        (
            PaddingMode::Circular,
            [
                -0.75, -3.5, 0.0, -4.0, -0.75, -3.5, -3.5, 2.5, 0.75, -5.0, -3.5, 2.5, 1.5, 2.25,
                -4.75, -3.5, 1.5, 2.25, -0.75, -3.5, 0.0, -4.0, -0.75, -3.5,
            ],
            [-5.25, 2.75, -4.5, -1.0, 0.5],
        ),
    ];
    for (mode, image, signal) in images {
        let conv = Conv2d::builder(1, 1, (2, 3))
            .padding((1, 2))
            .padding_mode(mode);
        let y = filled(conv.build()?)?.forward(&ramp(&[1, 3, 4]))?;
        assert_close(&y, &[1, 4, 6], &image);
        let conv = Conv1d::builder(1, 1, 4)
            .padding(Padding::Same)
            .padding_mode(mode);
        let y = filled(conv.build()?)?.forward(&ramp(&[1, 5]))?;
        assert_close(&y, &[1, 5], &signal);
    }
    Ok(())
}

#[test]
fn transposed_convolutions_reach_the_size_asked_for() -> Result<()> {
    let conv = ConvTranspose2d::builder(2, 2, (2, 3))
        .stride((2, 3))
        .padding((0, 1))
        .groups(2);
    let conv = filled(conv.build()?)?;
    let x = ramp(&[1, 2, 2, 2]);
    let theirs = [
        -3.0, -1.5, -3.0, -0.5, -1.5, -3.75, -2.25, -2.5, 0.0, -1.0, -1.5, -1.5, 0.0, -2.5, -1.5,
        -1.5, -1.5, -0.5, -3.0, -2.0, -1.5, -1.5, -1.5, -1.5, -1.5, -1.25, 2.5, 0.75, 0.25, 1.5,
        -0.5, 3.25, 1.0, 0.5, 1.75, 1.75, 0.5, 1.75, 3.25, -0.5, 1.5, 0.25, 1.0, 2.5, -1.25, 1.0,
        1.0, 1.0, 1.0, 1.0,
    ];
    assert_close(&conv.forward_with(&x, (5, 5))?, &[1, 2, 5, 5], &theirs);
    assert_close(
        &conv.forward_with(&x, [1, 2, 5, 5])?,
        &[1, 2, 5, 5],
        &theirs,
    );
    let refused = conv.forward_with(&x, (6, 5)).unwrap_err();
    assert!(
        refused.to_string().contains("valid sizes range"),
        "{refused}"
    );
    assert!(conv.forward_with(&x, [5]).is_err());
    let conv = ConvTranspose1d::builder(2, 1, 2)
        .stride(2)
        .output_padding(1)
        .dilation(2);
    let y = filled(conv.build()?)?.forward(&ramp(&[2, 3]))?;
    let theirs = [0.75, -1.5, -3.5, -1.5, -2.0, -1.5, -2.0, -1.5];
    assert_close(&y, &[1, 8], &theirs);
    Ok(())
}

#[test]
fn upsampling_is_pytorchs() -> Result<()> {
    let x = ramp(&[1, 1, 2, 3]);
    let bilinear = Upsample::builder()
        .scale_factor(2.0)
        .mode(InterpolateMode::Bilinear)
        .build()?;
    let theirs = [
        -1.5, -0.875, 0.375, 0.75, 0.25, 0.0, -1.375, -0.75, 0.5, 0.875, 0.375, 0.125, -1.125,
        -0.5, 0.75, 1.125, 0.625, 0.375, -1.0, -0.375, 0.875, 1.25, 0.75, 0.5,
    ];
    assert_close(&bilinear.forward(&x)?, &[1, 1, 4, 6], &theirs);
    let bicubic = Upsample::builder()
        .scale_factor([1.5, 2.0])
        .mode(InterpolateMode::Bicubic)
        .align_corners(false)
        .build()?;
    let theirs = [
        -1.807075, -0.9418405, 0.4956598, 0.9937068, 0.2710504, -0.1488716, -1.513672, -0.6484375,
        0.7890625, 1.287109, 0.5644531, 0.1445312, -1.220269, -0.3550349, 1.082465, 1.580512,
        0.8578559, 0.437934,
    ];
    assert_close(&bicubic.forward(&x)?, &[1, 1, 3, 6], &theirs);
    let exact = Upsample::builder()
        .size((3, 2))
        .mode(InterpolateMode::NearestExact)
        .build()?;
    let theirs = [-1.5, 0.0, -1.0, 0.5, -1.0, 0.5];
    assert_close(&exact.forward(&x)?, &[1, 1, 3, 2], &theirs);
    let recomputed = Upsample::builder()
        .scale_factor(1.7)
        .mode(InterpolateMode::Bilinear)
        .recompute_scale_factor(true)
        .build()?;
    let theirs = [
        -1.5, -0.5, 1.0, 0.4, 0.0, -1.25, -0.25, 1.25, 0.65, 0.25, -1.0, 0.0, 1.5, 0.9, 0.5,
    ];
    assert_close(&recomputed.forward(&x)?, &[1, 1, 3, 5], &theirs);
    let corners = UpsamplingBilinear2d::builder().scale_factor(2.0).build()?;
    let theirs = [
        -1.5, -0.5, 0.5, 0.8, 0.4, 0.0, -1.333333, -0.3333334, 0.6666667, 0.9666666, 0.5666666,
        0.1666667, -1.166667, -0.1666667, 0.8333334, 1.133333, 0.7333333, 0.3333333, -1.0, 0.0,
        1.0, 1.3, 0.9, 0.5,
    ];
    assert_close(&corners.forward(&x)?, &[1, 1, 4, 6], &theirs);
    assert!(Upsample::builder().build().is_err());
    assert!(
        Upsample::builder()
            .size(2)
            .scale_factor(2.0)
            .build()
            .is_err()
    );
    Ok(())
}

#[test]
fn embedding_bags_are_pytorchs() -> Result<()> {
    let input = Tensor::from_data(&[1i64, 2, 0, 3, 3, 1], &[6])?;
    let offsets = Tensor::from_data(&[0i64, 2, 2, 6], &[4])?;
    let sum = EmbeddingBag::builder(4, 2)
        .mode(EmbeddingBagMode::Sum)
        .include_last_offset(true);
    let y = filled(sum.build()?)?.forward_with(&input, &offsets, &ramp(&[6]))?;
    assert_close(&y, &[3, 2], &[1.5, 2.0, 0.0, 0.0, -0.25, -1.25]);
    let max = filled(
        EmbeddingBag::builder(4, 2)
            .mode(EmbeddingBagMode::Max)
            .build()?,
    )?;
    let y = max.forward_with(&input, &offsets.narrow(0, 0, 3)?, None)?;
    assert_close(&y, &[3, 2], &[1.5, 0.5, 0.0, 0.0, 0.0, 1.0]);
    let mean = filled(
        EmbeddingBag::builder(4, 2)
            .padding_idx(-1)
            .max_norm(1.0)
            .build()?,
    )?;
    let y = mean.forward(&input.reshape([3, 2])?)?;
    let theirs = [0.4743416, -0.3418861, -0.8320503, 0.5547002, 0.0, -1.0];
    assert_close(&y, &[3, 2], &theirs);
    let theirs = [
        -0.8320503, 0.5547002, 0.0, -1.0, 0.9486832, 0.3162277, -0.3162277, -0.9486832,
    ];
    assert_close(&mean.weight, &[4, 2], &theirs);

    let frozen = EmbeddingBag::from_pretrained(ramp(&[4, 2])).build()?;
    assert!(!frozen.weight.requires_grad());
    assert!(EmbeddingBag::from_pretrained(ramp(&[4])).build().is_err());
    assert!(EmbeddingBag::builder(4, 2).padding_idx(4).build().is_err());
    assert!(
        EmbeddingBag::builder(4, 2)
            .weight(&ramp(&[2, 4]))
            .build()
            .is_err()
    );
    Ok(())
}

#[test]
fn running_statistics_are_pytorchs() -> Result<()> {
    let norm = InstanceNorm1d::builder(2)
        .momentum(0.3)
        .affine(true)
        .track_running_stats(true);
    let norm = filled(norm.build()?)?;
    let x = ramp(&[2, 2, 4]);
    let theirs = [
        0.2575408, -3.648105, -2.085847, -0.5235884, 2.341635, 1.447212, 0.5527882, -0.3416354,
        -2.476412, -0.9141531, 0.6481054, -3.257541, 1.650941, 0.6094354, -0.4320703, 2.171694,
    ];
    assert_close(&norm.forward(&x)?, &[2, 2, 4], &theirs);
    let state = norm.state_dict();
    let names = [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ];
    assert_eq!(state.keys().collect::<Vec<_>>(), names);
    assert_close(&state["running_mean"], &[2], &[0.0, -0.01875]);
    assert_close(&state["running_var"], &[2], &[1.06875, 1.1343751]);
    assert_eq!(state["num_batches_tracked"].item::<i64>()?, 0);
    norm.eval();
    let theirs = [
        0.6764186,
        -2.950946,
        -1.5,
        -0.04905427,
        2.425956,
        1.487055,
        0.5481539,
        -0.390747,
    ];
    assert_close(&norm.forward(&x.select(0, 0)?)?, &[2, 4], &theirs);
    assert!(norm.forward(&ramp(&[2, 3, 4])).is_err());

    let norm = BatchNorm3d::builder(2).momentum(None).build()?;
    let x = ramp(&[2, 2, 1, 2, 2]);
    norm.forward(&x)?;
    let theirs = [
        -1.455212, 0.9701414, 0.0, -0.9701414, 1.496709, 0.5388153, -0.4190786, -1.376972,
        0.9701414, 0.0, -0.9701414, 1.455212, 0.5388153, -0.4190786, -1.376972, 1.017762,
    ];
    assert_close(&norm.forward(&x.mul(2.0)?)?, &[2, 2, 1, 2, 2], &theirs);
    let state = norm.state_dict();
    assert_close(&state["running_mean"], &[2], &[0.0, -0.09375]);
    assert_close(&state["running_var"], &[2], &[3.0357144, 3.1138394]);
    assert_eq!(state["num_batches_tracked"].item::<i64>()?, 2);
    norm.eval();
    let theirs = [
        -0.8609146, 0.5739431, 0.0, -0.5739431, 0.9031739, 0.3364766, -0.2302208, -0.7969182,
        0.5739431, 0.0, -0.5739431, 0.8609146, 0.3364766, -0.2302208, -0.7969182, 0.6198252,
    ];
    assert_close(&norm.forward(&x)?, &[2, 2, 1, 2, 2], &theirs);

    let sync = SyncBatchNorm::new(2)?;
    let refused = sync.forward(&x).unwrap_err();
    assert!(refused.to_string().contains("process group"), "{refused}");
    assert_eq!(sync.num_batches_tracked.as_ref().unwrap().item::<i64>()?, 0);
    sync.load_state_dict(&norm.state_dict())?;
    sync.eval();
    assert_close(&sync.forward(&x)?, &[2, 2, 1, 2, 2], &theirs);
    Ok(())
}

#[test]
fn lists_of_parameters_are_modules() -> Result<()> {
    #[derive(Module)]
    struct Net {
        list: ParameterList,
        dict: ParameterDict,
    }
    impl Module for Net {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            let scale = self.dict.get("scale").ok_or(TorshError::OutOfMemory)?;
            x.mul(&self.list[1])?.mul(scale)
        }
    }
    let mut dict = ParameterDict::new();
    dict.insert("shift", Parameter::new(ramp(&[2])))?;
    dict.insert("scale", Parameter::new(ramp(&[1, 2])))?;
    assert!(dict.insert("a.b", Parameter::new(ramp(&[2]))).is_err());
    let list = [ramp(&[2]), ramp(&[2, 2])]
        .into_iter()
        .map(Parameter::new)
        .collect();
    let mut net = Net { list, dict };
    let names = ["list.0", "list.1", "dict.shift", "dict.scale"];
    assert_eq!(net.state_dict().keys().collect::<Vec<_>>(), names);
    let y = net.forward(&Tensor::from_data(&[1.0f32, 2.0], &[2])?)?;
    y.sum()?.backward()?;
    assert_close(
        &net.list[1].grad().unwrap(),
        &[2, 2],
        &[-1.5, 2.0, -1.5, 2.0],
    );
    net.to_dtype(DType::F64)?;
    assert_eq!(net.list[0].dtype(), DType::F64);
    assert_eq!(
        net.dict.remove("shift").map(|p| p.dtype()),
        Some(DType::F64)
    );
    assert!(net.dict.forward(&y).is_err() && net.list.forward(&y).is_err());
    Ok(())
}

/// What PyTorch's `repr` prints.
#[test]
fn layers_print_as_pytorch() -> Result<()> {
    let up = |b: UpsampleBuilder| b.build();
    let shown: &[(&dyn Module, &str)] = &[
        (
            &Conv1d::builder(3, 4, 3).padding(Padding::Same).build()?,
            "Conv1d(3, 4, kernel_size=(3,), stride=(1,), padding=same)",
        ),
        (
            &ConvTranspose2d::builder(3, 4, 3)
                .stride(2)
                .output_padding(1)
                .bias(false)
                .build()?,
            "ConvTranspose2d(3, 4, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1), bias=False)",
        ),
        (
            &MaxPool1d::new(2)?,
            "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        ),
        (
            &AvgPool1d::new(2)?,
            "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
        ),
        (
            &AvgPool2d::new(2)?,
            "AvgPool2d(kernel_size=2, stride=2, padding=0)",
        ),
        (
            &AvgPool3d::new((1, 2, 3))?,
            "AvgPool3d(kernel_size=(1, 2, 3), stride=(1, 2, 3), padding=0)",
        ),
        (
            &LPPool2d::new(2.0, 3)?,
            "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)",
        ),
        (
            &LPPool1d::builder(1.5, 3).stride(2).build()?,
            "LPPool1d(norm_type=1.5, kernel_size=3, stride=2, ceil_mode=False)",
        ),
        (
            &MaxUnpool1d::new(2)?,
            "MaxUnpool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
        ),
        (
            &MaxUnpool2d::new((2, 3))?,
            "MaxUnpool2d(kernel_size=(2, 3), stride=(2, 3), padding=(0, 0))",
        ),
        (&FractionalMaxPool2d::new(3, 2)?, "FractionalMaxPool2d()"),
        (
            &AdaptiveAvgPool2d::new((3, None))?,
            "AdaptiveAvgPool2d(output_size=(3, None))",
        ),
        (
            &AdaptiveMaxPool1d::new(3)?,
            "AdaptiveMaxPool1d(output_size=3)",
        ),
        (
            &ConstantPad1d::new(1, 2),
            "ConstantPad1d(padding=(1, 1), value=2)",
        ),
        (
            &ConstantPad2d::new(1, 2.5),
            "ConstantPad2d(padding=(1, 1, 1, 1), value=2.5)",
        ),
        (&ReflectionPad1d::new(1), "ReflectionPad1d((1, 1))"),
        (&ZeroPad2d::new((1, 2, 3, 4)), "ZeroPad2d((1, 2, 3, 4))"),
        (&CircularPad3d::new(1), "CircularPad3d((1, 1, 1, 1, 1, 1))"),
        (
            &LayerNorm::new(3)?,
            "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)",
        ),
        (
            &RMSNorm::new([2, 3])?,
            "RMSNorm((2, 3), eps=None, elementwise_affine=True)",
        ),
        (
            &GroupNorm::new(2, 4)?,
            "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
        ),
        (
            &LocalResponseNorm::new(2)?,
            "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)",
        ),
        (
            &CrossMapLRN2d::new(2)?,
            "CrossMapLRN2d(2, alpha=0.0001, beta=0.75, k=1)",
        ),
        (
            &InstanceNorm2d::new(3)?,
            "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)",
        ),
        (
            &SyncBatchNorm::new(3)?,
            "SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        ),
        (&Dropout2d::default(), "Dropout2d(p=0.5, inplace=False)"),
        (
            &Unflatten::new(1, (2, 5)),
            "Unflatten(dim=1, unflattened_size=(2, 5))",
        ),
        (
            &Fold::new(3, 2)?,
            "Fold(output_size=3, kernel_size=2, dilation=1, padding=0, stride=1)",
        ),
        (
            &Unfold::new((2, 3))?,
            "Unfold(kernel_size=(2, 3), dilation=1, padding=0, stride=1)",
        ),
        (&PixelShuffle::new(2)?, "PixelShuffle(upscale_factor=2)"),
        (&ChannelShuffle::new(2)?, "ChannelShuffle(groups=2)"),
        (
            &up(Upsample::builder()
                .scale_factor(2.0)
                .mode(InterpolateMode::Bilinear))?,
            "Upsample(scale_factor=2.0, mode='bilinear')",
        ),
        (
            &Upsample::new((2, 3))?,
            "Upsample(size=(2, 3), mode='nearest')",
        ),
        (
            &up(Upsample::builder().scale_factor([2.0, 3.0]))?,
            "Upsample(scale_factor=(2.0, 3.0), mode='nearest')",
        ),
        (
            &UpsamplingBilinear2d::new(3)?,
            "UpsamplingBilinear2d(size=3, mode='bilinear')",
        ),
        (&EmbeddingBag::new(3, 4)?, "EmbeddingBag(3, 4, mode='mean')"),
        (
            &EmbeddingBag::builder(3, 4)
                .max_norm(1.0)
                .mode(EmbeddingBagMode::Sum)
                .padding_idx(1)
                .build()?,
            "EmbeddingBag(3, 4, max_norm=1.0, mode='sum', padding_idx=1)",
        ),
    ];
    for (layer, theirs) in shown {
        assert_eq!(layer.repr(), *theirs);
    }
    let list: ParameterList = [ramp(&[2]), ramp(&[2, 3])]
        .into_iter()
        .map(Parameter::new)
        .collect();
    let theirs = "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2]\n    (1): Parameter containing: [torch.float32 of size 2x3]\n)";
    assert_eq!(list.repr(), theirs);
    let mut dict = ParameterDict::new();
    dict.insert("a", Parameter::new(ramp(&[2])))?;
    let theirs = "ParameterDict(  (a): Parameter containing: [torch.FloatTensor of size 2])";
    assert_eq!(dict.repr(), theirs);
    Ok(())
}

#[test]
fn bad_arguments_are_errors() -> Result<()> {
    let refused = [
        Conv1d::builder(3, 4, 0).build().err(),
        Conv3d::builder(3, 4, 2).groups(2).build().err(),
        Conv1d::builder(2, 2, 2).padding(-1).build().err(),
        Conv1d::builder(2, 2, 2)
            .stride(2)
            .padding(Padding::Same)
            .build()
            .err(),
        ConvTranspose3d::builder(4, 4, 2).groups(0).build().err(),
        ConvTranspose1d::builder(4, 4, 2)
            .output_padding(-1)
            .build()
            .err(),
        MaxPool3d::new(0).err(),
        AvgPool1d::builder(2).stride(0).build().err(),
        LPPool3d::new(2.0, -1).err(),
        AdaptiveAvgPool1d::new(-1).err(),
        MaxUnpool3d::new(0).err(),
        GroupNorm::new(3, 4).err(),
        GroupNorm::new(0, 4).err(),
        LocalResponseNorm::new(0).err(),
        CrossMapLRN2d::new(0).err(),
        PixelShuffle::new(0).err(),
        Unfold::new(0).err(),
        Fold::builder(0, 2).build().err(),
    ];
    for (i, error) in refused.iter().enumerate() {
        assert!(error.is_some(), "{i}");
    }
    for refused in [
        BatchNorm3d::new(2)?.forward(&ramp(&[2, 2, 3])).err(),
        InstanceNorm2d::new(2)?.forward(&ramp(&[2, 3])).err(),
        LayerNorm::new(4)?.forward(&ramp(&[2, 3])).err(),
        Unflatten::new(1, (2, 2)).forward(&ramp(&[2, 3])).err(),
        ReflectionPad1d::new(3).forward(&ramp(&[2, 3])).err(),
        AvgPool2d::new(2)?.forward(&ramp(&[3])).err(),
    ] {
        assert!(refused.is_some());
    }
    Ok(())
}

/// PyTorch's values, in whose sums the square of the first channel stays.
#[test]
fn cross_map_lrn_2d() -> Result<()> {
    let x = Tensor::from_data(&[1.0f32, -2.0, 3.0, 0.5, -1.0, 2.0], &[1, 6, 1, 1])?;
    #[rustfmt::skip]
    let expected: [(usize, [f32; 6]); 5] = [
        (1, [0.5029734, -0.64732236, 0.6971042, 0.24245046, -0.43869135, 0.64732236]),
        (2, [0.5443311, -0.8262614, 0.9709835, 0.2666298, -0.5029734, 0.8262614]),
        (3, [0.45790642, -0.6659067, 0.9917169, 0.18103653, -0.43417647, 0.8773827]),
        (5, [0.39938414, -0.7943914, 1.1661433, 0.1793041, -0.38871443, 0.96980184]),
        (9, [0.45623013, -0.86245245, 1.2936786, 0.21561311, -0.43122622, 0.86245245]),
    ];
    for (size, expected) in expected {
        let layer = CrossMapLRN2d::builder(size).alpha(0.5).k(2.0).build()?;
        let y = layer.forward(&x)?.flatten(0)?.to_vec::<f32>()?;
        for (a, b) in y.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-6, "{size}: {y:?}");
        }
    }
    assert!(CrossMapLRN2d::new(3)?.forward(&ramp(&[6, 1, 1])).is_err());
    // The gradient is that of what is computed, by PyTorch's derivative of the same formula.
    let layer = CrossMapLRN2d::builder(3).alpha(0.5).k(2.0).build()?;
    let x = x.requires_grad_(true);
    layer.forward(&x)?.sum()?.backward()?;
    let gradient = x.grad().expect("a gradient").flatten(0)?.to_vec::<f32>()?;
    let expected = [
        0.35014182, 0.4502641, 0.24077745, 0.34574127, 0.48328573, 0.36383238,
    ];
    for (a, b) in gradient.iter().zip(&expected) {
        assert!((a - b).abs() < 1e-6, "{gradient:?}");
    }
    Ok(())
}
