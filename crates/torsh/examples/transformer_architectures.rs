//! Trains the three kinds of transformers on strings of digits, which they learn to copy, to sort and to reverse: an encoder, a
//! decoder, and an encoder-decoder. Then it draws which digits they look at.
//!
//! ```text
//! cargo run --release -p torsh --example transformer_architectures
//! ```

#[path = "common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::Parser;
use common::canvas::{Canvas, INK, PAPER, Rgb, fill, text, text_width};
use common::{at, positive};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight};
use torsh::nn::{RemovableHandle, init};
use torsh::prelude::*;
use torsh::train::plot::{Panel, Plot, Series};

/// Train an encoder, a decoder and an encoder-decoder to copy, sort and reverse digits.
#[derive(Parser, Debug)]
#[command(name = "transformer_architectures")]
struct Args {
    /// Steps of training of each network
    #[arg(long, default_value_t = 1600, value_parser = clap::value_parser!(u32).range(10..))]
    steps: u32,
    /// Strings per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// Digits of a string
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=32))]
    digits: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 2e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the pictures go
    #[arg(
        long,
        value_name = "DIR",
        default_value = "target/transformer_architectures"
    )]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

const TASKS: [&str; 3] = ["copy", "sort", "reverse"];

/// Ten digits, and a symbol for each task.
const SYMBOLS: usize = 10 + TASKS.len();
const WIDTH: usize = 64;
const HEADS: usize = 4;
const LAYERS: usize = 2;

/// Strings, what is to be done with them, and what comes out.
struct Batch {
    /// The symbols of the tasks, `[n, 1]`.
    task: Tensor,
    /// Digits, `[n, digits]`.
    source: Tensor,
    /// Digits, `[n, digits]`.
    answer: Tensor,
}

impl Batch {
    fn new(source: Tensor, task: Tensor) -> Result<Batch> {
        let (sorted, _) = source.sort()?;
        let others = Tensor::where_(&task.eq(1)?, &sorted, &source.flip(1)?)?;
        Ok(Batch {
            answer: Tensor::where_(&task.eq(0)?, &source, &others)?,
            task: task.add(10)?,
            source,
        })
    }

    fn random(n: usize, digits: usize) -> Result<Batch> {
        let tasks = TASKS.len() as i64;
        Batch::new(randint(0, 10, &[n, digits]), randint(0, tasks, &[n, 1]))
    }

    /// The answers without their last digit: what is known when the last one is written.
    fn known(&self) -> Result<Tensor> {
        self.answer.narrow(1, 0, self.answer.size(1)? - 1)
    }

    /// The loss of scores `[n, digits, 10]`.
    fn loss(&self, scores: &Tensor) -> Result<Tensor> {
        F::cross_entropy(&scores.flatten_dims(0, 1)?, &self.answer.reshape([-1])?)
    }
}

/// Symbols and their places as vectors.
#[derive(Module)]
struct Tokens {
    symbols: Embedding,
    places: Embedding,
}

impl Tokens {
    fn new(digits: usize) -> Result<Tokens> {
        Ok(Tokens {
            symbols: Embedding::new(SYMBOLS, WIDTH)?,
            places: Embedding::new(2 * digits + 1, WIDTH)?,
        })
    }
}

impl Module for Tokens {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let places = self.places.forward(&arange(0, ids.size(1)? as i64, 1))?;
        self.symbols.forward(ids)?.add(&places)
    }
}

/// Layers in which each symbol sees all others, or those before it.
fn layers() -> Result<nn::TransformerEncoder> {
    let layer = TransformerEncoderLayer::builder(WIDTH, HEADS)
        .dim_feedforward(4 * WIDTH)
        .dropout(0.0)
        .activation(nn::TransformerActivation::GELU)
        .batch_first(true)
        .norm_first(true)
        .build()?;
    let encoder = nn::TransformerEncoder::builder(layer, LAYERS)
        .norm(LayerNorm::new(WIDTH)?)
        .build()?;
    // As PyTorch's, the layers begin as copies of one; here each shall have its own weights.
    for p in encoder.parameters().iter().filter(|p| p.ndim() > 1) {
        init::xavier_uniform_(p, 1.0)?;
    }
    Ok(encoder)
}

/// What attention layers look at in one string: a matrix of each head.
struct Maps {
    name: String,
    /// `[heads, queries, keys]`
    weights: Tensor,
}

/// A network that learns the tasks.
trait Architecture: Module {
    fn name(&self) -> &'static str;

    fn loss(&self, batch: &Batch) -> Result<Tensor>;

    /// What the network answers, `[n, digits]`.
    fn answer(&self, batch: &Batch) -> Result<Tensor>;

    /// Where it looks while it writes the answer of one string, and the symbols of queries and of keys.
    fn maps(&self, one: &Batch) -> Result<(Vec<Maps>, Vec<i64>, Vec<i64>)>;
}

/// Keeps the queries that an attention layer gets.
struct Watched<'a> {
    attention: &'a MultiheadAttention,
    queries: Arc<Mutex<Option<Tensor>>>,
    handle: RemovableHandle,
}

impl<'a> Watched<'a> {
    fn new(attention: &'a MultiheadAttention) -> Result<Watched<'a>> {
        let queries = Arc::new(Mutex::new(None));
        let slot = queries.clone();
        let handle = attention.register_forward_pre_hook(move |_, x| {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(x.clone());
            Ok(None)
        })?;
        Ok(Watched {
            attention,
            queries,
            handle,
        })
    }

    /// The weights of one string, after a run: of the keys that are given, or of the queries themselves.
    fn weights(self, keys: Option<&Tensor>, mask: Option<&Tensor>) -> Result<Tensor> {
        self.handle.remove();
        let slot = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queries) = &*slot else {
            return Err(TorshError::Other("the attention layer has not run".into()));
        };
        let keys = keys.unwrap_or(queries);
        let mut options = nn::MultiheadAttentionOptions::new().average_attn_weights(false);
        options.attn_mask = mask.cloned();
        let (_, weights) = self.attention.forward_with(queries, keys, keys, options)?;
        let weights = weights.ok_or_else(|| TorshError::Other("no weights".into()))?;
        weights.select(0, 0)
    }
}

/// The maps of all self-attention layers of an encoder, after `run`.
fn own_maps(
    encoder: &nn::TransformerEncoder,
    mask: Option<&Tensor>,
    run: impl FnOnce() -> Result<Tensor>,
) -> Result<Vec<Maps>> {
    let watched = encoder.layers.iter().map(|l| Watched::new(&l.self_attn));
    let watched = watched.collect::<Result<Vec<_>>>()?;
    run()?;
    let maps = watched.into_iter().enumerate().map(|(i, w)| {
        Ok(Maps {
            name: format!("layer {}", i + 1),
            weights: w.weights(None, mask)?,
        })
    });
    maps.collect()
}

/// An encoder: all symbols at once, and a digit of the answer at the place of each digit.
#[derive(Module)]
struct Encoder {
    tokens: Tokens,
    encoder: nn::TransformerEncoder,
    head: Linear,
}

impl Module for Encoder {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let x = self.encoder.forward(&self.tokens.forward(ids)?)?;
        self.head.forward(&x.narrow(1, 1, ids.size(1)? - 1)?)
    }
}

impl Encoder {
    fn ids(batch: &Batch) -> Result<Tensor> {
        cat(&[&batch.task, &batch.source], 1)
    }
}

impl Architecture for Encoder {
    fn name(&self) -> &'static str {
        "encoder"
    }

    fn loss(&self, batch: &Batch) -> Result<Tensor> {
        batch.loss(&self.forward(&Encoder::ids(batch)?)?)
    }

    fn answer(&self, batch: &Batch) -> Result<Tensor> {
        self.forward(&Encoder::ids(batch)?)?.argmax_dim(-1, false)
    }

    fn maps(&self, one: &Batch) -> Result<(Vec<Maps>, Vec<i64>, Vec<i64>)> {
        let ids = Encoder::ids(one)?;
        let maps = own_maps(&self.encoder, None, || self.forward(&ids))?;
        let symbols = ids.to_vec::<i64>()?;
        Ok((maps, symbols.clone(), symbols))
    }
}

/// A decoder, as GPT: a string, the task, and the answer behind it, digit by digit. Each symbol sees those before it.
#[derive(Module)]
struct Decoder {
    tokens: Tokens,
    decoder: nn::TransformerEncoder,
    head: Linear,
}

impl Module for Decoder {
    /// Scores of the symbol behind each one.
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let mask = nn::Transformer::generate_square_subsequent_mask(ids.size(1)?)?;
        let options = nn::TransformerEncoderOptions::new()
            .mask(&mask)
            .is_causal(true);
        let x = self.tokens.forward(ids)?;
        self.head.forward(&self.decoder.forward_with(&x, options)?)
    }
}

impl Architecture for Decoder {
    fn name(&self) -> &'static str {
        "decoder"
    }

    fn loss(&self, batch: &Batch) -> Result<Tensor> {
        let digits = batch.source.size(1)?;
        let ids = cat(&[&batch.source, &batch.task, &batch.known()?], 1)?;
        batch.loss(&self.forward(&ids)?.narrow(1, digits as i64, digits)?)
    }

    fn answer(&self, batch: &Batch) -> Result<Tensor> {
        let digits = batch.source.size(1)?;
        let mut ids = cat(&[&batch.source, &batch.task], 1)?;
        for _ in 0..digits {
            let scores = self.forward(&ids)?.select(1, -1)?;
            ids = cat(&[&ids, &scores.argmax_dim(-1, true)?], 1)?;
        }
        ids.narrow(1, digits as i64 + 1, digits)
    }

    fn maps(&self, one: &Batch) -> Result<(Vec<Maps>, Vec<i64>, Vec<i64>)> {
        let digits = one.source.size(1)?;
        let ids = cat(&[&one.source, &one.task, &one.known()?], 1)?;
        let mask = nn::Transformer::generate_square_subsequent_mask(ids.size(1)?)?;
        let mut maps = own_maps(&self.decoder, Some(&mask), || self.forward(&ids))?;
        // Only what the answer's digits are computed from.
        for map in &mut maps {
            map.weights = map.weights.narrow(1, digits as i64, digits)?;
        }
        let symbols = ids.to_vec::<i64>()?;
        Ok((maps, symbols[digits..].to_vec(), symbols))
    }
}

/// An encoder that reads the string, and a decoder that looks at what it made of it and writes the answer.
#[derive(Module)]
struct EncoderDecoder {
    tokens: Tokens,
    transformer: nn::Transformer,
    head: Linear,
}

impl Module for EncoderDecoder {
    /// What the encoder makes of a string.
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.transformer.encoder.forward(&self.tokens.forward(ids)?)
    }
}

impl EncoderDecoder {
    /// Scores of the symbol behind each one that is written.
    fn decode(&self, written: &Tensor, memory: &Tensor) -> Result<Tensor> {
        let mask = nn::Transformer::generate_square_subsequent_mask(written.size(1)?)?;
        let options = nn::TransformerDecoderOptions::new()
            .tgt_mask(&mask)
            .tgt_is_causal(true);
        let x = self.tokens.forward(written)?;
        let x = self.transformer.decoder.forward_with(&x, memory, options)?;
        self.head.forward(&x)
    }
}

impl Architecture for EncoderDecoder {
    fn name(&self) -> &'static str {
        "encoder-decoder"
    }

    fn loss(&self, batch: &Batch) -> Result<Tensor> {
        let memory = self.forward(&Encoder::ids(batch)?)?;
        let written = cat(&[&batch.task, &batch.known()?], 1)?;
        batch.loss(&self.decode(&written, &memory)?)
    }

    fn answer(&self, batch: &Batch) -> Result<Tensor> {
        let digits = batch.source.size(1)?;
        let memory = self.forward(&Encoder::ids(batch)?)?;
        let mut written = batch.task.clone();
        for _ in 0..digits {
            let scores = self.decode(&written, &memory)?.select(1, -1)?;
            written = cat(&[&written, &scores.argmax_dim(-1, true)?], 1)?;
        }
        written.narrow(1, 1, digits)
    }

    fn maps(&self, one: &Batch) -> Result<(Vec<Maps>, Vec<i64>, Vec<i64>)> {
        let ids = Encoder::ids(one)?;
        let memory = self.forward(&ids)?;
        let written = cat(&[&one.task, &one.known()?], 1)?;
        let layers = &self.transformer.decoder.layers;
        let watched = layers.iter().map(|l| Watched::new(&l.multihead_attn));
        let watched = watched.collect::<Result<Vec<_>>>()?;
        self.decode(&written, &memory)?;
        let maps = watched.into_iter().enumerate().map(|(i, w)| {
            Ok(Maps {
                name: format!("layer {}", i + 1),
                weights: w.weights(Some(&memory), None)?,
            })
        });
        let maps = maps.collect::<Result<Vec<_>>>()?;
        Ok((maps, written.to_vec()?, ids.to_vec()?))
    }
}

/// The shares of whole strings that are right, of each task.
fn test(net: &dyn Architecture, batch: &Batch) -> Result<Vec<f64>> {
    net.eval();
    let answer = no_grad(|| net.answer(batch))?;
    let right = answer.eq(&batch.answer)?.all_dim(1, false)?;
    let right = right.to_vec::<bool>()?;
    let tasks = batch.task.to_vec::<i64>()?;
    let share = |task: i64| {
        let of_task = tasks.iter().zip(&right).filter(|(t, _)| **t == task + 10);
        let of_task: Vec<bool> = of_task.map(|(_, r)| *r).collect();
        of_task.iter().filter(|r| **r).count() as f64 / of_task.len().max(1) as f64
    };
    Ok((0..TASKS.len() as i64).map(share).collect())
}

/// Trains a network. Gives the shares of right strings as it learns, in percent.
fn train(net: &dyn Architecture, args: &Args, held_out: &Batch) -> Result<Vec<(f64, f64)>> {
    let (steps, digits) = (args.steps as usize, args.digits as usize);
    let start = Instant::now();
    println!(
        "\n{} with {} parameters:",
        net.name(),
        net.parameters().iter().map(|p| p.numel()).sum::<usize>()
    );
    let optimizer = AdamW::builder(net.parameters())
        .lr(args.lr)
        .betas(0.9, 0.98)
        .build()?;
    let schedule = WarmupCosine::new(&optimizer, steps / 20, steps, args.lr / 50.0)?;
    let bar = common::progress(steps);
    let every = steps.div_ceil(8);
    let mut curve = Vec::new();
    for step in 1..=steps {
        net.train();
        optimizer.zero_grad();
        let loss = net.loss(&Batch::random(args.batch_size as usize, digits)?)?;
        loss.backward()?;
        clip_grad_norm_(net.parameters(), 1.0)?;
        optimizer.step()?;
        schedule.step()?;
        bar.set_message(format!("loss {:.4}", loss.item::<f64>()?));
        bar.inc(1);
        if step % every == 0 || step == steps {
            let shares = test(net, held_out)?;
            let mean = 100.0 * shares.iter().sum::<f64>() / shares.len() as f64;
            let named = TASKS.iter().zip(&shares);
            let named: Vec<String> = named
                .map(|(task, share)| format!("{task} {:5.1} %", 100.0 * share))
                .collect();
            bar.suspend(|| println!("  step {step:5}: {}", named.join(", ")));
            curve.push((step as f64, mean));
        }
    }
    bar.finish_and_clear();
    let mean = curve.last().map_or(0.0, |(_, share)| *share);
    println!(
        "  {mean:.2} % of {} strings are right to the last digit, {} ({:.1} s)",
        held_out.task.numel(),
        match mean > 99.0 {
            true => "more than 99 %",
            false => "NOT more than 99 %: try more --steps",
        },
        start.elapsed().as_secs_f64()
    );
    Ok(curve)
}

const CELL: i64 = 16;
const MARGIN: i64 = 28;

fn symbol(id: i64) -> String {
    match usize::try_from(id - 10) {
        Ok(task) => TASKS[task][..1].to_uppercase(),
        Err(_) => id.to_string(),
    }
}

/// White for 0, blue for 1.
fn shade(weight: f64) -> Rgb {
    let mix = |from: f64, to: f64| (from + (to - from) * weight.clamp(0.0, 1.0)).round() as u8;
    [mix(245.0, 20.0), mix(247.0, 70.0), mix(250.0, 160.0)]
}

/// A row of maps for each task, one for each head of each layer.
fn draw(net: &dyn Architecture, source: &Tensor, path: &Path) -> Result<()> {
    net.eval();
    let (size, bold, plain) = (RasterHeight::Size16, FontWeight::Bold, FontWeight::Regular);
    let task = |t: usize| Tensor::from_vec(vec![t as i64], [1, 1]);
    let one = |t: usize| Batch::new(source.clone(), task(t)?);
    let rows = (0..TASKS.len()).map(|t| no_grad(|| net.maps(&one(t)?)));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let (queries, keys) = (rows[0].1.len() as i64, rows[0].2.len() as i64);
    let (width, height) = (keys * CELL + MARGIN + 12, queries * CELL + MARGIN + 16);
    let columns = (LAYERS * HEADS) as i64;
    let left = 90;
    let mut img = Canvas::new(left + columns * width, 40 + 3 * height, PAPER);
    for (t, (maps, of_queries, of_keys)) in rows.iter().enumerate() {
        let top = 40 + t as i64 * height;
        let middle = top + MARGIN + queries * CELL / 2 - 8;
        text(&mut img, 8, middle, TASKS[t], size, bold, INK);
        for (layer, map) in maps.iter().enumerate() {
            for head in 0..HEADS {
                let x = left + (layer * HEADS + head) as i64 * width;
                if t == 0 {
                    let title = format!("{}, head {}", map.name, head + 1);
                    let shift = (width - text_width(&title, size, plain)) / 2;
                    text(&mut img, x + shift, 8, &title, size, plain, INK);
                }
                let weights = map.weights.select(0, head as i64)?.to_vec2::<f64>()?;
                for (i, row) in weights.iter().enumerate() {
                    let y = top + MARGIN + i as i64 * CELL;
                    let of_row = symbol(of_queries[i]);
                    text(&mut img, x + MARGIN - 14, y, &of_row, size, plain, INK);
                    for (j, weight) in row.iter().enumerate() {
                        let x = x + MARGIN + j as i64 * CELL;
                        fill(&mut img, x, y, CELL - 1, CELL - 1, shade(*weight));
                    }
                }
                for (j, id) in of_keys.iter().enumerate() {
                    let x = x + MARGIN + j as i64 * CELL + 4;
                    text(
                        &mut img,
                        x,
                        top + MARGIN - 18,
                        &symbol(*id),
                        size,
                        plain,
                        INK,
                    );
                }
            }
        }
    }
    img.save(path)
}

fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    manual_seed(args.seed);
    let digits = args.digits as usize;
    let held_out = Batch::random(1000, digits)?;
    let head = || Linear::new(WIDTH, 10);
    let transformer = nn::Transformer::builder(WIDTH, HEADS)
        .num_encoder_layers(LAYERS)
        .num_decoder_layers(LAYERS)
        .dim_feedforward(4 * WIDTH)
        .dropout(0.0)
        .activation(nn::TransformerActivation::GELU)
        .batch_first(true)
        .norm_first(true)
        .build()?;
    let nets: [Box<dyn Architecture>; 3] = [
        Box::new(Encoder {
            tokens: Tokens::new(digits)?,
            encoder: layers()?,
            head: head(),
        }),
        Box::new(Decoder {
            tokens: Tokens::new(digits)?,
            decoder: layers()?,
            head: head(),
        }),
        Box::new(EncoderDecoder {
            tokens: Tokens::new(digits)?,
            transformer,
            head: head(),
        }),
    ];
    println!(
        "{} tasks on strings of {digits} digits: {}",
        TASKS.len(),
        TASKS.join(", ")
    );
    let source = Batch::random(1, digits)?.source;
    let mut panel = Panel::new("Whole strings that are right")
        .x_label("step")
        .y_label("%");
    let mut pictures = Vec::new();
    for net in &nets {
        let curve = train(&**net, args, &held_out)?;
        panel = panel.series(Series::new(net.name(), curve));
        let path = args.out.join(format!("{}.png", net.name()));
        draw(&**net, &source, &path)?;
        pictures.push(path);
    }
    let example = source.to_vec::<i64>()?;
    println!("\nof the string {example:?}:");
    for (i, task) in TASKS.iter().enumerate() {
        let one = Batch::new(source.clone(), Tensor::from_vec(vec![i as i64], [1, 1])?)?;
        for net in &nets {
            let answer = no_grad(|| net.answer(&one))?.to_vec::<i64>()?;
            println!("  {task:8} {:16} {answer:?}", net.name());
        }
    }
    for path in pictures {
        println!("wrote {}: where it looks", path.display());
    }
    let path = args.out.join("learning_curves.png");
    Plot::new().panel(panel).size(720, 440).save(&path)?;
    println!("wrote {}", path.display());
    Ok(())
}
