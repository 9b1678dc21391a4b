//! What models of sound read and what their results say.

use torsh_tensor::{Result, Tensor, TorshError};

/// Sound `[batch, samples]` with mean 0 and variance 1, as models read it whose `preprocessor_config.json` has
/// `do_normalize`. With a mask, which is 1 for sound and 0 for padding on its right, padding becomes 0.
///
/// # Errors
/// Sound of other dimensions, and a mask of another shape.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::models::normalize_sound;
/// let sound = normalize_sound(&tensor![[1.0, 3.0, 0.0]], Some(&tensor![[1, 1, 0]]))?;
/// assert!(sound.allclose(&tensor![[-1.0, 1.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normalize_sound(input_values: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    if input_values.ndim() != 2 {
        return Err(TorshError::shape(
            "normalize_sound",
            format!("expected [batch, samples], got {}", input_values.shape()),
        ));
    }
    let sound = match mask {
        Some(mask) if mask.dims() != input_values.dims() => {
            return Err(TorshError::shape(
                "normalize_sound",
                format!("a mask {} for sound {}", mask.shape(), input_values.shape()),
            ));
        }
        Some(mask) => mask.ne(0)?.to_dtype(input_values.dtype())?,
        None => input_values.ones_like()?,
    };
    let count = sound.sum_dim(1, true)?.clamp_min(1.0)?;
    let mean = input_values.mul(&sound)?.sum_dim(1, true)?.div(&count)?;
    let centred = input_values.sub(&mean)?.mul(&sound)?;
    let variance = centred.square()?.sum_dim(1, true)?.div(&count)?;
    centred.div(variance.add(1e-7)?.sqrt()?)
}

/// The most likely tokens of each frame of `logits` `[batch, frames, vocabulary]`, with repeated ones once and without
/// `blank` (Graves et al., "Connectionist Temporal Classification", 2006). Of sequence `b` the first `frames[b]` are
/// read, or all.
///
/// # Errors
/// Logits of other dimensions.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::models::ctc_greedy_decode;
/// let one = |token: i64| (0..3).map(|t| if t == token { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
/// let frames: Vec<f32> = [0, 1, 1, 0, 1, 2].into_iter().flat_map(one).collect();
/// let logits = torsh_tensor::Tensor::from_vec(frames, [1, 6, 3])?;
/// assert_eq!(ctc_greedy_decode(&logits, 0, None)?, [[1, 1, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn ctc_greedy_decode(
    logits: &Tensor,
    blank: i64,
    frames: Option<&[usize]>,
) -> Result<Vec<Vec<i64>>> {
    if logits.ndim() != 3 {
        return Err(TorshError::shape(
            "ctc_greedy_decode",
            format!(
                "expected logits [batch, frames, vocabulary], got {}",
                logits.shape()
            ),
        ));
    }
    let best = logits.argmax_dim(-1, false)?.to_vec2::<i64>()?;
    let rows = best.into_iter().enumerate().map(|(b, mut row)| {
        if let Some(&frames) = frames.and_then(|f| f.get(b)) {
            row.truncate(frames);
        }
        row.dedup();
        row.retain(|&token| token != blank);
        row
    });
    Ok(rows.collect())
}
