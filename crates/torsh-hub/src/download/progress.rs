//! The bar of a download.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, which shows nothing where that is no terminal.
pub(super) struct Progress(Option<ProgressBar>, String);

impl Progress {
    pub(super) fn new(shown: bool, name: &str) -> Progress {
        Progress(
            shown.then(ProgressBar::no_length),
            crate::errors::short(name),
        )
    }

    /// From this byte on, of so many where that is known.
    pub(super) fn start(&mut self, at: u64, of: Option<u64>) {
        let Some(bar) = &self.0 else { return };
        let template = match of {
            Some(_) => {
                "{prefix} [{bar:32}] {bytes} of {total_bytes}, {bytes_per_sec}, done in {eta}"
            }
            None => "{prefix} {spinner} {bytes}, {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if let Some(of) = of {
            bar.set_length(of);
        }
        bar.set_prefix(self.1.clone());
        bar.set_position(at);
        // What was there took no time of this download.
        bar.reset_eta();
    }

    pub(super) fn at(&self, at: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(at);
        }
    }

    pub(super) fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
