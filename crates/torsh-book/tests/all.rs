//! The tests of the documents: what they say, the examples in the documentation of crates, and the book's missing names.

mod documents;
mod examples;
