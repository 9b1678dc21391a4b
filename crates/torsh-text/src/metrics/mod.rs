//! Metrics of texts.
//!
//! | here | gives the numbers of |
//! |---|---|
//! | [`corpus_bleu`], [`sentence_bleu`] | sacrebleu's BLEU, with its tokenizations and smoothings |
//! | [`corpus_chrf`], [`sentence_chrf`] | sacrebleu's chrF and chrF++ |
//! | [`corpus_ter`], [`sentence_ter`] | sacrebleu's TER, with shifts |
//! | [`rouge`], [`rouge_n`] | rouge-score's ROUGE-N, ROUGE-L and ROUGE-Lsum |
//! | [`meteor`] | NLTK's METEOR without WordNet's synonyms |
//! | [`wer`], [`cer`], [`word_errors`], [`char_errors`] | jiwer's word and character error rates |
//! | [`squad`], [`squad_exact_match`], [`squad_f1`] | the evaluation script of SQuAD |
//! | [`seqeval`] | seqeval's scores of tagged spans |
//! | [`mean_reciprocal_rank`], [`ndcg_at_k`] | retrieval: trec_eval's `recip_rank` and `ndcg_cut` |
//!
//! The first argument is what a model wrote, the second what it should have written. Perplexity is
//! [`torsh_train::metrics::Perplexity`], and that of long texts [`crate::generation::perplexity`].
//!
//! ```
//! use torsh_text::metrics::{corpus_bleu, wer};
//! let (hypotheses, references) = (["the cat sat on the mat"], ["the cat is on the mat"]);
//! assert!((corpus_bleu(&hypotheses, &[references])?.score - 37.99).abs() < 0.01);
//! assert!((wer(&hypotheses, &references)? - 1.0 / 6.0).abs() < 1e-12);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod bleu;
mod chrf;
mod edit;
mod meteor;
mod porter;
mod retrieval;
mod rouge;
mod segments;
mod seqeval;
mod squad;
mod ter;

pub use bleu::{
    BleuOptions, BleuScore, BleuSmoothing, BleuTokenize, corpus_bleu, corpus_bleu_with,
    sentence_bleu, sentence_bleu_with,
};
pub use chrf::{ChrfOptions, corpus_chrf, corpus_chrf_with, sentence_chrf, sentence_chrf_with};
pub use edit::{EditCounts, cer, char_errors, wer, word_errors};
pub use meteor::{MeteorOptions, meteor, meteor_with};
pub use porter::porter_stem;
pub use retrieval::{
    Gain, mean_ndcg_at_k, mean_reciprocal_rank, ndcg_at_k, ndcg_at_k_with, rank_by_score,
    reciprocal_rank,
};
pub use rouge::{RougeOptions, RougeScore, RougeScores, rouge, rouge_n, rouge_with};
pub use seqeval::{SeqevalOptions, SeqevalReport, Span, SpanScore, seqeval, seqeval_with, spans};
pub use squad::{SquadScores, squad, squad_exact_match, squad_f1, squad_normalize};
pub use ter::{TerOptions, TerScore, corpus_ter, corpus_ter_with, sentence_ter, sentence_ter_with};

#[cfg(test)]
mod tests;
