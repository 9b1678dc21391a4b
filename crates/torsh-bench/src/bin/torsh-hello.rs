//! A program that creates a tensor and prints it, to measure the cost of starting.

use torsh_tensor::tensor;

fn main() {
    println!("{}", tensor![[1.0, 2.0], [3.0, 4.0]]);
}
