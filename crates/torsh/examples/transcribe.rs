//! Writes down what is said in a WAV file, with times, by Whisper.
//!
//! ```text
//! cargo run --release -p torsh --features text --example transcribe -- speech.wav --model DIR
//! ```

#[path = "common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use torsh::prelude::*;
use torsh::text::speech::{
    MelSpectrogram, SpeechOptions, Task, TranscribeOptions, Vad, Whisper, read_wav,
};

/// Write down what is said in a sound, in the language that is spoken or in English.
#[derive(Parser, Debug)]
#[command(name = "transcribe")]
struct Args {
    /// The sound, a WAV file of any rate
    sound: PathBuf,
    /// A folder with a Whisper, of Hugging Face's library or of CTranslate2, or a repository `org/name`
    #[arg(long, value_name = "DIR")]
    model: String,
    /// The language that is spoken, as `en`; found out unless given
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// Translate into English
    #[arg(long)]
    translate: bool,
    /// How many beams to search with; the likeliest token is taken unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    beams: Option<u32>,
    /// What comes before: names, or the style
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The file of Silero's network, `silero_vad_16k.safetensors`, to tell first where someone speaks
    #[arg(long, value_name = "FILE")]
    vad: Option<PathBuf>,
    /// Where the random numbers start from, which are drawn where the likeliest text is bad
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Minutes and seconds.
fn clock(seconds: f64) -> String {
    let hundredths = (100.0 * seconds).round() as u64;
    let (minutes, rest) = (hundredths / 6000, hundredths % 6000);
    format!("{minutes:02}:{:02}.{:02}", rest / 100, rest % 100)
}

fn run(args: &Args) -> Result<()> {
    manual_seed(args.seed);
    let sound = read_wav(&args.sound)?.at_rate(MelSpectrogram::SAMPLE_RATE)?;
    let seconds = sound.samples.len() as f64 / f64::from(MelSpectrogram::SAMPLE_RATE);
    println!("{}: {seconds:.1} s", args.sound.display());
    if let Some(file) = &args.vad {
        let start = Instant::now();
        let mut vad = Vad::from_file(file)?;
        let speech = vad.segments(&sound.samples, &SpeechOptions::new())?;
        let stretches = speech.iter().map(|s| {
            let (start, end) = (clock(s.start_seconds()), clock(s.end_seconds()));
            format!("{start} to {end}")
        });
        println!(
            "speech from {} ({:.2} s)",
            stretches.collect::<Vec<_>>().join(", "),
            start.elapsed().as_secs_f64()
        );
    }

    let start = Instant::now();
    let whisper = Whisper::from_pretrained(&args.model)?;
    let parameters = whisper.model().num_parameters();
    println!(
        "Whisper with {:.0} million parameters ({:.1} s)\n",
        parameters as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    let mut options = TranscribeOptions::new().beam_size(args.beams.map(|n| n as usize));
    if let Some(language) = &args.language {
        options = options.language(language);
    }
    if args.translate {
        options = options.task(Task::Translate);
    }
    if let Some(prompt) = &args.prompt {
        options = options.initial_prompt(prompt);
    }
    let start = Instant::now();
    let transcript = whisper.transcribe_samples(&sound.samples, &options)?;
    let time = start.elapsed().as_secs_f64();
    for segment in &transcript.segments {
        println!(
            "[{} to {}] {}",
            clock(segment.start),
            clock(segment.end),
            segment.text.trim()
        );
    }
    if transcript.segments.is_empty() {
        println!("(nobody speaks)");
    }
    let tokens: usize = transcript.segments.iter().map(|s| s.tokens.len()).sum();
    println!(
        "\nlanguage {}, {tokens} tokens in {time:.2} s: {:.1} times as fast as it was said",
        transcript.language,
        seconds / time
    );
    Ok(())
}
