//! The derive without `impl Module`.

use torsh_nn::{Linear, Module};

#[derive(Module)]
struct Net {
    fc: Linear,
}

fn main() {}
