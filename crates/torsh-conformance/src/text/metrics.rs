//! Scores of texts: sacrebleu's, jiwer's and rouge-score's.

use serde_json::Value as Json;
use torsh_tensor::TorshError;
use torsh_text::metrics::{
    BleuOptions, BleuSmoothing, BleuTokenize, ChrfOptions, RougeScore, cer, corpus_bleu_with,
    corpus_chrf_with, corpus_ter, rouge, sentence_bleu, wer,
};

use super::{Options, Report, tell};
use crate::section::{field, number, numbers, text};
use crate::source::Source;

/// Runs the cases.
///
/// # Errors
/// If the file cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    let bytes = super::read(source, "gguf_metrics.json")?;
    let all: Json =
        serde_json::from_slice(&bytes).map_err(|e| format!("gguf_metrics.json: {e}"))?;
    let mut cases = Vec::new();
    bleu(field(&all, "bleu")?, field(&all, "rouge")?, &mut cases)?;
    errors(field(&all, "wer")?, &mut cases)?;
    let mut report = Report::default();
    for (i, (name, result)) in cases.into_iter().enumerate() {
        if options.takes(i, &name) {
            tell(&mut report, options, name, result);
        }
    }
    Ok(report)
}

type Cases = Vec<(String, Result<(), String>)>;

fn texts(json: &Json) -> Result<Vec<String>, String> {
    let list = json.as_array().ok_or("a list of texts was expected")?;
    let texts = list.iter().map(|t| t.as_str().map(String::from));
    let texts: Option<Vec<String>> = texts.collect();
    texts.ok_or_else(|| "a list of texts was expected".into())
}

fn near(ours: Result<f64, TorshError>, expected: f64) -> Result<(), String> {
    let ours = ours.map_err(text)?;
    match (ours - expected).abs() <= 1e-6 {
        true => Ok(()),
        false => Err(format!("{ours}, not {expected}")),
    }
}

fn corpus(name: &str) -> Result<BleuOptions, String> {
    let options = BleuOptions::new();
    Ok(match name {
        "13a_exp" => options,
        "none" => options.smooth_method(BleuSmoothing::None),
        "floor" => options.smooth_method(BleuSmoothing::Floor(0.1)),
        "add-k" => options.smooth_method(BleuSmoothing::AddK(1.0)),
        "lowercase" => options.lowercase(true),
        "char" => options.tokenize(BleuTokenize::Char),
        "intl" => options.tokenize(BleuTokenize::Intl),
        other => return Err(format!("this program knows no BLEU of the kind {other}")),
    })
}

/// BLEU, chrF and TER of a corpus with several references, and ROUGE with the first ones.
fn bleu(json: &Json, rouges: &Json, cases: &mut Cases) -> Result<(), String> {
    let hypotheses = texts(field(json, "hypotheses")?)?;
    let lists = field(json, "references")?;
    let lists = lists.as_array().ok_or("references are no list")?;
    let lists: Vec<Vec<String>> = lists.iter().map(texts).collect::<Result<_, _>>()?;
    let kinds = field(json, "corpus")?;
    for (name, expected) in kinds.as_object().ok_or("corpus is no object")? {
        let expected = expected.as_f64().ok_or("a score is no number")?;
        let result = corpus(name).and_then(|options| {
            let bleu = corpus_bleu_with(&hypotheses, &lists, options);
            near(bleu.map(|b| b.score), expected)
        });
        cases.push((format!("bleu {name}"), result));
    }
    let sentences = numbers(field(json, "sentence")?)?;
    for (i, (hypothesis, expected)) in hypotheses.iter().zip(sentences).enumerate() {
        let references: Vec<&String> = lists.iter().filter_map(|l| l.get(i)).collect();
        let bleu = sentence_bleu(hypothesis, &references).map(|b| b.score);
        cases.push((format!("bleu sentence {i}"), near(bleu, expected)));
    }
    for (name, words) in [("chrf", 0), ("chrf++", 2)] {
        let options = ChrfOptions::new().word_order(words);
        let chrf = corpus_chrf_with(&hypotheses, &lists, options);
        cases.push((name.into(), near(chrf, number(json, name)?)));
    }
    let ter = corpus_ter(&hypotheses, &lists).map(|t| t.score);
    cases.push(("ter".into(), near(ter, number(json, "ter")?)));

    let rouges = rouges.as_array().ok_or("rouge is no list")?;
    let first = lists.first().ok_or("there are no references")?;
    for (i, expected) in rouges.iter().enumerate() {
        let (Some(hypothesis), Some(reference)) = (hypotheses.get(i), first.get(i)) else {
            return Err("there are more scores of ROUGE than texts".into());
        };
        let ours = rouge(hypothesis, reference);
        for (name, ours) in [
            ("rouge1", ours.rouge1),
            ("rouge2", ours.rouge2),
            ("rougeL", ours.rouge_l),
        ] {
            let result = same_rouge(ours, &numbers(field(expected, name)?)?);
            cases.push((format!("{name} {i}"), result));
        }
    }
    Ok(())
}

fn same_rouge(ours: RougeScore, expected: &[f64]) -> Result<(), String> {
    let ours = [ours.precision, ours.recall, ours.fmeasure];
    let near = ours
        .iter()
        .zip(expected)
        .all(|(a, b)| (a - b).abs() <= 1e-6);
    match near && expected.len() == 3 {
        true => Ok(()),
        false => Err(format!("{ours:?}, not {expected:?}")),
    }
}

/// Error rates of words and characters.
fn errors(json: &Json, cases: &mut Cases) -> Result<(), String> {
    let references = texts(field(json, "references")?)?;
    let hypotheses = texts(field(json, "hypotheses")?)?;
    let words = wer(&hypotheses, &references);
    cases.push(("wer".into(), near(words, number(json, "wer")?)));
    let characters = cer(&hypotheses, &references);
    cases.push(("cer".into(), near(characters, number(json, "cer")?)));
    let each = numbers(field(json, "each")?)?;
    for (i, expected) in each.into_iter().enumerate() {
        let (Some(hypothesis), Some(reference)) = (hypotheses.get(i), references.get(i)) else {
            return Err("there are more error rates than texts".into());
        };
        let ours = wer(&[hypothesis], &[reference]);
        cases.push((format!("wer {i}"), near(ours, expected)));
    }
    Ok(())
}
