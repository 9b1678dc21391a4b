//! What a run of training consists of.

use super::interrupt::Listening;
use super::source::Source;

/// What does not change while a run goes on.
pub(super) struct Run<'a, B> {
    pub(super) train: Source<'a, B>,
    pub(super) val: Option<Source<'a, B>>,
    pub(super) listening: Option<Listening>,
}
