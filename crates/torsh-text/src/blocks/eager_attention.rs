//! Attention with dropout or a soft cap: with weights that are stored, for what the one kernel does not have.

use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{AttentionMask, attend};

/// What attention does to products and weights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttentionSteps {
    /// The factor of the products of queries and keys; 1 over the square root of their size unless given.
    pub(crate) scale: Option<f64>,
    /// Products `p` become `tanh(p / cap) * cap`.
    pub(crate) softcap: Option<f64>,
    /// The probability with which weights are set to 0.
    pub(crate) dropout: f64,
}

/// [`attend`] with further steps: by the one kernel where it has them all.
///
/// # Errors
/// As [`attend`].
#[track_caller]
pub(crate) fn attend_with(
    [query, key, value]: [&Tensor; 3],
    mask: &AttentionMask,
    steps: AttentionSteps,
) -> Result<Tensor> {
    match steps.softcap.is_some() || steps.dropout > 0.0 {
        true => attend_explicitly([query, key, value], mask, steps),
        false => attend(query, key, value, mask, steps.scale),
    }
}

/// Attention whose weights are stored.
#[track_caller]
fn attend_explicitly(
    [query, key, value]: [&Tensor; 3],
    mask: &AttentionMask,
    steps: AttentionSteps,
) -> Result<Tensor> {
    let (&[batch, heads, queries, size], &[_, kv_heads, keys, _]) = (query.dims(), key.dims())
    else {
        return Err(TorshError::shape(
            "attention",
            format!(
                "expected [batch, heads, length, size], got query {} and key {}",
                query.shape(),
                key.shape()
            ),
        ));
    };
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(TorshError::shape(
            "attention",
            format!("{kv_heads} heads of keys for {heads} heads of queries"),
        ));
    }
    // The queries of heads that share keys stand below each other, so that keys are not repeated.
    let rows = heads / kv_heads * queries;
    let grouped = query.reshape([batch, kv_heads, rows, size])?;
    let mut products = grouped
        .matmul(&key.transpose(2, 3)?)?
        .mul(steps.scale.unwrap_or(1.0 / (size as f64).sqrt()))?
        .reshape([batch, heads, queries, keys])?;
    if let Some(cap) = steps.softcap {
        products = products.div(cap)?.tanh()?.mul(cap)?;
    }
    // The half types have no softmax of their own width here.
    let wide = match query.dtype() {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    products = products.to_dtype(wide)?;
    if let Some(mask) = mask.added(batch, queries, keys, wide)? {
        // A query that sees nothing, as padding, gets the mean of all values and no nan.
        products = products
            .add(&mask.to_device(query.device())?)?
            .clamp_min(f64::from(f32::MIN))?;
    }
    let weights = products.softmax(-1)?.to_dtype(query.dtype())?;
    let weights = weights.dropout(steps.dropout, steps.dropout > 0.0)?;
    weights
        .reshape([batch, kv_heads, rows, keys])?
        .matmul(value)?
        .reshape([batch, heads, queries, value.size(-1)?])
}

#[cfg(test)]
mod tests {
    use torsh_core::random::manual_seed;
    use torsh_tensor::randn;

    use super::*;
    use crate::blocks::Padding;

    #[test]
    fn without_cap_it_is_attention() -> Result<()> {
        manual_seed(1);
        let (q, k, v) = (
            randn([2, 4, 3, 8]),
            randn([2, 2, 5, 8]),
            randn([2, 2, 5, 8]),
        );
        let padding = Padding::new([1..5, 0..5]);
        let mask = AttentionMask::causal(2).window(3).padding(Some(padding));
        let steps = AttentionSteps {
            scale: Some(0.3),
            ..AttentionSteps::default()
        };
        let wanted = attend(&q, &k, &v, &mask, Some(0.3))?;
        let found = attend_explicitly([&q, &k, &v], &mask, steps)?;
        assert!(found.allclose(&wanted)?);
        let capped = AttentionSteps {
            softcap: Some(0.5),
            ..steps
        };
        assert!(!attend_with([&q, &k, &v], &mask, capped)?.allclose(&wanted)?);
        Ok(())
    }
}
