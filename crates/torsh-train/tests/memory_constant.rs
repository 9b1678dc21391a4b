//! A training loop holds no more memory at step 1,000 than at step 10. Alone in its process, whose
//! memory is counted.

mod common;

use std::sync::{Arc, Mutex};

use common::blobs;
use torsh_data::{DataLoader, TensorDataset};
use torsh_functional as F;
use torsh_nn::{Linear, ModuleExt};
use torsh_optim::SGD;
use torsh_tensor::{Device, Result};
use torsh_train::callbacks::{Callback, Context};
use torsh_train::metrics::Accuracy;
use torsh_train::{Stop, Trainer};

/// Bytes held by tensors do not grow from step 10 to step 1,000.
#[test]
fn memory_stays_as_it_is() -> Result<()> {
    struct Held(Arc<Mutex<Vec<(usize, usize)>>>);
    impl Callback for Held {
        fn name(&self) -> &str {
            "held"
        }
        fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
            let held = torsh_backend::memory_stats(Device::Cpu)?.allocated_bytes;
            if [10, 100, 1000].contains(&cx.step) {
                self.0.lock().unwrap().push((cx.step, held));
            }
            Ok(())
        }
    }
    let (x, y) = blobs(64)?;
    let loader = DataLoader::builder(TensorDataset::new(x, y))
        .batch_size(8)
        .build()?;
    let net = Linear::new(6, 3);
    let sgd = SGD::builder(net.parameters())
        .lr(0.01)
        .momentum(0.9)
        .build()?;
    let held = Arc::new(Mutex::new(Vec::new()));
    let mut trainer = Trainer::builder(net, &sgd)
        .loss(|output, target| F::cross_entropy(output, target))
        .metric(Accuracy::new())
        .callback(Held(held.clone()))
        .epochs(1000)
        .max_steps(1000)
        .build()?;
    let results = trainer.fit(&loader, Some(&loader))?;
    assert_eq!((results.steps, results.stop), (1000, Stop::MaxSteps));
    let held = held.lock().unwrap();
    assert_eq!(held.len(), 3);
    // Steps 10, 100 and 1,000 are at different places of an epoch, and hold the same all the same.
    assert!(
        held.iter().all(|(_, bytes)| *bytes == held[0].1),
        "{held:?}"
    );
    Ok(())
}
