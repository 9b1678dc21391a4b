//! Language models that are sharded block by block train as whole ones do, and generate with what they learned.

use torsh::prelude::*;
use torsh_core::random::LocalGenerator;
use torsh_distributed::{DeviceMesh, FullyShardOptions, full_state_dict, fully_shard, spawn};
use torsh_nn::module::with_submodule_mut;
use torsh_text::generation::{GenerationExt, GenerationModel, GenerationOptions};
use torsh_text::models::{GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM};

const STEPS: i64 = 3;

/// The tokens of a rank in a step, and the loss of the next ones.
fn loss(model: &impl Module, step: i64, rank: usize) -> Result<Tensor> {
    let token = |i: i64| (i * i + 3 * step + 5 * rank as i64 + i) % 11;
    let ids: Vec<i64> = (0..12).map(token).collect();
    let ids = Tensor::from_data(&ids, [2, 6])?;
    let y = model.forward(&ids.narrow(1, 0, 5)?)?.reshape([10, 11])?;
    torsh_functional::cross_entropy(&y, &ids.narrow(1, 1, 5)?.reshape([10])?)
}

/// The largest difference of two state dicts.
fn distance(a: &StateDict, b: &StateDict) -> Result<f64> {
    assert_eq!(a.len(), b.len());
    let mut most = 0.0f64;
    for (name, t) in a.iter() {
        let off = t.sub(&b[name])?.abs()?.max()?.item::<f64>()?;
        most = most.max(off);
    }
    Ok(most)
}

/// Trains and generates on two ranks, with a model whose blocks have these names.
fn compared<M: GenerationModel>(
    blocks: &str,
    make: impl Fn() -> Result<M> + Send + Sync,
) -> Result<()> {
    let ranks = 2;
    let made = || LocalGenerator::new(3).scope(&make);
    let all = spawn(ranks, |g| {
        let (whole, mut model) = (made()?, made()?);
        assert_eq!(distance(&whole.state_dict(), &model.state_dict())?, 0.0);
        let mesh = DeviceMesh::new(&[ranks], &["dp"])?;
        let options = FullyShardOptions::new;
        for i in 0..2 {
            with_submodule_mut(&mut model, &format!("{blocks}.{i}"), |block| {
                fully_shard(block, &mesh, options()).map(drop)
            })?;
        }
        fully_shard(&mut model, &mesh, options())?;
        let count = |m: &M| m.parameters().iter().map(|p| p.numel()).sum::<usize>();
        let (own, every) = (count(&model), count(&whole));
        assert!(own < every * 3 / 4, "{own} of {every}");

        let ours = AdamW::new(model.parameters(), 0.05)?;
        let theirs = AdamW::new(whole.parameters(), 0.05)?;
        for step in 0..STEPS {
            ours.zero_grad();
            let mine = loss(&model, step, g.rank())?;
            mine.backward()?;
            ours.step()?;
            theirs.zero_grad();
            for rank in 0..ranks {
                let l = loss(&whole, step, rank)?;
                if rank == g.rank() {
                    let off = l.item::<f64>()? - mine.item::<f64>()?;
                    assert!(off.abs() < 1e-6, "{blocks} {step}: {off:e}");
                }
                l.div(ranks as f64)?.backward()?;
            }
            theirs.step()?;
        }
        let off = distance(&full_state_dict(&model)?, &whole.state_dict())?;
        assert!(off < 1e-5, "{blocks}: {off:e}");
        let moved = distance(&whole.state_dict(), &made()?.state_dict())?;
        assert!(moved > 0.05, "{blocks}: {moved:e}");

        // The sharded model generates as the whole one, and so does a model that loads its gathered weights.
        let gathered = made()?;
        gathered.load_state_dict(&full_state_dict(&model)?)?;
        for m in [&gathered, &whole, &model] {
            m.eval();
        }
        let tokens = |m: &M| {
            let options = GenerationOptions::new().max_new_tokens(6);
            m.generate(&tensor![[1, 5, 9]], &options)?.to_vec::<i64>()
        };
        let (ours, theirs) = (tokens(&model)?, tokens(&whole)?);
        assert_eq!(ours, theirs, "{blocks}");
        assert_eq!(tokens(&gathered)?, theirs, "{blocks}");
        Ok(ours.len())
    })?;
    assert_eq!(all, [9, 9]);
    Ok(())
}

/// Its head is its embedding.
#[test]
fn gpt2_is_sharded_by_blocks() -> Result<()> {
    compared("transformer.h", || {
        GPT2LMHeadModel::new(GPT2Config {
            n_embd: 8,
            n_layer: 2,
            n_head: 2,
            vocab_size: 11,
            n_positions: 16,
            resid_pdrop: 0.0,
            embd_pdrop: 0.0,
            attn_pdrop: 0.0,
            initializer_range: 0.3,
            ..Default::default()
        })
    })
}

#[test]
fn llama_is_sharded_by_blocks() -> Result<()> {
    compared("model.layers", || {
        LlamaForCausalLM::new(LlamaConfig {
            hidden_size: 8,
            intermediate_size: 12,
            num_hidden_layers: 2,
            num_attention_heads: 2,
            num_key_value_heads: Some(1),
            vocab_size: 11,
            max_position_embeddings: 16,
            tie_word_embeddings: false,
            initializer_range: 0.3,
            ..Default::default()
        })
    })
}
