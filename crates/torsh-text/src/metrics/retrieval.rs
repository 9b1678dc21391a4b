//! Metrics of retrieval.

use torsh_tensor::{Result, TorshError};

/// What a relevance is worth in [`ndcg_at_k_with`].
///
/// ```
/// use torsh_text::metrics::{Gain, ndcg_at_k_with};
/// // A document of relevance 1 where one of relevance 2 should be.
/// assert_eq!(ndcg_at_k_with(&[1.0, 2.0], 1, Gain::Linear), 1.0 / 2.0);
/// assert_eq!(ndcg_at_k_with(&[1.0, 2.0], 1, Gain::Exponential), 1.0 / 3.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gain {
    /// Itself, as in trec_eval and scikit-learn.
    #[default]
    Linear,
    /// `2^relevance - 1`, which favours the most relevant.
    Exponential,
}

/// The relevances of documents in the order of their scores, the highest first; of equal scores the earlier document.
///
/// # Errors
/// Lists of different lengths.
///
/// ```
/// use torsh_text::metrics::rank_by_score;
/// assert_eq!(rank_by_score(&[0.1, 0.9, 0.5], &[3.0, 0.0, 1.0])?, [0.0, 1.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rank_by_score(scores: &[f64], relevance: &[f64]) -> Result<Vec<f64>> {
    if scores.len() != relevance.len() {
        return Err(TorshError::invalid(
            "rank_by_score",
            format!("{} scores for {} documents", scores.len(), relevance.len()),
        ));
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    Ok(order.into_iter().map(|i| relevance[i]).collect())
}

/// One over the rank of the first relevant document, 0 where there is none. `ranked` are the relevances in the order of
/// the ranking.
///
/// ```
/// use torsh_text::metrics::reciprocal_rank;
/// assert_eq!(reciprocal_rank(&[0.0, 1.0, 1.0]), 0.5);
/// ```
pub fn reciprocal_rank(ranked: &[f64]) -> f64 {
    let first = ranked.iter().position(|&r| r > 0.0);
    first.map_or(0.0, |at| 1.0 / (at + 1) as f64)
}

/// The mean of [`reciprocal_rank`] over queries (Voorhees, "The TREC-8 Question Answering Track Report", 1999).
///
/// # Errors
/// No queries.
///
/// ```
/// use torsh_text::metrics::mean_reciprocal_rank;
/// assert_eq!(mean_reciprocal_rank(&[[1.0, 0.0], [0.0, 1.0]])?, 0.75);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn mean_reciprocal_rank<R: AsRef<[f64]>>(rankings: &[R]) -> Result<f64> {
    mean("mean_reciprocal_rank", rankings, reciprocal_rank)
}

/// The normalised discounted cumulative gain of the first `k` documents (Järvelin and Kekäläinen, "Cumulated gain-based
/// evaluation of IR techniques", 2002): gains are divided by the binary logarithm of the rank plus one, and the sum by
/// that of the best order of the same documents. 0 where no document is relevant. `ranked` are the relevances of all
/// documents in the order of the ranking.
///
/// ```
/// use torsh_text::metrics::ndcg_at_k;
/// let ndcg = ndcg_at_k(&[3.0, 2.0, 3.0, 0.0, 1.0, 2.0], 6);
/// assert!((ndcg - 0.960808).abs() < 1e-6);
/// ```
pub fn ndcg_at_k(ranked: &[f64], k: usize) -> f64 {
    ndcg_at_k_with(ranked, k, Gain::Linear)
}

/// [`ndcg_at_k`] with another gain.
///
/// ```
/// use torsh_text::metrics::{Gain, ndcg_at_k_with};
/// let ndcg = ndcg_at_k_with(&[1.0, 2.0], 2, Gain::Exponential);
/// assert!((ndcg - (1.0 + 3.0 / 3f64.log2()) / (3.0 + 1.0 / 3f64.log2())).abs() < 1e-12);
/// ```
pub fn ndcg_at_k_with(ranked: &[f64], k: usize, gain: Gain) -> f64 {
    let sum = |order: &[f64]| -> f64 {
        let gains = order.iter().take(k).enumerate().map(|(at, &r)| {
            let gain = match gain {
                Gain::Linear => r,
                Gain::Exponential => r.exp2() - 1.0,
            };
            gain / ((at + 2) as f64).log2()
        });
        gains.sum()
    };
    let mut best = ranked.to_vec();
    best.sort_by(|a, b| b.total_cmp(a));
    match sum(&best) {
        0.0 => 0.0,
        ideal => sum(ranked) / ideal,
    }
}

/// The mean of [`ndcg_at_k`] over queries.
///
/// # Errors
/// No queries.
///
/// ```
/// use torsh_text::metrics::mean_ndcg_at_k;
/// assert_eq!(mean_ndcg_at_k(&[[1.0, 0.0], [0.0, 0.0]], 10)?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn mean_ndcg_at_k<R: AsRef<[f64]>>(rankings: &[R], k: usize) -> Result<f64> {
    mean("mean_ndcg_at_k", rankings, |r| ndcg_at_k(r, k))
}

#[track_caller]
fn mean<R: AsRef<[f64]>>(
    op: &'static str,
    rankings: &[R],
    of: impl Fn(&[f64]) -> f64,
) -> Result<f64> {
    if rankings.is_empty() {
        return Err(TorshError::invalid(op, "there are no queries"));
    }
    let sum: f64 = rankings.iter().map(|r| of(r.as_ref())).sum();
    Ok(sum / rankings.len() as f64)
}
