//! Language and speech: MiniLM's sentence vectors, and what Whisper hears.

use torsh_tensor::{Tensor, inference_mode};
use torsh_text::generation::{GenerateInputs, GenerationExt, GenerationOptions};
use torsh_text::sentence::SentenceEmbedder;
use torsh_text::speech::{Whisper, read_wav};

use super::case::{Case, Results, equal, field, list, number, numbers, string, strings, text};
use super::near::norm;

/// Rows of numbers.
fn rows(json: &serde_json::Value, name: &str) -> Result<Vec<Vec<f64>>, String> {
    let row = |row: &serde_json::Value| serde_json::from_value(row.clone());
    let rows: Result<_, _> = list(json, name)?.iter().map(row).collect();
    rows.map_err(|e| format!("{name} of the reference: {e}"))
}

/// Rows of whole numbers.
fn ids(json: &serde_json::Value, name: &str) -> Result<Vec<Vec<u32>>, String> {
    let ids = field(json, name)?.clone();
    serde_json::from_value(ids).map_err(|e| format!("{name} of the reference: {e}"))
}

pub(super) fn minilm(case: &Case<'_>) -> Result<Results, String> {
    let sentences = strings(case.want, "sentences")?;
    let folder = case.path("minilm");
    let model = SentenceEmbedder::from_pretrained(&folder.to_string_lossy()).map_err(text)?;
    let tokens = || {
        for (sentence, want) in sentences.iter().zip(ids(case.want, "ids")?) {
            let got = model.tokenizer().encode(sentence).map_err(text)?;
            equal(
                &format!("the tokens of {sentence:?}"),
                &got.ids[..],
                &want[..],
            )?;
        }
        Ok(0.0)
    };
    let vectors = || {
        let got = inference_mode(|| model.encode(&sentences)?.normalize()).map_err(text)?;
        let mut near = case.near()?;
        let heads = rows(case.want, "embedding_head")?;
        equal("the number of vectors", got.dims()[0], heads.len())?;
        for (i, want) in heads.iter().enumerate() {
            let row = got.select(0, i as i64).and_then(|r| r.to_vec::<f64>());
            near.head(&format!("vector {i}"), &row.map_err(text)?, want)?;
        }
        let cosines = got.t().and_then(|t| got.matmul(&t)).map_err(text)?;
        let cosines = cosines.to_vec::<f64>().map_err(text)?;
        near.head("cosine", &cosines, &rows(case.want, "cosine")?.concat())?;
        Ok(near.used())
    };
    Ok(vec![
        ("tokens".into(), tokens()),
        ("vectors".into(), vectors()),
    ])
}

pub(super) fn whisper_tiny_en(case: &Case<'_>) -> Result<Results, String> {
    let folder = case.path("whisper_tiny_en");
    let whisper = Whisper::from_pretrained(folder.to_string_lossy()).map_err(text)?;
    let sound = read_wav(case.directory.join("speech.wav")).map_err(text)?;
    equal("the rate of speech.wav", sound.rate, 16000u32)?;
    let features = whisper.mel().padded(&sound.samples).map_err(text)?;

    let mel = || {
        let mut near = case.near()?;
        let values = features.to_vec::<f64>().map_err(text)?;
        let want = numbers(case.want, "mel_digest")?;
        let sum: f64 = values.iter().sum();
        near.number("the mel spectrogram's sum", sum, want[0])?;
        // Four frames of one bin.
        let from = 40 * 3000 + 100;
        near.head("the mel spectrogram", &values[from..], &want[1..])?;
        Ok(near.used())
    };
    let batch = features.unsqueeze(0).map_err(text)?;
    let prompt = Tensor::from_vec(vec![50_257i64, 50_362], &[1, 2]).map_err(text)?;
    let encoder = || {
        let mut near = case.near()?;
        let encode = || whisper.model().model.forward_with(&batch, &prompt);
        let (_, encoded) = inference_mode(encode).map_err(text)?;
        let encoded = encoded.last_hidden_state;
        let values = encoded.to_vec::<f64>().map_err(text)?;
        // The eleventh frame.
        let from = 10 * encoded.dims()[2];
        near.head(
            "the encoder",
            &values[from..],
            &numbers(case.want, "encoder_head")?,
        )?;
        near.number(
            "its norm",
            norm(&values),
            number(case.want, "encoder_norm")?,
        )?;
        Ok(near.used())
    };
    let words = || {
        let want: Vec<i64> = serde_json::from_value(field(case.want, "ids")?.clone())
            .map_err(|e| format!("ids of the reference: {e}"))?;
        let inputs = GenerateInputs::features(&batch).decoder_input_ids(prompt.clone());
        let options = GenerationOptions::new()
            .max_new_tokens(want.len())
            .suppress_tokens([])
            .begin_suppress_tokens([])
            .output_logits(true);
        let output = whisper.model().generate_with(inputs, &options);
        let output = output.map_err(text)?;
        let ids = output.sequences.to_vec::<i64>().map_err(text)?;
        equal("the tokens", &ids[2..], &want[..])?;
        let new: Vec<u32> = ids[2..].iter().map(|&id| id as u32).collect();
        let said = whisper.tokenizer().decode(&new, true).map_err(text)?;
        equal("the text", said.as_str(), string(case.want, "text")?)?;
        let mut near = case.near()?;
        for (i, want) in rows(case.want, "top2_logits")?.iter().enumerate() {
            let top = output.logits[i]
                .topk(2)
                .and_then(|(v, _)| v.to_vec::<f64>());
            near.head(
                &format!("the logits of token {i}"),
                &top.map_err(text)?,
                want,
            )?;
        }
        Ok(near.used())
    };
    Ok(vec![
        ("mel".into(), mel()),
        ("encoder".into(), encoder()),
        ("tokens, text and logits".into(), words()),
    ])
}
