//! Checkpoints keep everything, and say what is wrong with a file.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::Scratch;
use torsh_core::Generator;
use torsh_core::random::LocalGenerator;
use torsh_data::{DataLoader, TensorDataset};
use torsh_nn::{BatchNorm1d, Linear, Module, ModuleExt, Sequential};
use torsh_optim::lr_scheduler::{LRScheduler, MultiStepLR};
use torsh_optim::{AdamW, Optimizer};
use torsh_tensor::{DType, Device, Result, Tensor};
use torsh_train::Checkpoint;

struct Run {
    net: Sequential,
    adam: AdamW,
    scheduler: MultiStepLR,
    loader: DataLoader<TensorDataset>,
    noise: Generator,
}

impl Run {
    fn new(lr: f64) -> Run {
        let net = Sequential::new()
            .add(Linear::new(3, 4))
            .add(BatchNorm1d::new(4).unwrap())
            .add(Linear::new(4, 1));
        let adam = AdamW::new(net.parameters(), lr).unwrap();
        let scheduler = MultiStepLR::new(&adam, [2, 5], 0.5).unwrap();
        let x = Tensor::from_fn([12, 3], |i| (i[0] * 3 + i[1]) as f32 / 10.0).unwrap();
        let y = x.sum_dim(1, true).unwrap();
        let loader = DataLoader::builder(TensorDataset::new(x, y))
            .batch_size(4)
            .shuffle(true)
            .seed(7)
            .build()
            .unwrap();
        Run {
            net,
            adam,
            scheduler,
            loader,
            noise: Generator::new(3),
        }
    }

    fn batches(&self, n: usize) {
        self.train(self.loader.try_iter().take(n));
    }

    fn train(&self, batches: impl Iterator<Item = Result<(Tensor, Tensor)>>) {
        for batch in batches {
            let (x, y) = batch.unwrap();
            self.adam.zero_grad();
            let error = self.net.forward(&x).unwrap().sub(&y).unwrap();
            let noise = f64::from(self.noise.random()) / 2f64.powi(32);
            let loss = error.square().unwrap().mean().unwrap().mul(noise).unwrap();
            loss.backward().unwrap();
            self.adam.step().unwrap();
            self.scheduler.step().unwrap();
        }
    }

    fn parts(&self) -> torsh_train::CheckpointBuilder<'_> {
        Checkpoint::builder()
            .model(&self.net)
            .gradients(&self.net)
            .optimizer(&self.adam)
            .scheduler(&self.scheduler)
            .loader(&self.loader)
            .with("noise", &self.noise)
    }

    fn all(&self) -> Vec<Vec<f64>> {
        let state = self.net.state_dict();
        state.values().map(|t| t.to_vec().unwrap()).collect()
    }
}

fn sample(run: &Run) -> Checkpoint {
    let config = serde_json::json!({
        "lr": 0.1, "layers": [3, 4], "name": "a", "none": null, "on": true, "big": u64::MAX,
    });
    run.parts()
        .build()
        .unwrap()
        .epoch(2)
        .step(9)
        .metric("loss", 0.1)
        .metric("nan", f64::INFINITY)
        .timestamp(UNIX_EPOCH + Duration::from_millis(1_700_000_000_123))
        .config(&config)
        .unwrap()
}

#[test]
fn everything_comes_back_and_training_goes_on() {
    let scratch = Scratch::new("back");
    let run = Run::new(0.1);
    run.batches(4);
    let mut epoch = run.loader.try_iter();
    run.train(epoch.by_ref().take(2));
    let saved = sample(&run).copy().unwrap();
    let (file, folder) = (scratch.path("c.pt"), scratch.path("c"));
    saved.save(&file).unwrap();
    saved.save_folder(&folder).unwrap();
    assert_eq!(scratch.names(), ["c", "c.pt"]);
    run.train(epoch);
    run.batches(3);
    for path in [&file, &folder] {
        let other = Run::new(0.7);
        let loaded = other.parts().load(path).unwrap();
        assert_eq!(loaded, saved);
        assert_eq!(loaded.config.as_ref().unwrap()["big"], u64::MAX);
        assert_eq!((loaded.epoch, loaded.step), (2, 9));
        assert_ne!(other.all(), run.all());
        // The rest of the epoch, and the next one.
        assert_eq!(other.loader.batches_given(), 2);
        other.batches(3);
        other.batches(3);
        assert_eq!(other.all(), run.all());
        assert_eq!(other.adam.get_lr(), run.adam.get_lr());
    }
    // A model alone.
    let other = Run::new(0.7);
    let model = Checkpoint::builder().model(&other.net);
    model.load(&file).unwrap();
    let weight = &other.net.state_dict()["0.weight"];
    let saved = saved.model_state().unwrap();
    assert_eq!(weight, &saved["0.weight"]);
}

#[test]
fn gradients_and_the_default_generator() -> Result<()> {
    LocalGenerator::new(1).scope(|| {
        let net = Linear::new(2, 1);
        let x = Tensor::ones([1, 2], DType::F32, Device::Cpu)?;
        net.forward(&x)?.sum()?.backward()?;
        let parts = Checkpoint::builder().gradients(&net).rng();
        let saved = parts.build()?.copy()?;
        let draw = || Tensor::rand([3], DType::F32, Device::Cpu)?.to_vec::<f32>();
        let drawn = draw()?;
        net.forward(&x)?.sum()?.backward()?;
        net.bias.as_ref().unwrap().set_grad(None)?;
        parts.restore(&saved)?;
        assert_eq!(net.weight.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]);
        assert_eq!(
            net.bias.as_ref().unwrap().grad().unwrap().to_vec::<f32>()?,
            [1.0]
        );
        assert_eq!(draw()?, drawn);
        // The next backward adds to what was restored, and not to the checkpoint.
        net.forward(&x)?.sum()?.backward()?;
        assert_eq!(net.weight.grad().unwrap().to_vec::<f32>()?, [2.0, 2.0]);
        let kept = saved
            .part("gradients")
            .unwrap()
            .get("weight")?
            .as_tensor()?;
        assert_eq!(kept.to_vec::<f32>()?, [1.0, 1.0]);
        Ok(())
    })
}

#[track_caller]
fn refused(path: &Path, words: &[&str]) {
    let e = Checkpoint::load(path).unwrap_err().to_string();
    assert!(words.iter().all(|w| e.contains(w)), "{e}");
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let scratch = Scratch::new("wrong");
    let run = Run::new(0.1);
    run.batches(2);
    let saved = sample(&run);
    let file = scratch.path("c.pt");
    refused(&file, &["c.pt", "(os error 2)"]);
    saved.save(&file).unwrap();
    let bytes = std::fs::read(&file).unwrap();

    // Cut off anywhere.
    let cut = scratch.path("cut.pt");
    for part in [0, 1, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..part]).unwrap();
        refused(&cut, &["cut.pt"]);
    }
    // Damaged anywhere: an error, or nothing that is read has changed.
    let (mut noticed, mut tries) = (0, 0);
    for at in (0..bytes.len()).step_by(37) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&cut, &damaged).unwrap();
        tries += 1;
        match Checkpoint::load(&cut) {
            Ok(loaded) => assert_eq!(loaded, saved, "byte {at}"),
            Err(e) => {
                assert!(e.to_string().contains("cut.pt"), "byte {at}: {e}");
                noticed += 1;
            }
        }
    }
    assert!(noticed * 3 > tries, "{noticed} of {tries}");

    let other = scratch.path("other.pt");
    run.net.save(&other).unwrap();
    refused(&other, &["other.pt", "no checkpoint of a training run"]);
    let e = Checkpoint::builder().model(&Linear::new(2, 2)).load(&file);
    let e = e.unwrap_err().to_string();
    assert!(
        e.contains("part `model`") && e.contains("missing: weight, bias"),
        "{e}"
    );
    let e = Checkpoint::builder().with("other", &run.noise).load(&file);
    let e = e.unwrap_err().to_string();
    assert!(
        e.contains("no part `other`") && e.contains("optimizer, scheduler"),
        "{e}"
    );
    let twice = Checkpoint::builder()
        .model(&run.net)
        .model(&run.net)
        .build();
    assert!(twice.unwrap_err().to_string().contains("two parts"));
    let taken = Checkpoint::builder().with("epoch", &run.noise).build();
    assert!(taken.unwrap_err().to_string().contains("`epoch`"));
}

#[test]
fn what_is_wrong_with_a_folder_is_said() {
    let scratch = Scratch::new("folder");
    let run = Run::new(0.1);
    let saved = sample(&run);
    let folder = scratch.path("c");
    std::fs::create_dir(&folder).unwrap();
    refused(&folder, &["no checkpoint.json"]);
    let e = saved.save_folder(&folder).unwrap_err().to_string();
    assert!(e.contains("is no checkpoint"), "{e}");
    std::fs::remove_dir(&folder).unwrap();
    saved.save_folder(&folder).unwrap();
    saved.save_folder(&folder).unwrap();
    assert_eq!(scratch.names(), ["c"]);
    for name in ["model.safetensors", "state.pt", "checkpoint.json"] {
        let path = folder.join(name);
        let bytes = std::fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(53) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            if let Ok(loaded) = Checkpoint::load(&folder) {
                assert_eq!(name, "checkpoint.json");
                assert_eq!(loaded, saved);
            }
        }
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        if name != "checkpoint.json" {
            refused(&folder, &[name, "cut off"]);
        }
        std::fs::remove_file(&path).unwrap();
        refused(&folder, &[name]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Checkpoint::load(&folder).unwrap(), saved);
    }
}

/// What a process that was killed between the two renames of a folder has left.
#[test]
fn a_folder_is_found_under_its_second_name() {
    let scratch = Scratch::new("second");
    let run = Run::new(0.1);
    let folder = scratch.path("c");
    sample(&run).save_folder(&folder).unwrap();
    std::fs::rename(&folder, scratch.path(".c.previous")).unwrap();
    assert_eq!(Checkpoint::load(&folder).unwrap().step, 9);
    sample(&run).step(10).save_folder(&folder).unwrap();
    assert_eq!(Checkpoint::load(&folder).unwrap().step, 10);
    assert_eq!(scratch.names(), ["c"]);
}

/// What killed processes leave is removed by a later one, but not what is being written.
#[test]
fn what_killed_processes_left_is_removed() {
    let scratch = Scratch::new("left");
    let run = Run::new(0.1);
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    for name in [".c.pt.17.0.tmp", ".c.pt.18.0.tmp", ".other.pt.17.0.tmp"] {
        std::fs::write(scratch.path(name), "half").unwrap();
    }
    for name in [".c.pt.17.0.tmp", ".other.pt.17.0.tmp"] {
        let file = std::fs::File::options()
            .write(true)
            .open(scratch.path(name));
        file.unwrap().set_modified(old).unwrap();
    }
    sample(&run).save(scratch.path("c.pt")).unwrap();
    assert_eq!(
        scratch.names(),
        [".c.pt.18.0.tmp", ".other.pt.17.0.tmp", "c.pt"]
    );
}
