//! The checks of pipelines on threads, and what needs no group.

use torsh_distributed::pipeline::{PipelineStage, Schedule, ideal_bubble, simulated_bubble};
use torsh_distributed::plan::Schedule as Order;
use torsh_distributed::{DataParallelTrainer, spawn};
use torsh_distributed_suite::pipeline::{errors, exact, memory, meshes, shared};
use torsh_distributed_suite::seeded;
use torsh_functional as F;
use torsh_nn::{Linear, Module, ModuleExt, Tanh, sequential};
use torsh_optim::{Optimizer, SGD};
use torsh_tensor::{Device, Result, Tensor, randint, randn};

use super::on_all;

#[test]
fn pipelines_are_exact() -> Result<()> {
    on_all(exact)
}

#[test]
fn pipelines_hold_what_they_should() -> Result<()> {
    on_all(memory)
}

#[test]
fn pipelines_share_embeddings() -> Result<()> {
    on_all(shared)
}

#[test]
fn pipelines_on_meshes() -> Result<()> {
    spawn(4, |g| meshes(&g)).map(|_| ())
}

#[test]
fn pipeline_errors() -> Result<()> {
    on_all(errors)
}

#[test]
fn bubbles_are_those_of_the_papers() -> Result<()> {
    for (p, m) in [(2, 2), (2, 8), (4, 4), (4, 16), (8, 32)] {
        for order in [Order::GPipe, Order::OneFOneB] {
            let bubble = simulated_bubble(order, p, m, 1, [1.0, 0.7, 1.3])?;
            assert!(
                (bubble - ideal_bubble(p, m)).abs() < 1e-12,
                "{order:?} {p} {m}: {bubble}"
            );
        }
        // Two parts are as good as twice as many micro-batches.
        let bubble = simulated_bubble(Order::Interleaved, p, m, 2, [1.0, 1.0, 1.0])?;
        assert!(
            (bubble - ideal_bubble(p, 2 * m)).abs() < 1e-12,
            "{p} {m}: {bubble}"
        );
        // ZB-H1: a third of the idle time where the three passes take the same.
        if m >= p {
            let bubble = simulated_bubble(Order::ZeroBubble, p, m, 1, [1.0, 1.0, 1.0])?;
            let idle = (p - 1) as f64;
            let right = idle / (3.0 * m as f64 + idle);
            assert!(
                (bubble - right).abs() < 1e-12,
                "{p} {m}: {bubble} and not {right}"
            );
        }
    }
    Ok(())
}

/// A stage that takes its time without a processor.
#[derive(Module)]
struct Slow {
    linear: Linear,
}

impl Module for Slow {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        std::thread::sleep(std::time::Duration::from_millis(8));
        let y = self.linear.forward(x)?;
        y.register_hook(|_| {
            std::thread::sleep(std::time::Duration::from_millis(16));
            Ok(None)
        })?;
        Ok(y)
    }
}

#[test]
#[ignore = "it measures time: prints the measured idle part of a step and the formula's"]
fn measured_bubbles() -> Result<()> {
    for (p, m) in [(2, 4), (2, 8), (4, 8), (4, 16)] {
        let x = randn([m, 4]);
        let measured = spawn(p, |g| {
            let stage = PipelineStage::on(
                Slow {
                    linear: Linear::new(4, 4),
                },
                g.rank(),
                p,
                &g,
            )?;
            let schedule = Schedule::one_f_one_b(stage, m);
            for _ in 0..2 {
                g.barrier()?;
                schedule.step(&x, &x, |a, b| F::mse_loss(a, b))?;
            }
            schedule.bubble()
        })?[0];
        let right = ideal_bubble(p, m);
        println!(
            "{p} ranks, {m} micro-batches: {measured:.4}, formula {right:.4}, ratio {:.3}",
            measured / right
        );
    }
    Ok(())
}

#[test]
fn replicas_train_as_one() -> Result<()> {
    let build = || {
        seeded(8, || {
            Ok(sequential![
                Linear::new(4, 6),
                Tanh::new(),
                Linear::new(6, 2)
            ])
        })
    };
    for n in 1..=3 {
        let models = (0..n)
            .map(|_| Ok(Box::new(build()?) as Box<dyn Module>))
            .collect::<Result<Vec<_>>>()?;
        let optimizers = models
            .iter()
            .map(|m| Ok(Box::new(SGD::new(m.parameters(), 0.1)?) as Box<dyn Optimizer>))
            .collect::<Result<Vec<_>>>()?;
        let mut trainer = DataParallelTrainer::new(models, vec![Device::Cpu; n], optimizers)?;
        let whole = build()?;
        let alone = SGD::new(whole.parameters(), 0.1)?;
        for step in 0..5 {
            let (x, y) = seeded(30 + step, || Ok((randn([7, 4]), randint(0, 2, &[7]))))?;
            let losses = trainer.training_step(&x, &y, F::cross_entropy)?;
            alone.zero_grad();
            let loss = F::cross_entropy(&whole.forward(&x)?, &y)?;
            loss.backward()?;
            alone.step()?;
            let each = 7 / n;
            let mean: f64 = losses
                .iter()
                .enumerate()
                .map(|(i, l)| l * if i + 1 == n { 7 - i * each } else { each } as f64 / 7.0)
                .sum();
            assert!((mean - loss.item::<f64>()?).abs() < 1e-5);
            let right = whole.state_dict();
            for model in &trainer.models {
                let state = model.state_dict();
                for (name, t) in right.iter() {
                    assert!(
                        state[name].allclose(t)?,
                        "{n} replicas, step {step}: {name}"
                    );
                    assert_eq!(state[name], trainer.models[0].state_dict()[name]);
                }
            }
        }
        let few = trainer.training_step(
            &randn([n as i64 - 1, 4]),
            &randint(0, 2, &[n as i64 - 1]),
            F::cross_entropy,
        );
        assert!(few.is_err());
    }
    Ok(())
}
