//! Letters to sounds: two recurrent networks (g2p_en).

use torsh_functional as F;
use torsh_tensor::{Result as TensorResult, Tensor, zeros};

use super::case::{Case, Results, equal, object, strings, text};
use super::state::State;

/// The most sounds of a word.
const LONGEST: usize = 20;

/// A step of the encoder (`enc`) or the decoder (`dec`), from the embedding of a symbol.
fn step(state: &State, part: &str, symbol: usize, h: &Tensor) -> TensorResult<Tensor> {
    let get = |name: &str| state.get(&format!("{part}_{name}"));
    let x = get("emb")?.select(0, symbol)?.unsqueeze(0)?;
    F::gru_cell(
        &x,
        h,
        get("w_ih")?,
        get("w_hh")?,
        get("b_ih")?,
        get("b_hh")?,
    )
}

/// The sounds of some letters, greedily.
fn sounds(state: &State, letters: &[usize], start: usize, end: usize) -> TensorResult<Vec<usize>> {
    let units = state.get("enc_w_hh")?.dims().get(1).copied().unwrap_or(0);
    let mut h = zeros([1, units]);
    for &letter in letters {
        h = step(state, "enc", letter, &h)?;
    }
    let (mut out, mut last) = (Vec::new(), start);
    while out.len() < LONGEST {
        h = step(state, "dec", last, &h)?;
        let scores = F::linear(&h, state.get("fc_w")?, state.get("fc_b")?)?;
        last = scores.argmax()?.item::<i64>()? as usize;
        if last == end {
            break;
        }
        out.push(last);
    }
    Ok(out)
}

pub(super) fn g2p_en(case: &Case<'_>) -> Result<Results, String> {
    let state = State::of(&case.load("g2p_en/checkpoint20.npz")?)?;
    let graphemes = strings(case.want, "graphemes")?;
    let phonemes = strings(case.want, "phonemes")?;
    let place = |list: &[&str], symbol: &str| {
        let i = list.iter().position(|s| *s == symbol);
        i.ok_or_else(|| format!("the symbols have no {symbol}"))
    };
    let (unknown, ending) = (place(&graphemes, "<unk>")?, place(&graphemes, "</s>")?);
    let (start, end) = (place(&phonemes, "<s>")?, place(&phonemes, "</s>")?);
    let one = |word: &str, want: Option<&str>| -> Result<f64, String> {
        let letter = |c: char| place(&graphemes, &c.to_string()).unwrap_or(unknown);
        let mut letters: Vec<usize> = word.chars().map(letter).collect();
        letters.push(ending);
        let got = sounds(&state, &letters, start, end).map_err(text)?;
        let got: Vec<&str> = got
            .iter()
            .map(|&i| phonemes.get(i).copied().unwrap_or("?"))
            .collect();
        equal("the pronunciation", got.join(" "), want.unwrap_or(""))?;
        Ok(0.0)
    };
    let words = object(case.want, "words")?.iter();
    Ok(words
        .map(|(word, want)| (word.clone(), one(word, want.as_str())))
        .collect())
}
