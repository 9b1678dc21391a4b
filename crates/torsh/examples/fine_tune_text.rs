//! Is a sentence of a novel dialogue or narration? Trains a linear layer on the vectors of a frozen BERT, then LoRA adapters in it.
//! The BERT is MiniLM where its weights are given, else one that the program trains on the novel itself.
//!
//! ```text
//! cargo run --release -p torsh --features text --example fine_tune_text
//! cargo run --release -p torsh --features text --example fine_tune_text -- --weights DIR
//! ```

#[path = "common/mod.rs"]
mod common;
#[path = "common/novel.rs"]
mod novel;
#[path = "common/own_bert.rs"]
mod own_bert;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use novel::{Sentence, Voice};
use own_bert::{OwnBert, Settings};
use torsh::hub::FromPretrained;
use torsh::prelude::*;
use torsh::text::adapters::{LoraConfig, LoraModel};
use torsh::text::data::{CollateOptions, collate_labeled};
use torsh::text::models::{BertForMaskedLM, BertModel, TokenInputs};
use torsh::text::sentence::Pooling;
use torsh::text::tokenizers::{EncodeOptions, Encoding, TokenTensors, Tokenizer};

/// Tell dialogue from narration in the Pride and Prejudice that comes with ToRSh.
#[derive(Parser, Debug)]
#[command(name = "fine_tune_text")]
struct Args {
    /// The folder of all-MiniLM-L6-v2, or one that has it as `minilm`
    #[arg(long, value_name = "DIR")]
    weights: Option<PathBuf>,
    /// Steps in which the own BERT is trained, where there are no weights
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(10..))]
    steps: u32,
    /// How often every sentence is seen in training adapters
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// The rank of adapters
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    rank: u32,
    /// The highest learning rate of adapters
    #[arg(long, default_value_t = 1e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the adapters go
    #[arg(long, value_name = "DIR", default_value = "target/fine_tune_text")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Sentences of each kind, and how many of them are held out.
const EACH: usize = 450;
const HELD_OUT: usize = 100;

/// A sentence as tokens, and whether it is dialogue.
type Item = (Encoding, i64);

/// A BERT, the mean of its tokens' vectors, and a linear layer on it.
#[derive(Module)]
struct Classifier {
    bert: BertModel,
    /// What is taken off the vectors, and what they are divided by.
    shift: Buffer,
    scale: Buffer,
    head: Linear,
}

impl Classifier {
    fn new(bert: BertModel) -> Classifier {
        let width = bert.config().hidden_size;
        Classifier {
            bert,
            shift: Buffer::new(zeros([width])),
            scale: Buffer::new(ones([width])),
            head: Linear::new(width, 2),
        }
    }

    /// The vectors of sentences, `[n, width]`.
    fn vectors(&self, tokens: &TokenTensors) -> Result<Tensor> {
        let inputs = TokenInputs::new(&tokens.input_ids)
            .attention_mask(&tokens.attention_mask)
            .skip_padding(true);
        let of_tokens = self.bert.forward_with(inputs)?.last_hidden_state;
        F::normalize(&Pooling::Mean.apply(&of_tokens, &tokens.attention_mask)?)
    }

    /// The scores of narration and dialogue, `[n, 2]`.
    fn scores(&self, tokens: &TokenTensors) -> Result<Tensor> {
        self.forward(&self.vectors(tokens)?)
    }
}

impl Module for Classifier {
    /// The scores of vectors.
    fn forward(&self, vectors: &Tensor) -> Result<Tensor> {
        self.head
            .forward(&vectors.sub(&*self.shift)?.div(&*self.scale)?)
    }
}

/// The same number of sentences of each kind: the first ones of the novel. A random part of them is held out.
fn data(sentences: Vec<Sentence>, tokenizer: &Tokenizer) -> Result<(Vec<Item>, Vec<Item>)> {
    let options = EncodeOptions::new()
        .truncation(true)
        .max_length(own_bert::LENGTH);
    let (mut train, mut held_out) = (Vec::new(), Vec::new());
    for (label, voice) in [Voice::Narration, Voice::Dialogue].into_iter().enumerate() {
        let right =
            |s: &&Sentence| s.voice == voice && (30..=200).contains(&s.text.chars().count());
        let texts = sentences.iter().filter(right).take(EACH);
        let texts: Vec<&str> = texts.map(|s| s.text.as_str()).collect();
        let encodings = tokenizer.encode_batch(&texts, &options)?.into_vec();
        let order =
            Tensor::randperm(encodings.len() as i64, DType::I64, Device::Cpu)?.to_vec::<i64>()?;
        for (n, i) in order.into_iter().enumerate() {
            let item = (encodings[i as usize].clone(), label as i64);
            match n < HELD_OUT {
                true => held_out.push(item),
                false => train.push(item),
            }
        }
    }
    Ok((train, held_out))
}

/// The vectors of all items, of a frozen model, and their labels.
fn embed(model: &Classifier, items: &[Item]) -> Result<(Tensor, Tensor)> {
    model.eval();
    let (mut vectors, mut labels) = (Vec::new(), Vec::new());
    for part in items.chunks(50) {
        let (tokens, of_part) = collate_labeled(part, &CollateOptions::new())?;
        vectors.push(no_grad(|| model.vectors(&tokens))?);
        labels.push(of_part);
    }
    Ok((cat(&vectors, 0)?, cat(&labels, 0)?))
}

/// The share of items that are told right.
fn accuracy(model: &Classifier, items: &[Item]) -> Result<f64> {
    let (vectors, labels) = embed(model, items)?;
    let found = no_grad(|| model.forward(&vectors))?.argmax_dim(1, false)?;
    found.eq(&labels)?.to_dtype(DType::F64)?.mean()?.item()
}

/// Trains the linear layer alone, on vectors that are computed once.
fn train_head(model: &Classifier, items: &[Item]) -> Result<()> {
    let (vectors, labels) = embed(model, items)?;
    no_grad(|| {
        model.shift.copy_(&vectors.mean_dim(0, false)?)?;
        model
            .scale
            .copy_(&vectors.std_dim(0, false)?.clamp_min(1e-6)?)
    })?;
    let optimizer = AdamW::builder(model.head.parameters())
        .lr(1e-3)
        .weight_decay(1.0)
        .build()?;
    for _ in 0..100 {
        optimizer.zero_grad();
        F::cross_entropy(&model.forward(&vectors)?, &labels)?.backward()?;
        optimizer.step()?;
    }
    Ok(())
}

/// Trains whatever has gradients.
fn train_adapters(model: &LoraModel<Classifier>, items: &[Item], args: &Args) -> Result<()> {
    let loader = DataLoader::builder(items.to_vec())
        .batch_size(25)
        .shuffle(true)
        .seed(args.seed)
        .collate_fn(|items| collate_labeled(&items, &CollateOptions::new()))
        .build()?;
    let trained = model.parameters().into_iter().filter(|p| p.requires_grad());
    let optimizer = AdamW::new(trained.collect::<Vec<_>>(), args.lr)?;
    let epochs = args.epochs as usize;
    let steps = epochs * items.len().div_ceil(25);
    let schedule = WarmupCosine::new(&optimizer, steps / 10, steps, args.lr / 50.0)?;
    let bar = common::progress(steps);
    model.train();
    for _ in 0..epochs {
        for batch in loader.try_iter() {
            let (tokens, labels) = batch?;
            optimizer.zero_grad();
            let loss = F::cross_entropy(&model.scores(&tokens)?, &labels)?;
            loss.backward()?;
            optimizer.step()?;
            schedule.step()?;
            bar.set_message(format!("loss {:.3}", loss.item::<f64>()?));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// MiniLM of a folder, or a BERT that is trained now.
fn base(args: &Args, paragraphs: &[String]) -> Result<(Tokenizer, BertModel)> {
    let Some(weights) = &args.weights else {
        let settings = Settings {
            steps: args.steps as usize,
            batch_size: 16,
            vocab_size: 2000,
            lr: 2e-3,
        };
        let OwnBert {
            tokenizer, model, ..
        } = own_bert::train(paragraphs, settings)?;
        let BertForMaskedLM { bert, .. } = model;
        return Ok((tokenizer, bert));
    };
    let folder = match weights.join("minilm") {
        inner if inner.is_dir() => inner,
        _ => weights.clone(),
    };
    let source = folder.display().to_string();
    let bert = BertModel::from_pretrained(&source)?;
    println!("BERT of {source}: {} parameters", bert.num_parameters());
    Ok((Tokenizer::from_pretrained(&source)?, bert))
}

fn report(what: &str, right: f64, trained: usize, all: usize, start: Instant) {
    println!(
        "  {what:34} {:5.1} % right, {trained} of {all} parameters trained: {:.3} % ({:.1} s)",
        100.0 * right,
        100.0 * trained as f64 / all as f64,
        start.elapsed().as_secs_f64()
    );
}

fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    manual_seed(args.seed);
    let paragraphs = novel::paragraphs(&novel::text()?);
    let (tokenizer, bert) = base(args, &paragraphs)?;
    manual_seed(args.seed);
    let (train, held_out) = data(novel::sentences(&paragraphs), &tokenizer)?;
    let dialogue = held_out.iter().filter(|(_, label)| *label == 1).count();
    let majority = dialogue.max(held_out.len() - dialogue) as f64 / held_out.len() as f64;
    println!(
        "\n{} sentences to train with, {} held out: dialogue or narration?\n  \
         always the more frequent kind:     {:5.1} % right",
        train.len(),
        held_out.len(),
        100.0 * majority
    );

    let start = Instant::now();
    let model = Classifier::new(bert);
    let all = model.num_parameters();
    train_head(&model, &train)?;
    let of_head = accuracy(&model, &held_out)?;
    report(
        "a linear layer on the frozen BERT:",
        of_head,
        model.head.num_parameters(),
        all,
        start,
    );

    // Adapters in attention; the linear layer goes on from where it is.
    let start = Instant::now();
    let config = LoraConfig::new()
        .r(args.rank as usize)
        .lora_alpha(2.0 * f64::from(args.rank))
        .lora_dropout(0.1)
        .target_modules(["query", "value"])
        .modules_to_save(["head"]);
    let model = LoraModel::new(model, config)?;
    let (trained, all) = model.trainable_parameters();
    train_adapters(&model, &train, args)?;
    model.eval();
    let of_adapters = accuracy(&model, &held_out)?;
    report(
        "LoRA adapters and that layer:",
        of_adapters,
        trained,
        all,
        start,
    );
    model.save_pretrained(&args.out)?;
    println!(
        "  adapters change that by {:+.1} percentage points",
        100.0 * (of_adapters - of_head)
    );
    println!(
        "wrote {}, as Python's peft stores adapters",
        args.out.join("adapter_model.safetensors").display()
    );

    // Merged, they cost nothing more, and the model is a BERT as before.
    let merged = model.merge_and_unload()?;
    let of_merged = accuracy(&merged, &held_out)?;
    println!("merged into the weights: {:.1} % right", 100.0 * of_merged);
    Ok(())
}
