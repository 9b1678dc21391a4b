//! Arguments that are strings in PyTorch are strings here too, beside the enums; a string that is none is refused by the
//! function that gets it.

use torsh_tensor::fft::{self, FftOptions};
use torsh_tensor::{
    Conv1dOptions, EmbeddingBagOptions, InterpolateOptions, KlDivOptions, LossOptions,
    NllLossOptions, NormOptions, Padding, QuantileOptions, Reduction, Result, SearchsortedOptions,
    Tensor, tensor,
};

/// The first lines of the error.
fn refused<T>(result: Result<T>) -> String {
    let text = result.err().expect("an error").to_string();
    text.split("\n  at ").next().unwrap_or_default().to_string()
}

#[test]
fn reductions() -> Result<()> {
    let (x, y) = (tensor![1.0, 2.0], tensor![1.0, 5.0]);
    let loss = |word: &str| x.mse_loss_with(&y, LossOptions::new().reduction(word));
    assert_eq!(loss("none")?, tensor![0.0, 9.0]);
    assert_eq!(loss("sum")?, tensor![9.0].sum()?);
    assert_eq!(loss("mean")?, tensor![4.5].sum()?);
    assert_eq!(
        loss("none")?,
        x.mse_loss_with(&y, LossOptions::new().reduction(Reduction::None))?
    );
    let text = refused(loss(&"\u{e9}".repeat(100)));
    assert_eq!(text.matches('\u{e9}').count(), 64, "{text}");
    let text = refused(loss("man"));
    assert_eq!(
        text,
        "mse_loss: man is not a valid value for reduction\n  hint: reduction is \"none\", \"mean\" or \"sum\""
    );
    assert!(refused(loss("batchmean")).contains("batchmean is not a valid value"));
    let (p, q) = (tensor![[0.5f32.ln(), 0.5f32.ln()]], tensor![[1.0, 0.0]]);
    let both = p.kl_div_with(&q, KlDivOptions::new().reduction("batchmean"))?;
    assert!((both.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    let text = refused(p.kl_div_with(&q, KlDivOptions::new().reduction("batch")));
    assert!(text.contains("\"sum\" or \"batchmean\""), "{text}");
    let classes = NllLossOptions::new().reduction("sum");
    let sum = tensor![[-1.0, -2.0], [-3.0, -4.0]].nll_loss_with(&tensor![0, 1], classes)?;
    assert_eq!(sum.item::<f32>()?, 5.0);
    Ok(())
}

#[test]
fn norms() -> Result<()> {
    let x = tensor![3.0, -4.0];
    let of = |word: &str| x.norm_with(NormOptions::new().p(word))?.item::<f32>();
    assert_eq!((of("fro")?, of("inf")?, of("-inf")?), (5.0, 4.0, 3.0));
    // torsh-linalg computes it.
    let text = refused(of("nuc"));
    assert!(
        text.contains("of matrices, over two dimensions, not 1"),
        "{text}"
    );
    let text = refused(tensor![[3.0, 0.0], [0.0, 4.0]].norm_with(NormOptions::new().p("nuc")));
    assert!(text.contains("use torsh_linalg as _;"), "{text}");
    let text = refused(of("nuclear"));
    assert!(
        text.starts_with("norm: nuclear is not a valid value for p"),
        "{text}"
    );
    assert!(
        text.contains("p is \"fro\", \"nuc\", \"inf\" or \"-inf\""),
        "{text}"
    );
    Ok(())
}

#[test]
fn norms_of_transforms() -> Result<()> {
    let x = tensor![1.0, 0.0, 0.0, 0.0];
    let of = |word: &str| fft::fft_with(&x, FftOptions::new().norm(word));
    for (word, value) in [("backward", 1.0), ("ortho", 0.5), ("forward", 0.25)] {
        assert_eq!(of(word)?.abs()?, tensor![value, value, value, value]);
    }
    let text = refused(of("forwards"));
    assert!(
        text.starts_with("fft.fft: forwards is not a valid value for norm"),
        "{text}"
    );
    assert!(
        text.ends_with("norm is \"backward\", \"ortho\" or \"forward\""),
        "{text}"
    );
    Ok(())
}

#[test]
fn interpolations() -> Result<()> {
    let x = tensor![[[0.0, 2.0]]];
    let options = InterpolateOptions::new().size(4).mode("linear");
    let want = tensor![[[0.0, 0.5, 1.5, 2.0]]];
    assert_eq!(x.interpolate_with(options)?, want);
    let options = InterpolateOptions::new().size(4).mode("linea");
    let text = refused(x.interpolate_with(options));
    assert!(
        text.contains("linea is not a valid value for mode"),
        "{text}"
    );
    assert!(text.contains("\"nearest-exact\""), "{text}");

    let x = tensor![1.0, 2.0, 4.0];
    let of = |word: &str| {
        let options = QuantileOptions::new().interpolation(word);
        x.quantile_with(0.25, options)?.item::<f32>()
    };
    assert_eq!(
        (of("lower")?, of("higher")?, of("midpoint")?),
        (1.0, 2.0, 1.5)
    );
    assert!(refused(of("middle")).contains("\"midpoint\" or \"nearest\""));
    Ok(())
}

#[test]
fn paddings() -> Result<()> {
    let (x, w) = (tensor![[[1.0, 2.0, 3.0]]], tensor![[[1.0, 1.0, 1.0]]]);
    let of = |padding: Padding<1>| x.conv1d_with(&w, None, Conv1dOptions::new().padding(padding));
    assert_eq!(of("same".into())?, tensor![[[3.0, 6.0, 5.0]]]);
    assert_eq!(of("valid".into())?, tensor![[[6.0]]]);
    let text = refused(of("full".into()));
    assert!(
        text.contains("full is not a valid value for padding"),
        "{text}"
    );
    assert!(text.contains("padding is \"same\" or \"valid\""), "{text}");
    Ok(())
}

#[test]
fn bags_and_sides() -> Result<()> {
    let table = tensor![[1.0], [10.0], [100.0]];
    let bag = |word: &str| {
        let options = EmbeddingBagOptions::new().mode(word);
        table.embedding_bag_with(&tensor![[0, 2]], options)
    };
    assert_eq!(bag("sum")?, tensor![[101.0]]);
    assert_eq!(bag("mean")?, tensor![[50.5]]);
    assert_eq!(bag("max")?, tensor![[100.0]]);
    assert!(refused(bag("min")).contains("mode is \"sum\", \"mean\" or \"max\""));

    let sorted = tensor![1, 2, 2, 3];
    let at =
        |options: SearchsortedOptions| -> Result<Tensor> { sorted.searchsorted_with(2, options) };
    assert_eq!(
        at(SearchsortedOptions::new().side("left"))?.item::<i64>()?,
        1
    );
    assert_eq!(
        at(SearchsortedOptions::new().side("right"))?.item::<i64>()?,
        3
    );
    let text = refused(at(SearchsortedOptions::new().side("left").right(true)));
    assert!(text.contains("opposites"), "{text}");
    let text = refused(at(SearchsortedOptions::new().side("middle")));
    assert!(text.contains("side is \"left\" or \"right\""), "{text}");
    Ok(())
}
