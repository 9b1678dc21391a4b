use super::*;
use crate::tokenizers::precompiled::tests::table;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

fn piece_of(text: &str, score: f32, kind: i64) -> Vec<u8> {
    let mut message = field(1, text.as_bytes());
    message.push(2 << 3 | 5);
    message.extend(score.to_le_bytes());
    message.extend([3 << 3, kind as u8]);
    field(1, &message)
}

/// A model of the type with these normal pieces after the usual three.
fn model(kind: i64, pieces: &[(&str, f32)], charsmap: &[u8]) -> Vec<u8> {
    let mut out = piece_of("<unk>", 0.0, UNKNOWN);
    out.extend(piece_of("<s>", 0.0, CONTROL));
    out.extend(piece_of("</s>", 0.0, CONTROL));
    for (text, score) in pieces {
        out.extend(piece_of(text, *score, NORMAL));
    }
    out.extend(field(2, &[3 << 3, kind as u8]));
    out.extend(field(3, &field(2, charsmap)));
    out
}

const UNIGRAM_PIECES: [(&str, f32); 7] = [
    ("\u{2581}hello", -1.0),
    ("\u{2581}", -2.0),
    ("he", -3.0),
    ("llo", -3.5),
    ("a", -4.0),
    ("l", -6.0),
    ("o", -6.0),
];

const MERGED: [(&str, f32); 8] = [
    ("ab", -1.0),
    ("\u{2581}ab", -2.0),
    ("abc", -3.0),
    ("bc", -0.5),
    ("\u{2581}", -10.0),
    ("a", -11.0),
    ("b", -12.0),
    ("c", -13.0),
];

fn plain(bytes: &[u8]) -> Result<Tokenizer> {
    load(bytes, "m.model", None, &Map::new())
}

#[test]
fn unigram_takes_the_best_pieces() -> Result<()> {
    let t = plain(&model(UNIGRAM, &UNIGRAM_PIECES, &[]))?;
    let e = t.encode("  hello   hello ")?;
    assert_eq!(e.tokens, ["\u{2581}hello", "\u{2581}hello"]);
    assert_eq!(e.ids, [3, 3]);
    assert_eq!(t.tokenize("helloa")?, ["\u{2581}hello", "a"]);
    assert_eq!(t.decode(&[3, 4, 7], false)?, "hello a");
    assert_eq!(t.encode("\u{fe}")?.ids, [4, 0]);
    assert_eq!(t.special_tokens().eos.as_deref(), Some("</s>"));
    assert_eq!(t.encode("hello</s>")?.ids, [3, 2]);
    Ok(())
}

#[test]
fn a_table_of_normal_forms_is_used() -> Result<()> {
    let t = plain(&model(UNIGRAM, &UNIGRAM_PIECES, &table()))?;
    assert_eq!(t.tokenize("A")?, ["\u{2581}", "a", "a"]);
    assert_eq!(t.encode("A")?.offsets, [(0, 1), (0, 1), (0, 1)]);
    let again = Tokenizer::from_bytes(t.to_json()?)?;
    assert_eq!(again.tokenize("A")?, ["\u{2581}", "a", "a"]);
    Ok(())
}

#[test]
fn bpe_merges_by_score() -> Result<()> {
    let t = plain(&model(BPE, &MERGED, &[]))?;
    // "bc" has the highest score of all, so "ab" is never made and with it not the first piece.
    assert_eq!(t.tokenize("abc")?, ["\u{2581}", "abc"]);
    assert_eq!(t.tokenize("ab")?, ["\u{2581}ab"]);
    Ok(())
}

#[test]
fn families_arrange_the_pieces_as_their_classes_do() -> Result<()> {
    let bytes = model(UNIGRAM, &UNIGRAM_PIECES, &[]);
    let of = |class| load(&bytes, "m.model", Some(class), &Map::new());
    let t = of("XLMRobertaTokenizer")?;
    assert_eq!(t.encode("hello")?.ids, [0, 4, 2]);
    assert_eq!(t.encode_pair("hello", "a")?.ids, [0, 4, 2, 2, 5, 8, 2]);
    assert_eq!(t.mask_token_id(), Some(11));
    let t = of("T5TokenizerFast")?;
    assert_eq!(t.encode("hello")?.ids, [3, 2]);
    assert_eq!(t.token_to_id("<extra_id_0>"), Some(109));
    assert_eq!(t.token_to_id("<extra_id_99>"), Some(10));
    let error = of("NllbTokenizer").err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("NllbTokenizer") && e.contains("m.model")));
    Ok(())
}

#[test]
fn files_that_lie_are_errors_with_the_field() {
    let error = |bytes: &[u8]| match plain(bytes) {
        Ok(_) => "no error".to_string(),
        Err(e) => e.to_string(),
    };
    assert!(error(b"").contains("no pieces"));
    assert!(error(b"{\"not\": 1}").contains("m.model"));
    let twice = model(UNIGRAM, &[("a", 0.0), ("a", 0.0)], &[]);
    assert!(error(&twice).contains("pieces[4]"));
    assert!(error(&model(3, &UNIGRAM_PIECES, &[])).contains("model_type"));
    assert!(error(&model(UNIGRAM, &[("a", f32::NAN)], &[])).contains("pieces[3]"));
    assert!(error(&model(UNIGRAM, &UNIGRAM_PIECES, b"abc")).contains("precompiled_charsmap"));
    let mut wrong = table();
    wrong[4..8].copy_from_slice(&(4096u32 << 10).to_le_bytes());
    assert!(error(&model(UNIGRAM, &UNIGRAM_PIECES, &wrong)).contains("precompiled_charsmap"));
    let mut lying = field(1, b"x");
    lying[1] = 0x7f;
    assert!(error(&lying).contains("by its length"));
}

#[test]
fn any_byte_may_be_another() {
    let good = model(UNIGRAM, &UNIGRAM_PIECES, &table());
    let head = good.len() - table().len();
    for at in 0..head + 4 {
        for other in [0, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = other;
            if let Ok(t) = plain(&bytes) {
                let _ = t.encode("A hello \u{fe}");
            }
        }
    }
    for end in 0..head {
        if let Ok(t) = plain(&good[..end]) {
            let _ = t.encode("A hello");
        }
    }
}
