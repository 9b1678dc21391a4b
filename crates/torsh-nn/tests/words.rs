//! Arguments of layers that are strings in PyTorch are strings here too, beside the enums.

use torsh_nn::{
    Conv1d, EmbeddingBag, GELU, Module, ModuleExt, PaddingMode, RNN, RNNCell,
    TransformerEncoderLayer, Upsample, init, utils,
};
use torsh_tensor::{Result, ones, tensor, zeros};

/// The error's text.
fn refused<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn words_stand_for_variants() -> Result<()> {
    let conv = |mode: PaddingMode| -> Result<_> {
        let conv = Conv1d::builder(1, 1, 2).padding(1).padding_mode(mode);
        let conv = conv.bias(false).build()?;
        init::ones_(&conv.weight)?;
        conv.forward(&tensor![[1.0, 2.0]])
    };
    assert_eq!(conv("zeros".into())?, tensor![[1.0, 3.0, 2.0]]);
    assert_eq!(conv("replicate".into())?, tensor![[2.0, 3.0, 4.0]]);
    assert_eq!(conv("circular".into())?, tensor![[3.0, 3.0, 3.0]]);
    let same = Conv1d::builder(1, 1, 3).padding("same").build()?;
    assert_eq!(same.forward(&zeros(&[1, 1, 5]))?.dims(), [1, 1, 5]);

    let x = tensor![1.0];
    let tanh = GELU::approximate("tanh");
    assert!(tanh.forward(&x)?.allclose(&tensor![0.8411920])?);
    assert_eq!(tanh.repr(), "GELU(approximate='tanh')");

    let bag = EmbeddingBag::from_pretrained(tensor![[1.0], [10.0]])
        .mode("sum")
        .build()?;
    assert_eq!(bag.forward(&tensor![[0, 1]])?, tensor![[11.0]]);
    assert_eq!(bag.repr(), "EmbeddingBag(2, 1, mode='sum')");

    let cell = RNNCell::builder(1, 1)
        .bias(false)
        .nonlinearity("relu")
        .build()?;
    for p in cell.parameters() {
        init::ones_(&p)?;
    }
    assert_eq!(cell.forward_with(&tensor![[3.0]], None)?, tensor![[3.0]]);

    let up = Upsample::builder().scale_factor(2.0).mode("bilinear");
    assert_eq!(
        up.build()?.forward(&ones(&[1, 1, 2, 2]))?.dims(),
        [1, 1, 4, 4]
    );

    let w = zeros(&[64, 4]);
    let options = init::KaimingOptions::default()
        .mode("fan_out")
        .nonlinearity("relu");
    init::kaiming_uniform_with(&w, options)?;
    let bound = (6f32 / 64.0).sqrt();
    assert!(w.abs()?.max()?.item::<f32>()? <= bound);

    let options = utils::rnn::PadSequenceOptions::new()
        .batch_first(true)
        .padding_side("left");
    let padded = utils::rnn::pad_sequence_with(&[tensor![1, 2], tensor![3]], options)?;
    assert_eq!(padded, tensor![[1, 2], [0, 3]]);
    Ok(())
}

#[test]
fn other_words_are_refused() {
    let text = refused(Conv1d::builder(1, 1, 2).padding_mode("mirror").build());
    let listed = "padding_mode is \"zeros\", \"reflect\", \"replicate\" or \"circular\"";
    assert!(
        text.starts_with("Conv1d: mirror is not a valid value for padding_mode"),
        "{text}"
    );
    assert!(text.contains(listed), "{text}");
    let text = refused(Conv1d::builder(1, 1, 2).padding("full").build());
    assert!(text.contains("padding is \"same\" or \"valid\""), "{text}");
    let text = refused(RNN::builder(1, 1).nonlinearity("sin").build());
    assert!(
        text.contains("nonlinearity is \"tanh\" or \"relu\""),
        "{text}"
    );
    let text = refused(GELU::approximate("exact").forward(&tensor![1.0]));
    assert!(
        text.contains("none or tanh") || text.contains("tanh"),
        "{text}"
    );
    let layer = TransformerEncoderLayer::builder(4, 2)
        .dim_feedforward(8)
        .activation("silu");
    let text = refused(layer.build().and_then(|l| l.forward(&zeros(&[2, 4]))));
    assert!(
        text.contains("activation is \"relu\" or \"gelu\""),
        "{text}"
    );
    let options = init::KaimingOptions::default().mode("fan");
    let text = refused(init::kaiming_normal_with(&zeros(&[2, 2]), options));
    assert!(text.contains("mode is \"fan_in\" or \"fan_out\""), "{text}");
    let options = init::KaimingOptions::default().nonlinearity("swish");
    let text = refused(init::kaiming_normal_with(&zeros(&[2, 2]), options));
    assert!(
        text.contains("swish is not a valid value for nonlinearity"),
        "{text}"
    );
}
