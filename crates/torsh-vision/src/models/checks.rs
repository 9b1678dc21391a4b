//! What models say to images and videos that do not fit.

use torsh_tensor::{Result, Tensor, TorshError};

/// An error unless these are images `[N, 3, H, W]` of this height and width.
#[track_caller]
pub(super) fn check_images(model: &'static str, x: &Tensor, [h, w]: [usize; 2]) -> Result<()> {
    check_rank(model, x)?;
    match x.dims()[2..] == [h, w] {
        true => Ok(()),
        false => Err(TorshError::shape(
            model,
            format!(
                "the model takes images of {h} x {w}, got {} x {}: {}",
                x.dims()[2],
                x.dims()[3],
                x.describe()
            ),
        )
        .with_hint("resize the images, or give the builder another size")),
    }
}

/// An error unless these are images `[N, 3, H, W]`.
#[track_caller]
pub(super) fn check_rank(model: &'static str, x: &Tensor) -> Result<()> {
    match x.dims() {
        [_, 3, h, w] if *h > 0 && *w > 0 => Ok(()),
        _ => {
            let error = TorshError::shape(
                model,
                format!("images are [N, 3, H, W], got {}", x.describe()),
            );
            Err(match x.ndim() {
                3 => error.with_hint("unsqueeze(0) makes one image a batch"),
                _ => error,
            })
        }
    }
}

/// An error unless these are videos `[N, 3, T, H, W]`.
#[track_caller]
pub(super) fn check_videos(model: &'static str, x: &Tensor) -> Result<()> {
    match x.dims() {
        [_, 3, t, h, w] if *t > 0 && *h > 0 && *w > 0 => Ok(()),
        _ => {
            let error = TorshError::shape(
                model,
                format!("videos are [N, 3, T, H, W], got {}", x.describe()),
            );
            Err(match x.ndim() {
                4 => error.with_hint("unsqueeze(0) makes one video a batch"),
                _ => error,
            })
        }
    }
}
