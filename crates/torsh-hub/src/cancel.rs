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

    /// Cancels the downloads that have this, or a clone of it: each ends with an error of the kind
    /// [`Interrupted`](std::io::ErrorKind::Interrupted).
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use torsh_hub::{Cancel, DownloadOptions, download_url_to_file};
    /// use torsh_tensor::TorshError;
    ///
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-cancel-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// # std::fs::write(dir.join("a.txt"), "a")?;
    /// # let url = format!("file://{}", dir.join("a.txt").display());
    /// let cancel = Cancel::new();
    /// let options = DownloadOptions::new().cancel(cancel.clone());
    /// cancel.cancel();
    /// let error = download_url_to_file(&url, dir.join("b.txt"), options).unwrap_err();
    /// assert!(matches!(&error, TorshError::Io(e) if e.kind() == ErrorKind::Interrupted));
    /// assert!(!dir.join("b.txt").exists());
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), TorshError>(())
    /// ```
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they are to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
