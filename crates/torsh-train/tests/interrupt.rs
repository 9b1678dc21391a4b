//! Ctrl-C saves and stops; the run goes on from there.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::SGD;
use torsh_tensor::{DType, Device, Result, Tensor};
use torsh_train::callbacks::{Callback, Context};
use torsh_train::{Checkpoint, Stop, Trainer};

/// Tells the parent how far it is.
struct Loud;

impl Callback for Loud {
    fn name(&self) -> &str {
        "loud"
    }
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        println!("\nbatch {} step {}", cx.batch, cx.step);
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}

fn trainer(path: &str) -> Result<Trainer<Linear, Tensor>> {
    let model = Linear::new(4, 1);
    let sgd = SGD::new(model.parameters(), 1e-3)?;
    Trainer::builder(model, &sgd)
        .training_step(|model: &Linear, x: &Tensor| Ok(model.forward(x)?.square()?.mean()?.into()))
        .on_interrupt(path)
        .accumulate(2)
        .callback(Loud)
        .epochs(1_000_000)
        .build()
}

fn loader() -> Result<torsh_data::DataLoader<torsh_data::TensorDataset<Tensor>>> {
    let x = Tensor::ones([1000, 4], DType::F32, Device::Cpu)?;
    torsh_data::DataLoader::builder(torsh_data::TensorDataset::of(x)).build()
}

/// The process that is interrupted; it is this test, started by the ones below.
#[test]
fn trains_until_it_is_interrupted() {
    let Ok(path) = std::env::var("TORSH_TRAIN_UNTIL_INTERRUPTED") else {
        return;
    };
    let mut trainer = trainer(&path).unwrap();
    let results = trainer.fit(&loader().unwrap(), None).unwrap();
    assert_eq!(results.stop, Stop::Interrupted);
    println!("\nstopped after {} steps", results.steps);
}

fn start(path: &std::path::Path) -> (Child, std::io::Lines<BufReader<std::process::ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "interrupt::trains_until_it_is_interrupted",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("TORSH_TRAIN_UNTIL_INTERRUPTED", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_signal_saves_and_stops() {
    for name in ["-INT", "-TERM"] {
        let path: PathBuf =
            std::env::temp_dir().join(format!("torsh-interrupt{name}-{}.pt", std::process::id()));
        let (mut child, mut lines) = start(&path);
        let at = lines
            .by_ref()
            .map(|l| l.unwrap())
            .find(|l| l.starts_with("batch 7"));
        assert!(at.is_some());
        signal(&child, name);
        let rest: Vec<String> = lines.map(|l| l.unwrap()).collect();
        assert!(child.wait().unwrap().success(), "{rest:?}");
        let stopped = rest
            .iter()
            .find(|l| l.starts_with("stopped"))
            .expect("a clean end");
        let last = rest.iter().rev().find(|l| l.starts_with("batch"));
        let number = |l: &str, i: usize| l.split(' ').nth(i).unwrap().parse::<usize>().unwrap();
        let steps = number(stopped, 2);
        let saved = Checkpoint::load(&path).unwrap();
        assert_eq!((saved.epoch, saved.step), (0, steps));
        let state = saved.part("trainer").unwrap().get("state").unwrap();
        let batch = state.get("batch").unwrap().as_int().unwrap() as usize;
        assert_eq!(batch, last.map_or(7, |l| number(l, 1)));
        assert_eq!(steps, batch / 2);

        // The run goes on with the next batch.
        let mut again = trainer(path.to_str().unwrap()).unwrap();
        again.resume(&path).unwrap();
        again.set_max_steps(steps + 3);
        assert_eq!(
            again.fit(&loader().unwrap(), None).unwrap().steps,
            steps + 3
        );
        std::fs::remove_file(&path).unwrap();
    }
}

/// A handle does what a signal does; what cannot be saved is an error.
#[test]
fn a_handle_stops_too() -> Result<()> {
    let path = std::env::temp_dir().join(format!("torsh-handle-{}.pt", std::process::id()));
    let mut trainer = trainer(path.to_str().unwrap())?;
    let handle = trainer.stop_handle();
    handle.stop();
    let results = trainer.fit(&loader()?, None)?;
    assert_eq!((results.stop, results.steps), (Stop::Interrupted, 0));
    assert_eq!(Checkpoint::load(&path)?.step, 0);
    // The gradients of the one batch are part of it.
    assert!(Checkpoint::load(&path)?.part("gradients").is_some());
    std::fs::remove_file(&path)?;

    if std::env::var_os("TORSH_TRAIN_UNTIL_INTERRUPTED").is_none() {
        let (mut child, _lines) = start(std::path::Path::new("/nowhere/at/all.pt"));
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, "-INT");
        assert!(!child.wait()?.success());
    }
    Ok(())
}
