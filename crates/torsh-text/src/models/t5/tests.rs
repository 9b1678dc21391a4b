use torsh_hub::FromPretrained;
use torsh_nn::ModuleExt;
use torsh_tensor::ones;

use super::*;
use crate::blocks::Activation;

#[test]
fn a_head_that_differs_from_the_embedding_is_loaded_beside_it() -> Result<()> {
    let model = || {
        T5ForConditionalGeneration::new(T5Config {
            d_model: 4,
            d_kv: 2,
            d_ff: 8,
            num_layers: 1,
            num_heads: 2,
            vocab_size: 5,
            tie_word_embeddings: Some(false),
            ..Default::default()
        })
    };
    let mut file = model()?.state_dict();
    let tied = model()?;
    tied.load_state_dict(&tied.adapt_state_dict(file.clone())?)?;
    assert_eq!(tied.state_dict()["lm_head.weight"], file["shared.weight"]);

    file.insert("lm_head.weight", ones([5, 4]));
    let mut own = model()?;
    own.assign_state_dict(&own.adapt_state_dict(file.clone())?)?;
    assert_eq!(own.state_dict()["lm_head.weight"], ones([5, 4]));
    assert_eq!(own.state_dict()["shared.weight"], file["shared.weight"]);
    Ok(())
}

#[test]
fn activations_are_told_by_their_names() -> Result<()> {
    let of = |name: &str| {
        let feed_forward_proj = name.to_string();
        T5Config {
            feed_forward_proj,
            ..Default::default()
        }
        .activation()
    };
    assert_eq!(of("relu")?, (Activation::Relu, false));
    assert_eq!(of("gated-gelu")?, (Activation::GeluTanh, true));
    assert_eq!(of("gated-silu")?, (Activation::Silu, true));
    let error = of("gated-rellu").err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("gated-rellu")));
    Ok(())
}
