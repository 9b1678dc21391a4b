//! Stopping a download.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a download from another thread. What has arrived stays, and the next download goes on from there.
///
/// ```
/// use torsh_hub::Cancel;
/// let cancel = Cancel::new();
/// let of_download = cancel.clone(); // DownloadOptions::new().cancel(of_download)
/// cancel.cancel();
/// assert!(of_download.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the downloads that have this, or a clone of it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they are to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
