//! The README and the pages of `docs/`, whose code blocks are doc tests of this crate.

#[cfg(doctest)]
mod book;
