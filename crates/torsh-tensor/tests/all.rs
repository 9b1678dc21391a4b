//! The integration tests of `torsh-tensor` in one program: a link costs more than most of them.

mod add_an_op;
mod aliases;
mod autocast;
mod basics;
mod compound;
mod fft;
mod half_types;
mod indexing;
mod limits_of_types;
mod masked;
mod observe;
mod operators;
mod printing;
mod random;
mod random_statistics;
mod recorded;
mod released;
mod scattered;
mod schemas;
mod shapes;
mod spaced;
mod unique;
mod words;
