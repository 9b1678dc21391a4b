//! Recurrent layers and their cells, and packed sequences.

use crate::pytorch::{Case, same_start};
use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::utils::rnn::*;
use torsh_nn::{
    GRU, GRUCell, LSTM, LSTMCell, Module, ModuleExt, MultiheadAttention, RNN, RNNCell,
    RNNNonlinearity,
};
use torsh_tensor::{DType, Tensor, tensor};

#[test]
fn lstm_of_two_directions_with_projections_and_states() {
    let case = Case::new("lstm");
    let layer = LSTM::builder(3, 4)
        .num_layers(2)
        .batch_first(true)
        .bidirectional(true)
        .proj_size(2)
        .build()
        .unwrap();
    case.load(&layer);
    let [x, h, c] = ["x", "h", "c"].map(|n| case.input(n));
    let (y, (hn, cn)) = layer.forward_with(&x, Some((&h, &c))).unwrap();
    case.check(&layer, &[y, hn, cn], &[("x", &x), ("h", &h), ("c", &c)]);
    assert_eq!(
        layer.repr(),
        "LSTM(3, 4, proj_size=2, num_layers=2, batch_first=True, bidirectional=True)"
    );
}

fn sorted(batch_first: bool) -> PackPaddedSequenceOptions {
    PackPaddedSequenceOptions::new()
        .enforce_sorted(false)
        .batch_first(batch_first)
}

#[test]
fn packed_lstm() {
    let case = Case::new("lstm_packed");
    let layer = LSTM::builder(3, 4)
        .num_layers(2)
        .bias(false)
        .bidirectional(true)
        .proj_size(3)
        .build()
        .unwrap();
    case.load(&layer);
    let [x, h, c] = ["x", "h", "c"].map(|n| case.input(n));
    let packed = pack_padded_sequence_with(&x, [2, 4, 3], sorted(false)).unwrap();
    let (y, (hn, cn)) = layer.forward_packed(&packed, Some((&h, &c))).unwrap();
    case.check(
        &layer,
        &[y.data, hn, cn],
        &[("x", &x), ("h", &h), ("c", &c)],
    );
}

#[test]
fn packed_gru() {
    let case = Case::new("gru_packed");
    let layer = GRU::builder(3, 4)
        .num_layers(2)
        .bidirectional(true)
        .build()
        .unwrap();
    case.load(&layer);
    let [x, h] = ["x", "h"].map(|n| case.input(n));
    let packed = pack_padded_sequence_with(&x, [2, 4, 1], sorted(true)).unwrap();
    let (y, hn) = layer.forward_packed(&packed, Some(&h)).unwrap();
    case.check(&layer, &[y.data, hn], &[("x", &x), ("h", &h)]);
}

#[test]
fn packed_rnn_with_relu() {
    let case = Case::new("rnn_packed");
    let layer = RNN::builder(3, 4)
        .num_layers(2)
        .nonlinearity(RNNNonlinearity::ReLU)
        .bidirectional(true)
        .build()
        .unwrap();
    case.load(&layer);
    let x = case.input("x");
    let packed = pack_padded_sequence(&x, [4, 3, 1]).unwrap();
    let (y, hn) = layer.forward_packed(&packed, None).unwrap();
    case.check(&layer, &[y.data, hn], &[("x", &x)]);
}

/// States of more than one block of the kernels' loops.
#[test]
fn wide_states() {
    let case = Case::new("rnn_wide");
    let layer = RNN::new(3, 33).unwrap();
    case.load(&layer);
    let [x, h] = ["x", "h"].map(|n| case.input(n));
    let (y, hn) = layer.forward_with(&x, Some(&h)).unwrap();
    case.check(&layer, &[y, hn], &[("x", &x), ("h", &h)]);

    let case = Case::new("lstm_wide");
    let layer = LSTM::new(3, 33).unwrap();
    case.load(&layer);
    let x = case.input("x");
    let (y, (hn, cn)) = layer.forward_with(&x, None).unwrap();
    case.check(&layer, &[y, hn, cn], &[("x", &x)]);

    let case = Case::new("gru_unbatched");
    let layer = GRU::new(3, 33).unwrap();
    case.load(&layer);
    let [x, h] = ["x", "h"].map(|n| case.input(n));
    let (y, hn) = layer.forward_with(&x, Some(&h)).unwrap();
    case.check(&layer, &[y, hn], &[("x", &x), ("h", &h)]);
}

#[test]
fn dropout_draws_as_pytorch() {
    LocalGenerator::new(0).scope(|| {
        let case = Case::new("lstm_dropout");
        let layer = LSTM::builder(3, 4)
            .num_layers(3)
            .dropout(0.4)
            .build()
            .unwrap();
        case.load(&layer);
        let x = case.input("x");
        manual_seed(3);
        let (y, (hn, cn)) = layer.forward_with(&x, None).unwrap();
        case.check(&layer, &[y, hn, cn], &[("x", &x)]);
        layer.eval();
        let first = layer.forward(&x).unwrap();
        assert_eq!(first, layer.forward(&x).unwrap());

        let case = Case::new("gru_dropout");
        let layer = GRU::builder(3, 4)
            .num_layers(2)
            .dropout(0.4)
            .batch_first(true)
            .build()
            .unwrap();
        case.load(&layer);
        let x = case.input("x");
        let packed = pack_padded_sequence_with(&x, vec![5, 3], sorted(true)).unwrap();
        manual_seed(4);
        let (y, hn) = layer.forward_packed(&packed, None).unwrap();
        case.check(&layer, &[y.data, hn], &[("x", &x)]);
    })
}

#[test]
fn cells() {
    let case = Case::new("lstm_cell");
    let cell = LSTMCell::new(3, 4).unwrap();
    case.load(&cell);
    let [x, h, c] = ["x", "h", "c"].map(|n| case.input(n));
    let (h1, c1) = cell.forward_with(&x, Some((&h, &c))).unwrap();
    case.check(&cell, &[h1, c1], &[("x", &x), ("h", &h), ("c", &c)]);
    let unbatched = cell.forward(&x.select(0, 1).unwrap()).unwrap();
    let batched = cell.forward(&x).unwrap().select(0, 1).unwrap();
    assert!(unbatched.allclose(&batched).unwrap());

    // A cell is one step of its layer.
    let (layer, cell) = (GRU::new(3, 4).unwrap(), GRUCell::new(3, 4).unwrap());
    for (from, to) in layer.parameters().iter().zip(cell.parameters()) {
        torsh_tensor::no_grad(|| to.copy_(from)).unwrap();
    }
    let y = layer.forward(&x.unsqueeze(0).unwrap()).unwrap();
    assert!(
        y.squeeze(0)
            .unwrap()
            .allclose(&cell.forward(&x).unwrap())
            .unwrap()
    );
    let repr = RNNCell::builder(3, 4)
        .bias(false)
        .nonlinearity(RNNNonlinearity::ReLU)
        .build()
        .unwrap()
        .repr();
    assert_eq!(repr, "RNNCell(3, 4, bias=False, nonlinearity=relu)");
}

/// A state that depends on the input: each operand gets its own part of the gradient, once, at
/// both orders.
#[test]
fn second_derivatives_of_an_output_fed_back() {
    let cell = GRUCell::builder(2, 2).dtype(DType::F64).build().unwrap();
    let x =
        Tensor::from_slice(&[0.3, -0.2], [1, 2], DType::F64, torsh_tensor::Device::Cpu).unwrap();
    let f = |x: &[Tensor]| {
        let h = cell.forward_with(&x[0], None)?;
        Ok(vec![cell.forward_with(&h, Some(&h))?])
    };
    let x = [x.requires_grad_(true)];
    torsh_autograd::gradcheck(f, &x).unwrap();
    torsh_autograd::gradgradcheck(f, &x).unwrap();
}

#[test]
fn half_types_compute_in_float32() {
    LocalGenerator::new(0).scope(|| {
        manual_seed(1);
        let mut layer = LSTM::new(3, 4).unwrap();
        let x = torsh_tensor::randn(&[5, 2, 3]);
        let exact = layer.forward(&x).unwrap();
        layer.to_dtype(DType::BF16).unwrap();
        let y = layer.forward(&x.to_dtype(DType::BF16).unwrap()).unwrap();
        assert_eq!(y.dtype(), DType::BF16);
        y.sum().unwrap().backward().unwrap();
        let apart = y
            .to_dtype(DType::F32)
            .unwrap()
            .sub(&exact)
            .unwrap()
            .abs()
            .unwrap();
        assert!(apart.max().unwrap().item::<f32>().unwrap() < 0.02);
        assert!(layer.parameters().iter().all(|p| p.grad().is_some()));
    })
}

#[test]
fn weights_are_drawn_as_pytorch_draws_them() {
    LocalGenerator::new(0).scope(|| {
        manual_seed(11);
        let lstm = LSTM::builder(3, 4)
            .num_layers(2)
            .bidirectional(true)
            .proj_size(2)
            .build()
            .unwrap();
        same_start("init_lstm", &lstm);
        same_start("init_gru", &GRU::new(3, 4).unwrap());
        same_start("init_rnn", &RNN::builder(3, 4).bias(false).build().unwrap());
        same_start("init_cell", &GRUCell::new(3, 4).unwrap());
        let attention = MultiheadAttention::builder(4, 2);
        same_start(
            "init_mha",
            &attention.clone().add_bias_kv(true).build().unwrap(),
        );
        same_start("init_mha_kv", &attention.kdim(3).vdim(5).build().unwrap());
        let names: Vec<String> = lstm
            .named_parameters()
            .into_iter()
            .map(|(n, _)| n)
            .collect();
        assert_eq!(
            names[..6],
            [
                "weight_ih_l0",
                "weight_hh_l0",
                "bias_ih_l0",
                "bias_hh_l0",
                "weight_hr_l0",
                "weight_ih_l0_reverse"
            ]
        );
    })
}

fn message<T>(r: torsh_tensor::Result<T>) -> String {
    match r {
        Err(e) => e.to_string(),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let layer = LSTM::new(3, 4).unwrap();
    let zeros = |s: &[usize]| Tensor::zeros(s, DType::F32, torsh_tensor::Device::Cpu).unwrap();
    let text = message(layer.forward(&zeros(&[5, 2, 2])));
    assert!(
        text.contains("LSTM") && text.contains("Expected 3, got 2"),
        "{text}"
    );
    let text = message(layer.forward(&zeros(&[5])));
    assert!(text.contains("2D or 3D"), "{text}");
    let text = message(layer.forward(&zeros(&[5, 2, 3]).to_dtype(DType::F64).unwrap()));
    assert!(
        text.contains("float64") && text.contains("float32"),
        "{text}"
    );
    let (h, c) = (zeros(&[1, 2, 4]), zeros(&[1, 3, 4]));
    let text = message(layer.forward_with(&zeros(&[5, 2, 3]), Some((&h, &c))));
    assert!(
        text.contains("hidden[1]") && text.contains("[1, 2, 4]"),
        "{text}"
    );
    let text = message(layer.forward(&zeros(&[0, 2, 3])));
    assert!(text.contains("sequence length"), "{text}");
    assert!(message(LSTM::builder(3, 4).proj_size(4).build()).contains("proj_size"));
    assert!(message(GRU::builder(3, 4).dropout(1.5).build()).contains("dropout"));
    assert!(message(RNN::builder(3, 4).num_layers(0).build()).contains("num_layers"));
    let text = message(LSTMCell::new(3, 4).unwrap().forward(&zeros(&[2, 2])));
    assert!(
        text.contains("LSTMCell") && text.contains("got 2 expected 3"),
        "{text}"
    );

    let padded = tensor![[1, 3], [2, 0]];
    let text = message(pack_padded_sequence(&padded, [1, 2]));
    assert!(text.contains("sorted in decreasing order"), "{text}");
    assert!(message(pack_padded_sequence(&padded, [2])).contains("len(lengths)"));
    assert!(message(pack_padded_sequence(&padded, [2, 0])).contains("greater than 0"));
    assert!(message(pack_padded_sequence(&padded, [3, 1])).contains("length 3"));
    assert!(message(pad_sequence(&[])).contains("pad_sequence"));
    assert!(message(unpad_sequence(&padded, [2, 3])).contains("unpad_sequence"));
}

#[test]
fn packing_and_padding() {
    let sequences = [tensor![4.0, 5.0], tensor![1.0, 2.0, 3.0], tensor![6.0]];
    let options = PackSequenceOptions::new().enforce_sorted(false);
    let packed = pack_sequence_with(&sequences, options).unwrap();
    assert_eq!(packed.data, tensor![1.0, 4.0, 6.0, 2.0, 5.0, 3.0]);
    // These and lengths are on the CPU, wherever the data is.
    assert_eq!(packed.batch_sizes.to_vec::<i64>().unwrap(), [3, 2, 1]);
    assert_eq!(packed.sorted_indices, Some(tensor![1, 0, 2]));
    assert_eq!(packed.unsorted_indices, Some(tensor![1, 0, 2]));
    let options = PadPackedSequenceOptions::new()
        .batch_first(true)
        .padding_value(-1.0)
        .total_length(4);
    let (padded, lengths) = pad_packed_sequence_with(&packed, options).unwrap();
    let expected = tensor![
        [4.0, 5.0, -1.0, -1.0],
        [1.0, 2.0, 3.0, -1.0],
        [6.0, -1.0, -1.0, -1.0]
    ];
    assert_eq!(padded, expected);
    assert_eq!(lengths.to_vec::<i64>().unwrap(), [2, 3, 1]);
    assert_eq!(unpack_sequence(&packed).unwrap(), sequences);
    let short = PadPackedSequenceOptions::new().total_length(2);
    assert!(message(pad_packed_sequence_with(&packed, short)).contains("total_length=2"));
    let left = PadSequenceOptions::new().padding_side(PaddingSide::Left);
    let padded = pad_sequence_with(&sequences, left).unwrap();
    assert_eq!(
        padded,
        tensor![[0.0, 1.0, 0.0], [4.0, 2.0, 0.0], [5.0, 3.0, 6.0]]
    );

    let x = tensor![[1.0, 3.0], [2.0, 0.0]].requires_grad_(true);
    let packed = pack_padded_sequence(&x, &tensor![2, 1]).unwrap();
    let (back, _) = pad_packed_sequence(&packed).unwrap();
    back.mul(&back).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![[2.0, 6.0], [4.0, 0.0]]));
}
