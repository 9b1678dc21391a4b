//! Trains a tokenizer and a small BERT on a novel, fills gaps with it and finds similar sentences. With the weights of MiniLM,
//! it searches the novel by meaning.
//!
//! ```text
//! cargo run --release -p torsh --features text --example text_models_demo
//! cargo run --release -p torsh --features text --example text_models_demo -- --weights DIR
//! ```

#[path = "common/mod.rs"]
mod common;
#[path = "common/novel.rs"]
mod novel;
#[path = "common/own_bert.rs"]
mod own_bert;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use own_bert::{OwnBert, Settings};
use torsh::hub::FromPretrained;
use torsh::prelude::*;
use torsh::text::models::{BertConfig, BertModel};
use torsh::text::sentence::SentenceEmbedder;
use torsh::text::tokenizers::Tokenizer;
use torsh::train::plot::{Panel, Plot, Series};

/// Train a small BERT on the Pride and Prejudice that comes with ToRSh, and look at what it has learned. With --weights, search
/// the novel by meaning instead.
#[derive(Parser, Debug)]
#[command(name = "text_models_demo")]
struct Args {
    /// The folder of all-MiniLM-L6-v2, or one that has it as `minilm`
    #[arg(long, value_name = "DIR")]
    weights: Option<PathBuf>,
    /// What to search for, besides what is searched for anyway
    #[arg(long, value_name = "TEXT")]
    query: Vec<String>,
    /// Steps of training
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(10..))]
    steps: u32,
    /// Pieces of text per step
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// Tokens of the vocabulary
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=30000))]
    vocab_size: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 2e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the model and the curve go
    #[arg(long, value_name = "DIR", default_value = "target/text_models_demo")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    let paragraphs = novel::paragraphs(&novel::text()?);
    let sentences: Vec<String> = novel::sentences(&paragraphs)
        .into_iter()
        .map(|s| s.text)
        .filter(|s| (30..=200).contains(&s.chars().count()))
        .collect();
    match &args.weights {
        Some(weights) => search(weights, &sentences, &args.query),
        None => {
            std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
            manual_seed(args.seed);
            let own = train(args, &paragraphs)?;
            fill_gaps(&own)?;
            neighbours(&args.out, &sentences, &args.query)
        }
    }
}

/// Tokenizes and embeds a text with drawn weights, then trains its own.
fn train(args: &Args, paragraphs: &[String]) -> Result<OwnBert> {
    let own = own_bert::train(
        paragraphs,
        Settings {
            steps: args.steps as usize,
            batch_size: args.batch_size as usize,
            vocab_size: args.vocab_size as usize,
            lr: args.lr,
        },
    )?;
    let [_, _, score] = own.curve.last().copied().unwrap_or_default();
    println!(
        "unigram entropy {:.3}: what knowing the frequency of each token, and nothing of its neighbours, leads to\n\
         held-out loss   {score:.3}: {}",
        own.entropy,
        match own.entropy - score {
            less if less > 0.0 => format!("{less:.3} below it, so the neighbours tell something"),
            more => format!("{:.3} above it; try more --steps", -more),
        }
    );
    let curve = |i: usize| own.curve.iter().map(move |point| (point[0], point[i]));
    let ends = [own.curve.first(), own.curve.last()];
    let entropy = ends.into_iter().flatten().map(|p| (p[0], own.entropy));
    let panel = Panel::new("Loss per hidden token")
        .x_label("step")
        .series(Series::new("training", curve(1)))
        .series(Series::new("held out", curve(2)))
        .series(Series::new("unigram entropy", entropy).markers(false));
    let path = args.out.join("learning_curve.png");
    Plot::new().panel(panel).size(900, 520).save(&path)?;
    own.model.save_model(&args.out)?;
    own.tokenizer.save(args.out.join("tokenizer.json"))?;
    println!(
        "wrote {}, and the model beside it as Hugging Face's library reads it",
        path.display()
    );
    Ok(own)
}

/// What stands in the gap of a sentence?
fn fill_gaps(own: &OwnBert) -> Result<()> {
    let tokens = own.tokenizer.tokenize("Hello, world!")?;
    println!(
        "\n\"Hello, world!\" is {} tokens: {}",
        tokens.len(),
        tokens.join(" ")
    );
    let Some(mask) = own.tokenizer.mask_token_id() else {
        return Err(TorshError::Other("the tokenizer has no [MASK]".into()));
    };
    println!("likeliest words in gaps:");
    for text in [
        "My dear Mr. [MASK], said his lady to him, have you heard the news?",
        "She did not [MASK] what to say, and he was silent.",
        "I am very [MASK] obliged to you, my dear sister.",
    ] {
        let encoding = own.tokenizer.encode(text)?;
        let gap = encoding.ids.iter().position(|id| *id == mask).unwrap_or(0);
        let inputs = encoding.to_tensors()?;
        let logits = no_grad(|| own.model.forward(&inputs.input_ids))?;
        let (top, ids) = F::softmax(&logits.i((0, gap as i64))?, -1)?.topk(4)?;
        let ids = ids.to_vec::<i64>()?;
        let words = ids.iter().zip(top.to_vec::<f64>()?).map(|(id, p)| {
            let word = own.tokenizer.id_to_token(*id as u32).unwrap_or_default();
            format!("{word} {:.0} %", 100.0 * p)
        });
        println!("  {text}\n    {}", words.collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// The sentences whose vectors have the greatest cosines with each query's, vectors of length 1.
fn nearest(
    queries: &[String],
    of_queries: &Tensor,
    sentences: &[String],
    vectors: &Tensor,
) -> Result<()> {
    let cosines = of_queries.matmul(&vectors.t()?)?;
    let (top, found) = cosines.topk(3)?;
    let (top, found) = (top.to_vec2::<f64>()?, found.to_vec2::<i64>()?);
    for (i, query) in queries.iter().enumerate() {
        println!("  {query}");
        for (cosine, at) in top[i].iter().zip(&found[i]) {
            println!("    {cosine:.2}  {}", sentences[*at as usize]);
        }
    }
    Ok(())
}

/// Similar sentences by the vectors of the own model.
fn neighbours(folder: &Path, sentences: &[String], more: &[String]) -> Result<()> {
    let embedder = SentenceEmbedder::from_pretrained(&folder.display().to_string())?;
    let queries = [
        "She danced with him twice at the ball.",
        "Mr. Collins wrote a long letter.",
        "How can you be so tiresome, my dear?",
    ];
    let queries: Vec<String> = queries
        .iter()
        .map(|q| q.to_string())
        .chain(more.iter().cloned())
        .collect();
    let vectors = embedder.encode(sentences)?;
    // All sentences have something in common, which tells nothing: their mean.
    let mean = vectors.mean_dim(0, true)?;
    let centred = |x: &Tensor| F::normalize(&x.sub(&mean)?);
    println!(
        "\nnearest of {} sentences, by vectors of {} numbers:",
        sentences.len(),
        embedder.dimension()
    );
    nearest(
        &queries,
        &centred(&embedder.encode(&queries)?)?,
        sentences,
        &centred(&vectors)?,
    )
}

/// Searches the novel by MiniLM.
fn search(weights: &Path, sentences: &[String], more: &[String]) -> Result<()> {
    let folder = match weights.join("minilm") {
        inner if inner.is_dir() => inner,
        _ => weights.to_path_buf(),
    };
    let source = folder.display().to_string();
    // What the embedder does in one call, step by step: a tokenizer and a model of the folder.
    let tokenizer = Tokenizer::from_pretrained(&source)?;
    let tokens = tokenizer.tokenize("Hello, world!")?;
    println!(
        "\"Hello, world!\" is {} tokens: {}",
        tokens.len(),
        tokens.join(" ")
    );
    let model = BertModel::from_pretrained(&source)?;
    let BertConfig {
        num_hidden_layers,
        hidden_size,
        ..
    } = model.config();
    println!(
        "BERT of {}: {num_hidden_layers} layers of width {hidden_size}, {} parameters",
        folder.display(),
        model.num_parameters()
    );
    drop(model);

    let embedder = SentenceEmbedder::from_pretrained(&source)?;
    let start = Instant::now();
    let vectors = embedder.encode(sentences)?;
    let time = start.elapsed().as_secs_f64();
    println!(
        "{} sentences of the novel as vectors of {} numbers in {time:.1} s: {:.0} a second\n",
        sentences.len(),
        embedder.dimension(),
        sentences.len() as f64 / time
    );
    let queries = [
        "A man asks a woman to marry him, and she refuses.",
        "They dance at a ball.",
        "A letter brings terrible news about a sister.",
        "Walking through mud and dirt",
        "He is rich, proud and disagreeable.",
    ];
    let queries: Vec<String> = queries
        .iter()
        .map(|q| q.to_string())
        .chain(more.iter().cloned())
        .collect();
    nearest(&queries, &embedder.encode(&queries)?, sentences, &vectors)
}
