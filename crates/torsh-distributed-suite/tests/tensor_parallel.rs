//! The checks of tensor parallel on threads.

use torsh_distributed::spawn;
use torsh_distributed_suite::tensor_parallel::{
    attention, checkpoints, errors, layers, losses, meshes, mlp, models, random, training,
};
use torsh_tensor::Result;

use super::on_all;

#[test]
fn tensor_parallel_layers() -> Result<()> {
    on_all(mlp)?;
    on_all(layers)?;
    on_all(attention)
}

#[test]
fn tensor_parallel_losses() -> Result<()> {
    on_all(losses)
}

#[test]
fn tensor_parallel_models() -> Result<()> {
    on_all(models)
}

#[test]
fn tensor_parallel_training() -> Result<()> {
    on_all(training)
}

#[test]
fn tensor_parallel_random_numbers() -> Result<()> {
    on_all(random)
}

#[test]
fn tensor_parallel_checkpoints() -> Result<()> {
    on_all(checkpoints)
}

#[test]
fn tensor_parallel_on_meshes() -> Result<()> {
    spawn(4, |g| meshes(&g)).map(|_| ())
}

#[test]
fn tensor_parallel_errors() -> Result<()> {
    on_all(errors)
}
