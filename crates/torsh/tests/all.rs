//! The integration tests of `torsh` in one program: a link costs more than most of them.

mod char_gpt;
mod fashion_mnist;
mod graph_network;
#[cfg(all(feature = "distributed", feature = "text"))]
mod sharded_text;
