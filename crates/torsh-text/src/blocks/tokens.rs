//! The vectors of tokens.

use torsh_nn::{Embedding, Module};
use torsh_tensor::{Result, Tensor, TorshError};

/// The rows of a table of tokens; an error says of which vocabulary a token is not.
#[track_caller]
pub(crate) fn vectors(table: &Embedding, ids: &Tensor) -> Result<Tensor> {
    table.forward(ids).map_err(|e| match e {
        TorshError::Index(_) => {
            let tokens = table.weight.dims().first().copied().unwrap_or(0);
            e.with_hint(format!(
                "the model's vocabulary has {tokens} tokens: use the tokenizer that belongs to it"
            ))
        }
        other => other,
    })
}
