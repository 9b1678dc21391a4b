use torsh_nn::ModuleExt;
use torsh_tensor::{Tensor, tensor};

use super::*;
use crate::config::PretrainedConfig;
use crate::models::TokenInputs;

fn small() -> BertConfig {
    BertConfig {
        hidden_size: 8,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 16,
        vocab_size: 20,
        max_position_embeddings: 6,
        ..Default::default()
    }
}

#[test]
fn a_head_that_a_file_lacks_is_drawn_where_it_is_asked_for() -> Result<()> {
    use torsh_hub::{FromPretrained, PretrainedOptions};
    let folder = std::env::temp_dir().join(format!("torsh-text-head-{}", std::process::id()));
    let source = folder.display().to_string();
    let of_masks = BertForMaskedLM::new(small())?;
    of_masks.save_model(&folder)?;
    let error = BertForSequenceClassification::from_pretrained(&source).err();
    let error = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("classifier.weight"), "{error}");
    let options = PretrainedOptions::new().new_head(true);
    let classifier = BertForSequenceClassification::from_pretrained_with(&source, options)?;
    let (own, file) = (classifier.state_dict(), of_masks.state_dict());
    let name = "bert.encoder.layer.1.output.dense.weight";
    assert_eq!(own[name], file[name]);
    let drawn = own["classifier.weight"].std()?.item::<f64>()?;
    assert!(drawn > 0.005 && drawn < 0.05, "{drawn}");
    // Below the head nothing may be missing.
    let mut state = file.clone();
    state.remove(name);
    assert!(
        classifier
            .load_state_dict(&classifier.adapt_state_dict(state)?)
            .is_err()
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn rows_without_padding_are_the_same() -> Result<()> {
    let model = BertModel::new(small())?;
    model.eval();
    let ids = tensor![
        [2, 5, 6, 3],
        [2, 7, 3, 0],
        [0, 0, 8, 3],
        [2, 4, 3, 0],
        [0, 0, 0, 0]
    ];
    let mask = tensor![
        [1, 1, 1, 1],
        [1, 1, 1, 0],
        [0, 0, 1, 1],
        [1, 1, 1, 0],
        [0, 0, 0, 0]
    ];
    let parts = tensor![
        [0, 0, 1, 1],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0]
    ];
    let inputs = TokenInputs::new(&ids)
        .attention_mask(&mask)
        .token_type_ids(&parts);
    let rows = mask.unsqueeze(-1)?;
    let all = model.forward_with(inputs)?.last_hidden_state.mul(&rows)?;
    let few = model
        .forward_with(inputs.skip_padding(true))?
        .last_hidden_state;
    // The text without any token has no defined result in the padded batch.
    let (all, few) = (all.narrow(0, 0, 4)?, few.narrow(0, 0, 4)?);
    assert!(all.sub(&few)?.abs()?.max()?.item::<f32>()? < 1e-5);
    few.square()?.sum()?.backward()?;
    assert!(model.parameters().iter().any(|p| p.has_grad()));
    Ok(())
}

#[test]
fn what_does_not_fit_is_named() -> Result<()> {
    let error = |made: Result<Tensor>| made.err().map(|e| e.to_string()).unwrap_or_default();
    let model = BertModel::new(small())?;
    let run = |ids: Tensor| model.forward(&ids);
    assert!(
        error(run(tensor![[1, 2, 3, 4, 5, 6, 7]])).contains("7 tokens for a model of 6 positions")
    );
    assert!(error(run(tensor![1, 2])).contains("[batch, length]"));
    assert!(error(run(tensor![[1, 20]])).contains("20"));
    let odd = BertConfig {
        num_attention_heads: 3,
        ..small()
    };
    assert!(
        error(BertModel::new(odd).map(|_| tensor![0])).contains("3 attention heads do not divide")
    );
    let three = BertConfig {
        num_labels: 3,
        ..small()
    };
    assert!(
        error(BertForQuestionAnswering::new(three).map(|_| tensor![0])).contains("num_labels = 3")
    );
    let decoder = BertConfig::from_json(serde_json::json!({ "is_decoder": true }));
    assert!(decoder.is_err_and(|e| e.to_string().contains("is_decoder")));
    Ok(())
}

#[test]
fn configurations_of_older_files_are_read() -> Result<()> {
    let config = BertConfig::from_json(serde_json::json!({
        "_name_or_path": "x", "architectures": ["BertModel"], "gradient_checkpointing": false,
        "id2label": { "0": "a", "1": "b", "2": "c" }, "position_embedding_type": "absolute", "pruned_heads": {},
        "hidden_dropout_prob": 0, "classifier_dropout": null, "model_type": "bert",
    }))?;
    assert_eq!((config.num_labels, spec(&config)?.head_dropout), (3, 0.0));
    Ok(())
}
