use super::*;
use crate::kernels::matmul::tests::Host;
use crate::testing;

fn value(i: usize) -> f64 {
    ((i * 37 + 11) % 23) as f64 / 7.0 - 1.3
}

fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(
            (g - w).abs() <= 1e-12 * (1.0 + w.abs()),
            "at {i}: {g} instead of {w}"
        );
    }
}

/// Both gradients and both passes against the formulas, for short and long channels.
#[torsh_macros::unit_test]
fn training_and_its_gradients() {
    for shape in [[4, 3, 1], [5, 7, 2], [3, 2, 40], [2, 70, 1]] {
        let [n, c, s] = shape;
        let count = (n * s) as f64;
        let x = Host::<f64>::new(&shape, value);
        let w = Host::<f64>::new(&[c], |i| 1.0 + i as f64 / 8.0);
        let b = Host::<f64>::new(&[c], |i| i as f64);
        let v = Host::<f64>::new(&[c], |_| 9.0);
        let y = Host::<f64>::new(&shape, |_| f64::NAN);
        let (m, r) = (
            Host::<f64>::new(&[c], |_| 9.0),
            Host::<f64>::new(&[c], |_| 9.0),
        );
        let attrs = attrs::BatchNorm {
            training: true,
            eps: 1e-3,
            variance: true,
            min: None,
            max: None,
        };
        let views = [&y, &m, &r, &v].map(Host::view);
        let inputs = [x.view(), w.view(), b.view()];
        testing::run(Kernel::BatchNorm, DType::F64, &views, &inputs, &attrs)
            .expect("a normalisation");
        let all = || (0..n).flat_map(|i| (0..s).map(move |k| (i, k)));
        let g = Host::<f64>::new(&shape, |i| value(i * 3 + 1));
        let outs = [
            Host::<f64>::new(&shape, |_| 9.0),
            Host::new(&[c], |_| 9.0),
            Host::new(&[c], |_| 9.0),
        ];
        let views = [outs[0].view(), outs[1].view(), outs[2].view()];
        let inputs = [g.view(), x.view(), w.view(), m.view(), r.view()];
        let attrs = attrs::BatchNormBackward { training: true };
        let kernel = Kernel::BatchNormBackward;
        testing::run(kernel, DType::F64, &views, &inputs, &attrs).expect("its gradient");
        for ch in 0..c {
            let mean = all().map(|(i, k)| x.get(&[i, ch, k])).sum::<f64>() / count;
            let var = all()
                .map(|(i, k)| (x.get(&[i, ch, k]) - mean).powi(2))
                .sum::<f64>()
                / count;
            let inv = 1.0 / (var + 1e-3).sqrt();
            close(&[m.data[ch], r.data[ch]], &[mean, inv]);
            let unbiased = var * count / (count - 1.0);
            close(&[v.data[ch]], &[unbiased]);
            let hat = |i: usize, k: usize| (x.get(&[i, ch, k]) - mean) * inv;
            let sum = all().map(|(i, k)| g.get(&[i, ch, k])).sum::<f64>();
            let dot = all()
                .map(|(i, k)| g.get(&[i, ch, k]) * hat(i, k))
                .sum::<f64>();
            close(&[outs[1].data[ch], outs[2].data[ch]], &[dot, sum]);
            for (i, k) in all() {
                close(
                    &[y.get(&[i, ch, k])],
                    &[hat(i, k) * w.data[ch] + b.data[ch]],
                );
                let inner = g.get(&[i, ch, k]) - (sum + hat(i, k) * dot) / count;
                close(&[outs[0].get(&[i, ch, k])], &[w.data[ch] * inv * inner]);
            }
        }
    }
}

#[torsh_macros::unit_test]
fn evaluation_uses_the_running_statistics() {
    let x = Host::<f32>::new(&[2, 2, 1], |i| i as f32);
    let (rm, rv) = (
        Host::<f32>::new(&[2], |i| i as f32),
        Host::<f32>::new(&[2], |_| 4.0),
    );
    let (y, m, r) = (
        Host::<f32>::new(&[2, 2, 1], |_| 9.0),
        Host::<f32>::new(&[2], |_| 9.0),
        Host::<f32>::new(&[2], |_| 9.0),
    );
    let attrs = attrs::BatchNorm {
        training: false,
        eps: 0.0,
        variance: false,
        min: None,
        max: None,
    };
    let outputs = [y.view(), m.view(), r.view()];
    let inputs = [x.view(), View::ABSENT, View::ABSENT, rm.view(), rv.view()];
    testing::run(Kernel::BatchNorm, DType::F32, &outputs, &inputs, &attrs)
        .expect("a normalisation");
    assert_eq!(y.data, [0.0, 0.0, 1.0, 1.0]);
    assert_eq!((m.data, r.data), (vec![0.0, 1.0], vec![0.5, 0.5]));
}

/// An addition and a clamp in the same pass, for short and long channels and ones that are streamed.
#[torsh_macros::unit_test]
fn what_follows_is_computed_in_the_same_pass() {
    for shape in [[2, 3, 1], [3, 2, 5], [2, 2, 700], [1, 2, 1 << 20]] {
        let c = shape[1];
        let x = Host::<f32>::new(&shape, |i| value(i) as f32);
        let other = Host::<f32>::new(&shape, |i| value(i * 5 + 2) as f32);
        let (rm, rv) = (
            Host::<f32>::new(&[c], |i| i as f32 / 8.0),
            Host::<f32>::new(&[c], |i| 4.0 + i as f32),
        );
        for (add, clamp) in [
            (false, Some([0.0, 6.0])),
            (true, Some([0.0, f64::INFINITY])),
            (true, None),
        ] {
            let y = Host::<f32>::new(&shape, |_| f32::NAN);
            let (m, r) = (
                Host::<f32>::new(&[c], |_| 9.0),
                Host::<f32>::new(&[c], |_| 9.0),
            );
            let attrs = attrs::BatchNorm {
                training: false,
                eps: 0.0,
                variance: false,
                min: clamp.map(|c| c[0]),
                max: clamp.map(|c| c[1]),
            };
            let outputs = [y.view(), m.view(), r.view()];
            let absent = View::ABSENT;
            let added = if add { other.view() } else { absent };
            let inputs = [x.view(), absent, absent, rm.view(), rv.view(), added];
            testing::run(Kernel::BatchNorm, DType::F32, &outputs, &inputs, &attrs)
                .expect("a normalisation");
            let [least, most] = clamp.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
            for (i, &got) in y.data.iter().enumerate() {
                let ch = i / shape[2] % c;
                let normed = (x.data[i] - rm.data[ch]) / rv.data[ch].sqrt();
                let sum = normed + if add { other.data[i] } else { 0.0 };
                let want = sum.clamp(least as f32, most as f32);
                assert!(
                    (got - want).abs() < 1e-6,
                    "{shape:?} {add} {clamp:?} {i}: {got} {want}"
                );
            }
        }
    }
}

#[torsh_macros::unit_test]
fn a_nan_is_not_clamped() {
    let x = Host::<f64>::new(&[1, 2, 1], |_| f64::NAN);
    let one = Host::<f64>::new(&[2], |_| 1.0);
    let [y, m, r] = [&[1, 2, 1][..], &[2], &[2]].map(|s| Host::<f64>::new(s, |_| 9.0));
    let attrs = attrs::BatchNorm {
        training: false,
        eps: 0.0,
        variance: false,
        min: Some(0.0),
        max: Some(6.0),
    };
    let outputs = [y.view(), m.view(), r.view()];
    let inputs = [x.view(), View::ABSENT, View::ABSENT, one.view(), one.view()];
    testing::run(Kernel::BatchNorm, DType::F64, &outputs, &inputs, &attrs)
        .expect("a normalisation");
    assert!(y.data.iter().all(|v| v.is_nan()));
}
