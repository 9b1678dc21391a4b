//! A program that makes a tensor and prints it: what starting costs.

use torsh_tensor::tensor;

fn main() {
    println!("{}", tensor![[1.0, 2.0], [3.0, 4.0]]);
}
