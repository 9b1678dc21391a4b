//! Talks with a language model of a folder as Hugging Face's library stores it. The answer is written as it is computed.
//!
//! ```text
//! cargo run --release -p torsh --features text --example chat -- DIR
//! cargo run --release -p torsh --features text --example chat -- DIR --prompt "Why is the sky blue?"
//! ```

#[path = "common/mod.rs"]
mod common;

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::positive;
use torsh::prelude::*;
use torsh::text::generation::{GenerateInputs, GenerationExt, GenerationModel, GenerationOptions};
use torsh::text::models::{AutoModel, TextModel};
use torsh::text::tokenizers::{ChatMessage, ChatOptions, TokenTensors, Tokenizer};

/// Talk with a language model, a line at a time; an empty line ends the conversation. A model without a chat template
/// continues the text that it is given.
#[derive(Parser, Debug)]
#[command(name = "chat")]
struct Args {
    /// The folder with config.json, the weights and the tokenizer, or a repository `org/name`
    model: String,
    /// Ask this alone
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    max_new_tokens: u32,
    /// Take the likeliest token each time, whatever the model's files say
    #[arg(long)]
    greedy: bool,
    /// Below 1, what it writes is likelier; above, more surprising
    #[arg(long, value_parser = positive)]
    temperature: Option<f64>,
    /// Draw among the likeliest tokens whose probabilities add up to this
    #[arg(long, value_parser = positive)]
    top_p: Option<f64>,
    /// Draw among so many of the likeliest tokens
    #[arg(long)]
    top_k: Option<usize>,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// The settings of the command line, then those of the model's `generation_config.json`, where there is one.
fn options(args: &Args) -> Result<GenerationOptions> {
    let mut options = GenerationOptions::new().max_new_tokens(args.max_new_tokens as usize);
    options.temperature = args.temperature;
    options.top_p = args.top_p;
    options.top_k = args.top_k;
    if args.greedy {
        options.do_sample = Some(false);
    } else if args.temperature.or(args.top_p).is_some() || args.top_k.is_some() {
        options.do_sample = Some(true);
    }
    let folder = Path::new(&args.model);
    match folder.is_dir() && !folder.join("generation_config.json").is_file() {
        true => Ok(options),
        false => Ok(options.or(&GenerationOptions::from_pretrained(&args.model)?)),
    }
}

/// Bytes of memory that the process has, where the system tells.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024.0 * kib)
}

fn mib(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// A conversation with a model.
struct Chat<'a> {
    model: &'a dyn GenerationModel,
    tokenizer: &'a Tokenizer,
    options: GenerationOptions,
    messages: Vec<ChatMessage>,
    has_template: bool,
}

impl Chat<'_> {
    /// What the model reads: the conversation so far, or the last text alone.
    fn tokens(&self, text: &str) -> Result<TokenTensors> {
        if !self.has_template {
            return self.tokenizer.encode(text)?.to_tensors();
        }
        let options = ChatOptions::new().add_generation_prompt(true);
        self.tokenizer
            .encode_chat(&self.messages, &options)?
            .to_tensors()
    }

    /// Writes the answer to a text, and how fast it came.
    fn answer(&mut self, text: &str) -> Result<()> {
        self.messages.push(ChatMessage::user(text));
        let tokens = self.tokens(text)?;
        let prompt = tokens.input_ids.numel();
        let inputs = GenerateInputs::ids(&tokens.input_ids).attention_mask(tokens.attention_mask);
        let before = torsh::alloc::stats().allocated_bytes;
        let start = Instant::now();
        let mut stream = self
            .model
            .stream(inputs, &self.options)?
            .text(self.tokenizer);
        let mut answer = String::new();
        let mut first = None;
        if !self.has_template {
            print!("{text}");
        }
        while let Some(piece) = stream.next() {
            let piece = piece?;
            // The tokens of the first piece come with the prompt's computation.
            first.get_or_insert((start.elapsed().as_secs_f64(), stream.ids().len()));
            print!("{piece}");
            std::io::stdout().flush()?;
            answer.push_str(&piece);
        }
        let time = start.elapsed().as_secs_f64();
        let held = torsh::alloc::stats().allocated_bytes.saturating_sub(before);
        let all = stream.ids().len();
        let (to_first, seen) = first.unwrap_or((time, all));
        let resident = resident().map_or("an unknown amount".into(), mib);
        println!(
            "\n[{prompt} tokens of prompt, the first text after {to_first:.2} s; {} tokens in {time:.2} s, {:.1} a second after \
             the first; {} held for the text, {resident} in all]",
            all - prompt,
            (all - seen) as f64 / (time - to_first).max(1e-9),
            mib(held as f64),
        );
        self.messages.push(ChatMessage::assistant(answer));
        Ok(())
    }
}

fn run(args: &Args) -> Result<()> {
    manual_seed(args.seed);
    let start = Instant::now();
    let tokenizer = Tokenizer::from_pretrained(&args.model)?;
    let model: Box<dyn TextModel> = AutoModel::from_pretrained(&args.model)?;
    let Some(writer) = model.as_generation() else {
        let why = format!("a {} continues no texts", model.type_name());
        return Err(TorshError::Other(why));
    };
    let parameters = model.parameters();
    let bytes: usize = parameters
        .iter()
        .map(|p| p.numel() * p.dtype().size())
        .sum();
    println!(
        "{} with {:.0} million parameters, {} of weights ({:.1} s)",
        model.type_name(),
        parameters.iter().map(|p| p.numel()).sum::<usize>() as f64 / 1e6,
        mib(bytes as f64),
        start.elapsed().as_secs_f64()
    );
    let has_template = tokenizer.chat_templates().default.is_some();
    if !has_template {
        println!("no chat template: the model continues texts");
    }
    let mut chat = Chat {
        model: writer,
        tokenizer: &tokenizer,
        options: options(args)?,
        messages: args.system.iter().map(ChatMessage::system).collect(),
        has_template,
    };
    if let Some(prompt) = &args.prompt {
        return chat.answer(prompt);
    }
    let mut lines = std::io::stdin().lock().lines();
    loop {
        print!("> ");
        std::io::stdout().flush()?;
        match lines.next().transpose()? {
            Some(line) if !line.trim().is_empty() => chat.answer(line.trim())?,
            _ => break,
        }
    }
    println!();
    Ok(())
}
