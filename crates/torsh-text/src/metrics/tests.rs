//! Scores of random texts, which sacrebleu 2.6, rouge-score 0.1.2, NLTK 3.10 (without WordNet), jiwer 4.0 and
//! seqeval 1.2.2 computed.

use serde_json::Value as Json;
use torsh_tensor::Result;

use super::*;

fn cases() -> Json {
    serde_json::from_str(include_str!("tests.json")).unwrap()
}

fn list<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    json[name].as_array().unwrap()
}

fn strings(json: &Json) -> Vec<String> {
    serde_json::from_value(json.clone()).unwrap()
}

#[track_caller]
fn near(ours: f64, expected: &Json, case: &Json) {
    let expected = expected.as_f64().unwrap();
    assert!(
        (ours - expected).abs() < 1e-8,
        "{ours}, not {expected}: {case}"
    );
}

#[test]
fn sentences_have_the_scores_of_the_tools() -> Result<()> {
    for case in list(&cases(), "sentences") {
        let hypothesis = case["hypothesis"].as_str().unwrap();
        let references = strings(&case["references"]);
        let near = |ours: f64, name: &str| near(ours, &case[name], case);
        near(sentence_bleu(hypothesis, &references)?.score, "bleu");
        let intl = BleuOptions::new().tokenize(BleuTokenize::Intl);
        near(
            sentence_bleu_with(hypothesis, &references, intl)?.score,
            "bleu_intl",
        );
        near(sentence_chrf(hypothesis, &references)?, "chrf");
        let words = ChrfOptions::new().word_order(2);
        near(
            sentence_chrf_with(hypothesis, &references, words.clone())?,
            "chrf++",
        );
        let eps = words.whitespace(true).eps_smoothing(true).lowercase(true);
        near(
            sentence_chrf_with(hypothesis, &references, eps)?,
            "chrf_eps",
        );
        near(sentence_ter(hypothesis, &references)?.score, "ter");
        let normalized = TerOptions::new()
            .normalized(true)
            .no_punct(true)
            .case_sensitive(true);
        near(
            sentence_ter_with(hypothesis, &references, normalized)?.score,
            "ter_normalized",
        );
        near(meteor(hypothesis, &references)?, "meteor");
    }
    Ok(())
}

#[test]
fn summaries_have_the_scores_of_rouge() {
    // A sentence is a line of four words.
    let lines = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let lines: Vec<String> = words.chunks(4).map(|line| line.join(" ")).collect();
        lines.join("\n")
    };
    for case in list(&cases(), "sentences") {
        let hypothesis = lines(case["hypothesis"].as_str().unwrap());
        let reference = lines(case["references"][0].as_str().unwrap());
        for (name, stems) in [("rouge", false), ("rouge_stem", true)] {
            let options = RougeOptions::new().use_stemmer(stems);
            let s = rouge_with(&hypothesis, &reference, options);
            let all = [s.rouge1, s.rouge2, s.rouge_l, s.rouge_lsum];
            for (ours, expected) in all.iter().zip(list(case, name)) {
                near(ours.precision, &expected[0], case);
                near(ours.recall, &expected[1], case);
                near(ours.fmeasure, &expected[2], case);
            }
        }
    }
}

#[test]
fn transcripts_have_the_errors_of_jiwer() -> Result<()> {
    for case in list(&cases(), "sentences") {
        let hypothesis = case["hypothesis"].as_str().unwrap();
        let reference = case["references"][0].as_str().unwrap();
        let words = word_errors(&[hypothesis], &[reference])?;
        let counts =
            |e: EditCounts| serde_json::json!([e.hits, e.substitutions, e.deletions, e.insertions]);
        assert_eq!(counts(words), case["words"], "{case}");
        near(words.match_error_rate(), &case["mer"], case);
        near(words.information_lost(), &case["wil"], case);
        let characters = char_errors(&[hypothesis], &[reference])?;
        assert_eq!(counts(characters), case["characters"], "{case}");
    }
    Ok(())
}

#[test]
fn a_corpus_has_the_scores_of_sacrebleu() -> Result<()> {
    let all = cases();
    let sentences = list(&all, "sentences");
    let hypotheses: Vec<&str> = sentences
        .iter()
        .map(|c| c["hypothesis"].as_str().unwrap())
        .collect();
    let references: Vec<Vec<&str>> = (0..2)
        .map(|i| {
            sentences
                .iter()
                .map(|c| c["references"][i].as_str().unwrap())
                .collect()
        })
        .collect();
    let corpus = &all["corpus"];
    let bleu = corpus_bleu(&hypotheses, &references)?;
    near(bleu.score, &corpus["bleu"], corpus);
    assert_eq!(bleu.to_string(), corpus["text"].as_str().unwrap());
    let add = BleuOptions::new().smooth_method(BleuSmoothing::AddK(2.0));
    near(
        corpus_bleu_with(&hypotheses, &references, add)?.score,
        &corpus["bleu_add2"],
        corpus,
    );
    near(
        corpus_chrf(&hypotheses, &references)?,
        &corpus["chrf"],
        corpus,
    );
    near(
        corpus_ter(&hypotheses, &references)?.score,
        &corpus["ter"],
        corpus,
    );
    for case in list(&all, "shifts") {
        let (hypothesis, reference) = (case["hypothesis"].as_str(), case["reference"].as_str());
        let ter = sentence_ter(hypothesis.unwrap(), &[reference.unwrap()])?;
        near(ter.score, &case["ter"], case);
    }
    Ok(())
}

#[test]
fn words_have_the_stems_of_nltk() {
    for (word, stem) in cases()["stems"].as_object().unwrap() {
        assert_eq!(porter_stem(word), stem.as_str().unwrap(), "{word}");
    }
}

#[test]
fn tags_have_the_scores_of_seqeval() -> Result<()> {
    for case in list(&cases(), "seqeval") {
        let tags =
            |name| -> Vec<Vec<String>> { serde_json::from_value(case[name].clone()).unwrap() };
        let report = seqeval(&tags("predictions"), &tags("references"))?;
        near(report.accuracy, &case["accuracy"], case);
        for (name, ours) in [
            ("micro", report.micro),
            ("macro", report.macro_average),
            ("weighted", report.weighted),
        ] {
            near(ours.precision, &case[name][0], case);
            near(ours.recall, &case[name][1], case);
            near(ours.f1, &case[name][2], case);
        }
    }
    Ok(())
}
