use super::*;
use crate::tokenizers::{PaddingStrategy, TruncationStrategy};

/// A word is a token, `[CLS]` and `[SEP]` are around.
fn tokenizer() -> Result<Tokenizer> {
    Tokenizer::from_bytes(
        br#"{
        "added_tokens": [
            { "id": 0, "content": "[PAD]", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false },
            { "id": 2, "content": "[CLS]", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false },
            { "id": 3, "content": "[SEP]", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false }
        ],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                       { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }],
            "pair": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                     { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } },
                     { "SpecialToken": { "id": "[SEP]", "type_id": 1 } }],
            "special_tokens": { "[CLS]": { "id": "[CLS]", "ids": [2], "tokens": ["[CLS]"] },
                                "[SEP]": { "id": "[SEP]", "ids": [3], "tokens": ["[SEP]"] } } },
        "model": { "type": "WordLevel", "unk_token": "u",
                   "vocab": { "[PAD]": 0, "u": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5, "c": 6, "d": 7, "e": 8 } }
    }"#,
    )
}

fn error<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => "no error".into(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn long_texts_overflow_with_a_stride() -> Result<()> {
    let t = tokenizer()?;
    let options = EncodeOptions::new()
        .truncation(true)
        .max_length(5)
        .stride(1)
        .return_overflowing_tokens(true)
        .padding(PaddingStrategy::Length(6));
    let e = t.encode_with("a b c d e", &options)?;
    assert_eq!(e.ids, [2, 4, 5, 6, 3, 0]);
    assert_eq!(e.overflowing.len(), 1);
    assert_eq!(e.overflowing[0].ids, [2, 6, 7, 8, 3, 0]);
    assert_eq!(e.overflowing[0].offsets[1], (4, 5));
    let left = options.clone().truncation_side(Side::Left);
    assert_eq!(t.encode_with("a b c d e", &left)?.ids, [2, 6, 7, 8, 3, 0]);
    let without = options.clone().return_overflowing_tokens(false);
    assert!(t.encode_with("a b c d e", &without)?.overflowing.is_empty());

    let batch = t.encode_batch(&["a b c d e", "a"], &options)?;
    let (rows, samples) = batch.with_overflowing();
    assert_eq!(samples, [0, 0, 1]);
    assert_eq!(rows.to_tensors()?.input_ids.dims(), [3, 6]);
    Ok(())
}

#[test]
fn pairs_are_cut_as_asked() -> Result<()> {
    let t = tokenizer()?;
    let cut = |strategy, most| {
        let options = EncodeOptions::new().truncation(strategy).max_length(most);
        t.encode_pair_with("a b", "a b c d e", &options)
    };
    let e = t.encode_pair("a b", "c")?;
    assert_eq!(
        (e.ids, e.type_ids),
        (vec![2, 4, 5, 3, 6, 3], vec![0, 0, 0, 0, 1, 1])
    );
    let longest = TruncationStrategy::LongestFirst;
    assert_eq!(cut(longest, 8)?.ids, [2, 4, 5, 3, 4, 5, 6, 3]);
    assert_eq!(cut(longest, 6)?.ids, [2, 4, 3, 4, 5, 3]);
    assert_eq!(cut(longest, 3)?.ids, [2, 3, 3]);
    assert_eq!(
        cut(TruncationStrategy::OnlySecond, 7)?.ids,
        [2, 4, 5, 3, 4, 5, 3]
    );
    assert_eq!(
        cut(TruncationStrategy::OnlyFirst, 9)?.ids,
        [2, 4, 3, 4, 5, 6, 7, 8, 3]
    );
    assert!(error(cut(TruncationStrategy::OnlyFirst, 8)).contains("first text"));
    assert!(error(cut(longest, 2)).contains("max_length is 2"));
    Ok(())
}

#[test]
fn options_that_do_not_go_together_are_errors() -> Result<()> {
    let mut t = tokenizer()?;
    let cut = EncodeOptions::new().truncation(true);
    assert!(error(t.encode_with("a b", &cut)).contains("max_length"));
    t.set_model_max_length(3);
    assert_eq!(t.encode_with("a b", &cut)?.ids, [2, 4, 3]);
    let stride = cut
        .clone()
        .max_length(4)
        .stride(2)
        .return_overflowing_tokens(true);
    assert!(error(t.encode_with("a b c d", &stride)).contains("stride is 2"));
    let huge = EncodeOptions::new().padding(PaddingStrategy::Length(usize::MAX));
    assert!(error(t.encode_with("a", &huge)).contains("cannot pad"));
    let bare =
        br#"{ "model": { "type": "WordLevel", "unk_token": "u", "vocab": { "u": 0, "a": 1 } } }"#;
    let mut bare = Tokenizer::from_bytes(bare)?;
    let pad = EncodeOptions::new().padding(true).pad_to_multiple_of(4);
    assert!(error(bare.encode_with("a", &pad)).contains("padding token"));
    assert_eq!(
        bare.encode_with("a", &pad.clone().pad_token_id(0))?.ids,
        [1, 0, 0, 0]
    );
    bare.set_pad_token("a")?;
    assert_eq!(bare.encode_with("u", &pad)?.ids, [0, 1, 1, 1]);
    assert!(error(bare.set_pad_token("zzz")).contains("zzz"));
    Ok(())
}

#[test]
fn texts_of_a_batch_are_named_in_errors() -> Result<()> {
    let json = br#"{ "model": { "type": "WordLevel", "unk_token": "none", "vocab": { "a": 0 } } }"#;
    let t = Tokenizer::from_bytes(json)?;
    let e = error(t.encode_batch(&["a", "b"], &EncodeOptions::new()));
    assert!(e.contains("text 1"), "{e}");
    assert!(error(t.decode(&[0, 5], false)).contains("token 5 at position 1"));
    Ok(())
}

#[test]
fn words_keep_their_numbers() -> Result<()> {
    let t = tokenizer()?;
    let e = t.encode_words(&["a", "b c", "x"], &EncodeOptions::new())?;
    assert_eq!(e.ids, [2, 4, 5, 6, 1, 3]);
    assert_eq!(e.word_ids, [None, Some(0), Some(1), Some(1), Some(2), None]);
    assert_eq!(
        e.sequence_ids,
        [None, Some(0), Some(0), Some(0), Some(0), None]
    );
    assert_eq!(e.special_tokens_mask, [1, 0, 0, 0, 0, 1]);
    let e = t.encode_pair("a", "b")?;
    assert_eq!(e.sequence_ids, [None, Some(0), None, Some(1), None]);
    Ok(())
}

#[test]
fn added_tokens_are_found_in_texts() -> Result<()> {
    let mut t = tokenizer()?;
    let other = t.clone();
    assert_eq!(t.add_special_tokens(&["<x>"])?, 1);
    assert_eq!(t.add_tokens(&["new", "a"])?, 1);
    assert_eq!((t.len(), t.vocab_size(), other.len()), (11, 9, 9));
    assert_eq!(t.encode("a<x>b new")?.ids, [2, 4, 9, 5, 10, 3]);
    assert_eq!(t.decode(&[2, 4, 9, 10, 3], true)?, "a new");
    assert_eq!(t.all_special_ids(), [0, 2, 3, 9]);
    t.set_split_special_tokens(true);
    assert_eq!(t.encode("<x>")?.ids, [2, 1, 3]);
    assert_eq!(t.num_special_tokens_to_add(true), 3);
    Ok(())
}

#[test]
fn streams_say_what_decoding_says() -> Result<()> {
    let options =
        TrainOptions::new(crate::tokenizers::TokenizerModel::ByteLevelBpe).vocab_size(260);
    let t = Tokenizer::train(["ab ab"], &options)?;
    let text = "ab é 你好 👩‍👧 ok\u{fffd}!";
    let ids = t.encode(text)?.ids;
    let mut stream = t.decode_stream(false);
    let mut out = String::new();
    for id in ids {
        if let Some(piece) = stream.step(id)? {
            out.push_str(&piece);
        }
    }
    out.push_str(&stream.finish()?);
    assert_eq!(out, text);
    Ok(())
}

/// Hugging Face's `tokenizer(texts, padding="max_length", truncation="only_first")`.
#[test]
fn words_stand_for_strategies_and_sides() -> Result<()> {
    let mut t = tokenizer()?;
    let ids = |t: &Tokenizer, options: EncodeOptions| -> Result<Vec<u32>> {
        Ok(t.encode_with("a b c d", &options)?.ids)
    };
    let options = || EncodeOptions::new().max_length(4);
    assert_eq!(
        ids(&t, options().truncation("longest_first"))?,
        [2, 4, 5, 3]
    );
    assert_eq!(
        ids(
            &t,
            options().truncation("only_first").truncation_side("left")
        )?,
        [2, 6, 7, 3]
    );
    assert_eq!(
        ids(&t, options().truncation("do_not_truncate"))?,
        [2, 4, 5, 6, 7, 3]
    );
    t.set_pad_token("[PAD]")?;
    t.set_padding_side("left");
    let padded = |t: &Tokenizer, options: EncodeOptions| -> Result<Vec<u32>> {
        Ok(t.encode_batch(&["a", "b c"], &options)?[0].ids.clone())
    };
    let options = || EncodeOptions::new().max_length(5);
    assert_eq!(
        padded(&t, options().padding("max_length"))?,
        [0, 0, 2, 4, 3]
    );
    assert_eq!(
        padded(&t, options().padding("longest").padding_side("right"))?,
        [2, 4, 3, 0]
    );
    assert_eq!(padded(&t, options().padding("do_not_pad"))?, [2, 4, 3]);
    let e = error(padded(&t, options().padding("max")));
    assert!(
        e.contains("max is not a valid value for padding")
            && e.contains("\"longest\" or \"max_length\""),
        "{e}"
    );
    let e = error(ids(&t, options().truncation("first")));
    assert!(
        e.contains("first is not a valid value for truncation") && e.contains("\"only_second\""),
        "{e}"
    );
    t.set_padding_side("middle");
    let e = error(padded(&t, options().padding(true)));
    assert!(e.contains("the side is \"left\" or \"right\""), "{e}");
    Ok(())
}
