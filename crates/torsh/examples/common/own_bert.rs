//! A small BERT that has read nothing but the novel: its tokenizer, and its training as a masked language model (Devlin et
//! al., 2018).
#![allow(dead_code)]

use std::time::Instant;

use torsh::Generator;
use torsh::prelude::*;
use torsh::text::data::{IGNORED, MaskedTokens, MaskingOptions, mask_tokens};
use torsh::text::models::{BertConfig, BertForMaskedLM, TokenInputs};
use torsh::text::tokenizers::{EncodeOptions, Encoding, Tokenizer, TokenizerModel, TrainOptions};

use crate::common;

/// Tokens of a piece of text, `[CLS]` and `[SEP]` among them.
pub const LENGTH: usize = 64;

/// How it is trained.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub steps: usize,
    pub batch_size: usize,
    pub vocab_size: usize,
    pub lr: f64,
}

/// What came of it.
pub struct OwnBert {
    pub tokenizer: Tokenizer,
    pub model: BertForMaskedLM,
    /// The entropy of the tokens' frequencies, in nats: the loss of whoever knows them, and not what stands around a token.
    pub entropy: f64,
    /// Step, loss since the one before, held-out loss.
    pub curve: Vec<[f64; 3]>,
}

/// Trains tokenizer and model. The last twentieth of the paragraphs is held out.
pub fn train(paragraphs: &[String], settings: Settings) -> Result<OwnBert> {
    let (own, held_out) = paragraphs.split_at(paragraphs.len() * 19 / 20);
    let start = Instant::now();
    let options = TrainOptions::new(TokenizerModel::WordPiece).vocab_size(settings.vocab_size);
    let tokenizer = Tokenizer::train(own, &options)?;
    let pieces = pieces(own, &tokenizer)?;
    let held_out = self::pieces(held_out, &tokenizer)?;
    let (tokens, entropy) = unigrams(&pieces, tokenizer.len());
    let words: usize = own.iter().map(|p| p.split(' ').count()).sum();
    println!(
        "WordPiece: {} tokens, {:.2} for each of {words} words ({:.1} s)",
        tokenizer.len(),
        tokens as f64 / words as f64,
        start.elapsed().as_secs_f64()
    );
    let config = BertConfig {
        vocab_size: tokenizer.len(),
        hidden_size: 128,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 512,
        max_position_embeddings: LENGTH,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        ..Default::default()
    };
    let model = BertForMaskedLM::new(config)?;
    println!(
        "BERT: {} parameters, {tokens} tokens to learn from, {} held out",
        model.num_parameters(),
        held_out.len() * (LENGTH - 2)
    );
    let curve = learn(&model, &tokenizer, &pieces, &held_out, settings)?;
    model.eval();
    Ok(OwnBert {
        tokenizer,
        model,
        entropy,
        curve,
    })
}

/// Pieces of one length, in which the paragraphs stand one behind the other.
fn pieces(paragraphs: &[String], tokenizer: &Tokenizer) -> Result<Vec<Encoding>> {
    let options = EncodeOptions::new()
        .truncation(true)
        .max_length(LENGTH)
        .return_overflowing_tokens(true);
    let (all, _) = tokenizer
        .encode_batch(&[paragraphs.join(" ")], &options)?
        .with_overflowing();
    let all = all.into_iter().filter(|piece| piece.len() == LENGTH);
    Ok(all.collect())
}

/// How many tokens there are, and the entropy of their frequencies.
fn unigrams(pieces: &[Encoding], vocab_size: usize) -> (usize, f64) {
    let mut counts = vec![0usize; vocab_size];
    for piece in pieces {
        for (id, special) in piece.ids.iter().zip(&piece.special_tokens_mask) {
            counts[*id as usize] += usize::from(*special == 0);
        }
    }
    let all: usize = counts.iter().sum();
    let shares = counts.iter().filter(|n| **n > 0);
    let shares = shares.map(|n| *n as f64 / all as f64);
    (all, shares.map(|p| -p * p.ln()).sum())
}

/// The loss of the hidden tokens. Logits are computed of these alone.
fn loss(model: &BertForMaskedLM, batch: &MaskedTokens) -> Result<Tensor> {
    let tokens = model
        .bert
        .forward_with(TokenInputs::new(&batch.input_ids))?;
    let hidden = batch.labels.ne(IGNORED)?;
    let logits = model.cls.forward(&tokens.last_hidden_state.i(&hidden)?)?;
    F::cross_entropy(&logits, &batch.labels.i(&hidden)?)
}

/// The mean loss over all pieces, of which always the same tokens are hidden.
fn test(model: &BertForMaskedLM, tokenizer: &Tokenizer, pieces: &[Encoding]) -> Result<f64> {
    model.eval();
    let options = MaskingOptions::new().generator(Generator::new(1));
    let (mut sum, mut seen) = (0.0, 0);
    for part in pieces.chunks(64) {
        let batch = mask_tokens(part, tokenizer, &options)?;
        let n = batch.labels.ne(IGNORED)?.count_nonzero()?.item::<i64>()?;
        sum += n as f64 * no_grad(|| loss(model, &batch))?.item::<f64>()?;
        seen += n;
    }
    Ok(sum / seen as f64)
}

fn learn(
    model: &BertForMaskedLM,
    tokenizer: &Tokenizer,
    pieces: &[Encoding],
    held_out: &[Encoding],
    settings: Settings,
) -> Result<Vec<[f64; 3]>> {
    let Settings { steps, lr, .. } = settings;
    let optimizer = AdamW::builder(model.parameters())
        .lr(lr)
        .betas(0.9, 0.98)
        .build()?;
    let schedule = WarmupCosine::new(&optimizer, steps / 10, steps, lr / 50.0)?;
    let masking = MaskingOptions::new().mlm_probability(0.3);
    let bar = common::progress(steps);
    let every = steps.div_ceil(10);
    let mut curve: Vec<[f64; 3]> = Vec::new();
    let mut losses = Vec::new();
    for step in 1..=steps {
        model.train();
        let chosen = randint(0, pieces.len() as i64, &[settings.batch_size]).to_vec::<i64>()?;
        let chosen: Vec<Encoding> = chosen.iter().map(|i| pieces[*i as usize].clone()).collect();
        optimizer.zero_grad();
        let loss = loss(model, &mask_tokens(&chosen, tokenizer, &masking)?)?;
        loss.backward()?;
        clip_grad_norm_(model.parameters(), 1.0)?;
        optimizer.step()?;
        schedule.step()?;
        let value = loss.item::<f64>()?;
        if !value.is_finite() {
            return Err(TorshError::Other(format!(
                "the loss became {value} in step {step}: try a smaller --lr"
            )));
        }
        losses.push(value);
        bar.set_message(format!("loss {value:.3}"));
        bar.inc(1);
        if step % every == 0 || step == steps {
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            losses.clear();
            let score = test(model, tokenizer, held_out)?;
            curve.push([step as f64, mean, score]);
            bar.suspend(|| println!("  step {step:5}: loss {mean:.3}, held out {score:.3}"));
        }
    }
    bar.finish_and_clear();
    Ok(curve)
}
