//! Gradient checkpointing of every family: the same loss and the same gradients, bit for bit, with fewer activations
//! held. Alone in its process, whose memory is counted.

mod common;

use common::families;
use torsh_core::alloc;
use torsh_core::random::LocalGenerator;
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, randint, tensor};
use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
use torsh_text::models::{LlamaConfig, LlamaForCausalLM, TextModel, architectures, from_config};

const VOCABULARY: i64 = crate::common::VOCABULARY;

/// The mean of squares of all outputs.
fn loss(outputs: Vec<(&'static str, Tensor)>) -> Result<Tensor> {
    let mut sum = tensor![0.0];
    for (_, output) in outputs {
        sum = sum.add(&output.square()?.mean()?)?;
    }
    sum.sum()
}

/// A training step: the loss, the gradients by name, and the bytes that are held between the forward and the backward
/// pass.
type Step = (Tensor, Vec<(String, Option<Tensor>)>, usize);

fn step<M: Module + ?Sized>(
    model: &M,
    checkpointing: bool,
    forward: impl Fn() -> Result<Tensor>,
) -> Result<Step> {
    model.gradient_checkpointing(checkpointing)?;
    model.zero_grad();
    LocalGenerator::new(5).scope(|| {
        let before = alloc::stats().allocated_bytes;
        let loss = forward()?;
        let held = alloc::stats().allocated_bytes - before;
        loss.backward()?;
        let gradient = |p: &torsh_nn::Parameter| p.grad().map(|g| g.copy()).transpose();
        let gradients = model.named_parameters().into_iter();
        let gradients = gradients.map(|(name, p)| Ok((name, gradient(&p)?)));
        Ok((loss.detach(), gradients.collect::<Result<_>>()?, held))
    })
}

/// Compares a step with checkpoints with one without.
fn compare<M: Module + ?Sized>(
    name: &str,
    model: &M,
    forward: impl Fn() -> Result<Tensor>,
) -> Result<()> {
    // What threads keep for their kernels is taken now.
    step(model, false, &forward)?;
    let (loss, gradients, held) = step(model, false, &forward)?;
    let (again, same, less) = step(model, true, &forward)?;
    assert!(loss.item::<f64>()?.is_finite(), "{name}");
    assert_eq!(loss, again, "{name}");
    for ((parameter, a), (_, b)) in gradients.iter().zip(&same) {
        assert_eq!(a, b, "{name}: {parameter}");
    }
    let trained = gradients.iter().filter(|(_, g)| g.is_some()).count();
    let wanted = model
        .parameters()
        .iter()
        .filter(|p| p.requires_grad())
        .count();
    // A layer that is left out has no gradient.
    assert!(2 * trained > wanted, "{name}: {trained} of {wanted}");
    println!("{name}: {held} bytes held, {less} with checkpoints");
    assert!(10 * less < 7 * held, "{name}: {less} of {held} bytes");
    Ok(())
}

#[test]
fn checkpoints_change_memory_alone() -> Result<()> {
    let draws = LocalGenerator::new(7);
    for (_, architecture, config, reads) in families() {
        let (model, inputs) = draws.scope(|| -> Result<_> {
            let model: Box<dyn TextModel> = from_config(architecture, config)?;
            Ok((model, reads.inputs()))
        })?;
        for training in [false, true] {
            model.set_training(training);
            let name = format!("{architecture}, training {training}");
            compare(&name, &*model, || loss(model.forward_named(&inputs)?))?;
        }
    }

    // The switch is that of the model under adapters too.
    let (model, ids) = draws.scope(|| -> Result<_> {
        let base = LlamaForCausalLM::new(LlamaConfig {
            vocab_size: VOCABULARY as usize,
            hidden_size: 32,
            intermediate_size: 64,
            num_hidden_layers: 4,
            num_attention_heads: 2,
            ..LlamaConfig::default()
        })?;
        let config = LoraConfig::new()
            .r(4)
            .lora_dropout(0.1)
            .init_lora_weights(LoraInit::Random)
            .target_modules(["q_proj", "down_proj"]);
        Ok((
            LoraModel::new(base, config)?,
            randint(3, VOCABULARY, &[2, 32]),
        ))
    })?;
    model.train();
    compare("LoRA", &model, || model.forward(&ids)?.square()?.mean())?;

    // Every architecture of every family has the switch.
    for name in architectures() {
        let family = families()
            .into_iter()
            .filter(|(begin, ..)| name.starts_with(begin))
            .max_by_key(|(begin, ..)| begin.len());
        let (_, _, config, _) = family.unwrap_or_else(|| panic!("no configuration for {name}"));
        let model = from_config(name, config)?;
        model.gradient_checkpointing(true)?;
    }
    Ok(())
}
