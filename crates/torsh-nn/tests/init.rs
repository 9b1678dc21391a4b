//! torch.nn.init: the same numbers from the same seed.

use torsh_core::Generator;
use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::{Bilinear, Module, ModuleExt, RReLU, init};
use torsh_tensor::{DType, Device, Result, Tensor, tensor};

fn empty(shape: &[usize]) -> Tensor {
    Tensor::empty(shape, DType::F32, Device::Cpu).unwrap()
}

#[track_caller]
fn close(t: &Tensor, expected: &[f64]) {
    near(t, 1e-7, expected);
}

#[track_caller]
fn near(t: &Tensor, error: f64, expected: &[f64]) {
    let ours = t.to_vec::<f64>().unwrap();
    assert_eq!(ours.len(), expected.len());
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() <= error + 1e-6 * b.abs(), "{a} is not {b}");
    }
}

#[test]
fn draws_are_pytorchs() -> Result<()> {
    let _own = LocalGenerator::new(11).enter();
    let t = init::trunc_normal_(&empty(&[5]), 0.0, 1.0, -0.5, 0.5)?;
    close(
        &t,
        &[
            -0.26961955428123474,
            0.24618466198444366,
            0.4839252829551697,
            0.45041778683662415,
            0.16479843854904175,
        ],
    );
    let t = init::trunc_normal_(&empty(&[4, 5]), 0.5, 2.0, -1.0, 2.0)?;
    close(
        &t,
        &[
            0.04891875386238098,
            1.5435208082199097,
            0.30528998374938965,
            0.7766757011413574,
            1.556127905845642,
            0.8408098816871643,
            1.2840156555175781,
            0.068855881690979,
            0.6854127049446106,
            1.2819302082061768,
            0.44043803215026855,
            -0.3919808864593506,
            0.2982303500175476,
            1.0605816841125488,
            1.6399705410003662,
            1.8333734273910522,
            -0.9976739883422852,
            0.14790263772010803,
            -0.3642173409461975,
            0.4875815212726593,
        ],
    );
    // So far from the mean the draws are uniform ones, of which some are refused.
    let t = init::trunc_normal_(&empty(&[5]), 0.0, 1.0, 1.0, 1.2)?;
    close(
        &t,
        &[
            1.0718133449554443,
            1.0930945873260498,
            1.0145765542984009,
            1.1152257919311523,
            1.1258833408355713,
        ],
    );
    let t = init::orthogonal_(&empty(&[2, 3]), 1.0)?;
    // LAPACK rounds in another order.
    near(
        &t,
        1e-6,
        &[
            0.11101305484771729,
            -0.6197068691253662,
            0.7769424319267273,
            0.3396604061126709,
            0.7583568692207336,
            0.5563503503799438,
        ],
    );
    let t = init::orthogonal_(&empty(&[3, 2]), 2.0)?;
    // LAPACK rounds in another order.
    near(
        &t,
        1e-6,
        &[
            -0.3195183277130127,
            -1.1137453317642212,
            -1.5481336116790771,
            -0.8834900259971619,
            -1.2252302169799805,
            1.4067751169204712,
        ],
    );
    let t = init::orthogonal_(&empty(&[5, 2, 2]), 1.0)?;
    // LAPACK rounds in another order.
    near(
        &t,
        1e-6,
        &[
            0.0022835731506347656,
            -0.090503990650177,
            -0.2196645736694336,
            0.9509521126747131,
            0.673987627029419,
            0.08688220381736755,
            0.07652104645967484,
            0.17202851176261902,
            0.1522194743156433,
            -0.6599494218826294,
            -0.7016521096229553,
            -0.21205615997314453,
            0.50089031457901,
            0.5728177428245544,
            -0.42898717522621155,
            -0.14272654056549072,
            0.5212233066558838,
            -0.4696885049343109,
            0.5191786885261536,
            -0.027525821700692177,
        ],
    );
    let t = init::sparse_(&empty(&[4, 3]), 0.4, 0.1)?;
    close(
        &t,
        &[
            0.0,
            0.04858541488647461,
            -0.09086337685585022,
            -0.0037267294246703386,
            0.0,
            -0.24045050144195557,
            0.0,
            0.0,
            0.0,
            -0.0372045673429966,
            0.0232086218893528,
            0.0,
        ],
    );
    let t = init::xavier_normal_(&empty(&[2, 2]), 2.0)?;
    close(
        &t,
        &[
            -1.2431248426437378,
            -2.012171745300293,
            -0.7069700360298157,
            0.09691717475652695,
        ],
    );
    let double = |shape: &[usize]| Tensor::empty(shape, DType::F64, Device::Cpu);
    let t = init::orthogonal_(&double(&[2, 2])?, 1.0)?;
    // LAPACK rounds in another order.
    near(
        &t,
        1e-6,
        &[
            -0.42336228961178013,
            0.9059604691898381,
            -0.9059604691898381,
            -0.4233622896117799,
        ],
    );
    let t = init::trunc_normal_(&double(&[3])?, 0.0, 1.0, -2.0, 2.0)?;
    close(
        &t,
        &[
            -0.02297042415596893,
            0.38740344892561646,
            0.09283744735360415,
        ],
    );
    let g = Generator::new(5);
    let t = init::trunc_normal_with(&empty(&[3]), 0.0, 1.0, -2.0, 2.0, &g)?;
    close(
        &t,
        &[
            -0.4867807626724243,
            -0.6038215756416321,
            -0.5580962300300598,
        ],
    );
    // The zeros' places are the default generator's.
    let t = init::sparse_with(&empty(&[3, 2]), 0.5, 0.01, &g)?;
    close(
        &t,
        &[
            0.0,
            -0.0019741510041058064,
            0.0,
            0.0,
            -0.0076255714520812035,
            0.0,
        ],
    );

    manual_seed(3);
    let layer = Bilinear::new(2, 2, 1)?;
    close(
        &layer.weight,
        &[
            -0.7010772228240967,
            -0.5578091740608215,
            -0.3028644621372223,
            -0.6689868569374084,
        ],
    );

    manual_seed(3);
    let layer = RReLU::new();
    let x = tensor![[-1.0, 2.0, -3.0], [-4.0, -0.5, 1.0]];
    close(
        &layer.forward(&x)?,
        &[
            -0.13210587203502655,
            2.0,
            -0.5542126297950745,
            -1.144095778465271,
            -0.08072156459093094,
            1.0,
        ],
    );
    layer.eval();
    close(
        &layer.forward(&x)?,
        &[
            -0.2291666716337204,
            2.0,
            -0.6875,
            -0.9166666865348816,
            -0.1145833358168602,
            1.0,
        ],
    );
    Ok(())
}

#[test]
fn diracs_are_in_the_middle_of_each_groups_window() -> Result<()> {
    let t = init::dirac_(&empty(&[4, 2, 2, 3]), 2)?;
    let mut expected = vec![0.0; 48];
    for at in [4, 22, 28, 46] {
        expected[at] = 1.0;
    }
    close(&t, &expected);
    Ok(())
}

#[test]
fn unfit_tensors_are_refused() {
    let refused = |r: Result<Tensor>, what: &str| {
        let text = r.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    refused(init::eye_(&empty(&[3])), "eye_");
    refused(init::dirac_(&empty(&[3, 3]), 1), "3, 4, or 5 dimensions");
    refused(init::dirac_(&empty(&[3, 3, 3]), 2), "divisible by groups");
    refused(init::dirac_(&empty(&[3, 3, 3]), 0), "divisible by groups");
    refused(init::orthogonal_(&empty(&[3]), 1.0), "2 or more dimensions");
    refused(init::sparse_(&empty(&[3]), 0.5, 0.01), "sparse_");
    refused(init::sparse_(&empty(&[3, 3]), 1.5, 0.01), "0 to 1");
    refused(
        init::trunc_normal_(&empty(&[3]), 0.0, 0.0, -2.0, 2.0),
        "std > 0",
    );
    refused(
        init::trunc_normal_(&empty(&[3]), 0.0, 1.0, 3.0, f64::INFINITY),
        "finite",
    );
    refused(
        init::xavier_uniform_(&empty(&[3]), 1.0),
        "fewer than 2 dimensions",
    );
}
